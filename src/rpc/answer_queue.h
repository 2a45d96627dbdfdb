// Answers that come from other threads, or from outside of the turn of their session.
#ifndef RPCRDMA_RPC_ANSWER_QUEUE_H_
#define RPCRDMA_RPC_ANSWER_QUEUE_H_

#include <cstddef>
#include <mutex>
#include <vector>

namespace rpcrdma::rpc {

class IncomingCall;

// A session stays until its calls are answered, and keeps them as long as it stays, so that the
// pointers are good.
class AnswerQueue {
 public:
  // From any thread. `wake` is called before the owner's thread can take the answer: it may be the
  // last that the owner waits for.
  template <class Wake>
  void deliver(IncomingCall& call, Wake&& wake) {
    const std::lock_guard lock(mutex_);
    answers_.push_back(&call);
    wake();
  }

  // Calls `take(call)` once for each that was delivered, on the owner's thread. Calls that are
  // delivered meanwhile wait for the next time. If `take` throws, as a service may that it calls,
  // its call counts as taken, and those behind it are the first ones of the next time.
  template <class Take>
  void take_all(Take&& take) {
    take_rest(take);
    {
      const std::lock_guard lock(mutex_);
      taken_.swap(answers_);
    }
    take_rest(take);
  }

 private:
  template <class Take>
  void take_rest(Take& take) {
    // Steps on first: a call that has been taken may be gone.
    while (next_ < taken_.size()) take(*taken_[next_++]);
    taken_.clear();
    next_ = 0;
  }

  std::mutex mutex_;
  std::vector<IncomingCall*> answers_;  // guarded by mutex_
  std::vector<IncomingCall*> taken_;    // the owner's thread only
  std::size_t next_ = 0;                // in taken_; behind those that were handed out
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_ANSWER_QUEUE_H_
