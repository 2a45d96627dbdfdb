#include "tools/bench/runner.h"

#include <algorithm>

#include "tools/bench/child.h"

namespace rpcrdma::tools::bench {
namespace {

// One group, with the contenders that it needs and the results so far: raw first.
struct Track {
  const Group* group;
  std::vector<Result> results;
};

class Runner {
 public:
  Runner(const Plan& plan, const std::function<void(double)>& progress)
      : plan_(plan), progress_(progress) {
    const double slice = plan.seconds / plan.rounds;
    times_.measure = Nanoseconds(static_cast<std::int64_t>(slice * 1e9));
    times_.warm_up = std::clamp<Nanoseconds>(times_.measure / 4, std::chrono::milliseconds(5),
                                             std::chrono::milliseconds(100));
    contenders_[Who::kRaw] = make_raw(plan.layout);
    for (const Group& group : plan.groups) {
      Track track{&group, {{group.raw, {}, {}}}};
      for (const Case& each : group.cases) {
        track.results.push_back({each, {}, {}});
        if (!contenders_[each.who]) contenders_[each.who] = make(each.who);
        ++runs_;
      }
      runs_ += 2;
      tracks_.push_back(std::move(track));
    }
    runs_ *= static_cast<std::size_t>(plan.rounds);
    pin_to(plan.layout.client_cpu);
  }

  std::vector<Result> run() {
    for (int round = 0; round < plan_.rounds; ++round) {
      for (Track& track : tracks_) run_group(track, static_cast<std::size_t>(round));
    }
    std::vector<Result> all;
    for (Track& track : tracks_) std::ranges::move(track.results, std::back_inserter(all));
    return all;
  }

 private:
  std::unique_ptr<Contender> make(Who who) const {
    return who == Who::kTirpc ? make_tirpc(plan_.layout) : make_rpcrdma(plan_.layout);
  }

  Sample run_case(const Case& what) {
    Sample sample = contenders_[what.who]->run(what, times_);
    progress_(static_cast<double>(++runs_done_) / static_cast<double>(runs_));
    return sample;
  }

  void run_group(Track& track, std::size_t round) {
    const std::size_t others = track.results.size() - 1;
    const Sample before = run_case(track.group->raw);
    std::vector<Sample> samples(others);
    for (std::size_t i = 0; i < others; ++i) {
      const std::size_t which = (i + round) % others;
      samples[which] = run_case(track.group->cases[which]);
    }
    const Sample after = run_case(track.group->raw);
    const double limit = (calls_per_second(before) + calls_per_second(after)) / 2;
    track.results[0].samples.push_back(before);
    track.results[0].samples.push_back(after);
    // How far the two runs lie from their mean is how far a ratio of this round can be trusted.
    track.results[0].ratios.push_back(calls_per_second(before) / limit);
    track.results[0].ratios.push_back(calls_per_second(after) / limit);
    for (std::size_t i = 0; i < others; ++i) {
      track.results[i + 1].samples.push_back(samples[i]);
      track.results[i + 1].ratios.push_back(calls_per_second(samples[i]) / limit);
    }
  }

  const Plan& plan_;
  const std::function<void(double)>& progress_;
  Times times_{};
  std::map<Who, std::unique_ptr<Contender>> contenders_;
  std::vector<Track> tracks_;
  std::size_t runs_ = 0, runs_done_ = 0;
};

}  // namespace

std::vector<Result> run(const Plan& plan, const std::function<void(double)>& progress) {
  return Runner(plan, progress).run();
}

}  // namespace rpcrdma::tools::bench
