#include "rpc/serve/record_memory.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "rpc/serve/duplicate_calls.h"

namespace rpcrdma::rpc {

using transport::BufferPool;

RecordMemory::RecordMemory(BufferPool& pool, std::size_t pool_size,
                           std::size_t record_size_max) noexcept
    : pool_(pool),
      growing_max_{pool_size - BufferPool::large_bytes_max(pool_size),
                   BufferPool::large_bytes_max(pool_size) -
                       std::min(BufferPool::large_bytes_max(pool_size),
                                BufferPool::large_size(record_size_max))} {}

void RecordMemory::retry() const {
  if (queue_.is_worth_trying(pool_.bytes_in_use())) queue_.first()->listener_->handle_news();
}

// --- Share -------------------------------------------------------------------------------------

RecordMemory::Share::Share(RecordMemory& of, HostMemory* host_memory, std::string_view peer_address)
    : of_(of),
      of_host_(host_memory, peer_address),
      host_(of.hosts_.try_emplace(host_of(peer_address), of.queue_).first) {
  ++host_->second.shares;
}

RecordMemory::Share::~Share() {
  leave(false);
  if (--host_->second.shares == 0) of_.hosts_.erase(host_);
}

MutableBytes RecordMemory::Share::take(std::size_t size, std::size_t whole) {
  const bool is_large = BufferPool::large_size(size) > 0;
  const bool is_its_turn = of_.queue_.empty() || of_.queue_.first() == this;
  MutableBytes buffer;
  if (is_its_turn || !is_large) buffer = grow(size);
  if (buffer.empty() && is_its_turn) buffer = complete(whole);
  if (buffer.empty()) {
    enter(whole);
    if (is_its_turn) of_.queue_.note_tried(of_.pool_.bytes_in_use());
    return {};
  }
  leave(true);
  host_->second.member.took(BufferPool::large_size(buffer.size()));
  of_host_.took(buffer.size());
  return buffer;
}

MutableBytes RecordMemory::Share::grow(std::size_t size) {
  const std::size_t buffer_size = std::bit_ceil(std::max(size, BufferPool::kSizeMin));
  std::size_t& growing = of_.growing_.of(size);
  if (growing + buffer_size > of_.growing_max_.of(size) || !of_host_.may_take(size)) return {};
  const MutableBytes buffer = of_.pool_.take(size);
  if (buffer.empty()) return {};
  growing += buffer.size();
  growing_.push_back(buffer);
  return buffer;
}

MutableBytes RecordMemory::Share::complete(std::size_t whole) {
  if (of_.completing_ != nullptr) return {};
  const MutableBytes buffer = of_.pool_.take(whole);
  of_.completing_ = buffer.data();
  return buffer;
}

void RecordMemory::Share::give_back(MutableBytes buffer) {
  host_->second.member.gave_back(BufferPool::large_size(buffer.size()));
  of_host_.gave_back(buffer.size());
  handle_complete(buffer.data());  // or it never will be
  of_.pool_.give_back(buffer);
}

// The record does not wait for more memory any more, so that others can have what it had left to
// them.
void RecordMemory::Share::handle_complete(const std::byte* record) noexcept {
  const auto buffer = std::ranges::find(growing_, record, &MutableBytes::data);
  if (buffer != growing_.end()) {
    of_.growing_.of(buffer->size()) -= buffer->size();
    growing_.erase(buffer);
  } else if (of_.completing_ == record) {
    of_.completing_ = nullptr;
  } else {
    return;
  }
  of_.queue_.note_change();
}

void RecordMemory::Share::enter(std::size_t whole) {
  if (!ticket_) ticket_ = of_.queue_.enter(host_->second.member, *this, whole);
}

void RecordMemory::Share::leave(bool is_served) {
  if (ticket_) of_.queue_.stop_waiting(std::exchange(ticket_, {}), is_served);
}

}  // namespace rpcrdma::rpc
