#include "rpc/serve/reply_cache.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "rpcrdma/xdr.h"

namespace rpcrdma::rpc {
namespace {

// The rough cost of an entry besides its reply, bytes.
constexpr std::size_t kEntryCost = 256;

// A multiply and a fold: enough to tell requests apart that were not made to collide. A client
// that does make them collide gets its own replies.
std::uint64_t mix(std::uint64_t state, std::uint64_t word) noexcept {
  constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15U;
#if defined(__SIZEOF_INT128__)
  __extension__ using Wide = unsigned __int128;
  const Wide product = Wide{state ^ word} * kFactor;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
#else  // 32 bits, without a product of 128; nobody compares what two machines compute
  state = (state ^ word) * kFactor;
  state = (state ^ (state >> 32U)) * kFactor;
  return state ^ (state >> 29U);
#endif
}

}  // namespace

void RequestSum::add(Bytes bytes) noexcept {
  if (bytes.empty()) return;
  size_ += bytes.size();
  if (pending_size_ > 0) {
    const std::size_t size = std::min(bytes.size(), sizeof(pending_) - pending_size_);
    std::memcpy(pending_.data() + pending_size_, bytes.data(), size);
    pending_size_ += size;
    bytes = bytes.subspan(size);
    if (pending_size_ < sizeof(pending_)) return;
    add_word(pending_.data());
    pending_size_ = 0;
  }
  for (; bytes.size() >= sizeof(pending_); bytes = bytes.subspan(sizeof(pending_))) {
    add_word(bytes.data());
  }
  pending_size_ = bytes.size();
  // A whole message leaves four bytes or none, whose constant size saves a call of memcpy().
  if (pending_size_ == xdr::kWordSize) {
    std::memcpy(pending_.data(), bytes.data(), xdr::kWordSize);
  } else if (pending_size_ > 0) {
    std::memcpy(pending_.data(), bytes.data(), pending_size_);
  }
}

void RequestSum::add_word(const std::byte* bytes) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  state_ = mix(state_, word) + 0x632be59bd9b4e019U;
}

std::uint64_t RequestSum::value() const noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, pending_.data(), pending_size_);
  return mix(mix(state_, word) + 0x2545f4914f6cdd1dU, size_);
}

std::uint64_t ReplyCache::checksum(Bytes bytes, std::uint64_t seed) noexcept {
  RequestSum sum(seed);
  sum.add(bytes);
  return sum.value();
}

std::size_t ReplyCache::Hash::operator()(const Key& key) const noexcept {
  std::uint64_t state = std::hash<std::string>{}(key.host);
  state = mix(state, static_cast<std::uint32_t>(key.xid));
  state = mix(state, key.arguments);
  return static_cast<std::size_t>(mix(state, key.credential));
}

std::size_t ReplyCache::size_of(const Reply& reply) noexcept {
  std::size_t size = kEntryCost + reply.stream.size();
  for (const Item& item : reply.items) size += item.data.size();
  return size;
}

ReplyCache::Begun ReplyCache::begin(const Key& key) {
  const std::lock_guard lock(mutex_);
  const auto [at, made] = entries_.try_emplace(key);
  if (made) return {Found::kNew};
  Entry& entry = at->second;
  if (entry.done) return {Found::kDone, entry.reply};
  entry.is_wanted = true;
  return {Found::kInProgress, {}, Watch(ends_of(key))};
}

void ReplyCache::finish(const Key& key, Reply&& reply) {
  const std::size_t size = size_of(reply);
  if (size > bytes_max_ / 4 || entries_max_ == 0) return forget(key);
  bool is_wanted = false;
  {
    const std::lock_guard lock(mutex_);
    Host& host = host_of(key);
    make_room_for(host, size);
    Entry& entry = entries_.at(key);
    entry.done = true;
    entry.reply = std::move(reply);
    is_wanted = entry.is_wanted;
    by_share_.erase(&host);
    host.bytes += size;
    host.order.push_back(key);
    settle(host);
    bytes_ += size;
    ++finished_;
    if (is_wanted) note_end(key);
  }
  if (is_wanted && wake_) wake_();
}

void ReplyCache::forget(const Key& key) {
  bool is_wanted = false;
  {
    const std::lock_guard lock(mutex_);
    const auto at = entries_.find(key);
    if (at != entries_.end()) {
      is_wanted = at->second.is_wanted;
      entries_.erase(at);
    }
    if (is_wanted) note_end(key);
  }
  if (is_wanted && wake_) wake_();
}

ReplyCache::Host& ReplyCache::host_of(const Key& key) {
  Host& host = hosts_[key.host];
  host.name = key.host;
  return host;
}

void ReplyCache::settle(Host& host) {
  host.share = share_of(host.order.size(), host.bytes);
  by_share_.insert(&host);
}

// The host that needs the room makes it, if it has most then.
void ReplyCache::make_room_for(Host& host, std::size_t size) {
  while (finished_ > 0 && (finished_ >= entries_max_ || bytes_ + size > bytes_max_)) {
    Host* most = *by_share_.rbegin();
    if (!host.order.empty() && host.share + share_of(1, size) >= most->share) most = &host;
    by_share_.erase(most);
    drop_oldest_of(*most);
    if (!most->order.empty()) {
      settle(*most);
    } else if (most != &host) {
      hosts_.erase(most->name);
    }
  }
}

void ReplyCache::drop_oldest_of(Host& host) {
  const auto at = entries_.find(host.order.front());
  const std::size_t size = size_of(at->second.reply);
  entries_.erase(at);
  host.order.pop_front();
  host.bytes -= size;
  bytes_ -= size;
  --finished_;
}

}  // namespace rpcrdma::rpc
