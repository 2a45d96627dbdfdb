#include "rpc/serve/serving.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/probes.h"

namespace rpcrdma::rpc {
namespace {

inline void note_received(const void* call, const oncrpc::CallHeader& header) noexcept {
  probes::server_call_received(call, static_cast<std::uint32_t>(header.xid),
                               header.procedure.program, header.procedure.version,
                               header.procedure.number);
}

// In the callers of send_results(): GCC takes a probe for so many instructions that it no longer
// inlined what has one.
inline void note_answered(const void* call, const oncrpc::CallHeader& header,
                          AcceptStatus status) noexcept {
  probes::server_call_answered(call, static_cast<std::uint32_t>(header.xid),
                               static_cast<std::uint32_t>(status));
}

}  // namespace

// --- Before it is executed ---------------------------------------------------------------------

bool Serving::admit(IncomingCall& call, Bytes message) {
  call.is_unanswered_ = true;
  const Verdict verdict = call.admit(registry_, message, refusal_);
  if (verdict == Verdict::kAccepted) [[likely]] {
    note_received(&call, call.header_);
    return true;
  }
  handle_verdict(call, verdict);
  return false;
}

void Serving::handle_verdict(IncomingCall& call, Verdict verdict) {
  switch (verdict) {
    case Verdict::kAccepted:
      return;
    case Verdict::kRefused:
      if (meter_ != nullptr) meter_->note_refusal(refusal_);
      return call.take_refusal(refusal_) ? answer(call) : carrier_.send_plain(call, refusal_);
    case Verdict::kPending:
      ++steps_;
      return;
    case Verdict::kEnds:
      return end_connection(call);
    case Verdict::kNoCall:
      return carrier_.give_up(call, NoReply::kIsReply);
    case Verdict::kCutOff:
      return carrier_.give_up(call, NoReply::kCutOff);
  }
}

// Unwraps a call, and looks for another one that is the same.
void Serving::prepare(IncomingCall& call, std::span<const MessageReader::Placed> placed) {
  if (call.is_to_be_unwrapped()) [[unlikely]] {
    // Nothing of a wrapped call is eligible for direct placement (RFC 8166 §6.1).
    if (!placed.empty()) return refuse(call, AcceptStatus::kGarbageArgs);
    if (!call.unwrap()) {
      ++steps_;
      return;
    }
    if (!check_unwrapped(call)) return;
  }
  if (!duplicates_.concern(call.traits_)) [[likely]]
    return execute(call);
  const Next next = duplicates_.begin(call, carrier_.peer_address(), placed);
  if (next == Next::kWait) return waiting_.push_back(&call);
  handle_next(call, next);
}

// Returns false if the call cannot be executed, and then ends it.
bool Serving::check_unwrapped(IncomingCall& call) {
  if (!call.why_ending().empty()) {
    end_connection(call);
    return false;
  }
  if (call.status_ != AcceptStatus::kSuccess) {
    answer(call);
    return false;
  }
  return true;
}

void Serving::execute(IncomingCall& call) {
  call.status_ = AcceptStatus::kSuccess;
  if (!call.reserve_results(kResultsSizeDefault)) return refuse(call, AcceptStatus::kSystemErr);
  if (call.header_.procedure.number == 0 && !call.is_whole_) {
    return answer(call);  // NULL, RFC 5531 §12: always answers
  }
  has_served_ = true;
  call_service(call);
}

// A function of its own: GCC takes a probe for many instructions, and inlined less into execute(),
// which cost each call eighteen.
[[gnu::noinline]] void Serving::call_service(IncomingCall& call) {
  probes::server_call_executed(&call, static_cast<std::uint32_t>(call.header_.xid));
  try {
    call.service_->call(call);
  } catch (...) {
    // One that no longer waits has its reply.
    if (call.is_unanswered_) refuse(call, AcceptStatus::kSystemErr);
  }
}

void Serving::refuse(IncomingCall& call, AcceptStatus status) {
  call.status_ = status;
  answer(call);
}

void Serving::end_connection(IncomingCall& call) {
  why_ended_ = call.why_ending();
  carrier_.give_up(call, NoReply::kUnheard);
}

// --- Calls that wait ---------------------------------------------------------------------------

void Serving::handle_delivered(IncomingCall& call, Instant now) {
  carrier_.handle_time(now);
  if (call.waits_for_step()) [[unlikely]] {
    go_on(call);
  } else {
    answer(call);
  }
  carrier_.want_turn();
}

// A step of authentication has ended elsewhere.
void Serving::go_on(IncomingCall& call) {
  using Stage = CallAuth::Stage;
  --steps_;
  note_wait_over(call);
  const Stage stage = std::exchange(call.auth_.stage, Stage::kNone);
  if (stage == Stage::kSealing) return send_sealed(call);
  if (carrier_.ended()) return carrier_.give_up(call, NoReply::kLost);
  if (stage == Stage::kUnwrapping) {
    call.finish_unwrap();
    if (check_unwrapped(call)) serve(call);
    return;
  }
  const Verdict verdict = call.finish_accept(registry_, refusal_);
  if (verdict == Verdict::kAccepted) {
    note_received(&call, call.header_);
    return carrier_.handle_admitted(call);
  }
  handle_verdict(call, verdict);
}

void Serving::drop_step(IncomingCall& call) noexcept {
  const auto stage = std::exchange(call.auth_.stage, CallAuth::Stage::kNone);
  if (stage != CallAuth::Stage::kNone) --steps_;
}

bool Serving::retry_duplicates() {
  bool moved = false;
  for (std::size_t i = 0; i < waiting_.size();) {
    IncomingCall& call = *waiting_[i];
    const bool is_lost = carrier_.ended();
    const Next next = is_lost ? Next::kExecute : duplicates_.retry(call);
    if (next == Next::kWait) {
      ++i;
      continue;
    }
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    moved = true;
    if (is_lost) {
      call.duplicate_of_.reset();
      carrier_.give_up(call, NoReply::kLost);
    } else {
      handle_next(call, next);
    }
  }
  return moved;
}

bool Serving::waits_for_other_duplicates() const noexcept {
  return !waiting_.empty() && std::ranges::none_of(waiting_, [](const IncomingCall* call) {
    return call->duplicate_of_->watch.may_have_ended();
  });
}

void Serving::handle_next(IncomingCall& call, Next next) {
  note_wait_over(call);
  next == Next::kExecute ? execute(call) : answer(call);
}

// --- Its answer --------------------------------------------------------------------------------

void Serving::handle_answered(IncomingCall& call) {
  if (mailbox_.in_turn_of(carrier_)) {
    answer(call);
  } else {
    mailbox_.deliver(call);
  }
}

inline void Serving::send_results(IncomingCall& call, const WrappedResults& wrapped) {
  if (call.status_ == AcceptStatus::kSuccess) [[likely]] {
    if (carrier_.send(call, call.write_header(), wrapped)) return;
    call.status_ = AcceptStatus::kSystemErr;
  }
  carrier_.send_plain(call, call.plain_header());
}

inline void Serving::measure(const IncomingCall& call) {
  const bool is_reported =
      meter_->note_answer(call.metered_, call.header_, call.traits_, call.status_, *times_);
  if (is_reported) report(call);
}

[[gnu::noinline]] void Serving::report(const IncomingCall& call) const {
  CallReport report;
  report.peer = carrier_.peer_address();
  report.xid = static_cast<std::uint32_t>(call.header_.xid);
  report.procedure = call.header_.procedure;
  report.status = call.status_;
  if (call.status_ == AcceptStatus::kSuccess) {
    report.results_size = call.results_.size();
    for (const BulkItem& item : call.results_.items()) report.results_size += item.data.size();
  }
  meter_->report(call.metered_, report);
}

void Serving::answer(IncomingCall& call) {
  RPCRDMA_REQUIRE(call.is_unanswered_, "a call is answered twice");
  call.is_unanswered_ = false;
  if (meter_ != nullptr && call.is_admitted()) [[unlikely]]
    measure(call);
  duplicates_.handle_answer(call);
  if (call.auth_.with != nullptr) [[unlikely]] {
    if (call.seal()) return send_sealed(call);
    ++steps_;
    return;
  }
  note_answered(&call, call.header_, call.status_);
  static constexpr WrappedResults kNotWrapped{};
  send_results(call, kNotWrapped);
}

// Sends an answer that is sealed.
void Serving::send_sealed(IncomingCall& call) {
  if (!call.why_ending().empty()) return end_connection(call);
  note_answered(&call, call.header_, call.status_);
  const WrappedResults wrapped = call.take_wrapped();
  send_results(call, wrapped);
}

}  // namespace rpcrdma::rpc
