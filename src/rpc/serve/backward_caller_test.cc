// Callers without a connection: which of them a round asks.
#include "rpc/serve/backward_caller.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <vector>

namespace rpcrdma::rpc {
namespace {

using std::chrono::seconds;

// Waits with a Call at each of these times.
class WaitingCaller final : public BackwardCaller {
 public:
  explicit WaitingCaller(DisconnectedCallers& home) : home_(home) {}

  void wait_until(Instant when) {
    limits.push_back(when);
    home_.set(*this, true);
  }
  void handle_event(Instant /*now*/, const engine::Event& /*event*/) override {}
  void end_calls() override {}
  void handle_end() override {}
  bool holds_replies() const noexcept override { return false; }
  Deadline next_deadline() const override {
    ++asked;
    return limits.empty() ? std::nullopt : Deadline(limits.front());
  }
  void handle_time(Instant /*now*/) override {
    limits.erase(limits.begin());
    ++timed_out;
    home_.set(*this, true);
  }
  void handle_server_end() override { home_.set(*this, false); }

  std::vector<Instant> limits;
  int timed_out = 0;
  mutable int asked = 0;

 private:
  DisconnectedCallers& home_;
};

TEST(DisconnectedCallers, AreAskedInTheirOwnTimeAlone) {
  DisconnectedCallers callers;
  WaitingCaller idle(callers), waiting(callers);
  const Instant now{seconds(100)};
  callers.set(idle, true);
  waiting.wait_until(now + seconds(1));
  waiting.wait_until(now + seconds(2));
  const std::array before = {idle.asked, waiting.asked};
  for (int round = 0; round < 100; ++round) callers.handle_time(now);
  EXPECT_EQ(callers.next_deadline(), now + seconds(1));
  EXPECT_EQ((std::array{idle.asked, waiting.asked}), before) << "a round asks nobody";

  callers.handle_time(now + seconds(1));
  EXPECT_EQ(waiting.timed_out, 1);
  EXPECT_EQ(callers.next_deadline(), now + seconds(2));
  callers.handle_time(now + seconds(3));
  EXPECT_EQ(waiting.timed_out, 2);
  EXPECT_EQ(callers.next_deadline(), std::nullopt);
}

TEST(DisconnectedCallers, LeaveInAnyOrder) {
  DisconnectedCallers callers;
  std::array all = {WaitingCaller(callers), WaitingCaller(callers), WaitingCaller(callers)};
  for (int i = 0; i < 3; ++i) all[static_cast<std::size_t>(i)].wait_until(Instant{seconds(3 - i)});
  callers.set(all[0], false);
  callers.set(all[0], false);
  callers.handle_time(Instant{seconds(10)});
  EXPECT_EQ(all[0].timed_out, 0);
  EXPECT_EQ(all[1].timed_out, 1);
  EXPECT_EQ(all[2].timed_out, 1);
  all[1].wait_until(Instant{seconds(20)});
  callers.end_all();
  EXPECT_EQ(callers.next_deadline(), std::nullopt);
}

}  // namespace
}  // namespace rpcrdma::rpc
