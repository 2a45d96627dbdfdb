// RDMA Reads and Writes, and characteristics of version 2: the rest of Conversation.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

#include "explain/conversation.h"
#include "wire/v2/characteristics.h"

namespace rpcrdma::explain {
namespace {

constexpr std::size_t kReadsMax = 1024;

}  // namespace

void note_step(CallFact& call, StepFact::Kind kind, int side, const Where& where,
               std::uint64_t bytes);

namespace {

// Gives an RDMA Read to the Call that offered the memory.
void note_read(const Offered& offered, OpenRead& read) {
  CallFact& fact = offered.call->fact;
  read.call = offered.call;
  read.is_of_reply = offered.use == Use::kReplyRead;
  read.is_long = offered.segment.position == 0;
  read.stream_offset = offered.stream_offset + (read.fact.source_address - offered.segment.offset);
  ++offered.call->open_reads;
  ++fact.reads;
  if (!fact.first_read) fact.first_read = read.fact.where;
  note_step(fact, StepFact::Kind::kReadRequest, read.fact.side, read.fact.where, read.fact.size);
}

}  // namespace

// Bytes that belong to no call of now.
void Conversation::judge_unknown(const PlacedFact& placed, Foreign::Kind kind) {
  if (!terms_.is_complete || placed.size == 0) return;
  const int owner = 1 - placed.side;
  if (memory_.was_answered(owner, placed.tag, placed.address, placed.size)) {
    const bool is_write = kind == Foreign::Kind::kWrite;
    judge_.report(is_write ? RuleId::kWriteAfterReply : RuleId::kReadAfterReply, placed.side,
                  placed.where, std::nullopt, fmt::format("handle {:08x}", placed.tag));
    return;
  }
  keep_foreign(placed, kind, RuleId::kOutsideOfSegment);
}

void Conversation::keep_foreign(const PlacedFact& placed, Foreign::Kind kind, RuleId rule) {
  constexpr std::size_t kForeignMax = 64;
  foreign_.push_back({placed, kind, rule, terms_.sends[0] + terms_.sends[1]});
  if (foreign_.size() > kForeignMax) judge_foreign(foreign_.front().sends);
}

// Gives the Call the operations that were captured in front of it.
void Conversation::forgive_foreign(CallRecord& call) {
  const int owner = call.fact.caller;
  std::erase_if(foreign_, [&](const Foreign& each) {
    const PlacedFact& placed = each.placed;
    if (placed.side == owner || each.kind == Foreign::Kind::kResponse) return false;
    const Offered* offered = memory_.find(owner, placed.tag, placed.address, placed.size);
    const bool is_of_call = offered != nullptr && offered->call == &call &&
                            MemoryMap::holds(offered->segment, placed.address, placed.size);
    if (!is_of_call) return false;
    if (each.kind == Foreign::Kind::kWrite) {
      const bool is_to_write = offered->use == Use::kWrite || offered->use == Use::kReply;
      if (is_to_write) note_write(call, *offered, placed);
      call.has_late_head |= offered->use == Use::kReply;
      long_head_ = nullptr;
      return is_to_write;
    }
    for (OpenRead& read : open_reads_[placed.side]) {
      const bool is_it = read.call == nullptr && read.fact.where.packet == placed.where.packet &&
                         read.fact.source_address == placed.address;
      if (is_it) note_read(*offered, read);
    }
    return true;
  });
}

// Takes up responses that were captured in front of their request.
void Conversation::take_early_responses(const ReadFact& read) {
  std::vector<PlacedFact> early;
  std::erase_if(foreign_, [&](const Foreign& each) {
    const bool is_its = each.kind == Foreign::Kind::kResponse && each.placed.side != read.side &&
                        each.placed.tag == read.sink_tag &&
                        each.placed.address >= read.sink_address &&
                        each.placed.address - read.sink_address < read.size;
    if (is_its) early.push_back(each.placed);
    return is_its;
  });
  for (const PlacedFact& each : early) on_response(each);
  long_head_ = nullptr;  // their payload is gone
}

// Reports those that came when the connection had at most this many Sends.
void Conversation::judge_foreign(std::uint64_t sends_min) {
  while (!foreign_.empty() && foreign_.front().sends <= sends_min) {
    const Foreign first = foreign_.front();
    const PlacedFact& placed = first.placed;
    foreign_.pop_front();
    judge_.report(
        first.rule, placed.side, placed.where, std::nullopt,
        fmt::format("{} bytes at {:x} of handle {:08x}", placed.size, placed.address, placed.tag));
  }
}

void Conversation::on_write(const PlacedFact& write) {
  long_head_ = nullptr;
  if (write.size == 0) return;
  const Offered* offered = memory_.find(1 - write.side, write.tag, write.address, write.size);
  if (offered == nullptr || !MemoryMap::holds(offered->segment, write.address, write.size)) {
    return judge_unknown(write, Foreign::Kind::kWrite);
  }
  CallRecord& call = *offered->call;
  if (offered->use != Use::kWrite && offered->use != Use::kReply) {
    judge_.report(RuleId::kWrongAccess, write.side, write.where, call.fact.xid,
                  "memory for reading is written");
    return;
  }
  note_write(call, *offered, write);
}

void Conversation::note_write(CallRecord& call, const Offered& offered, const PlacedFact& write) {
  CallFact& fact = call.fact;
  auto& written = offered.use == Use::kReply ? call.written_reply : call.written[offered.chunk];
  const std::uint64_t at = write.address - offered.segment.offset;
  if (terms_.is_complete && at != written[offered.index] && !call.has_write_fault) {
    call.has_write_fault = true;
    judge_.report(
        RuleId::kWriteOrder, write.side, write.where, fact.xid,
        fmt::format("byte {} of a segment is written behind byte {}", at, written[offered.index]));
  }
  written[offered.index] += write.size;
  ++fact.writes;
  fact.write_bytes += write.size;
  if (!fact.first_write) fact.first_write = write.where;
  fact.last_write = write.where;
  note_step(fact, StepFact::Kind::kWrite, write.side, write.where, write.size);
  const std::uint64_t in_stream = offered.stream_offset + at;
  if (offered.use == Use::kReply && in_stream < kLongHeadSize) {
    long_head_ = &call.reply_head;
    long_at_ = in_stream;
  }
}

void Conversation::on_read(const ReadFact& read) {
  long_head_ = nullptr;
  if (read.size == 0) return;  // as a ready-to-receive message
  const int owner = 1 - read.side;
  OpenRead open;
  open.fact = read;
  const Offered* offered = memory_.find(owner, read.source_tag, read.source_address, read.size);
  if (offered == nullptr || !MemoryMap::holds(offered->segment, read.source_address, read.size)) {
    judge_unknown({read.side, read.where, read.source_tag, read.source_address, read.size},
                  Foreign::Kind::kRead);
  } else if (offered->use == Use::kWrite || offered->use == Use::kReply) {
    judge_.report(RuleId::kWrongAccess, read.side, read.where, offered->call->fact.xid,
                  "memory for writing is read");
  } else {
    note_read(*offered, open);
  }
  auto& reads = open_reads_[read.side];
  reads.push_back(open);
  if (reads.size() > kReadsMax) drop_reads(read.side, 1);
  const auto& accepted = terms_.reads_accepted[read.side];
  if (terms_.is_complete && accepted && reads.size() > *accepted) {
    judge_.report(RuleId::kTooManyReads, read.side, read.where, std::nullopt,
                  fmt::format("{} are open, and the peer accepts {}", reads.size(), *accepted));
  }
  if (!foreign_.empty()) take_early_responses(read);
}

// Forgets the first of the RDMA Reads of that side.
void Conversation::drop_reads(int side, std::size_t count) {
  for (; count > 0; --count) {
    OpenRead& first = open_reads_[side].front();
    replies_footprint_ -= first.reply_footprint;
    if (first.call != nullptr) --first.call->open_reads;
    if (first.reply && terms_.is_complete) {
      rules_.report(RuleId::kReadAfterReply, *first.reply, "a Read of the Call was not complete");
    }
    open_reads_[side].pop_front();
  }
}

void Conversation::on_response(const PlacedFact& response) {
  long_head_ = nullptr;
  auto& reads = open_reads_[1 - response.side];
  auto at = std::find_if(reads.begin(), reads.end(), [&](const OpenRead& each) {
    return each.fact.sink_tag == response.tag && response.address >= each.fact.sink_address &&
           response.address - each.fact.sink_address <= each.fact.size;
  });
  if (at == reads.end()) {
    if (terms_.is_complete && response.size != 0) {
      // A response that misses its sink belongs to the oldest request.
      const bool is_tag = !reads.empty() && reads.front().fact.sink_tag == response.tag;
      keep_foreign(response, Foreign::Kind::kResponse,
                   is_tag ? RuleId::kResponseAddress : RuleId::kResponseToNothing);
    }
    return;
  }
  // Responses come in the order of their requests: those in front of this one are lost.
  drop_reads(1 - response.side, static_cast<std::size_t>(at - reads.begin()));
  at = reads.begin();
  const std::uint64_t offset = response.address - at->fact.sink_address;
  if (offset != at->received && terms_.is_complete) {
    judge_.report(RuleId::kResponseAddress, response.side, response.where, std::nullopt,
                  fmt::format("byte {} follows byte {}", offset, at->received));
  }
  at->received = offset + response.size;
  // One response behind the reply has changed places with it in the capture.
  const bool is_done = response.is_last || at->received >= at->fact.size;
  constexpr std::uint64_t kNear = 2;
  if (is_done && at->reply && response.where.packet <= at->reply->last.packet + kNear) {
    at->reply.reset();
    replies_footprint_ -= std::exchange(at->reply_footprint, 0);
  }
  if (at->call != nullptr) {
    CallFact& fact = at->call->fact;
    fact.read_bytes += response.size;
    fact.last_read = response.where;
    note_step(fact, StepFact::Kind::kReadResponse, response.side, response.where, response.size);
    const std::uint64_t in_stream = at->stream_offset + offset;
    if (at->is_long && in_stream < kLongHeadSize) {
      long_head_ = at->is_of_reply ? &at->call->reply_head : &at->call->call_head;
      long_at_ = in_stream;
    }
  }
  if (is_done) drop_reads(1 - response.side, 1);
}

void Conversation::on_placed_bytes(Bytes bytes, std::uint64_t offset) {
  const std::uint64_t at = long_at_ + offset;
  if (long_head_ == nullptr || at >= kLongHeadSize) return;
  if (at > long_head_->size()) return;  // bytes in front of these are missing
  const std::size_t count = std::min<std::size_t>(bytes.size(), kLongHeadSize - at);
  if (long_head_->size() < at + count) long_head_->resize(at + count);
  std::memcpy(long_head_->data() + at, bytes.data(), count);
}

namespace {

// Applies one value; returns whether it is one of its type.
bool apply_value(const wire::v2::CharacteristicValue& value, int side, Terms& terms) {
  switch (static_cast<wire::v2::CharacteristicId>(value.id)) {
    case wire::v2::CharacteristicId::kReceiveSize: {
      const auto size = wire::v2::as_number(value);
      if (size) terms.limits[1 - side] = *size;
      return size.has_value();
    }
    case wire::v2::CharacteristicId::kRemoteInvalidation:
      return wire::v2::as_boolean(value).has_value();
    case wire::v2::CharacteristicId::kBackward:
      return wire::v2::as_backward_support(value).has_value();
  }
  return true;
}

bool is_answer_complete(const wire::v2::RespXch& answer, std::uint32_t count) {
  for (std::uint32_t i = 0; i < std::min<std::uint32_t>(count, 64); ++i) {
    const int times = int{answer.done.contains(i)} + int{answer.rejected.contains(i)} +
                      int{answer.pending.contains(i)};
    if (times != 1) return false;
  }
  return true;
}

std::uint32_t count_pending(const wire::v2::RespXch& answer, std::uint32_t count) {
  std::uint32_t pending = 0;
  for (std::uint32_t i = 0; i < count; ++i) pending += answer.pending.contains(i) ? 1U : 0U;
  return pending;
}

}  // namespace

void Conversation::take_option(const MessageFact& message, Bytes info) {
  using wire::v2::Operation;
  if (terms_.client < 0 && !*message.is_reply) terms_.client = message.side;
  const auto decoded = wire::v2::decode_option(message.option, info);
  if (!decoded) {
    return rules_.report(RuleId::kXcharLength, message, std::string(decoded.error().field));
  }
  const int side = message.side;
  const auto check = [&](std::uint32_t, const wire::v2::CharacteristicValue& value) {
    if (!apply_value(value, side, terms_)) {
      rules_.report(RuleId::kXcharValue, message, fmt::format("characteristic {}", value.id));
    }
  };
  if (std::holds_alternative<wire::v2::UnknownOption>(*decoded)) {
    rules_.report(RuleId::kV2Option, message, fmt::format("type {}", message.option));
  } else if (const auto* init = std::get_if<wire::v2::InitXch>(&*decoded)) {
    init->start.for_each(check);
  } else if (const auto* request = std::get_if<wire::v2::ReqXch>(&*decoded)) {
    requests_[side].push_back({message.xid, request->want.size()});
    if (requests_[side].size() > 64) requests_[side].pop_front();
  } else if (const auto* answer = std::get_if<wire::v2::RespXch>(&*decoded)) {
    auto& asked = requests_[1 - side];
    const auto at = std::find_if(asked.begin(), asked.end(),
                                 [&](const Request& each) { return each.xid == message.xid; });
    if (at == asked.end()) {
      if (terms_.is_complete) rules_.report(RuleId::kXcharXid, message);
      return;
    }
    if (!is_answer_complete(*answer, at->count)) rules_.report(RuleId::kXcharOverlap, message);
    pending_[1 - side] += count_pending(*answer, std::min<std::uint32_t>(at->count, 64));
    asked.erase(at);
  } else if (const auto* update = std::get_if<wire::v2::UpdXch>(&*decoded)) {
    check(0, update->now);
    if (update->clears_pending && pending_[1 - side] > 0) --pending_[1 - side];
  }
}

}  // namespace rpcrdma::explain
