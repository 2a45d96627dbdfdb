#include "gss/context_table.h"

#include <algorithm>

#include "base/assert.h"
#include "base/peer_host.h"

namespace rpcrdma::gss {

ServerContext& ContextTable::Use::operator*() const noexcept {
  return kept_->context;
}

ContextTable::ContextTable(const Limits& limits, std::function<std::uint64_t()> draw,
                           std::function<Instant()> now)
    : limits_(limits), draw_(std::move(draw)), now_(std::move(now)) {}

ContextTable::~ContextTable() {
  for (const auto& [handle, kept] : by_handle_) {
    RPCRDMA_ASSERT(kept->uses == 0, "a table of contexts goes while one of them is used");
    delete kept;
  }
}

void ContextTable::encode(std::uint64_t handle, std::span<std::byte, kHandleSize> into) noexcept {
  xdr::store_word(into.data(), static_cast<std::uint32_t>(handle >> 32U));
  xdr::store_word(into.data() + xdr::kWordSize, static_cast<std::uint32_t>(handle));
}

ContextTable::Use ContextTable::add(std::unique_ptr<Context> context, std::string_view peer) {
  auto made = std::make_unique<Kept>(std::move(context), limits_.window, host_of_peer(peer));
  made->context.begun_by = peer;
  std::unique_ptr<Kept> gone;
  const std::lock_guard lock(mutex_);
  if (making_.size_of(made->host()) >= limits_.making_per_host) {
    gone = take_out(static_cast<Kept&>(making_.oldest_of(made->host())));
  } else {
    gone = make_room(making_, limits_.making_max);
  }
  do {
    made->context.handle = draw_();
  } while (!by_handle_.emplace(made->context.handle, made.get()).second);
  Kept& kept = *made.release();
  making_.add(kept);
  return use(kept);
}

void ContextTable::set_complete(const Use& context) {
  Kept& kept = *context.kept_;
  const auto lifetime = kept.context.context->lifetime();
  std::unique_ptr<Kept> gone;
  const std::lock_guard lock(mutex_);
  if (kept.is_out || kept.is_complete) return;  // out: there were too many
  gone = make_room(complete_, limits_.contexts_max);
  making_.remove(kept);
  complete_.add(kept);
  kept.is_complete = true;
  if (lifetime) kept.expires = now_() + *lifetime;
}

ContextTable::Kept* ContextTable::at(Bytes handle) const {
  if (handle.size() != kHandleSize) return nullptr;
  const std::uint64_t number = (std::uint64_t{xdr::load_word(handle.data())} << 32U) |
                               xdr::load_word(handle.data() + xdr::kWordSize);
  const auto found = by_handle_.find(number);
  return found == by_handle_.end() ? nullptr : found->second;
}

ContextTable::Use ContextTable::find(Bytes handle) {
  std::unique_ptr<Kept> gone;
  const std::lock_guard lock(mutex_);
  Kept* const kept = at(handle);
  if (kept == nullptr || !kept->is_complete) return {};
  if (kept->expires && *kept->expires <= now_()) {
    gone = take_out(*kept);
    return {};
  }
  complete_.use(*kept);
  return use(*kept);
}

ContextTable::Use ContextTable::find_begun(Bytes handle, std::string_view peer) {
  const std::lock_guard lock(mutex_);
  Kept* const kept = at(handle);
  if (kept == nullptr || kept->is_complete || kept->context.begun_by != peer) return {};
  making_.use(*kept);
  return use(*kept);
}

void ContextTable::remove(const Use& context) {
  const std::lock_guard lock(mutex_);
  if (!context.kept_->is_out) (void)take_out(*context.kept_);  // it is used
}

void ContextTable::remove_begun(const Use& context) {
  Kept& kept = *context.kept_;
  const std::lock_guard lock(mutex_);
  if (!kept.is_out && !kept.is_complete) (void)take_out(kept);  // it is used
}

std::size_t ContextTable::size() const {
  const std::lock_guard lock(mutex_);
  return by_handle_.size();
}

ContextTable::Use ContextTable::use(Kept& kept) noexcept {
  ++kept.uses;
  return {*this, kept};
}

void ContextTable::release(Kept& kept) noexcept {
  std::unique_ptr<Kept> gone;
  const std::lock_guard lock(mutex_);
  if (--kept.uses == 0 && kept.is_out) gone.reset(&kept);
}

std::unique_ptr<ContextTable::Kept> ContextTable::take_out(Kept& kept) {
  by_handle_.erase(kept.context.handle);
  order_of(kept).remove(kept);
  kept.is_out = true;
  return std::unique_ptr<Kept>(kept.uses == 0 ? &kept : nullptr);
}

std::unique_ptr<ContextTable::Kept> ContextTable::make_room(UseOrder& order, std::size_t size_max) {
  if (order.size() < size_max) return nullptr;
  return take_out(static_cast<Kept&>(order.next_to_go()));
}

}  // namespace rpcrdma::gss
