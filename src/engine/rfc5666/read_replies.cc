#include "engine/rfc5666/read_replies.h"

#include <cstring>

#include "base/assert.h"
#include "engine/rfc5666/profile.h"
#include "engine/work_id.h"

namespace rpcrdma::engine::rfc5666 {
namespace {

constexpr std::uint32_t kDoneSize = 16;  // bytes
// The RDMA_DONE is in the slot's place of the header arena, behind any header: a Call's may still
// be on its way out.
constexpr std::uint32_t kDoneOffset = HeaderArena::kSizeMax;
static_assert(kDoneOffset + kDoneSize <= HeaderArena::kPlaceSize);
static_assert(decltype(Pull::reads)::capacity() + 2 * kExposuresMax < 256,
              "a call counts the work that it waits for in a byte");

}  // namespace

ReadReplies::ReadReplies(const Options& options, Shared& shared, HeaderArena headers, Host& host)
    : options_(options),
      shared_(shared),
      headers_(headers),
      host_(host),
      calls_(options.calls_max) {}

std::unique_ptr<ReadReplies> ReadReplies::make_if_chosen(const Options& options, Shared& shared,
                                                         HeaderArena headers, Host& host) {
  if (!is_chosen(options)) return nullptr;
  return std::make_unique<ReadReplies>(options, shared, headers, host);
}

bool ReadReplies::may_go(std::uint16_t slot, const CreditsV1& credits) const noexcept {
  return dones_.allow(credits.limit(), credits.unanswered(), calls_[slot].by_read);
}

bool ReadReplies::is_stuck(const CreditsV1& credits) const noexcept {
  return !dones_.allow(credits.limit(), credits.unanswered(), true);
}

Expected<void, StartError> ReadReplies::started(std::uint16_t slot, const Outgoing& call,
                                                CallPlan& plan) {
  const LinkParameters& link = shared_.link;
  const std::uint64_t reply_max =
      header_sizes(link.dialect).shortest + std::uint64_t{call.reply_size_max};
  const bool by_read = options_.rfc5666.results_by_read && reply_max > link.inline_receive;
  const AnswerBy answer_by = by_read ? AnswerBy::kReads : AnswerBy::kWrites;
  PaddedCall padded{};
  const bool is_padded = plan_padded_call(call, options_, link, answer_by, plan, padded);
  if (!is_padded) {
    if (auto planned = plan_call(call, options_, link, answer_by, plan); !planned) return planned;
  }
  OneCall& one = calls_[slot];
  one.by_read = by_read;
  one.owes_done = one.silent = false;
  one.padded = is_padded ? std::optional(padded) : std::nullopt;
  const bool fits = one.results.assign(call.results);
  RPCRDMA_ASSERT(fits, "the plan has more results than segments");
  one.reply_room = call.reply_room;
  one.answer = {};
  one.plan.items.clear();
  one.plan.reads.clear();
  one.plan.in_reply_room = 0;
  one.next = one.reads_pending = 0;
  return {};
}

void ReadReplies::admitted(std::uint16_t slot) noexcept {
  dones_.start_call(calls_[slot].by_read);
}

std::optional<HeaderPadding> ReadReplies::sent(std::uint16_t slot, Xid xid, std::uint32_t credits) {
  OneCall& one = calls_[slot];
  one.dones_before = dones_.sent();
  if (!one.padded) return std::nullopt;
  const MutableBytes place = headers_.place(slot);
  const std::uint32_t header_size = encode(shared_.link.dialect,
                                           {.kind = Kind::kPadded,
                                            .xid = xid,
                                            .credits = credits,
                                            .alignment = shared_.link.padding_alignment,
                                            .threshold = one.padded->threshold},
                                           {}, place);
  std::memset(place.data() + header_size, 0, one.padded->size);
  ++shared_.counters.padded_calls;
  return HeaderPadding{header_size, one.padded->size, one.padded->before};
}

void ReadReplies::heard(std::uint16_t slot, const Received& message) {
  OneCall& one = calls_[slot];
  dones_.answered(one.dones_before);
  const bool is_reply = message.kind == Kind::kMessage || message.kind == Kind::kNoMessage;
  if (!is_reply || shared_.lists.reads.empty()) return;
  // RFC 5666 §3.8: the peer keeps the reply's memory until it has an RDMA_DONE, also if the call
  // fails.
  one.owes_done = true;
  dones_.owe();
}

bool ReadReplies::take_padding(std::uint16_t slot, const Received& message) noexcept {
  if (message.has_chunks) return false;
  calls_[slot].answer.padding = padding_of(message, options_);
  return true;
}

bool ReadReplies::take_read_chunks(std::uint16_t slot, bool room_is_taken, Results& results,
                                   std::uint32_t& in_reply_room) {
  if (shared_.link.reads_in_flight_max == 0) return false;
  OneCall& one = calls_[slot];
  const auto spare = room_is_taken ? std::nullopt : one.reply_room;
  if (!plan_pull(shared_.lists.reads.view(), one.results.view(), spare, one.plan)) return false;
  ++shared_.counters.read_replies;
  in_reply_room = one.plan.in_reply_room;
  if (one.plan.items.empty()) return true;
  one.answer.items = one.plan.items.view();
  // A result has one way to come.
  return results.empty() && results.assign(one.plan.sizes.view());
}

bool ReadReplies::emit_reads(const SlotBase& call, WorkRoom& room, std::uint8_t& posted) {
  OneCall& one = calls_[call.index];
  for (; one.next < one.plan.reads.size(); ++one.next) {
    if (!shared_.reads.free()) {
      shared_.reads.wait(host_, call.index);
      return true;
    }
    if (room.full()) return false;
    const PlannedRead& read = one.plan.reads[one.next];
    auto& pull = room.add<work::Read>(to_id({WorkKind::kPull, 0, call.index, call.generation}));
    pull.into = {read.to, read.from.length, read.to_offset};
    pull.from = to_remote(read.from);
    shared_.reads.take();
    ++posted;
    ++one.reads_pending;
  }
  if (one.reads_pending == 0) host_.complete_reading(call.index);  // there was nothing to read
  return true;
}

void ReadReplies::handle_read(std::uint16_t slot, const Completion& done) {
  OneCall& one = calls_[slot];
  --one.reads_pending;
  shared_.reads.give_back();
  if (done.status != Status::kOk) {
    shared_.disconnect = true;  // the result must not be taken for read
    return host_.fail_reading(slot);
  }
  const bool is_complete = one.reads_pending == 0 && one.next == one.plan.reads.size();
  if (is_complete) host_.complete_reading(slot);
}

void ReadReplies::stop_reading(std::uint16_t slot) {
  shared_.reads.stop_waiting(host_, slot);
}

bool ReadReplies::emit_done(const SlotBase& call, Xid xid, std::uint32_t credits, WorkRoom& room,
                            std::uint8_t& posted) {
  OneCall& one = calls_[call.index];
  if (!owes_done(call.index) || one.reads_pending > 0) return true;
  if (room.full()) return false;
  const std::uint32_t size =
      encode(shared_.link.dialect, {.kind = Kind::kDone, .xid = xid, .credits = credits}, {},
             headers_.place(call.index).subspan(kDoneOffset));
  room.add_send(to_id({WorkKind::kDoneSend, 0, call.index, call.generation}),
                headers_.slice(call.index, size, kDoneOffset), {}, true);
  ++posted;
  one.owes_done = false;
  dones_.send();
  ++shared_.counters.dones_sent;
  return true;
}

}  // namespace rpcrdma::engine::rfc5666
