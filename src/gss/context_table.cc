#include "gss/context_table.h"

#include "base/assert.h"

namespace rpcrdma::gss {

ServerContext& ContextTable::Use::operator*() const noexcept {
  return kept_->context;
}

ContextTable::ContextTable(const Limits& limits, std::uint64_t first, std::function<Instant()> now)
    : limits_(limits), now_(std::move(now)), next_(first) {}

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

ContextTable::Use ContextTable::add(std::unique_ptr<Context> context) {
  auto made = std::make_unique<Kept>(std::move(context), limits_.window);
  std::unique_ptr<Kept> gone;
  const std::lock_guard lock(mutex_);
  gone = make_room(making_, limits_.making_max);
  Kept& kept = *made.release();
  kept.context.handle = next_++;
  by_handle_.emplace(kept.context.handle, &kept);
  making_.push_front(&kept);
  kept.place = making_.begin();
  return use(kept);
}

void ContextTable::set_complete(const Use& context) {
  Kept& kept = *context.kept_;
  const auto lifetime = kept.context.context->lifetime();
  std::unique_ptr<Kept> gone;
  const std::lock_guard lock(mutex_);
  RPCRDMA_ASSERT(!kept.is_complete, "a context is completed twice");
  if (kept.is_out) return;  // there were too many
  gone = make_room(complete_, limits_.contexts_max);
  complete_.splice(complete_.begin(), making_, kept.place);
  kept.is_complete = true;
  if (lifetime) kept.expires = now_() + *lifetime;
}

ContextTable::Use ContextTable::find(Bytes handle, bool is_complete) {
  if (handle.size() != kHandleSize) return {};
  const std::uint64_t number = (std::uint64_t{xdr::load_word(handle.data())} << 32U) |
                               xdr::load_word(handle.data() + xdr::kWordSize);
  std::unique_ptr<Kept> gone;
  const std::lock_guard lock(mutex_);
  const auto found = by_handle_.find(number);
  if (found == by_handle_.end() || found->second->is_complete != is_complete) return {};
  Kept& kept = *found->second;
  if (kept.expires && *kept.expires <= now_()) {
    gone = take_out(kept);
    return {};
  }
  Order& order = order_of(kept);
  order.splice(order.begin(), order, kept.place);
  return use(kept);
}

void ContextTable::remove(const Use& context) {
  const std::lock_guard lock(mutex_);
  if (!context.kept_->is_out) (void)take_out(*context.kept_);  // it is used
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
  order_of(kept).erase(kept.place);
  kept.is_out = true;
  return std::unique_ptr<Kept>(kept.uses == 0 ? &kept : nullptr);
}

std::unique_ptr<ContextTable::Kept> ContextTable::make_room(Order& order, std::size_t size_max) {
  return order.size() < size_max ? nullptr : take_out(*order.back());
}

}  // namespace rpcrdma::gss
