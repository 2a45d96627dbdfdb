#include "rpc/serve/record_memory.h"

#include <algorithm>
#include <bit>

#include "rpc/serve/duplicate_calls.h"

namespace rpcrdma::rpc {

using transport::BufferPool;

namespace {

bool is_large(std::size_t size) noexcept {
  return BufferPool::large_size(size) > 0;
}

}  // namespace

RecordMemory::RecordMemory(BufferPool& pool, std::size_t pool_size,
                           std::size_t record_size_max) noexcept
    : pool_(pool),
      begun_max_(pool_size - BufferPool::large_bytes_max(pool_size)),
      grown_max_(BufferPool::large_bytes_max(pool_size) -
                 std::min(BufferPool::large_bytes_max(pool_size),
                          BufferPool::large_size(record_size_max))) {}

void RecordMemory::retry() {
  if (waiting_.empty()) return;
  if (has_changed_ || buffers_returned_ != pool_.buffers_returned()) {
    note_tried();
    left_to_look_at_ = waiting_.size();
  }
  for (std::size_t i = 0; i < kLooksMax && left_to_look_at_ > 0; ++i, --left_to_look_at_) {
    Share& next = *waiting_.front();
    waiting_.splice(waiting_.end(), waiting_, waiting_.begin());
    if (next.may_go_on()) next.listener_->handle_news();
  }
}

void RecordMemory::note_tried() noexcept {
  has_changed_ = false;
  buffers_returned_ = pool_.buffers_returned();
}

// Returns whether no other host that waits is to be served before this one.
bool RecordMemory::is_turn_of(const Host& host) const noexcept {
  if (host.completing != nullptr) return false;
  return line_.empty() || line_.begin()->second == &host || line_.begin()->first.first;
}

void RecordMemory::set_completing(Host& host, const std::byte* memory) noexcept {
  // Takes no memory, so that a buffer can be given back without.
  auto place = line_.extract({host.turn(), &host});
  host.completing = memory;
  host.came = ++turns_;
  if (place.empty()) return;
  place.value().first = host.turn();
  line_.insert(std::move(place));
  has_changed_ = true;  // it is the turn of another
}

// --- Share -------------------------------------------------------------------------------------

RecordMemory::Share::Share(RecordMemory& of, HostMemory* host_memory, std::string_view peer_address)
    : of_(of),
      of_host_(host_memory, peer_address),
      host_(of.hosts_.try_emplace(host_of(peer_address)).first) {
  ++host_->second.shares;
}

RecordMemory::Share::~Share() {
  stop_waiting();
  if (--host_->second.shares == 0) of_.hosts_.erase(host_);
}

MutableBytes RecordMemory::Share::take(std::size_t size, std::size_t whole) {
  MutableBytes buffer = grow(size);
  if (buffer.empty()) buffer = complete(whole);
  if (buffer.empty()) {
    wait(size);
    return {};
  }
  stop_waiting();
  of_host_.took(buffer.size());
  return buffer;
}

// A host leaves an eighth of the small buffers to others, too.
bool RecordMemory::Share::may_begin(std::size_t buffer_size) const noexcept {
  const std::size_t own = host_->second.begun;
  const std::size_t left = of_.begun_max_ - (of_.begun_ - own);
  return own + buffer_size <= (own == 0 ? left : left - left / 8);
}

bool RecordMemory::Share::may_grow(std::size_t size) const noexcept {
  const std::size_t buffer_size = std::bit_ceil(std::max(size, BufferPool::kSizeMin));
  if (!is_large(size) && may_begin(buffer_size)) return true;
  return of_.grown_ + buffer_size <= of_.grown_max_ && of_host_.may_take(size);
}

bool RecordMemory::Share::may_go_on() const noexcept {
  return may_grow(wanted_) || of_.is_turn_of(host_->second);
}

MutableBytes RecordMemory::Share::grow(std::size_t size) {
  if (!may_grow(size)) return {};
  const MutableBytes buffer = of_.pool_.take(size);
  if (buffer.empty()) return {};
  const bool is_grown = is_large(size) || !may_begin(buffer.size());
  if (is_grown) {
    of_.grown_ += buffer.size();
  } else {
    of_.begun_ += buffer.size();
    host_->second.begun += buffer.size();
  }
  if (!is_large(size)) begun_.push_back({buffer.data(), buffer.size(), is_grown});
  return buffer;
}

MutableBytes RecordMemory::Share::complete(std::size_t whole) {
  Host& host = host_->second;
  if (!of_.is_turn_of(host)) return {};
  const MutableBytes buffer = of_.pool_.take(whole);
  if (!buffer.empty()) of_.set_completing(host, buffer.data());
  return buffer;
}

void RecordMemory::Share::give_back(MutableBytes buffer) {
  Host& host = host_->second;
  if (host.completing == buffer.data()) {
    of_.set_completing(host, nullptr);
  } else if (is_large(buffer.size())) {
    of_.grown_ -= buffer.size();
  } else {
    end_beginning(buffer.data());  // of a record that never will be complete, or that has grown
  }
  of_host_.gave_back(buffer.size());
  of_.pool_.give_back(buffer);
}

void RecordMemory::Share::end_beginning(const std::byte* memory) noexcept {
  const auto beginning = std::ranges::find(begun_, memory, &Beginning::memory);
  if (beginning == begun_.end()) return;
  if (beginning->is_grown) {
    of_.grown_ -= beginning->size;
  } else {
    of_.begun_ -= beginning->size;
    host_->second.begun -= beginning->size;
  }
  begun_.erase(beginning);
  of_.has_changed_ = true;
}

void RecordMemory::Share::wait(std::size_t size) {
  wanted_ = size;
  if (waits_) return;
  waits_ = true;
  if (of_.waiting_.empty()) of_.note_tried();
  place_ = of_.waiting_.insert(of_.waiting_.end(), this);
  Host& host = host_->second;
  if (host.waiting++ > 0) return;
  host.came = ++of_.turns_;
  of_.line_.emplace(host.turn(), &host);
}

void RecordMemory::Share::stop_waiting() noexcept {
  if (!std::exchange(waits_, false)) return;
  of_.waiting_.erase(place_);
  of_.left_to_look_at_ = std::min(of_.left_to_look_at_, of_.waiting_.size());
  Host& host = host_->second;
  if (--host.waiting > 0) return;
  const bool was_first = of_.line_.begin()->second == &host;
  of_.line_.erase({host.turn(), &host});
  if (was_first) of_.has_changed_ = true;  // it is the turn of another
}

}  // namespace rpcrdma::rpc
