// The life of an incoming Call, over any transport: it is admitted, unwrapped, compared with the
// calls that were executed before, executed, sealed and answered.
#ifndef RPCRDMA_RPC_SERVE_SERVING_H_
#define RPCRDMA_RPC_SERVE_SERVING_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "oncrpc/message.h"
#include "oncrpc/registry.h"
#include "rpc/serve/call_meter.h"
#include "rpc/serve/duplicate_calls.h"
#include "rpc/serve/incoming_call.h"
#include "rpc/serve/reply_cache.h"
#include "rpc/serve/reply_carrier.h"
#include "rpcrdma/service.h"

namespace rpcrdma::rpc {

// Serves the Calls of one connection. The carrier calls, in this order, admit() for a Call that has
// come, IncomingCall::set_arguments() and serve(); Serving answers through the carrier. The carrier
// ends each call by IncomingCall::end_call() when its reply has gone, or in give_up().
class Serving {
 public:
  // All of them outlive it. `meter`: null if calls are not measured.
  Serving(ReplyCarrier& carrier, const oncrpc::ServiceRegistry& registry, ReplyCache& cache,
          Mailbox& mailbox, CallMeter* meter = nullptr)
      : carrier_(carrier),
        registry_(registry),
        duplicates_(cache),
        mailbox_(mailbox),
        meter_(meter),
        times_(meter != nullptr ? std::make_unique<TimeHistogram>() : nullptr) {}
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;

  // The first of its message has come: called before all else, where calls are measured.
  void note_arrival(IncomingCall& call) const noexcept {
    if (meter_ != nullptr) [[unlikely]]
      meter_->note_arrival(call.metered_);
  }
  // It has waited for something, and will be executed now.
  void note_wait_over(IncomingCall& call) const noexcept {
    if (meter_ != nullptr) meter_->note_wait_over(call.metered_);
  }
  CallMeter* meter() const noexcept { return meter_; }
  const TimeHistogram* times() const noexcept { return times_.get(); }  // null: not measured
  // Reads the header of a new Call and judges it. Returns false if the call is answered, given up,
  // or waits for a step of authentication (IncomingCall::waits_for_step()), after which the carrier
  // gets handle_admitted().
  bool admit(IncomingCall& call, Bytes message);
  // Executes an admitted call that has its arguments, or answers it from the reply cache.
  // `placed`: arguments outside of the message.
  void serve(IncomingCall& call, std::span<const MessageReader::Placed> placed = {}) {
    if (call.is_to_be_unwrapped() || duplicates_.concern(call.traits_)) [[unlikely]] {
      return prepare(call, placed);
    }
    execute(call);
  }
  // Answers an admitted call that is not executed.
  void refuse(IncomingCall& call, AcceptStatus status);

  // Called when the service has answered, or a step has ended elsewhere. From any thread.
  void handle_answered(IncomingCall& call);
  void handle_step_ended(IncomingCall& call) { mailbox_.deliver(call); }
  // Takes what came through the mailbox.
  void handle_delivered(IncomingCall& call, Instant now);
  // The same while the server ends: nothing is answered any more.
  void drop_step(IncomingCall& call) noexcept;

  // Tries again for calls that wait for the end of the same call elsewhere. Returns whether any
  // went on.
  bool retry_duplicates();
  bool waits_for_a_duplicate() const noexcept { return !waiting_.empty(); }
  // Returns whether it waits, and only for calls that have not ended yet.
  bool waits_for_other_duplicates() const noexcept;

  ReplyCarrier& carrier() const noexcept { return carrier_; }
  Mailbox& mailbox() const noexcept { return mailbox_; }
  // Returns whether an authenticator judges any Calls.
  bool checks_any() const noexcept { return registry_.checks_any(); }
  // Returns how many calls wait for steps of authentication that go on elsewhere.
  std::uint32_t steps() const noexcept { return steps_; }
  bool has_served() const noexcept { return has_served_; }  // a call other than NULL
  std::uint64_t cached_replies() const noexcept { return duplicates_.cached_replies(); }
  // Returns why an authenticator has ended the connection; empty if none has.
  std::string_view why_ended() const noexcept { return why_ended_; }
  // The number that ConnectionLog::open() gave the connection; 0: it is a client's.
  void set_number(std::uint64_t number) noexcept { number_ = number; }
  std::uint64_t number() const noexcept { return number_; }

 private:
  using Verdict = IncomingCall::Verdict;
  using Next = DuplicateCalls::Next;

  void handle_verdict(IncomingCall& call, Verdict verdict);
  void go_on(IncomingCall& call);
  void prepare(IncomingCall& call, std::span<const MessageReader::Placed> placed);
  bool check_unwrapped(IncomingCall& call);
  void execute(IncomingCall& call);
  void call_service(IncomingCall& call);
  void handle_next(IncomingCall& call, Next next);
  void answer(IncomingCall& call);
  void measure(const IncomingCall& call);
  void report(const IncomingCall& call) const;
  void send_sealed(IncomingCall& call);
  void send_results(IncomingCall& call, const WrappedResults& wrapped);
  void end_connection(IncomingCall& call);

  ReplyCarrier& carrier_;
  const oncrpc::ServiceRegistry& registry_;
  DuplicateCalls duplicates_;
  Mailbox& mailbox_;
  CallMeter* const meter_;
  const std::unique_ptr<TimeHistogram> times_;  // of its calls; null: they are not measured
  std::vector<IncomingCall*> waiting_;  // for the end of the same call, in the order they came
  std::uint32_t steps_ = 0;
  bool has_served_ = false;
  std::uint64_t number_ = 0;
  std::string_view why_ended_;
  oncrpc::ReplyHeader refusal_{};  // scratch: of the call that is being judged
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_SERVING_H_
