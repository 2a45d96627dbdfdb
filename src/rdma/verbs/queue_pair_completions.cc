// Handles completions, and the end of a queue pair whose work failed.
#include <chrono>

#include "rdma/verbs/completion_status.h"
#include "rdma/verbs/queue_pair.h"

namespace rpcrdma::rdma::verbs {
namespace {

constexpr std::chrono::milliseconds kReasonMax{500};

}  // namespace

void QueuePair::collect() {
  const bool found = queues_.poll([this](const ibv_wc& completion) {
    work_->complete(completion);
    news.report();  // also for work that reports nothing: there is room again
    if (work_->sends.bindings() > 0) visit.add();
    if (completion.status != IBV_WC_SUCCESS) note_failure(completion);
  });
  if (found) shard_.moved = true;
}

// A device may have no event for the end of a connection but this one, so that it begins here.
void QueuePair::note_failure(const ibv_wc& completion) {
  if (is_decided()) return;
  if (completion.status != IBV_WC_WR_FLUSH_ERR) return fail(cause_of(completion.status));
  if (!flushed_ && state_ == State::kOpen) give_up_soon();
}

// Work failed; progress() ends the connection.
void QueuePair::fail(const Error& cause) {
  broken_ = true;
  cause_ = cause;
  visit.add();
  shard_.reactor->wake();
}

// The device does no more work. An event tells why, as a rule; a peer may see to it that none
// comes.
void QueuePair::give_up_soon() {
  flushed_ = true;
  visit.add();
  shard_.reactor->set_deadline(*this, posix::Reactor::now() + kReasonMax);
  shard_.reactor->wake();  // which arms the timer
}

void QueuePair::take_pooled(std::uint32_t number, const ibv_wc& completion) {
  if (completion.status != IBV_WC_SUCCESS) {  // the right remains, and is flushed with the others
    (void)queues_.pool()->give_back({&number, 1});
    return note_failure(completion);
  }
  if (!work_->receives.take(number, completion)) {
    // With Receives of its own the device would have refused the message.
    if (is_decided()) return;
    (void)queues_.stop();  // now, so that it takes no more of what others wait for
    return fail({Errc::kProtocol, 0, work_->receives.refusal()});
  }
  news.report();
  // Another connection's turn may have found it: the user is to hear of the connection first.
  if (state_ == State::kAnswered) notice_first_message();
}

}  // namespace rpcrdma::rdma::verbs
