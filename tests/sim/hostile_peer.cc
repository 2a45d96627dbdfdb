#include "sim/hostile_peer.h"

#include <array>
#include <utility>

namespace rpcrdma::simulation {
namespace {

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
    : random_(random), provider_(world, "hostile"), link_(random, totals) {
  provider_.set_host("10.0.0." + std::to_string(number + 1));
}

void HostilePeer::act(const std::string& address) {
  if (!link_.is_there()) return come(address);
  take_news();
  if (link_.is_connected()) act_on_connection();
}

void HostilePeer::come(const std::string& address) {
  if (link_.is_there()) return;
  auto made = provider_.connect(address, link_.draw_private_data());
  if (!made) return;
  link_.set_takes_messages(!random_.one_in(8));
  link_.set_answers_reads(!random_.one_in(3));
  is_patient_ = link_.takes_messages() && !random_.one_in(3);
  has_answer_ = true;
  version_ = random_.one_in(3) ? 2 : 1;
  next_xid_ = static_cast<std::uint32_t>(random_.next());
  link_.begin(std::move(*made));
}

void HostilePeer::take_news() {
  if (!link_.take_news().empty()) has_answer_ = true;
}

void HostilePeer::act_on_connection() {
  // An error of the server's may name no Call, and is an answer all the same.
  if (is_patient_ && !std::exchange(has_answer_, false) && !random_.one_in(5)) return;
  switch (random_.below(12)) {
    case 0:
      return link_.send_nonsense();
    case 1:
    case 2:
    case 3: {
      Words words = make_call();
      link_.spoil(words);
      return link_.send(words);
    }
    case 4:
      return link_.set_answers_reads(!link_.answers_reads());
    case 5:
      if (!random_.one_in(4)) return;
      return random_.one_in(2) ? link_.end() : link_.disconnect();
    case 6:
    case 7:
      return link_.send(make_call());
    default:
      for (std::uint64_t left = is_patient_ ? 1 : 1 + random_.below(3);
           left > 0 && !link_.readable().empty(); --left) {
        const std::uint32_t words_max = link_.readable().back().size / 4;
        link_.send(make_right_call(4 * static_cast<std::uint32_t>(random_.below(words_max + 1))));
      }
  }
}

void HostilePeer::make_server_wait() {
  if (!link_.is_connected() || link_.readable().empty()) return;
  link_.set_answers_reads(false);
  for (std::uint64_t left = 1 + random_.below(4); left > 0; --left) {
    link_.send(make_right_call(link_.readable().back().size));
  }
}

// A Call that keeps all rules, with so many bytes of arguments in a Read chunk. Precondition: there
// is memory for that.
HostilePeer::Words HostilePeer::make_right_call(std::uint32_t size) {
  Segment memory = link_.readable().back();
  memory.size = size;
  const std::uint32_t xid = ++next_xid_;
  Words words{xid, version_, 8, kMessageType};
  if (version_ == 2) words.push_back(0);  // a Call
  words.insert(words.end(), {1, kCallSize + 4});
  HostileLink::add(words, memory);
  words.push_back(0);
  words.push_back(random_.one_in(2) || link_.writable().empty() ? 0 : 1);
  if (words.back() == 1) {
    words.push_back(1);
    HostileLink::add(words, link_.writable().back());
    words.push_back(0);
  }
  words.push_back(0);  // no Reply chunk
  add_call(words, xid, static_cast<std::uint32_t>(random_.below(3)), 0);
  words.push_back(size);
  return words;
}

HostilePeer::Words HostilePeer::make_call() {
  const std::uint32_t xid = random_.one_in(5) ? next_xid_ : ++next_xid_;
  const std::uint32_t type = random_.one_in(6) ? kNoMessageType : kMessageType;
  Words words{xid, version_, link_.pick({1, 1, 8, 64, 100'000}), type};
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
  const std::uint32_t flavor = random_.one_in(5) ? link_.pick({1, 6, 99}) : 0;
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
  std::uint32_t position =
      link_.pick({0, kCallSize, kCallSize + 4, kCallSize + 4, kCallSize + 8, 4096});
  for (std::uint64_t left = random_.one_in(3) ? 0 : random_.below(4); left > 0; --left) {
    words.push_back(1);
    words.push_back(position);
    HostileLink::add(words, link_.any_of(link_.readable()));
    if (random_.one_in(3)) position += link_.pick({4, 8, 2, 4096});
  }
  words.push_back(0);
}

void HostilePeer::add_write_chunk(Words& words) {
  words.push_back(static_cast<std::uint32_t>(random_.below(4)));
  for (std::uint32_t left = words.back(); left > 0; --left) {
    HostileLink::add(words, link_.any_of(link_.writable()));
  }
}

}  // namespace rpcrdma::simulation
