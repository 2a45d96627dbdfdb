#include "explain/conversation.h"

#include <algorithm>
#include <utility>

#include "explain/rpc_words.h"

namespace rpcrdma::explain {
namespace {

constexpr std::size_t kOpenMax = 4096;  // calls of one side without a reply
constexpr std::size_t kRefusedMax = 64;
constexpr std::uint32_t kNfs = 100003, kConfiguration = 100417;
constexpr std::uint32_t kErrVers = 1;

bool is_type(const MessageFact& message, MessageType type) noexcept {
  return message.type == static_cast<std::uint32_t>(type);
}

// FNV-1a, of the words that a repeated Call has again.
std::uint64_t digest_of(Bytes bytes) noexcept {
  std::uint64_t digest = 0xcbf29ce484222325U;
  for (const std::byte each : bytes) {
    digest = (digest ^ std::to_integer<std::uint64_t>(each)) * 0x100000001b3U;
  }
  return digest;
}

Form form_of_call(const MessageFact& message) noexcept {
  if (is_type(message, MessageType::kMsgp)) return Form::kPadded;
  if (is_type(message, MessageType::kNoMsg)) return Form::kLong;
  return message.reads.empty() ? Form::kShort : Form::kChunked;
}

Form form_of_reply(const MessageFact& message) noexcept {
  if (is_type(message, MessageType::kMsgp)) return Form::kPadded;
  if (is_type(message, MessageType::kNoMsg)) return Form::kLong;
  const auto is_used = [](const Chunk& chunk) { return length_of(chunk) != 0; };
  const bool is_chunked =
      !message.reads.empty() || std::any_of(message.writes.begin(), message.writes.end(), is_used);
  return is_chunked ? Form::kChunked : Form::kShort;
}

std::uint64_t read_length(const MessageFact& message) noexcept {
  return length_of(message.reads);
}

void keep_body(Bytes body, std::vector<std::byte>& into) {
  constexpr std::size_t kBodyMax = 4096;
  body = body.first(std::min(body.size(), kBodyMax));
  into.assign(body.begin(), body.end());
}

std::size_t segments_of(const MessageFact& message) noexcept {
  std::size_t segments = message.reads.size() + message.reply_chunk.size();
  for (const Chunk& chunk : message.writes) segments += chunk.size();
  return segments;
}

// Estimates what a call takes: its record, and for each segment a fact and an entry of the memory
// map.
std::size_t weight_of(const CallRecord& call) noexcept {
  constexpr std::size_t kSegment = 192;
  return sizeof call + kLongHeadSize + kSegment * segments_of(call.fact.call);
}

std::size_t weight_of(const MessageFact& message) noexcept {
  return sizeof message + sizeof(Chunk) * message.writes.size() +
         sizeof(SegmentFact) * segments_of(message);
}

MessageFact message_of(const SendFact& send) {
  MessageFact message;
  message.first = send.first;
  message.last = send.last;
  message.side = send.side;
  message.is_whole = send.is_whole;
  message.size = send.size;
  message.invalidates = send.invalidated.has_value();
  message.invalidated = send.invalidated.value_or(0);
  return message;
}

}  // namespace

void note_step(CallFact& call, StepFact::Kind kind, int side, const Where& where,
               std::uint64_t bytes) {
  constexpr std::size_t kStepsMax = 64;
  if (!call.steps.empty()) {
    StepFact& last = call.steps.back();
    if (last.kind == kind && last.side == side) {
      last.last = where;
      ++last.count;
      last.bytes += bytes;
      return;
    }
  }
  if (call.steps.size() < kStepsMax) call.steps.push_back({kind, side, where, where, 1, bytes});
}

void LostCalls::add(const CallFact& call, const Endpoint& client) {
  constexpr std::size_t kLostMax = 4096;
  const Key key{call.xid, client.address};
  if (lost_.insert_or_assign(key, call.connection).second) order_.push_back(key);
  if (order_.size() <= kLostMax) return;
  lost_.erase(order_.front());
  order_.pop_front();
}

std::uint64_t LostCalls::find(std::uint32_t xid, const Endpoint& client) const {
  const auto at = lost_.find({xid, client.address});
  return at == lost_.end() ? 0 : at->second;
}

void Conversation::on_send(const SendFact& send) {
  long_head_ = nullptr;
  terms_.is_record = false;  // the connection may have stepped up from TCP
  MessageFact message = message_of(send);
  const Bytes payload = shared_.decoder.decode(send.bytes, message);
  ++terms_.sends[send.side];
  constexpr std::uint64_t kLate = 64;  // Sends behind a reply: its Call is not late any more
  const std::uint64_t sends = terms_.sends[0] + terms_.sends[1];
  if (sends > kLate) {
    if (!orphans_.empty()) drop_orphans(sends - kLate);
    if (!foreign_.empty()) judge_foreign(sends - kLate);
  }
  SideFact& side = connection_.sides[send.side];
  ++side.messages;
  if (message.error.empty()) side.credits = message.credits;
  if (message.version == 2 && message.error.empty()) connection_.is_version_two = true;
  rules_.judge_send(message, terms_);
  sink_.on_message(message, connection_);
  if (message.size < 16) return;
  if (!message.error.empty()) {
    // An answer to it, as ERR_VERS or ERR_CHUNK, has to find it.
    if (find_call(1 - send.side, message.xid) != nullptr) return;
    if (find_call(send.side, message.xid) == nullptr) {
      CallRecord& call = make_call(send.side, message.xid);
      call.fact.call = std::move(message);
      call.fact.has_call = true;
      calls_footprint_ += call.footprint = weight_of(call);
      note_step(call.fact, StepFact::Kind::kCall, send.side, send.first, send.size);
    }
    return;
  }
  if (is_type(message, MessageType::kDone)) return take_done(message);
  if (is_type(message, MessageType::kError)) return take_error(std::move(message));
  if (is_type(message, MessageType::kOptional)) return take_option(message, payload);
  if (is_call(message, payload)) {
    take_call(send, std::move(message), payload);
  } else if (CallRecord* call = find_call(1 - send.side, message.xid)) {
    rules_.judge_invalidation(message, call, false);
    fill_reply(*call, std::move(message), payload);
  } else {
    rules_.judge_invalidation(message, nullptr, false);
    keep_orphan(std::move(message), payload);
  }
}

void Conversation::on_record(const SendFact& record) {
  const auto start = rpc_start(record.bytes);
  if (!start) return;
  terms_.is_record = true;
  ++terms_.sends[record.side];
  MessageFact message = message_of(record);
  message.xid = start->xid;
  message.credits = 1;
  ++connection_.sides[record.side].messages;
  if (start->type == 0) {
    take_call(record, std::move(message), record.bytes);
  } else if (CallRecord* call = find_call(1 - record.side, message.xid)) {
    fill_reply(*call, std::move(message), record.bytes);
  } else {
    keep_orphan(std::move(message), record.bytes);
  }
}

bool Conversation::is_call(const MessageFact& message, Bytes payload) const {
  const auto start = rpc_start(payload);
  const bool is_inline = !is_type(message, MessageType::kNoMsg);
  if (message.is_reply) {
    if (is_inline && start && start->type <= 1 && (start->type == 1) != *message.is_reply) {
      judge_.report(RuleId::kV2Direction, message.side, message.first, message.xid, {});
      return start->type == 0;
    }
    return !*message.is_reply;
  }
  if (is_inline && start && start->type <= 1) return start->type == 0;
  if (calls_[1 - message.side].contains(message.xid)) return false;
  if (!message.reads.empty()) return true;
  // A Long Call would have a Read list.
  if (terms_.client < 0) return !message.has_reply_chunk;
  return message.side == terms_.client;
}

CallRecord& Conversation::make_call(int caller, std::uint32_t xid) {
  if (calls_[caller].size() >= kOpenMax) drop_oldest(caller);
  auto& slot = calls_[caller][xid];
  slot = std::make_unique<CallRecord>();
  order_[caller].push_back(xid);
  ++unnoted_[caller];
  while (order_[caller].size() > 2 * kOpenMax ||
         (!order_[caller].empty() && !calls_[caller].contains(order_[caller].front()))) {
    order_[caller].pop_front();
  }
  slot->gaps_before = gaps_;
  slot->fact.connection = connection_.number;
  slot->fact.xid = xid;
  slot->fact.caller = caller;
  slot->fact.is_backward = terms_.client >= 0 && caller != terms_.client;
  return *slot;
}

CallRecord* Conversation::find_call(int caller, std::uint32_t xid) {
  const auto at = calls_[caller].find(xid);
  return at == calls_[caller].end() ? nullptr : at->second.get();
}

void Conversation::drop_oldest(int caller) {
  while (!order_[caller].empty()) {
    const std::uint32_t xid = order_[caller].front();
    order_[caller].pop_front();
    if (CallRecord* call = find_call(caller, xid)) return deliver(*call);
  }
  if (!calls_[caller].empty()) deliver(*calls_[caller].begin()->second);
}

void Conversation::learn_client(int caller) noexcept {
  if (terms_.client < 0) terms_.client = caller;
}

// A Call whose XID is unanswered. Returns whether it is the same Call again.
bool Conversation::take_again(const MessageFact& message, const CallFact& rpc,
                              std::uint64_t digest) {
  CallRecord* before = find_call(message.side, message.xid);
  if (before == nullptr) return false;
  const CallFact& old = before->fact;
  const bool is_same =
      before->digest == digest || (rpc.has_rpc_call && old.has_rpc_call &&
                                   rpc.program == old.program && rpc.version == old.version &&
                                   rpc.procedure == old.procedure && message.size == old.call.size);
  if (!is_same) {
    rules_.report(RuleId::kXidReused, message);
    deliver(*before);
    return false;
  }
  if (!terms_.is_record) rules_.report(RuleId::kCallAgain, message);
  ++before->fact.retransmissions;
  note_step(before->fact, StepFact::Kind::kCallAgain, message.side, message.first, message.size);
  return true;
}

void Conversation::take_call(const SendFact& send, MessageFact&& message, Bytes payload) {
  learn_client(send.side);
  CallFact rpc;
  const bool is_inline = !is_type(message, MessageType::kNoMsg);
  const RpcFault fault = is_inline ? read_rpc_call(payload, rpc) : RpcFault::kNone;
  // The last word that was captured is not the last of the arguments.
  if (!send.is_whole || send.bytes.size() < send.size) rpc.asked_count.reset();
  const std::uint64_t digest = digest_of(send.bytes);
  rules_.judge_invalidation(message, nullptr, true);
  if (is_inline) rules_.judge_rpc_call(rpc, fault, message, payload);
  if (take_again(message, rpc, digest)) return;
  CallRecord& call = make_call(send.side, message.xid);
  rpc.connection = call.fact.connection;
  rpc.xid = call.fact.xid;
  rpc.caller = call.fact.caller;
  rpc.is_backward = call.fact.is_backward;
  call.fact = std::move(rpc);
  CallFact& fact = call.fact;
  fact.call = std::move(message);
  fact.has_call = true;
  fact.call_form = terms_.is_record ? Form::kRecord : form_of_call(fact.call);
  fact.call_limit = terms_.limits[fact.caller];
  fact.reply_limit = terms_.limits[1 - fact.caller];
  fact.call_size = fact.call.inline_size() + read_length(fact.call);
  call.digest = digest;
  call.arguments_at = is_inline ? arguments_at(payload) : 0;
  if (shared_.keeps_bodies && call.arguments_at != 0) {
    keep_body(payload.subspan(call.arguments_at), fact.arguments);
  }
  for (const Chunk& chunk : fact.call.writes) call.written.emplace_back(chunk.size(), 0);
  call.written_reply.resize(fact.call.reply_chunk.size());
  if (fact.has_rpc_call) {
    if (fact.program == kConfiguration) terms_.is_rfc5666 = true;
    constexpr std::uint32_t kMount = 100005, kLocks = 100021, kNfsAcl = 100227;
    const bool is_nfs3 = fact.program == kNfs && fact.version == 3;
    const bool is_beside =
        fact.program == kMount || fact.program == kLocks || fact.program == kNfsAcl;
    if (!fact.is_backward) {
      has_nfs3_ |= is_nfs3;
      has_other_program_ |= !is_nfs3 && !is_beside;
    }
  }
  fact.again_of = shared_.lost.find(fact.xid, connection_.sides[fact.caller].endpoint);
  ++connection_.calls;
  calls_footprint_ += call.footprint = weight_of(call);
  count_call(call);
  rules_.judge_call(call, payload, terms_, memory_);
  memory_.add(fact.caller, call, fact.call, false);
  note_step(fact, StepFact::Kind::kCall, fact.caller, fact.call.first, fact.call.size);
  if (!foreign_.empty()) forgive_foreign(call);
  if (!orphans_.empty()) join_orphan(call);
}

// Counts the Calls that are open, and what credits allow: of several grants that were in force
// while they were made, the largest.
void Conversation::count_call(CallRecord& call) {
  CallFact& fact = call.fact;
  const std::size_t known = calls_[fact.caller].size();
  const std::uint32_t open = static_cast<std::uint32_t>(known) - awaiting_done_[fact.caller];
  std::uint32_t limit = terms_.grants[fact.caller];
  auto& grants = grants_[fact.caller];
  if (!grants.empty()) limit = std::max(limit, grants.rbegin()->first);
  fact.open_calls = open;
  fact.grant = terms_.grants[fact.caller];
  ++grants[fact.grant];
  call.is_counted = true;
  connection_.open_most = std::max(connection_.open_most, open);
  if (fact.grant != 0 && open == fact.grant) ++connection_.starved;
  if (fact.is_backward && !terms_.has_backward) {
    terms_.has_backward = true;
    if (has_nfs3_ && !has_other_program_ && !terms_.is_record)
      rules_.report(RuleId::kBackwardUnasked, fact.call);
  }
  const auto& refused = refused_[fact.caller];
  for (const Refused& each : refused) {
    if (each.digest == call.digest) rules_.report(RuleId::kCallAfterError, fact.call);
  }
  rules_.judge_credits(call, open, limit, terms_);
}

// The Call is not open any more.
void Conversation::uncount_call(CallRecord& call) {
  if (!call.is_counted) return;
  call.is_counted = false;
  auto& grants = grants_[call.fact.caller];
  const auto at = grants.find(call.fact.grant);
  if (at != grants.end() && --at->second == 0) grants.erase(at);
}

// The header of a Long Call is in what was read.
void Conversation::read_long_call(CallRecord& call) {
  CallFact& fact = call.fact;
  if (!call.call_head.empty() && !fact.has_rpc_call) {
    const RpcFault fault = read_rpc_call(call.call_head, fact);
    fact.asked_count.reset();  // the head of the message is not its end
    rules_.judge_rpc_call(fact, fault == RpcFault::kShort ? RpcFault::kNone : fault, fact.call,
                          call.call_head);
    const std::size_t at = arguments_at(call.call_head);
    if (shared_.keeps_bodies && at != 0) {
      keep_body(Bytes(call.call_head).subspan(at), fact.arguments);
    }
  }
  std::uint64_t zero = 0;
  for (const SegmentFact& read : fact.call.reads) zero += read.position == 0 ? read.length : 0;
  if (zero % 4 != 0) rules_.report(RuleId::kLongLength, fact.call, "it is no multiple of four");
}

void Conversation::fill_reply(CallRecord& call, MessageFact&& message, Bytes payload) {
  CallFact& fact = call.fact;
  if (fact.has_reply) {  // of RFC 5666, while its DONE is awaited
    note_step(fact, StepFact::Kind::kReplyAgain, message.side, message.first, message.size);
    return;
  }
  read_long_call(call);
  fact.reply = std::move(message);
  fact.has_reply = true;
  fact.outcome = Outcome::kAnswered;
  fact.reply_form = terms_.is_record ? Form::kRecord : form_of_reply(fact.reply);
  const bool is_long = is_type(fact.reply, MessageType::kNoMsg);
  const Bytes head = call.has_late_head ? Bytes() : Bytes(call.reply_head);
  const Bytes rpc = is_long ? head : payload;
  RpcFault fault = RpcFault::kNone;
  if (!rpc.empty()) fault = read_rpc_reply(rpc, fact);
  fact.reply_size = fact.reply.inline_size() + length_of(fact.reply.reply_chunk);
  for (const Chunk& chunk : fact.reply.writes) fact.reply_size += length_of(chunk);
  const auto start = rpc_start(rpc);
  if (start && start->xid != fact.xid) rules_.report(RuleId::kXidDiffers, fact.reply);
  const bool is_known = fact.call.version == 1 || fact.call.version == 2;
  if (fact.has_call && !is_known && !terms_.is_record) {
    rules_.report(RuleId::kVersionUnanswered, fact.reply);
  }
  note_step(fact, StepFact::Kind::kReply, fact.reply.side, fact.reply.first, fact.reply.size);
  const std::size_t results_at = rpc.empty() ? 0 : results_offset(rpc);
  if (shared_.keeps_bodies && results_at != 0) keep_body(rpc.subspan(results_at), fact.results);
  rules_.judge_reply(call, terms_, results_at == 0 ? Bytes() : rpc.subspan(results_at), results_at);
  rules_.judge_rpc_reply(fact, fault == RpcFault::kShort && is_long ? RpcFault::kNone : fault);
  terms_.grants[fact.caller] = fact.reply.credits;
  terms_.has_reply[fact.caller] = true;
  if (!fact.reply.reads.empty() && terms_.is_rfc5666) {
    call.awaits_done = true;
    ++awaiting_done_[fact.caller];
    uncount_call(call);
    memory_.add(fact.reply.side, call, fact.reply, true);
    return;
  }
  deliver(call);
}

void Conversation::keep_orphan(MessageFact&& message, Bytes payload) {
  constexpr std::size_t kOrphansMax = 64, kPayloadMax = 1024;
  payload = payload.first(std::min(payload.size(), kPayloadMax));
  const std::size_t footprint = weight_of(message) + payload.size();
  orphans_.push_back({std::move(message),
                      {payload.begin(), payload.end()},
                      terms_.sends[0] + terms_.sends[1],
                      footprint});
  replies_footprint_ += footprint;
  if (orphans_.size() > kOrphansMax) drop_orphans(orphans_.front().sends);
}

void Conversation::join_orphan(CallRecord& call) {
  const auto at = std::find_if(orphans_.begin(), orphans_.end(), [&](const Orphan& each) {
    return each.message.xid == call.fact.xid && each.message.side != call.fact.caller;
  });
  if (at == orphans_.end()) return;
  Orphan orphan = std::move(*at);
  orphans_.erase(at);
  replies_footprint_ -= orphan.footprint;
  fill_reply(call, std::move(orphan.message), orphan.payload);
}

// Gives up those that came when the connection had at most this many Sends.
void Conversation::drop_orphans(std::uint64_t sends_min) {
  while (!orphans_.empty() && orphans_.front().sends <= sends_min) {
    Orphan orphan = std::move(orphans_.front());
    orphans_.pop_front();
    replies_footprint_ -= orphan.footprint;
    take_reply_to_nothing(std::move(orphan.message), orphan.payload);
  }
}

void Conversation::take_reply_to_nothing(MessageFact&& message, Bytes payload) {
  if (terms_.is_complete && !terms_.is_record) rules_.report(RuleId::kReplyToNothing, message);
  CallRecord call;
  CallFact& fact = call.fact;
  fact.connection = connection_.number;
  fact.xid = message.xid;
  fact.caller = 1 - message.side;
  learn_client(fact.caller);
  fact.is_backward = fact.caller != terms_.client;
  fact.reply = std::move(message);
  fact.has_reply = true;
  fact.outcome = Outcome::kReplyOnly;
  fact.is_uncertain = true;
  fact.reply_form = terms_.is_record ? Form::kRecord : form_of_reply(fact.reply);
  if (!payload.empty()) read_rpc_reply(payload, fact);
  fact.reply_size = fact.reply.inline_size();
  note_step(fact, StepFact::Kind::kReply, fact.reply.side, fact.reply.first, fact.reply.size);
  terms_.grants[fact.caller] = fact.reply.credits;
  terms_.has_reply[fact.caller] = true;
  sink_.on_call(fact, connection_);
}

void Conversation::take_error(MessageFact&& message) {
  const int caller = 1 - message.side;
  if (message.version == 2 && last_error_[caller] == message.xid) {
    rules_.report(RuleId::kV2ErrorToError, message);
  }
  last_error_[message.side] = message.xid;
  CallRecord* call = find_call(caller, message.xid);
  rules_.judge_invalidation(message, call, false);
  if (call == nullptr) {
    const bool is_requester = message.side == terms_.client && !terms_.has_backward;
    if (is_requester) {
      rules_.report(RuleId::kErrorByRequester, message);
    } else if (terms_.is_complete && message.version == 1) {
      rules_.report(RuleId::kReplyToNothing, message);
    }
    return;
  }
  rules_.judge_error(*call, message);
  CallFact& fact = call->fact;
  fact.outcome = message.error_code == kErrVers ? Outcome::kVersion : Outcome::kChunk;
  fact.reply_form = Form::kError;
  if (fact.outcome == Outcome::kChunk) {
    refused_[caller].push_back({message.xid, call->digest});
    if (refused_[caller].size() > kRefusedMax) refused_[caller].pop_front();
  }
  terms_.grants[caller] = message.credits;
  terms_.has_reply[caller] = true;
  fact.reply = std::move(message);
  fact.has_reply = true;
  note_step(fact, StepFact::Kind::kReply, fact.reply.side, fact.reply.first, fact.reply.size);
  read_long_call(*call);
  deliver(*call);
}

void Conversation::take_done(const MessageFact& message) {
  CallRecord* call = find_call(message.side, message.xid);
  if (!terms_.is_rfc5666) rules_.report(RuleId::kDoneSent, message);
  if (call == nullptr || !call->awaits_done) {
    if (terms_.is_rfc5666) rules_.report(RuleId::kDoneForNothing, message);
    return;
  }
  note_step(call->fact, StepFact::Kind::kDone, message.side, message.first, message.size);
  call->awaits_done = false;
  --awaiting_done_[message.side];
  deliver(*call);
}

void Conversation::deliver(CallRecord& call) {
  CallFact& fact = call.fact;
  if (fact.has_reply) ++connection_.answered;
  if (call.awaits_done) {
    rules_.report_receiver(RuleId::kDoneMissing, fact.reply);
    --awaiting_done_[fact.caller];
  }
  uncount_call(call);
  calls_footprint_ -= call.footprint;
  if (call.gaps_before != gaps_) fact.is_uncertain = true;
  memory_.close(fact.caller, call, fact.call);
  if (fact.has_reply) memory_.close(fact.reply.side, call, fact.reply);
  for (auto& reads : open_reads_) {
    if (call.open_reads == 0) break;
    for (OpenRead& read : reads) {
      if (read.call != &call) continue;
      read.call = nullptr;
      if (!fact.has_reply || read.is_of_reply) continue;
      read.reply = fact.reply;
      replies_footprint_ += read.reply_footprint = weight_of(fact.reply);
    }
  }
  long_head_ = nullptr;
  sink_.on_call(fact, connection_);
  const int caller = fact.caller;
  const std::uint32_t xid = fact.xid;
  calls_[caller].erase(xid);
}

void Conversation::on_missing() {
  terms_.is_complete = false;
  foreign_.clear();
  judge_.forget_uncertain();
  ++gaps_;  // of open calls
}

void Conversation::note_lost() {
  for (int caller = 0; caller < 2; ++caller) {
    // A peer may reset a connection again and again: the calls in front of these were noted.
    const auto& order = order_[caller];
    const std::size_t count = std::min(std::exchange(unnoted_[caller], 0), order.size());
    for (std::size_t i = order.size() - count; i < order.size(); ++i) {
      const CallRecord* const call = find_call(caller, order[i]);
      if (call == nullptr || call->fact.has_reply) continue;
      shared_.lost.add(call->fact, connection_.sides[caller].endpoint);
    }
  }
}

void Conversation::end(bool has_connection_ended) {
  if (has_connection_ended) note_lost();
  drop_orphans(terms_.sends[0] + terms_.sends[1]);
  judge_foreign(terms_.sends[0] + terms_.sends[1]);
  for (int side = 0; side < 2; ++side) drop_reads(side, open_reads_[side].size());
  for (int caller = 0; caller < 2; ++caller) {
    if (pending_[caller] != 0 && terms_.is_complete) {
      judge_.report(RuleId::kXcharPending, 1 - caller, connection_.last, std::nullopt, {});
      pending_[caller] = 0;
    }
    for (auto& [xid, call] : calls_[caller]) {
      if (call->fact.outcome == Outcome::kOpen && has_connection_ended) {
        call->fact.outcome = Outcome::kLost;
      }
      if (!call->fact.has_reply) read_long_call(*call);
    }
    while (!calls_[caller].empty()) drop_oldest(caller);
    order_[caller].clear();
  }
  memory_ = MemoryMap();
}

}  // namespace rpcrdma::explain
