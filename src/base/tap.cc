#include "rpcrdma/tap.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <utility>

namespace rpcrdma {
namespace {

constexpr std::size_t kRoomMin = 64U << 10U;

std::size_t padded(std::size_t size) noexcept {
  return (size + 7) / 8 * 8;
}

std::int64_t now_ns() noexcept {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

void append(std::vector<std::byte>& to, const void* from, std::size_t size) {
  const auto* const bytes = static_cast<const std::byte*>(from);
  to.insert(to.end(), bytes, bytes + size);
}

}  // namespace

Tap::Tap(std::size_t room) : room_(std::max(room, kRoomMin)) {}

void Tap::start() {
  const std::lock_guard lock(mutex_);
  records_.clear();
  records_.reserve(room_);  // throws before anything is on
  lost_ = 0;
  if (!is_on()) epoch_.fetch_add(1, std::memory_order_relaxed);
}

void Tap::stop() noexcept {
  const std::lock_guard lock(mutex_);
  if (is_on()) epoch_.fetch_add(1, std::memory_order_relaxed);
  records_ = {};
}

std::vector<std::byte> Tap::take() {
  {
    const std::lock_guard lock(mutex_);
    if (records_.empty()) return {};
  }
  // No call waits for the memory of the next records.
  std::vector<std::byte> fresh;
  fresh.reserve(room_);
  const std::lock_guard lock(mutex_);
  return std::exchange(records_, std::move(fresh));
}

void Tap::add(TapRecord record, std::span<const Bytes> runs) noexcept {
  std::size_t kept = 0;
  for (const Bytes run : runs) kept += std::min(run.size(), kKeptMax - kept);
  record.kept = static_cast<std::uint32_t>(kept);
  record.length = static_cast<std::uint32_t>(sizeof record + padded(kept));
  record.time = now_ns();
  const std::lock_guard lock(mutex_);
  if (!is_on()) return;
  const std::size_t for_loss = lost_ == 0 ? 0 : sizeof record;
  // All room was reserved by start() and take(): nothing is allocated here.
  if (records_.capacity() - records_.size() < record.length + for_loss) {
    ++lost_;
    return;
  }
  if (lost_ != 0) {
    TapRecord loss;
    loss.length = sizeof loss;
    loss.time = record.time;
    loss.size = std::exchange(lost_, 0);
    append(records_, &loss, sizeof loss);
  }
  append(records_, &record, sizeof record);
  const std::size_t end = records_.size() + record.length - sizeof record;
  for (std::size_t left = kept; const Bytes run : runs) {
    const std::size_t taken = std::min(run.size(), left);
    append(records_, run.data(), taken);
    left -= taken;
  }
  records_.resize(end);
}

}  // namespace rpcrdma
