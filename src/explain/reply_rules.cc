#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "explain/call_rules.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::explain {
namespace {

constexpr std::uint32_t kNfs = 100003, kRead = 6;
constexpr std::array<std::uint32_t, 29> kNfsStatuses{
    0,  1,  2,  5,  6,  13, 17,    18,    19,    20,    21,    22,    27,    28,   30,
    31, 63, 66, 69, 70, 71, 10001, 10002, 10003, 10004, 10005, 10006, 10007, 10008};

bool is_type(const MessageFact& message, MessageType type) noexcept {
  return message.type == static_cast<std::uint32_t>(type);
}
bool is_nfs3(const CallFact& call) noexcept {
  return call.has_rpc_call && call.program == kNfs && call.version == 3 &&
         (!call.gss || call.gss->service < 2);
}

}  // namespace

void CallRules::judge_reply(const CallRecord& call, const Terms& terms, Bytes results,
                            std::size_t results_at) {
  const CallFact& fact = call.fact;
  const MessageFact& reply = fact.reply;
  if (terms.is_record) return;
  if (reply.credits == 0) {
    report(fact.is_backward ? RuleId::kBackwardNoCredit : RuleId::kNoCreditsGranted, reply);
  }
  if (fact.has_call && reply.version != fact.call.version) {
    report(RuleId::kV2Version, reply, fmt::format("{} for {}", reply.version, fact.call.version));
  }
  if (!reply.reads.empty()) {
    if (!terms.is_rfc5666) report(RuleId::kReadListInReply, reply);
    if (terms.is_rfc5666 && reply.credits < 2) report(RuleId::kFewCredits, reply);
  }
  if (is_type(reply, MessageType::kNoMsg) && reply.inline_size() != 0) {
    report(RuleId::kNoMsgWithPayload, reply,
           fmt::format("{} bytes follow the header", reply.inline_size()));
  }
  if (!fact.has_call) return;
  judge_returned_writes(call, terms);
  judge_returned_reply(call, terms);
  judge_results(call, results, results_at);
}

void CallRules::judge_returned_writes(const CallRecord& call, const Terms& terms) {
  const MessageFact& asked = call.fact.call;
  const MessageFact& reply = call.fact.reply;
  static const std::vector<std::uint64_t> kNothing;
  if (reply.writes.size() > asked.writes.size()) {
    report(RuleId::kWriteSegments, reply,
           fmt::format("{} chunks for {}", reply.writes.size(), asked.writes.size()));
    return;
  }
  judge_number_of_segments(asked, reply, terms);
  for (std::size_t i = 0; i < reply.writes.size(); ++i) {
    const auto& written = i < call.written.size() ? call.written[i] : kNothing;
    judge_lengths(call, asked.writes[i], reply.writes[i], written, RuleId::kWriteOverflow, terms);
  }
}

// The form of drafts before RFC 8166 leaves out what has no data: segments, or whole chunks.
void CallRules::judge_number_of_segments(const MessageFact& asked, const MessageFact& reply,
                                         const Terms& terms) {
  if (terms.is_rfc5666 || reply.version != 1) return;
  if (reply.writes.size() < asked.writes.size()) {
    report(RuleId::kWriteFewer, reply,
           fmt::format("{} chunks for {}", reply.writes.size(), asked.writes.size()));
    return;
  }
  for (std::size_t i = 0; i < reply.writes.size(); ++i) {
    if (reply.writes[i].size() >= asked.writes[i].size()) continue;
    report(RuleId::kWriteFewer, reply,
           fmt::format("{} segments for {}", reply.writes[i].size(), asked.writes[i].size()));
    return;
  }
}

// Returns whether the lengths are possible.
bool CallRules::judge_lengths(const CallRecord& call, const Chunk& offered, const Chunk& returned,
                              const std::vector<std::uint64_t>& written, RuleId length,
                              const Terms& terms) {
  const MessageFact& reply = call.fact.reply;
  if (returned.size() > offered.size()) {
    report(RuleId::kWriteSegments, reply,
           fmt::format("{} segments for {}", returned.size(), offered.size()));
    return false;
  }
  bool is_full = true;
  for (std::size_t i = 0; i < returned.size(); ++i) {
    const SegmentFact& mine = returned[i];
    if (mine.length > offered[i].length) {
      report(length, reply,
             fmt::format("{} bytes in a segment of {}", mine.length, offered[i].length));
      return false;
    }
    if (mine.length != 0 &&
        (mine.handle != offered[i].handle || mine.offset != offered[i].offset)) {
      report(RuleId::kWriteHandle, reply,
             fmt::format("handle {:08x} for {:08x}", mine.handle, offered[i].handle));
    }
    if (mine.length != 0 && !is_full) {
      report(RuleId::kWriteOrder, reply,
             fmt::format("segment {} is used, and the one in front is not full", i + 1));
    }
    is_full = mine.length == offered[i].length;
  }
  if (!terms.is_complete) return true;
  std::uint64_t sum = 0;
  for (const std::uint64_t each : written) sum += each;
  const std::uint64_t said = length_of(returned);
  if (sum > said && sum - said < 4 && call.fact.reply.has_reply_chunk == false) {
    report(RuleId::kWritePadding, reply,
           fmt::format("{} bytes were written, and {} returned", sum, said));
  } else if (sum != said) {
    report(RuleId::kWriteLength, reply,
           fmt::format("{} bytes were written, and {} returned", sum, said));
  }
  return true;
}

void CallRules::judge_returned_reply(const CallRecord& call, const Terms& terms) {
  const MessageFact& asked = call.fact.call;
  const MessageFact& reply = call.fact.reply;
  const std::uint64_t used = length_of(reply.reply_chunk);
  if (is_type(reply, MessageType::kNoMsg) && reply.reads.empty()) {
    if (!asked.has_reply_chunk) {
      report(RuleId::kLongReplyWithoutChunk, reply);
      return;
    }
    if (!reply.has_reply_chunk) report(RuleId::kReplyChunkNotReturned, reply);
    const std::uint32_t limit = terms.limits[reply.side];
    if (used != 0 && limit != 0 && used + reply.header_size <= limit && reply.version == 1) {
      report(RuleId::kLinuxReplyChunk, reply,
             fmt::format("a reply of {} bytes, and a threshold of {}", used, limit));
    }
  } else if (used != 0 && !is_type(reply, MessageType::kNoMsg)) {
    report(RuleId::kReplyChunkWithInline, reply, fmt::format("{} bytes of it are used", used));
  }
  if (reply.has_reply_chunk && asked.has_reply_chunk) {
    judge_lengths(call, asked.reply_chunk, reply.reply_chunk, call.written_reply,
                  RuleId::kReplyChunkShort, terms);
  } else if (reply.has_reply_chunk && used != 0 && !asked.has_reply_chunk) {
    report(RuleId::kLongReplyWithoutChunk, reply, "the Call offered none");
  }
}

// READ3res: status, attributes, count, eof, and the data, of which the bytes may be in a chunk.
void CallRules::judge_results(const CallRecord& call, Bytes results, std::size_t results_at) {
  const CallFact& fact = call.fact;
  if (!is_nfs3(fact) || fact.accept_stat != 0 || fact.reply_stat != 0 || results.size() < 4) return;
  const std::uint32_t status = xdr::load_word(results.data());
  if (fact.procedure != 0 &&
      std::find(kNfsStatuses.begin(), kNfsStatuses.end(), status) == kNfsStatuses.end()) {
    report(RuleId::kNfsStatus, fact.reply, fmt::format("status {}", status));
    return;
  }
  if (fact.procedure != kRead || status != 0) return;
  xdr::Reader reader(results);
  reader.skip(4, "status");
  constexpr std::size_t kAttributes = 84;
  if (reader.boolean("attributes")) reader.skip(kAttributes, "attributes");
  const std::uint32_t count = reader.u32("count");
  reader.boolean("eof");
  const std::uint32_t size = reader.u32("data");
  if (!reader.ok()) return;
  if (fact.asked_count && count > *fact.asked_count) {
    report(RuleId::kReadMore, fact.reply, fmt::format("{} bytes for {}", count, *fact.asked_count));
  }
  if (fact.call.writes.empty() || size == 0) return;
  const std::uint64_t placed = fact.reply.writes.empty() ? 0 : length_of(fact.reply.writes[0]);
  // The decoder has only the first bytes of a long message.
  const bool is_long = is_type(fact.reply, MessageType::kNoMsg);
  const std::uint64_t whole =
      is_long ? length_of(fact.reply.reply_chunk) : fact.reply.inline_size();
  if (placed == 0 && whole >= results_at + reader.position() + size) {
    report(RuleId::kWriteUnused, fact.reply, fmt::format("{} bytes are inline", size));
  } else if (placed != size) {
    report(RuleId::kWriteLength, fact.reply,
           fmt::format("{} bytes for an item of {}", placed, size));
  }
}

void CallRules::judge_rpc_reply(const CallFact& fact, RpcFault fault) {
  if (fault == RpcFault::kType) report(RuleId::kRpcType, fact.reply);
  if (fault == RpcFault::kBadValue) {
    report(RuleId::kRpcValue, fact.reply,
           fmt::format("reply_stat {}, accept_stat {}", fact.reply_stat, fact.accept_stat));
  }
  if (fault == RpcFault::kCredential) report(RuleId::kRpcCredential, fact.reply);
}

}  // namespace rpcrdma::explain
