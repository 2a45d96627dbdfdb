// Answers that come from other threads, or from outside of the turn of their session.
#ifndef RPCRDMA_RPC_ANSWER_QUEUE_H_
#define RPCRDMA_RPC_ANSWER_QUEUE_H_

#include <mutex>
#include <vector>

#include "engine/types.h"

namespace rpcrdma::rpc {

class Session;

// A session stays until its calls are answered, so that the pointers are good.
class AnswerQueue {
 public:
  // From any thread. The owner's thread is to be woken afterwards.
  void deliver(Session& session, engine::CallId call) {
    const std::lock_guard lock(mutex_);
    answers_.push_back({&session, call});
  }

  // Calls `take(session, call)` for each that was delivered, on the owner's thread. What is
  // delivered meanwhile waits for the next time.
  template <class Take>
  void take_all(Take&& take) {
    {
      const std::lock_guard lock(mutex_);
      taken_.swap(answers_);
    }
    for (const Answer& answer : taken_) take(*answer.session, answer.call);
    taken_.clear();
  }

 private:
  struct Answer {
    Session* session;
    engine::CallId call;
  };

  std::mutex mutex_;
  std::vector<Answer> answers_;  // guarded by mutex_
  std::vector<Answer> taken_;    // the owner's thread only
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_ANSWER_QUEUE_H_
