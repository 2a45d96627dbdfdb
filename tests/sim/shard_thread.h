// The thread of a server's further shard, which runs only while the runner waits for it.
//
// Shards are threads, and a simulation is one: the runner hands each of them a turn and waits until
// it waits again, so that a seed always means the same.
#ifndef RPCRDMA_TESTS_SIM_SHARD_THREAD_H_
#define RPCRDMA_TESTS_SIM_SHARD_THREAD_H_

#include <semaphore>
#include <thread>
#include <utility>

namespace rpcrdma::simulation {

class ShardThread {
 public:
  ShardThread() = default;
  ShardThread(const ShardThread&) = delete;
  ShardThread& operator=(const ShardThread&) = delete;
  ~ShardThread() = default;

  // Called by the shard's thread when it has nothing to do: returns when it has its next turn.
  void wait() {
    // Its destructor runs when the thread ends, which is the end of its last turn.
    thread_local const Turn kLast(*this);
    ends_turn_.release();
    has_turn_.acquire();
  }

  // The others are the runner's. Waits until a thread that was just started waits for its first
  // turn. There is no bound, as the clock may be the world's.
  void meet() {
    if (!std::exchange(is_met_, true)) ends_turn_.acquire();
  }
  // Gives it a turn, and waits for the end of that.
  void give_turn() {
    has_turn_.release();
    ends_turn_.acquire();
  }
  // Returns whether it has begun, which a server's first progress() lets it, and has not ended.
  bool is_there() const noexcept { return is_met_ && !has_ended_; }
  // Makes the next wake() its last turn: the server waits for the end of the thread then.
  void let_go() noexcept { is_leaving_ = true; }
  void wake() noexcept {
    if (std::exchange(is_leaving_, false)) has_turn_.release();
  }

 private:
  class Turn {
   public:
    explicit Turn(ShardThread& thread) noexcept : thread_(thread) {}
    ~Turn() {
      thread_.has_ended_ = true;
      thread_.ends_turn_.release();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    ShardThread& thread_;
  };

  std::binary_semaphore has_turn_{0}, ends_turn_{0};
  bool is_met_ = false;
  bool is_leaving_ = false;
  bool has_ended_ = false;
};

}  // namespace rpcrdma::simulation

#endif  // RPCRDMA_TESTS_SIM_SHARD_THREAD_H_
