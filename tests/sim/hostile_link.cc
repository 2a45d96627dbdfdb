#include "sim/hostile_link.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "rpcrdma/xdr.h"
#include "wire/private_data.h"

namespace rpcrdma::simulation {
namespace {

// Where things lie in its memory, bytes.
constexpr std::size_t kSlotSize = 1024, kSlots = 32;
constexpr std::uint32_t kReceiveSize = 8192;
constexpr std::uint16_t kReceives = HostileLink::kReceives;
constexpr std::uint32_t kReadableSize = 150'000, kWritableSize = 20'000;
constexpr std::size_t kSlotsAt = kReceives * kReceiveSize;
constexpr std::size_t kReadableAt = kSlotsAt + kSlots * kSlotSize;
constexpr std::size_t kWritableAt = kReadableAt + kReadableSize;
constexpr std::size_t kMemorySize = kWritableAt + kWritableSize;

// Ids of its work, of each kind from here on; those of Receives are below.
constexpr std::uint64_t kSendId = 1000, kReadableId = 2000, kWritableId = 3000;

}  // namespace

HostileLink::HostileLink(SeededRandom& random, Totals& totals)
    : random_(random), totals_(totals), memory_(kMemorySize, std::byte{0x5a}) {}

void HostileLink::begin(std::unique_ptr<rdma::QueuePair> queue_pair) {
  totals_.add(Count::kHostileConnections);
  queue_pair_ = std::move(queue_pair);
  // It comes from the simulator's provider.
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-static-cast-downcast)
  simulated_ = static_cast<rdma::sim::QueuePair*>(queue_pair_.get());
  simulated_->hostility.is_hostile = true;
  set_answers_reads(answers_reads_);
  const auto attached = queue_pair_->attach(memory_);
  if (!attached) return end();  // a fault of this world
  region_ = *attached;
}

void HostileLink::end() noexcept {
  queue_pair_.reset();
  simulated_ = nullptr;
  is_connected_ = false;
  posted_ = 0;
  is_posted_.fill(false);
  readable_.clear();
  writable_.clear();
}

void HostileLink::disconnect() {
  if (queue_pair_) queue_pair_->disconnect();
}

void HostileLink::set_answers_reads(bool does) noexcept {
  answers_reads_ = does;
  if (simulated_ != nullptr) simulated_->hostility.holds_responses = !does;
}

std::size_t HostileLink::waiting_reads() const noexcept {
  return simulated_ != nullptr ? simulated_->hostility.held_reads.size() : 0;
}

std::vector<HostileLink::Words> HostileLink::take_news() {
  std::vector<Words> messages;
  if (!queue_pair_) return messages;
  while (const auto event = queue_pair_->poll_link()) {
    if (*event != rdma::LinkEvent::kConnected) {
      end();
      return messages;
    }
    is_connected_ = true;
    if (takes_messages_) post_receives();
    expose(kReadableAt, kReadableSize, true);
    expose(kWritableAt, kWritableSize, false);
  }
  std::array<rdma::Completion, 32> done{};
  const std::size_t count = queue_pair_->poll(done);
  for (const rdma::Completion& each : std::span(done).first(count)) {
    if (each.id < kSendId) {
      is_posted_[each.id] = false;
      if (each.status != rdma::Status::kOk) continue;
      const std::byte* const from =
          each.message != nullptr ? each.message : &memory_[each.id * kReceiveSize];
      Words& words = messages.emplace_back(each.size / xdr::kWordSize);
      for (std::size_t i = 0; i < words.size(); ++i) {
        words[i] = xdr::load_word(from + i * xdr::kWordSize);
      }
    } else if (each.id < kReadableId) {
      --posted_;
    } else if (each.tag) {
      const bool is_readable = each.id < kWritableId;
      (is_readable ? readable_ : writable_)
          .push_back({*each.tag, each.address, is_readable ? kReadableSize : kWritableSize});
    }
  }
  if (takes_messages_ && count > 0) post_receives();
  return messages;
}

void HostileLink::post(std::uint64_t id, decltype(work::Request::work) work) {
  work::Request request{id, true, std::move(work)};
  if (queue_pair_->post({&request, 1}) && id >= kSendId && id < kReadableId) ++posted_;
}

void HostileLink::post_receives() {
  for (int i = 0; i < 4; ++i) {
    const auto number = static_cast<std::uint16_t>(random_.below(kReceives));
    if (is_posted_[number]) continue;
    const rdma::ReceiveBuffers buffers{region_, kReceiveSize, kReceiveSize};
    is_posted_[number] = queue_pair_->post_receives(buffers, {&number, 1}).has_value();
  }
}

void HostileLink::expose(std::uint64_t offset, std::uint32_t size, bool for_reading) {
  post(for_reading ? kReadableId : kWritableId,
       work::Expose{{region_, size, offset},
                    for_reading ? work::RemoteAccess::kRead : work::RemoteAccess::kWrite});
}

void HostileLink::send(const Words& words) {
  if (!is_connected_ || posted_ == kSlots) return;
  const std::size_t slot = next_slot_++ % kSlots;
  const std::size_t size = std::min(words.size() * xdr::kWordSize, kSlotSize);
  std::byte* const at = &memory_[kSlotsAt + slot * kSlotSize];
  for (std::size_t i = 0; i < size / xdr::kWordSize; ++i) {
    xdr::store_word(at + i * xdr::kWordSize, words[i]);
  }
  const auto cut = static_cast<std::uint32_t>(random_.one_in(30) && size > 0 ? size - 1 : size);
  const work::Slice from{region_, cut, kSlotsAt + slot * kSlotSize};
  work::Send what{{&from, 1}, {}};
  if (random_.one_in(100) && queue_pair_->capabilities().send_with_invalidate) {
    what.invalidate = SteeringTag{static_cast<std::uint32_t>(random_.next())};
  }
  totals_.add(Count::kHostileMessages);
  post(kSendId + slot, what);
}

void HostileLink::send_nonsense() {
  Words words(random_.below(30));
  for (std::uint32_t& each : words) each = static_cast<std::uint32_t>(random_.next());
  send(words);
}

void HostileLink::write(const Segment& to) {
  if (!is_connected_ || posted_ == kSlots) return;
  const std::uint32_t size = std::min(to.size, kReadableSize);
  const work::Slice from{region_, size, kReadableAt};
  post(kSendId, work::Write{{&from, 1}, {to.tag, size, to.address}});
}

void HostileLink::read(const Segment& from) {
  if (!is_connected_ || posted_ == kSlots) return;
  const std::uint32_t size = std::min(from.size, kWritableSize);
  post(kSendId, work::Read{{region_, size, kWritableAt}, {from.tag, size, from.address}});
}

void HostileLink::add(Words& words, const Segment& segment) {
  words.push_back(static_cast<std::uint32_t>(segment.tag));
  words.push_back(segment.size);
  words.push_back(static_cast<std::uint32_t>(segment.address >> 32U));
  words.push_back(static_cast<std::uint32_t>(segment.address));
}

HostileLink::Segment HostileLink::any_of(const std::vector<Segment>& exposed) {
  Segment memory{SteeringTag{static_cast<std::uint32_t>(random_.next())}, random_.next(), 100};
  if (!exposed.empty() && !random_.one_in(10)) memory = exposed[random_.below(exposed.size())];
  const std::uint32_t all = memory.size;
  if (!random_.one_in(3)) memory.size = static_cast<std::uint32_t>(random_.below(all + 1ULL));
  if (random_.one_in(20)) memory.size = pick({0, 1, all + 1, 0x7fff'ffff, 0xffff'ffff});
  return memory;
}

void HostileLink::spoil(Words& words) {
  for (std::uint64_t left = 1 + random_.below(3); left > 0 && !words.empty(); --left) {
    const std::size_t at = random_.below(words.size());
    switch (random_.below(5)) {
      case 0:
        words[at] = static_cast<std::uint32_t>(random_.next());
        break;
      case 1:
        words[at] ^= 1U << random_.below(32);
        break;
      case 2:
        words[at] = static_cast<std::uint32_t>(random_.below(6));
        break;
      case 3:
        words.resize(at + 1);
        break;
      default:
        words.insert(words.begin() + static_cast<std::ptrdiff_t>(at), pick({0, 1, 0xffff'ffff}));
    }
  }
}

std::vector<std::byte> HostileLink::draw_private_data() {
  std::vector<std::byte> data(random_.below(20));
  for (std::byte& each : data) each = static_cast<std::byte>(random_.below(256));
  if (random_.one_in(2)) return data;
  const bool takes_invalidation = random_.one_in(2);
  const std::uint32_t send_size = pick({1024, 4096, 262'144});
  const auto valid = wire::encode({takes_invalidation, send_size, pick({1024, 4096, 8192})});
  data.assign(valid.begin(), valid.end());
  return data;
}

}  // namespace rpcrdma::simulation
