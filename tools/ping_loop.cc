#include "tools/ping_loop.h"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <utility>

#include "tools/nfs_commands.h"
#include "tools/text.h"

namespace rpcrdma::tools {
namespace {

// Tells errors that time may mend from those that each further call would have as well.
bool may_pass(const Error& error) {
  return error.code == Errc::kTimedOut || error.code == Errc::kConnectionLost ||
         error.code == Errc::kNoResources;
}

}  // namespace

void LatencySamples::add(std::uint64_t time_ns) {
  least_ns_ = count_ == 0 ? time_ns : std::min(least_ns_, time_ns);
  greatest_ns_ = std::max(greatest_ns_, time_ns);
  sum_ns_ += static_cast<double>(time_ns);
  ++count_;
  if (chosen_ns_.size() < kSamplesMax) return chosen_ns_.push_back(time_ns);
  // Keeps each of the `count_` samples with the same probability.
  const auto place = std::uniform_int_distribution<std::uint64_t>(0, count_ - 1)(random_);
  if (place < kSamplesMax) chosen_ns_[place] = time_ns;
}

Latency LatencySamples::latency() {
  if (count_ == 0) return {};
  Latency latency = Latency::of(chosen_ns_);
  std::ranges::shuffle(chosen_ns_, random_);  // it has sorted them
  latency.min_us = static_cast<double>(least_ns_) / 1e3;
  latency.max_us = static_cast<double>(greatest_ns_) / 1e3;
  latency.avg_us = sum_ns_ / static_cast<double>(count_) / 1e3;
  return latency;
}

void PingLoop::run() {
  Clock::time_point next = Clock::now();
  while (!interrupt_.has_come()) {
    make_call();
    if (settings_.calls_max != 0 && calls() >= settings_.calls_max) return;
    // Calls that took longer than the interval are not made up for.
    next = std::max(next + settings_.interval, Clock::now());
    while (!interrupt_.has_come() && Clock::now() < next) wait(next);
  }
}

void PingLoop::make_call() {
  const Clock::time_point start = Clock::now();
  auto call = client_.prepare(settings_.procedure);
  if (!call) return note_loss(std::move(call.error()));
  call->expect_results(0);
  std::optional<Expected<Reply, Error>> result;
  auto started = client_.start(std::move(*call), [&result](Expected<Reply, Error> ended) {
    result.emplace(std::move(ended));
  });
  if (!started) return note_loss(std::move(started.error()));
  while (!result && !interrupt_.has_come()) wait(std::nullopt);
  if (!result) {  // the callback of the call has to run while this function lasts
    client_.close();
    return client_.drain();
  }
  *result ? note_answer(start) : note_loss(std::move(result->error()));
}

void PingLoop::note_answer(Clock::time_point start) {
  const std::chrono::nanoseconds time = Clock::now() - start;
  samples_.add(static_cast<std::uint64_t>(time.count()));
  const double time_us = static_cast<double>(time.count()) / 1e3;
  const std::string peer(client_.connection().peer_address);
  if (settings_.json) {
    print_json({{"call", {{"number", calls()}, {"peer", peer}, {"us", time_us}}}});
  } else {
    fmt::print("NULL {} from {}: {:.1f} us\n", calls(), peer, time_us);
  }
  std::fflush(stdout);
}

void PingLoop::note_loss(Error error) {
  if (samples_.count() == 0 && !may_pass(error)) fail(with_nfs_hint(std::move(error), client_));
  ++lost_;
  if (settings_.json) {
    print_json({{"call", {{"number", calls()}, {"error", error.message()}}}});
  } else {
    fmt::print("NULL {} lost: {}\n", calls(), printable(error.message()));
  }
  std::fflush(stdout);
  last_error_ = std::move(error);
}

void PingLoop::wait(std::optional<Clock::time_point> until) {
  std::array<pollfd, 2> entries{
      {{interrupt_.descriptor(), POLLIN, 0}, {client_.wait_fd(), POLLIN, 0}}};
  timespec time{};
  if (until) {
    const auto left =
        std::max(std::chrono::nanoseconds(0), std::chrono::nanoseconds(*until - Clock::now()));
    constexpr std::int64_t kSecond = 1'000'000'000;
    time = {left.count() / kSecond, left.count() % kSecond};
  }
  if (::ppoll(entries.data(), entries.size(), until ? &time : nullptr, nullptr) <= 0) return;
  if (entries[1].revents != 0) client_.progress();
}

}  // namespace rpcrdma::tools
