#include "rdma/verbs/receive_queue.h"

#include "rdma/verbs/completion_status.h"

namespace rpcrdma::rdma::verbs {

ReceiveQueue::ReceiveQueue(std::size_t depth, ReceivePool* pool, const Traits& traits,
                           Memory& memory, Ring<Completion>& done, Counters& counters)
    : traits_(traits), memory_(memory), done_(done), counters_(counters), works_(pool ? 0 : depth) {
  if (pool != nullptr) share_.emplace(*pool, depth);
}

void ReceiveQueue::begin_batch(std::size_t slices) {
  chain_.clear();
  slices_.clear();
  slices_.reserve(slices);  // the chain points into it
}

bool ReceiveQueue::add(std::uint64_t id, const Receive& receive) {
  const std::size_t first = slices_.size();
  if (!memory_.gather(receive.into, true, slices_)) return false;
  ibv_recv_wr& work = chain_.emplace_back();
  work = {};
  work.wr_id = kOfReceive | works_.next();
  work.sg_list = slices_.data() + first;
  work.num_sge = static_cast<int>(slices_.size() - first);
  works_.push({.id = id});
  return true;
}

std::optional<int> ReceiveQueue::post(ibv_qp& queue) {
  if (chain_.empty()) return std::nullopt;
  for (std::size_t i = 0; i + 1 < chain_.size(); ++i) chain_[i].next = &chain_[i + 1];
  ibv_recv_wr* bad = nullptr;
  ++counters_.doorbells;
  const int code = ibv_post_recv(&queue, chain_.data(), &bad);
  if (code == 0 && bad == nullptr) return std::nullopt;
  return code;
}

bool ReceiveQueue::post_rights(std::span<const std::uint16_t> numbers, std::uint32_t size) {
  const auto doorbells = share_->post(numbers, size);
  if (doorbells) counters_.doorbells += *doorbells;
  return doorbells.has_value();
}

void ReceiveQueue::release(std::span<const std::uint16_t> numbers) {
  if (share_) counters_.doorbells += share_->release(numbers).value_or(1);
}

// Makes the user's completion of a Receive, except for its id.
Completion ReceiveQueue::message_of(const ibv_wc& completion) {
  Completion told;
  told.status = status_of(completion.status);
  if (told.status != Status::kOk) return told;
  has_received_ = true;
  told.size = completion.byte_len;
  counters_.payload_received += completion.byte_len;
  if ((completion.wc_flags & traits_.invalidated_flags) != 0) {
    const SteeringTag tag{completion.invalidated_rkey};
    if (memory_.invalidated(tag)) told.tag = tag;
  }
  return told;
}

void ReceiveQueue::complete(std::uint64_t number, const ibv_wc& completion) {
  Completion told = message_of(completion);
  (void)works_.complete(number, [&](Work& work, bool /*is_named*/) {
    told.id = work.id;
    done_.push(told);
  });
}

bool ReceiveQueue::take(std::uint32_t buffer, const ibv_wc& completion) {
  const Completion told = message_of(completion);
  auto taken = share_->take(buffer, told.size);
  if (!taken) return false;
  taken->tag = told.tag;
  done_.push(*taken);
  return true;
}

void ReceiveQueue::flush() {
  works_.flush([this](Work& work) { done_.push({.id = work.id, .status = Status::kFlushed}); });
  if (!share_) return;
  share_->flush(
      [this](std::uint16_t number) { done_.push({.id = number, .status = Status::kFlushed}); });
}

}  // namespace rpcrdma::rdma::verbs
