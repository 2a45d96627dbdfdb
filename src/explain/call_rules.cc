#include "explain/call_rules.h"

#include <fmt/core.h>

#include <algorithm>

#include "rpcrdma/xdr.h"

namespace rpcrdma::explain {
namespace {

constexpr std::uint32_t kNfs = 100003;
constexpr std::uint32_t kRead = 6, kWrite = 7, kSymlink = 10;
constexpr std::uint32_t kInlineDefault = 1024;

bool is_type(const MessageFact& message, MessageType type) noexcept {
  return message.type == static_cast<std::uint32_t>(type);
}
bool is_nfs3(const CallFact& call) noexcept {
  return call.has_rpc_call && call.program == kNfs && call.version == 3;
}
bool is_protected(const CallFact& call) noexcept {
  return call.gss && call.gss->control == 0 && call.gss->service > 1;
}

}  // namespace

void CallRules::report(RuleId id, const MessageFact& message, std::string detail) {
  judge_.report(id, message.side, message.first, message.xid, std::move(detail));
}

void CallRules::report_receiver(RuleId id, const MessageFact& message) {
  judge_.report(id, 1 - message.side, message.first, message.xid, {});
}

void CallRules::judge_send(const MessageFact& message, const Terms& terms) {
  if (terms.is_record) return;
  const std::uint32_t limit = terms.limits[message.side];
  if (message.version == 2 && message.error.empty()) {
    const bool is_first = terms.sends[0] + terms.sends[1] == 1 && connection_.has_beginning;
    if (is_first && message.size > kInlineDefault) {
      report(RuleId::kV2FirstTooLong, message, fmt::format("it has {} bytes", message.size));
    }
  } else if (limit != 0 && message.size > limit && !terms.is_rfc5666) {
    report(terms.is_default[message.side] ? RuleId::kDefaultSize : RuleId::kSendTooLong, message,
           fmt::format("it has {} bytes, and the limit is {}", message.size, limit));
  }
  if (message.size < 16) {
    report(RuleId::kShortMessage, message, fmt::format("it has {} bytes", message.size));
    return;
  }
  if (!message.error.empty() && message.is_whole &&
      (message.version == 1 || message.version == 2)) {
    report(message.version == 2 ? RuleId::kV2BadHeader : RuleId::kBadHeader, message,
           fmt::format("{}: {}", message.error_field, message.error));
  }
}

void CallRules::judge_credits(const CallRecord& call, std::uint32_t open, std::uint32_t limit,
                              const Terms& terms) {
  const MessageFact& message = call.fact.call;
  if (message.credits == 0) report(RuleId::kNoCreditsAsked, message);
  const int caller = call.fact.caller;
  if (!terms.is_complete || terms.is_record || open < 2) return;
  const bool is_backward = call.fact.is_backward;
  if (!terms.has_reply[caller]) {
    report(is_backward ? RuleId::kBackwardTooMany : RuleId::kSecondCallEarly, message,
           fmt::format("{} Calls are unanswered", open));
  } else if (open > std::max<std::uint32_t>(limit, 1)) {
    report(is_backward ? RuleId::kBackwardTooMany : RuleId::kTooManyCalls, message,
           fmt::format("{} Calls are unanswered, and {} were granted", open, limit));
  }
}

void CallRules::judge_call(const CallRecord& call, Bytes payload, const Terms& terms,
                           const MemoryMap& memory) {
  const MessageFact& message = call.fact.call;
  if (is_type(message, MessageType::kMsgp)) {
    const bool has_chunks =
        !message.reads.empty() || !message.writes.empty() || message.has_reply_chunk;
    if (has_chunks) report(RuleId::kMsgpWithChunks, message);
    if (!terms.is_rfc5666) report(RuleId::kMsgpSent, message);
  }
  const bool has_chunks =
      !message.reads.empty() || !message.writes.empty() || message.has_reply_chunk;
  if (call.fact.is_backward && has_chunks && message.version == 1) {
    report(RuleId::kBackwardChunks, message);
  }
  judge_long_call(call);
  judge_reads(call, payload);
  judge_special_chunks(call, terms);
  judge_upper_layer(call);
  const auto check = [&](const SegmentFact& segment) {
    const CallRecord* other = memory.other_call(message.side, call, segment);
    if (other == nullptr || other->fact.xid == call.fact.xid) return;
    report(
        RuleId::kHandleOfOpenCall, message,
        fmt::format("handle {:08x} belongs to the Call {:08x}", segment.handle, other->fact.xid));
  };
  for (const SegmentFact& each : message.reads) check(each);
  for (const Chunk& chunk : message.writes) std::for_each(chunk.begin(), chunk.end(), check);
  std::for_each(message.reply_chunk.begin(), message.reply_chunk.end(), check);
}

void CallRules::judge_long_call(const CallRecord& call) {
  const MessageFact& message = call.fact.call;
  const bool has_zero = std::any_of(message.reads.begin(), message.reads.end(),
                                    [](const SegmentFact& each) { return each.position == 0; });
  if (is_type(message, MessageType::kNoMsg)) {
    if (!has_zero) report(RuleId::kNoMsgWithoutChunk, message);
    if (message.inline_size() != 0) {
      report(RuleId::kNoMsgWithPayload, message,
             fmt::format("{} bytes follow the header", message.inline_size()));
    }
  } else if (has_zero) {
    report(RuleId::kMsgWithPositionZero, message);
  }
}

// Positions count in the RPC message as it was before its items left it.
void CallRules::judge_reads(const CallRecord& call, Bytes payload) {
  const MessageFact& message = call.fact.call;
  const bool is_inline = is_type(message, MessageType::kMsg);
  std::uint64_t removed = 0, position = 0, length = 0;
  bool is_first = true;
  for (const SegmentFact& read : message.reads) {
    if (read.position == 0) continue;
    if (read.position % 4 != 0) {
      report(RuleId::kReadPosition, message, fmt::format("position {}", read.position));
      return;
    }
    if (is_first || read.position != position) {
      removed += xdr::padded(length);
      length = 0;
      position = read.position;
      is_first = false;
    }
    length += read.length;
    if (!is_inline) continue;
    if (position > message.inline_size() + removed) {
      report(RuleId::kReadOutOfRange, message,
             fmt::format("position {}, and the message has {} bytes inline", position,
                         message.inline_size()));
      return;
    }
    if (call.arguments_at != 0 && position < call.arguments_at) {
      report(RuleId::kReadIneligible, message,
             fmt::format("position {} is in the header of the Call", position));
      return;
    }
  }
  if (!is_inline || is_first || message.reads.front().position < 4 || removed != 0) return;
  const std::uint64_t at = message.reads.front().position;
  if (!is_nfs3(call.fact) || is_protected(call.fact) || at > payload.size()) return;
  const std::uint32_t count = xdr::load_word(payload.data() + at - 4);
  if (call.fact.procedure != kWrite && call.fact.procedure != kSymlink) {
    report(RuleId::kReadIneligible, message);
  } else if (length != count && length == xdr::padded(count)) {
    report(RuleId::kReadRoundedUp, message,
           fmt::format("{} bytes for an item of {}", length, count));
  } else if (length != count) {
    report(RuleId::kReadCount, message, fmt::format("{} bytes for an item of {}", length, count));
  }
}

void CallRules::judge_special_chunks(const CallRecord& call, const Terms& terms) {
  const CallFact& fact = call.fact;
  const std::uint32_t limit = terms.limits[1 - fact.caller];
  if (!is_nfs3(fact) || limit == 0 || fact.call.has_reply_chunk || terms.is_rfc5666) return;
  constexpr std::uint32_t kReaddirplus = 17, kReaddir = 16;
  const bool is_listing = fact.procedure == kReaddir || fact.procedure == kReaddirplus;
  if (is_listing && fact.asked_count && *fact.asked_count > limit) {
    report(RuleId::kReplyChunkMissing, fact.call,
           fmt::format("a listing of up to {} bytes, and a threshold of {}", *fact.asked_count,
                       limit));
  }
}

void CallRules::judge_upper_layer(const CallRecord& call) {
  const CallFact& fact = call.fact;
  const MessageFact& message = fact.call;
  if (is_protected(fact)) {
    const bool has_item = std::any_of(message.reads.begin(), message.reads.end(),
                                      [](const SegmentFact& each) { return each.position != 0; });
    if (has_item || !message.writes.empty()) report(RuleId::kGssReduced, message);
    return;
  }
  if (!is_nfs3(fact)) return;
  std::vector<std::uint32_t> positions;
  for (const SegmentFact& each : message.reads) {
    if (each.position != 0) positions.push_back(each.position);
  }
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  if (positions.size() > 1 || message.writes.size() > 1) report(RuleId::kTwoChunks, message);
  if (fact.procedure == kRead && message.writes.size() == 1 && fact.asked_count) {
    const std::uint64_t length = length_of(message.writes[0]);
    const Chunk& chunk = message.writes[0];
    const bool has_pad = chunk.size() > 1 && chunk.back().length <= 4 && *fact.asked_count % 4 != 0;
    if (has_pad && length - chunk.back().length == *fact.asked_count) {
      report(RuleId::kLinuxPadSegment, message);
    } else if (length != *fact.asked_count && length == xdr::padded(*fact.asked_count)) {
      report(RuleId::kLinuxPadSegment, message);
    } else if (length < *fact.asked_count || length - *fact.asked_count >= 4096) {
      report(RuleId::kChunkAndCount, message,
             fmt::format("a chunk of {} bytes for a READ of {}", length, *fact.asked_count));
    } else if (length != *fact.asked_count) {
      report(RuleId::kLinuxPadSegment, message,
             fmt::format("a chunk of {} bytes for a READ of {}", length, *fact.asked_count));
    }
  }
}

void CallRules::judge_rpc_call(const CallFact& fact, RpcFault fault, const MessageFact& message,
                               Bytes rpc) {
  const auto start = rpc_start(rpc);
  if (start && start->xid != message.xid && connection_.transport != Transport::kTcp) {
    report(RuleId::kXidDiffers, message, fmt::format("the RPC message has {:08x}", start->xid));
  }
  if (fault == RpcFault::kType) report(RuleId::kRpcType, message);
  if (fault == RpcFault::kVersion) report(RuleId::kRpcVersion, message);
  if (fault == RpcFault::kCredential) report(RuleId::kRpcCredential, message);
  if (!fact.gss || fact.gss->control != 0) return;
  const std::uint32_t number = fact.gss->sequence;
  // Numbers of several contexts may be equal: only the transmission next to this one is compared.
  if (!gss_numbers_.empty() && gss_numbers_.back() == number && number != 1) {
    report(RuleId::kGssAgain, message, fmt::format("number {}", number));
  }
  gss_numbers_.push_back(number);
  if (gss_numbers_.size() > 8) gss_numbers_.pop_front();
  const std::size_t at = arguments_at(rpc);
  if (fact.gss->service == 2 && at != 0 && rpc.size() >= at + 8) {
    const std::uint32_t body = xdr::load_word(rpc.data() + at + 4);
    if (body != number) report(RuleId::kGssBody, message, fmt::format("{} and {}", body, number));
  }
}

void CallRules::judge_invalidation(const MessageFact& message, const CallRecord* call,
                                   bool is_call) {
  if (!message.invalidates) return;
  if (is_call) return report(RuleId::kCallInvalidates, message);
  if (is_type(message, MessageType::kError)) report(RuleId::kErrorInvalidates, message);
  const auto& receiver = connection_.sides[1 - message.side].private_data;
  const auto& sender = connection_.sides[message.side].private_data;
  const bool is_one = message.version == 1;
  if (is_one && receiver && !receiver->takes_invalidation) {
    report(RuleId::kInvalidatesWithoutR, message);
  } else if (is_one && sender && !sender->takes_invalidation) {
    report(RuleId::kLinuxInvalidates, message);
  }
  if (call == nullptr) return;
  const MessageFact& asked = call->fact.call;
  if (!asked.error.empty() && !asked.is_whole) return;  // its chunks were not captured
  const auto has = [&](const Chunk& chunk) {
    return std::any_of(chunk.begin(), chunk.end(),
                       [&](const SegmentFact& each) { return each.handle == message.invalidated; });
  };
  if (!has(asked.reads) && !has(asked.reply_chunk) &&
      std::none_of(asked.writes.begin(), asked.writes.end(), has)) {
    report(RuleId::kInvalidatesForeign, message, fmt::format("handle {:08x}", message.invalidated));
  }
}

void CallRules::judge_error(const CallRecord& call, const MessageFact& error) {
  if (error.credits == 0) report(RuleId::kErrorWithoutCredit, error);
  const MessageFact& asked = call.fact.call;
  if (!call.fact.has_call) return;
  if (error.error_code == 1) {
    if (asked.version >= error.low && asked.version <= error.high) {
      report(RuleId::kVersionRange, error,
             fmt::format("{} to {}, and the Call has {}", error.low, error.high, asked.version));
    }
  } else if (error.version != asked.version) {
    report(RuleId::kErrorVersion, error, fmt::format("{} for {}", error.version, asked.version));
  }
}

}  // namespace rpcrdma::explain
