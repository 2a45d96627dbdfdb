// The steps of authentication that a client's calls take, some of which go on elsewhere.
#ifndef RPCRDMA_RPC_CALL_CALL_STEPS_H_
#define RPCRDMA_RPC_CALL_CALL_STEPS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/ids.h"
#include "oncrpc/runs.h"
#include "rpc/received.h"
#include "rpcrdma/auth.h"
#include "rpcrdma/message.h"
#include "rpcrdma/oncrpc.h"

namespace rpcrdma::rpc {

// AUTH_NONE and AUTH_SYS: a credential that proves nothing. Verifiers of replies are not looked at.
class PlainAuth final : public ClientAuth {
 public:
  PlainAuth() = default;  // AUTH_NONE
  PlainAuth(const PlainAuth&) = delete;
  PlainAuth& operator=(const PlainAuth&) = delete;

  void set(const AuthSys& sys) {
    const auto size = encode_auth_sys(sys, body_);
    RPCRDMA_REQUIRE(size.has_value(), "an AUTH_SYS credential over the limits of RFC 5531");
    credential_ = {AuthFlavor::kSys, Bytes(body_).first(*size)};
  }
  StepEnd seal(CallSeal& call, AuthStep& /*step*/) override {
    call.credential = credential_;
    return StepEnd::kDone;
  }

 private:
  std::array<std::byte, kAuthBodySizeMax> body_{};
  Credential credential_;
};

// Where steps that have ended wait for the client's thread, as the slots of their calls.
class EndedSteps {
 public:
  // `wake` makes the client's loop call progress(); from any thread.
  explicit EndedSteps(std::function<void()> wake) : wake_(std::move(wake)) {}

  // From any thread. The client cannot take it before the loop was woken: it may be the last step
  // that its destructor waits for.
  void deliver(std::uint32_t slot) {
    const std::lock_guard lock(mutex_);
    ended_.push_back(slot);
    wake_();
  }
  // Calls `take(slot)` for each that was delivered.
  template <class Take>
  void take_all(Take&& take) {
    {
      const std::lock_guard lock(mutex_);
      taken_.swap(ended_);
    }
    for (const std::uint32_t slot : taken_) take(slot);
    taken_.clear();
  }

 private:
  const std::function<void()> wake_;
  std::mutex mutex_;
  std::vector<std::uint32_t> ended_;  // guarded by mutex_
  std::vector<std::uint32_t> taken_;  // the client's thread only
};

// The part of one call that its authenticator sees.
class CallStep final : public AuthStep {
 public:
  // Once, before any step.
  void init(EndedSteps& ended, std::uint32_t slot) noexcept {
    ended_ = &ended;
    slot_ = slot;
  }
  void finish() override { ended_->deliver(slot_); }
  // The seal is to end early, and may lack anything.
  bool is_cancelled() const noexcept { return is_cancelled_; }
  void set_cancelled(bool is) noexcept { is_cancelled_ = is; }

  CallSeal seal;
  std::vector<Bytes> runs;      // of the arguments that are wrapped
  std::optional<Xid> call_xid;  // of the call, while its slot has that of a control message

 private:
  EndedSteps* ended_ = nullptr;
  std::uint32_t slot_ = 0;
  bool is_cancelled_ = false;  // here, since a larger step makes each index of a CallSlot dearer
};

class CallSteps {
 public:
  // `own`: what the application gave; null: `plain` is used.
  CallSteps(ClientAuth* own, PlainAuth& plain, std::function<void()> wake)
      : own_(own),
        plain_(plain),
        growth_(own != nullptr ? own->wrap_growth() : std::nullopt),
        ended_(std::move(wake)) {}

  EndedSteps& ended() noexcept { return ended_; }
  // By how many bytes results may grow; nullopt: nothing is wrapped.
  std::optional<std::uint32_t> growth() const noexcept { return growth_; }
  std::uint32_t under_way() const noexcept { return under_way_; }
  bool has_steps() const noexcept { return own_ != nullptr; }
  std::optional<Procedure> logout_procedure() const noexcept {
    return own_ != nullptr ? own_->logout_procedure() : std::nullopt;
  }

  // Seals a call with AUTH_NONE or AUTH_SYS, which take no steps. Precondition: !has_steps().
  void seal_plain(CallStep& step) { (void)plain_.seal(step.seal, step); }
  // Preconditions of the others: has_steps().
  StepEnd seal(CallStep& step, const Procedure& procedure, Xid xid, const MessageWriter& writer,
               Bytes stream, std::string_view peer) {
    CallSeal& seal = step.seal;
    seal.xid = static_cast<std::uint32_t>(xid);
    seal.procedure = procedure;
    seal.peer = peer;
    seal.credential = seal.verifier = {};
    seal.is_control = seal.again = false;
    step.set_cancelled(false);
    seal.failure.reset();
    seal.wrapped.reset();
    seal.enclosure.reset();
    std::size_t size = writer.size();
    for (const BulkItem& item : writer.items()) size += item.data.size();
    seal.arguments_size = static_cast<std::uint32_t>(std::min<std::size_t>(size, UINT32_MAX));
    if (growth_) [[unlikely]] {
      step.runs.clear();
      oncrpc::for_each_run(writer, stream, [&](Bytes run) { step.runs.push_back(run); });
      seal.arguments = step.runs;
    }
    return count(own_->seal(seal, step));
  }
  void cancel_soon(CallStep& step) noexcept {
    step.set_cancelled(true);
    own_->cancel_soon(step.seal);
  }
  // A reply has come, of which nothing is known yet.
  static void begin_reply(CallStep& step) noexcept {
    step.seal.reply_verifier = {};
    step.seal.denied.reset();
  }
  // Preconditions: of both that read_reply() has set what it sets; of the second that the error of
  // the reply is in `failure`.
  StepEnd open(CallStep& step, MessageReader& reader) {
    step.seal.results = changeable(reader.xdr().rest());
    return count(own_->open(step.seal, step));
  }
  StepEnd refuse(CallStep& step) { return count(own_->refused(step.seal, step)); }
  // After either: whether the call is to be sealed and sent once more.
  static bool is_again(CallStep& step) noexcept {
    if (!step.seal.again) return false;
    step.seal.failure.reset();
    return true;
  }
  // After open() has ended well.
  void finish_open(const CallStep& step, MessageReader& reader,
                   std::span<const MutableBytes> places) {
    if (!growth_) [[likely]]
      return;
    reader = MessageReader(step.seal.results);
    reader.set_places(places);
  }
  void forget(CallStep& step) noexcept {
    if (own_ == nullptr) [[likely]]
      return;
    step.seal.is_control = step.seal.is_last = false;
    step.call_xid.reset();
    if (step.seal.state != nullptr) own_->forget(step.seal);
    step.seal.state = nullptr;
  }

  // Calls `take(slot)` for each call whose step has ended elsewhere.
  template <class Take>
  void take_all(Take&& take) {
    if (under_way_ == 0) [[likely]]
      return;
    ended_.take_all([&](std::uint32_t slot) {
      --under_way_;
      take(slot);
    });
  }

 private:
  StepEnd count(StepEnd end) noexcept {
    if (end == StepEnd::kPending) [[unlikely]]
      ++under_way_;
    return end;
  }

  ClientAuth* const own_;
  PlainAuth& plain_;
  const std::optional<std::uint32_t> growth_;
  EndedSteps ended_;
  std::uint32_t under_way_ = 0;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_CALL_CALL_STEPS_H_
