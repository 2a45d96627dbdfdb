#include "sim/hostile_peer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "rpcrdma/xdr.h"
#include "wire/private_data.h"

namespace rpcrdma::simulation {
namespace {

// Where things lie in its memory, bytes.
constexpr std::size_t kSlotSize = 1024, kSlots = 32;
constexpr std::uint32_t kReceiveSize = 8192;
constexpr std::uint16_t kReceives = 16;
constexpr std::uint32_t kReadableSize = 150'000, kWritableSize = 20'000;
constexpr std::size_t kSlotsAt = kReceives * kReceiveSize;
constexpr std::size_t kReadableAt = kSlotsAt + kSlots * kSlotSize;
constexpr std::size_t kWritableAt = kReadableAt + kReadableSize;
constexpr std::size_t kMemorySize = kWritableAt + kWritableSize;

// Ids of its work, of each kind from here on; those of Receives are below.
constexpr std::uint64_t kSendId = 1000, kReadableId = 2000, kWritableId = 3000;

constexpr std::uint32_t kMessageType = 0, kNoMessageType = 1;
constexpr std::uint32_t kCallSize = 40;  // bytes: an RPC header without credential

}  // namespace

// --- HostileProgram ----------------------------------------------------------------------------

const ProcedureTraits* HostileProgram::traits(std::uint32_t procedure) const noexcept {
  static constexpr auto kTable = [] {
    std::array<ProcedureTraits, 4> table{};
    for (std::uint32_t i = 0; i < table.size(); ++i) {
      table[i].number = i;
      table[i].may_answer_by_read = i % 2 == 0;
      table[i].is_idempotent = i < 2;
      table[i].bulk_arguments_max = i == 3 ? 0 : kBulkItemsMax;
      table[i].bulk_argument_size_max = i == 3 ? 0 : kArgumentMax;
    }
    return table;
  }();
  return find_traits(kTable, procedure);
}

void HostileProgram::call(CallContext& context) {
  totals_.add(Count::kHostileCalls);
  MessageReader& arguments = context.arguments();
  unsigned sum = 0;
  for (const std::byte each : arguments.xdr().rest()) sum += std::to_integer<unsigned>(each);
  for (const MessageReader::Placed& item : arguments.placed()) {
    for (const std::byte each : item.data) sum += std::to_integer<unsigned>(each);
  }
  if (sum % 7 == 0) return context.fail(AcceptStatus::kGarbageArgs);
  context.results().xdr().u32(sum);
  if (sum % 2 == 0) {
    context.results().bulk(foreign_.run(sum, static_cast<std::uint32_t>(random_.below(20'000))));
  }
  context.succeed();
}

// --- HostilePeer -------------------------------------------------------------------------------

HostilePeer::HostilePeer(rdma::sim::World& world, SeededRandom& random, Totals& totals,
                         std::size_t number)
    : random_(random),
      totals_(totals),
      provider_(world, "hostile"),
      memory_(kMemorySize, std::byte{0x5a}) {
  provider_.set_host("10.0.0." + std::to_string(number + 1));
  provider_.set_hostile();
}

std::uint32_t HostilePeer::pick(std::initializer_list<std::uint32_t> values) {
  return values.begin()[random_.below(values.size())];
}

void HostilePeer::act(const std::string& address) {
  if (!queue_pair_) return connect(address);
  take_news();
  if (queue_pair_ && is_connected_) act_on_connection();
}

void HostilePeer::connect(const std::string& address) {
  std::vector<std::byte> private_data(random_.below(20));
  for (std::byte& each : private_data) each = static_cast<std::byte>(random_.below(256));
  if (random_.one_in(2)) {
    const auto valid =
        wire::encode({random_.one_in(2), pick({1024, 4096, 262'144}), pick({1024, 4096, 8192})});
    private_data.assign(valid.begin(), valid.end());
  }
  auto made = provider_.connect(address, private_data);
  if (!made) return;
  totals_.add(Count::kHostileConnections);
  queue_pair_ = std::move(*made);
  // It comes from the simulator's provider.
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-static-cast-downcast)
  simulated_ = static_cast<rdma::sim::QueuePair*>(queue_pair_.get());
  takes_messages_ = !random_.one_in(8);
  answers_reads_ = !random_.one_in(3);
  is_patient_ = takes_messages_ && !random_.one_in(3);
  has_answer_ = true;
  simulated_->hostility.holds_responses = !answers_reads_;
  version_ = random_.one_in(3) ? 2 : 1;
  next_xid_ = static_cast<std::uint32_t>(random_.next());
  const auto attached = queue_pair_->attach(memory_);
  if (!attached) return leave();  // a fault of this world
  region_ = *attached;
}

void HostilePeer::leave() noexcept {
  queue_pair_.reset();
  simulated_ = nullptr;
  is_connected_ = false;
  sends_ = 0;
  readable_.clear();
  writable_.clear();
}

void HostilePeer::take_news() {
  while (const auto event = queue_pair_->poll_link()) {
    if (*event != rdma::LinkEvent::kConnected) return leave();
    is_connected_ = true;
    prepare();
  }
  std::array<rdma::Completion, 32> done{};
  const std::size_t count = queue_pair_->poll(done);
  for (const rdma::Completion& each : std::span(done).first(count)) {
    if (each.id < kSendId) {
      has_answer_ = true;
      continue;
    }
    if (each.id < kReadableId) {
      --sends_;
    } else if (each.tag && each.id < kWritableId) {
      readable_.push_back({*each.tag, each.address, kReadableSize});
    } else if (each.tag) {
      writable_.push_back({*each.tag, each.address, kWritableSize});
    }
  }
  if (takes_messages_ && count > 0) post_receives();
}

void HostilePeer::prepare() {
  if (takes_messages_) post_receives();
  expose(kReadableAt, kReadableSize, true);
  expose(kWritableAt, kWritableSize, false);
}

// Posts some more than are taken; the provider refuses what is too much.
void HostilePeer::post_receives() {
  std::array<std::uint16_t, 4> numbers{};
  for (std::uint16_t& each : numbers) each = static_cast<std::uint16_t>(random_.below(kReceives));
  (void)queue_pair_->post_receives({region_, kReceiveSize, kReceiveSize}, numbers);
}

void HostilePeer::expose(std::uint64_t offset, std::uint32_t size, bool for_reading) {
  const work::Slice memory{region_, size, offset};
  work::Request request{
      for_reading ? kReadableId : kWritableId, true,
      work::Expose{memory, for_reading ? work::RemoteAccess::kRead : work::RemoteAccess::kWrite}};
  (void)queue_pair_->post({&request, 1});
}

void HostilePeer::act_on_connection() {
  // An error of the server's may name no Call, and is an answer all the same.
  if (is_patient_ && !std::exchange(has_answer_, false) && !random_.one_in(5)) return;
  switch (random_.below(12)) {
    case 0:
      return send_nonsense();
    case 1:
    case 2:
    case 3: {
      Words words = make_call();
      spoil(words);
      return send(words);
    }
    case 4:
      answers_reads_ = !answers_reads_;
      simulated_->hostility.holds_responses = !answers_reads_;
      return;
    case 5:
      if (!random_.one_in(4)) return;
      if (random_.one_in(2)) return leave();
      return queue_pair_->disconnect();
    case 6:
    case 7:
      return send(make_call());
    default:
      for (std::uint64_t left = is_patient_ ? 1 : 1 + random_.below(3);
           left > 0 && !readable_.empty(); --left) {
        send(make_right_call(
            4 * static_cast<std::uint32_t>(random_.below(readable_.back().size / 4 + 1))));
      }
  }
}

void HostilePeer::come(const std::string& address) {
  if (!queue_pair_) connect(address);
}

void HostilePeer::make_server_wait() {
  if (!is_connected_ || readable_.empty()) return;
  answers_reads_ = false;
  simulated_->hostility.holds_responses = true;
  for (std::uint64_t left = 1 + random_.below(4); left > 0; --left) {
    send(make_right_call(readable_.back().size));
  }
}

// --- Messages ----------------------------------------------------------------------------------

// A Call that keeps all rules, with so many bytes of arguments in a Read chunk. Precondition: there
// is memory for that.
HostilePeer::Words HostilePeer::make_right_call(std::uint32_t size) {
  const Exposed& memory = readable_.back();
  const std::uint32_t xid = ++next_xid_;
  Words words{xid, version_, 8, kMessageType};
  if (version_ == 2) words.push_back(0);  // a Call
  words.insert(words.end(), {1, kCallSize + 4, static_cast<std::uint32_t>(memory.tag), size,
                             static_cast<std::uint32_t>(memory.address >> 32U),
                             static_cast<std::uint32_t>(memory.address), 0});
  words.push_back(random_.one_in(2) || writable_.empty() ? 0 : 1);
  if (words.back() == 1) {
    const Exposed& room = writable_.back();
    words.insert(words.end(), {1, static_cast<std::uint32_t>(room.tag), room.size,
                               static_cast<std::uint32_t>(room.address >> 32U),
                               static_cast<std::uint32_t>(room.address), 0});
  }
  words.push_back(0);  // no Reply chunk
  add_call(words, xid, static_cast<std::uint32_t>(random_.below(3)), 0);
  words.push_back(size);
  return words;
}

HostilePeer::Words HostilePeer::make_call() {
  const std::uint32_t xid = random_.one_in(5) ? next_xid_ : ++next_xid_;
  const std::uint32_t type = random_.one_in(6) ? kNoMessageType : kMessageType;
  Words words{xid, version_, pick({1, 1, 8, 64, 100'000}), type};
  if (version_ == 2) words.push_back(0);  // a Call
  add_read_list(words);
  for (std::uint64_t left = random_.one_in(2) ? 0 : random_.below(4); left > 0; --left) {
    words.push_back(1);
    add_write_chunk(words);
  }
  words.push_back(0);
  words.push_back(random_.one_in(2) ? 1 : 0);
  if (words.back() == 1) add_write_chunk(words);  // the Reply chunk
  if (type == kNoMessageType && !random_.one_in(4)) return words;
  const std::uint32_t flavor = random_.one_in(5) ? pick({1, 6, 99}) : 0;
  const std::uint32_t xid_of_call = random_.one_in(20) ? xid + 1 : xid;
  add_call(words, xid_of_call, static_cast<std::uint32_t>(random_.below(5)), flavor);
  for (std::uint64_t left = random_.below(10); left > 0; --left) {
    words.push_back(static_cast<std::uint32_t>(random_.below(1000)));
  }
  return words;
}

void HostilePeer::add_call(Words& words, std::uint32_t xid, std::uint32_t procedure,
                           std::uint32_t flavor) {
  const Words call{xid, 0 /* CALL */, 2, kHostileProgram, 1, procedure, flavor, 0, 0, 0};
  words.insert(words.end(), call.begin(), call.end());
}

void HostilePeer::add_read_list(Words& words) {
  std::uint32_t position = pick({0, kCallSize, kCallSize + 4, kCallSize + 4, kCallSize + 8, 4096});
  for (std::uint64_t left = random_.one_in(3) ? 0 : random_.below(4); left > 0; --left) {
    words.push_back(1);
    words.push_back(position);
    add_segment(words, readable_);
    if (random_.one_in(3)) position += pick({4, 8, 2, 4096});
  }
  words.push_back(0);
}

void HostilePeer::add_write_chunk(Words& words) {
  words.push_back(static_cast<std::uint32_t>(random_.below(4)));
  for (std::uint32_t left = words.back(); left > 0; --left) add_segment(words, writable_);
}

void HostilePeer::add_segment(Words& words, const std::vector<Exposed>& exposed) {
  Exposed memory{SteeringTag{static_cast<std::uint32_t>(random_.next())}, random_.next(), 100};
  if (!exposed.empty() && !random_.one_in(10)) memory = exposed[random_.below(exposed.size())];
  std::uint32_t size = static_cast<std::uint32_t>(random_.below(memory.size + 1));
  if (random_.one_in(3)) size = memory.size;
  if (random_.one_in(20)) size = pick({0, 1, memory.size + 1, 0x7fff'ffff, 0xffff'ffff});
  words.push_back(static_cast<std::uint32_t>(memory.tag));
  words.push_back(size);
  words.push_back(static_cast<std::uint32_t>(memory.address >> 32U));
  words.push_back(static_cast<std::uint32_t>(memory.address));
}

void HostilePeer::spoil(Words& words) {
  for (std::uint64_t left = 1 + random_.below(3); left > 0; --left) {
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

void HostilePeer::send_nonsense() {
  Words words(random_.below(30));
  for (std::uint32_t& each : words) each = static_cast<std::uint32_t>(random_.next());
  send(words);
}

void HostilePeer::send(const Words& words) {
  if (!queue_pair_ || sends_ == kSlots) return;
  const std::size_t slot = next_slot_++ % kSlots;
  const std::size_t size = std::min(words.size() * xdr::kWordSize, kSlotSize);
  std::byte* const at = &memory_[kSlotsAt + slot * kSlotSize];
  for (std::size_t i = 0; i < size / xdr::kWordSize; ++i) {
    xdr::store_word(at + i * xdr::kWordSize, words[i]);
  }
  const auto cut = static_cast<std::uint32_t>(random_.one_in(30) && size > 0 ? size - 1 : size);
  const work::Slice from{region_, cut, kSlotsAt + slot * kSlotSize};
  work::Send what{{&from, 1}, {}};
  if (random_.one_in(100) && queue_pair_->capabilities().send_with_invalidate)
    what.invalidate = SteeringTag{static_cast<std::uint32_t>(random_.next())};
  work::Request request{kSendId + slot, true, what};
  if (!queue_pair_->post({&request, 1})) return;
  ++sends_;
  totals_.add(Count::kHostileMessages);
}

}  // namespace rpcrdma::simulation
