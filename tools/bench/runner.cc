#include "tools/bench/runner.h"

#include <poll.h>

#include <algorithm>
#include <stdexcept>

#include "tools/bench/child.h"
#include "tools/bench/meter.h"

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
    times_.warm_up_calls = 100;
    if (plan.layout.server_url.empty()) contenders_[Who::kRaw] = make_raw(plan.layout);
    for (const Group& group : plan.groups) {
      Track track{&group, {{group.raw, {}, {}}}};
      for (const Case& each : group.cases) {
        track.results.push_back({each, {}, {}});
        if (!contenders_[each.who]) contenders_[each.who] = make(each.who);
        ++runs_;
      }
      runs_ += contenders_[Who::kRaw] ? 2U : 0U;
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
    for (Track& track : tracks_) {
      std::erase_if(track.results, [](const Result& each) { return each.samples.empty(); });
      std::ranges::move(track.results, std::back_inserter(all));
    }
    return all;
  }

 private:
  std::unique_ptr<Contender> make(Who who) const {
    return who == Who::kTirpc ? make_tirpc(plan_.layout) : make_rpcrdma(plan_.layout);
  }

  // Beside as many other connections as are asked for, whose calls are part of it.
  Sample run_on_all(Contender& contender, const Case& what) {
    const std::size_t others = plan_.layout.connections;
    if (others == 0) return contender.run(what, times_, {});
    const auto load = contender.start_load(what, others);
    if (load.empty()) throw std::runtime_error(what.name + ": this is for one connection");
    Sample sample = contender.run(what, times_, load);
    sample.calls += sample.load_calls;
    sample.payload_bytes = sample.calls * what.size;
    return sample;
  }

  // The case alone, the load alone, and both.
  Sample run_beside(Contender& contender, const Case& what, const Case& beside) {
    const Sample alone = contender.run(what, times_, {});
    const auto load = contender.start_load(beside, 1);
    const Sample load_alone = watch(contender, load);
    Sample sample = contender.run(what, times_, load);
    const auto per_call = [](double cpu_seconds, std::uint64_t calls) {
      return cpu_seconds / static_cast<double>(std::max<std::uint64_t>(calls, 1));
    };
    sample.alone_cpu_per_call = per_call(alone.cpu_seconds, alone.calls);
    sample.load_alone_cpu_per_call = per_call(load_alone.cpu_seconds, load_alone.load_calls);
    sample.load_alone_calls_per_s = static_cast<double>(load_alone.load_calls) / load_alone.seconds;
    return sample;
  }

  // Measures a load that runs alone. This process uses no time meanwhile.
  Sample watch(const Contender& contender, const Contender::Load& load) const {
    Times times = times_;
    times.warm_up_calls = 0;  // none is its own
    Meter meter({.server = contender.server(), .load = load}, times);
    while (!meter.over()) {
      ::poll(nullptr, 0, 1);
      meter.tick();
    }
    return meter.sample(0);
  }

  Sample run_case(const Case& what) {
    Contender& contender = *contenders_[what.who];
    const bool is_probe = plan_.beside && what.who == Who::kRpcrdma;
    Sample sample =
        is_probe ? run_beside(contender, what, *plan_.beside) : run_on_all(contender, what);
    progress_(static_cast<double>(++runs_done_) / static_cast<double>(runs_));
    return sample;
  }

  void run_group(Track& track, std::size_t round) {
    const std::size_t others = track.results.size() - 1;
    const bool has_raw = contenders_[Who::kRaw] != nullptr;
    const Sample before = has_raw ? run_case(track.group->raw) : Sample();
    std::vector<Sample> samples(others);
    for (std::size_t i = 0; i < others; ++i) {
      const std::size_t which = (i + round) % others;
      samples[which] = run_case(track.group->cases[which]);
    }
    for (std::size_t i = 0; i < others; ++i) track.results[i + 1].samples.push_back(samples[i]);
    if (!has_raw) return;
    const Sample after = run_case(track.group->raw);
    const double limit = (calls_per_second(before) + calls_per_second(after)) / 2;
    track.results[0].samples.push_back(before);
    track.results[0].samples.push_back(after);
    // How far the two runs lie from their mean is how far a ratio of this round can be trusted.
    track.results[0].ratios.push_back(calls_per_second(before) / limit);
    track.results[0].ratios.push_back(calls_per_second(after) / limit);
    for (std::size_t i = 0; i < others; ++i) {
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
