// What became of posted work.
#include <array>
#include <chrono>

#include "base/assert.h"
#include "rdma/verbs/queue_pair.h"

namespace rpcrdma::rdma::verbs {
namespace {

constexpr std::chrono::milliseconds kReasonMax{500};

Status status_of(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return Status::kOk;
    case IBV_WC_WR_FLUSH_ERR:
      return Status::kFlushed;
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_REM_ABORT_ERR:
      return Status::kRemoteAccess;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
      return Status::kRetryExceeded;
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_QP_OP_ERR:
    case IBV_WC_LOC_EEC_OP_ERR:
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_MW_BIND_ERR:
    case IBV_WC_BAD_RESP_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_LOC_RDD_VIOL_ERR:
    case IBV_WC_REM_INV_RD_REQ_ERR:
    case IBV_WC_INV_EECN_ERR:
    case IBV_WC_INV_EEC_STATE_ERR:
    case IBV_WC_FATAL_ERR:
    case IBV_WC_GENERAL_ERR:
    case IBV_WC_TM_ERR:
    case IBV_WC_TM_RNDV_INCOMPLETE:
      return Status::kLocalError;
  }
  return Status::kLocalError;
}

Error cause_of(ibv_wc_status status) {
  switch (status_of(status)) {
    case Status::kRemoteAccess:
      return {Errc::kProtocol, 0, "the peer refused access to its memory"};
    case Status::kRetryExceeded:
      return status == IBV_WC_RNR_RETRY_EXC_ERR
                 ? Error{Errc::kProtocol, 0, "the peer had no Receive for a message"}
                 : Error{Errc::kTimedOut, 0, "the peer does not answer"};
    case Status::kOk:
    case Status::kFlushed:
    case Status::kLocalError:
      break;
  }
  if (status == IBV_WC_LOC_LEN_ERR) {
    return {Errc::kProtocol, 0, "a message was longer than the Receive for it"};
  }
  return {Errc::kProvider, 0, ibv_wc_status_str(status)};  // a constant of rdma-core
}

}  // namespace

void QueuePair::collect() {
  if (born_.elsewhere()) return;  // they are for the parent
  constexpr int kAtOnce = 32;
  std::array<ibv_wc, kAtOnce> completions;
  for (;;) {
    const int count = ibv_poll_cq(completions_.get(), kAtOnce, completions.data());
    for (int i = 0; i < count; ++i) take(completions[static_cast<std::size_t>(i)]);
    if (count > 0) shard_.moved = true;
    if (count < kAtOnce) break;
  }
  if (share_ && share_->pool().collect()) shard_.moved = true;
}

void QueuePair::take(const ibv_wc& completion) {
  if ((completion.wr_id & kOfReceive) != 0) {
    take_receive(completion.wr_id & ~kOfReceive, completion);
  } else {
    ++counters_.completions;
    take_send(completion.wr_id, completion);
  }
  if (completion.status != IBV_WC_SUCCESS) note_failure(completion);
}

// A device may have no event for the end of a connection but this one, so that it begins here.
void QueuePair::note_failure(const ibv_wc& completion) {
  if (broken_ || state_ == State::kDown || state_ == State::kLeaving) return;
  if (completion.status == IBV_WC_WR_FLUSH_ERR) {
    if (!flushed_ && state_ == State::kOpen) give_up_soon();
    return;
  }
  broken_ = true;
  cause_ = cause_of(completion.status);
  shard_.reactor->wake();
}

// The device does no more work. An event tells why, as a rule; a peer may see to it that none
// comes.
void QueuePair::give_up_soon() {
  flushed_ = true;
  shard_.reactor->set_deadline(*this, posix::Reactor::now() + kReasonMax);
  shard_.reactor->wake();  // which arms the timer
}

void QueuePair::take_send(std::uint64_t number, const ibv_wc& completion) {
  const Status status = status_of(completion.status);
  // What comes before a flushed one may have been flushed without a word; before one that failed it
  // was done.
  const Status before = status == Status::kFlushed ? Status::kFlushed : Status::kOk;
  (void)sends_.complete(number, [&](SendWork& work, bool is_named) {
    finish(work, is_named ? status : before, is_named);
  });
}

// `is_certain`: the device has said so of this very work.
void QueuePair::finish(SendWork& work, Status status, bool is_certain) {
  if (work.is_copied) --copies_under_way_;
  bounce_->give_back(work.bounce);
  work.sink.reset();
  if (work.kind == Kind::kInvalidate && status == Status::kOk) memory_->release(work.tag);
  if (work.kind == Kind::kRead && status == Status::kOk) counters_.payload_received += work.size;
  if (status == Status::kOk && (work.kind == Kind::kSend || work.kind == Kind::kWrite)) {
    counters_.payload_sent += work.size;
  }
  // Nothing is heard of what the user was not told about, or was told the end of already.
  if (work.kind == Kind::kBind || work.kind == Kind::kMarker || work.is_copied) return;
  // A failure always completes; but of work that the device does not mention it is not known.
  if (!work.is_wanted && (status == Status::kOk || !is_certain)) return;
  if (work.kind == Kind::kInvalidate && status != Status::kOk && state_ != State::kDown) {
    return unrevoked_.push_back(work.id);  // the memory is out of reach when the queue pair is gone
  }
  Completion completion{.id = work.id, .status = status};
  if (work.kind == Kind::kRead) completion.size = work.size;
  ready_.push(completion);
}

// What a Receive's completion tells, whose Receive it may be.
Completion QueuePair::received(const ibv_wc& completion) {
  Completion told;
  told.status = status_of(completion.status);
  if (told.status != Status::kOk) return told;
  heard_ = true;
  told.size = completion.byte_len;
  counters_.payload_received += completion.byte_len;
  if ((completion.wc_flags & device_->traits().invalidated_flags) != 0) {
    const SteeringTag tag{completion.invalidated_rkey};
    if (memory_->invalidated(tag)) told.tag = tag;
  }
  return told;
}

void QueuePair::take_receive(std::uint64_t number, const ibv_wc& completion) {
  Completion told = received(completion);
  (void)receives_.complete(number, [&](ReceiveWork& work, bool /*is_named*/) {
    told.id = work.id;
    ready_.push(told);
  });
}

void QueuePair::take_pooled(std::uint32_t number, const ibv_wc& completion) {
  const Completion told = received(completion);
  if (told.status != Status::kOk) {  // the right remains, and is flushed with the others
    (void)share_->pool().give_back({&number, 1});
    return note_failure(completion);
  }
  auto taken = share_->take(number, told.size);
  if (!taken) {
    // With Receives of its own the device would have refused the message.
    if (broken_ || state_ == State::kDown || state_ == State::kLeaving) return;
    broken_ = true;
    cause_ = {Errc::kProtocol, 0, share_->refusal()};
    (void)stop_receiving();  // now, so that it takes no more of what others wait for
    return shard_.reactor->wake();
  }
  taken->tag = told.tag;
  ready_.push(*taken);
  // Another connection's turn may have found it: the user is to hear of the connection first.
  if (state_ == State::kAnswered) notice_first_message();
}

}  // namespace rpcrdma::rdma::verbs
