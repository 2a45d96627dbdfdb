// Answers that come from other threads, or from outside of the turn of their session.
#ifndef RPCRDMA_RPC_ANSWER_QUEUE_H_
#define RPCRDMA_RPC_ANSWER_QUEUE_H_

#include <functional>
#include <mutex>
#include <type_traits>
#include <vector>

#include "engine/types.h"

namespace rpcrdma::rpc {

class Session;

// A session stays until its calls are answered, so that the pointers are good. `Call` names one of
// the session: a value or a reference.
template <class SessionOfCall, class Call>
class BasicAnswerQueue {
 public:
  // From any thread. `wake` is called before the owner's thread can take the answer: it may be the
  // last that the owner waits for.
  template <class Wake>
  void deliver(SessionOfCall& session, Call call, Wake&& wake) {
    const std::lock_guard lock(mutex_);
    answers_.push_back({&session, call});
    wake();
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
    SessionOfCall* session;
    std::conditional_t<std::is_reference_v<Call>,
                       std::reference_wrapper<std::remove_reference_t<Call>>, Call>
        call;
  };

  std::mutex mutex_;
  std::vector<Answer> answers_;  // guarded by mutex_
  std::vector<Answer> taken_;    // the owner's thread only
};

using AnswerQueue = BasicAnswerQueue<Session, engine::CallId>;

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_ANSWER_QUEUE_H_
