// Gives steps of a server's calls to an executor in turns of the hosts that the calls come from.
#ifndef RPCRDMA_GSS_HOST_TURNS_H_
#define RPCRDMA_GSS_HOST_TURNS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "gss/step_turns.h"
#include "rpcrdma/gss.h"

namespace rpcrdma::gss {

// An executor runs work in the order in which it comes, so that a host that sends much would delay
// all others. Therefore the executor has few steps at a time; the others wait here behind those of
// their own host, and the hosts take turns. Each function takes the same time however many steps
// and hosts wait. May be used from any thread.
class HostTurns {
 public:
  // The executor, which must outlive this, has `at_a_time` steps at most, at least one. Steps of
  // a host that wait are `waiting_max` at most.
  HostTurns(Executor& executor, std::size_t at_a_time, std::size_t waiting_max = SIZE_MAX);
  HostTurns(const HostTurns&) = delete;
  HostTurns& operator=(const HostTurns&) = delete;

  // Has the executor call `run` when it is the turn of the host. `run` calls end() when the step is
  // done, and may let this be destroyed after that. Returns false, and calls nothing, if as many
  // steps of the host wait as may.
  [[nodiscard]] bool submit(std::string host, Executor::Work run);
  void end();

 private:
  struct Line {
    std::string host;
    std::deque<Executor::Work> steps{};
  };
  void give();
  void run_next();

  Executor& executor_;
  const std::size_t at_a_time_, waiting_max_;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::unordered_map<std::string, Line> lines_;  // of hosts that have steps that wait
  std::deque<Line*> turns_;                      // the same; the next one first
  std::size_t waiting_ = 0;                      // steps, of all hosts
  std::size_t given_ = 0;      // the executor runs this many of them before another end()
  std::size_t under_way_ = 0;  // these, and those that have begun
};

// The place of one call's steps in the turns of its host.
class HostQueue final : public StepQueue {
 public:
  // `turns` and the text outlive the steps. `peer`: "ADDR:PORT".
  void set(HostTurns& turns, std::string_view peer) noexcept {
    turns_ = &turns;
    peer_ = peer;
  }
  void submit(Executor::Work work) override;
  void end() override { turns_->end(); }

 private:
  HostTurns* turns_ = nullptr;
  std::string_view peer_;
};

}  // namespace rpcrdma::gss

#endif  // RPCRDMA_GSS_HOST_TURNS_H_
