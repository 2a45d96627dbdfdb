// A Call in service, which services see in the same way over each transport.
#ifndef RPCRDMA_RPC_SERVE_INCOMING_CALL_H_
#define RPCRDMA_RPC_SERVE_INCOMING_CALL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "oncrpc/message.h"
#include "oncrpc/registry.h"
#include "rpc/serve/call_auth.h"
#include "rpc/serve/call_meter.h"
#include "rpc/serve/reply_cache.h"
#include "rpc/serve/reply_carrier.h"
#include "rpcrdma/service.h"

namespace rpcrdma::rpc {

// The room for results by default, bytes.
inline constexpr std::uint32_t kResultsSizeDefault = 2048;

// The room in front of the results for the largest header of a reply, bytes.
inline constexpr std::size_t kReplyRoom = oncrpc::kReplyHeaderSizeMax;
static_assert(kReplyRoom % xdr::kWordSize == 0);

class Serving;

// Each transport derives a class from it, with what else it keeps of a call.
class IncomingCall : public CallContext {
 public:
  // Says what becomes of a Call after its RPC header was read.
  enum class Verdict : std::uint8_t {
    kAccepted,  // a service is to execute it
    kRefused,   // there is a reply that says why (RFC 5531 §9)
    kNoCall,    // msg_type does not say CALL: no reply may be sent
    kCutOff,    // the message ends inside of its header: there is no reply to it
    kEnds,      // there is no reply to it, and its connection ends: the authenticator says why
    kPending,   // a step of authentication goes on elsewhere: finish_accept() when it has ended
  };

  std::string_view peer_address() const noexcept final;
  std::uint64_t connection_number() const noexcept final;
  MutableBytes result_memory(std::uint32_t size) final;
  const Procedure& procedure() const noexcept final { return header_.procedure; }
  const Credential& credential() const noexcept final { return header_.credential; }
  Caller caller() const noexcept final {
    if (auth_.with != nullptr && auth_.call.caller) return *auth_.call.caller;
    return CallContext::caller();
  }
  MessageReader& arguments() noexcept final { return arguments_; }
  MessageWriter& results() noexcept final { return results_; }
  bool reserve_results(std::uint32_t size_max) final;
  void succeed() final;
  void fail(AcceptStatus status) final;
  Serving& serving() const noexcept { return serving_; }

  // Reads the header of `message`, the whole Call or its inline part, and judges it: the
  // credential, the program, the procedure, and whether the service takes the caller. `refusal` is
  // set with kRefused only, since most Calls need none. Each call is judged once.
  Verdict admit(const oncrpc::ServiceRegistry& registry, Bytes message,
                oncrpc::ReplyHeader& refusal);
  bool is_admitted() const noexcept { return service_ != nullptr; }
  bool waits_for_step() const noexcept { return auth_.stage != CallAuth::Stage::kNone; }

  // Keeps the header that was judged, because its memory will be used for something else and its
  // message will be read again. is_still() then returns whether `message`, which comes out of the
  // peer's memory and may say something else by now, begins with the same header.
  void keep_header(Bytes message);
  bool is_still(Bytes message) const noexcept;

  // Precondition: is_admitted(). `message`: with the header; `placed`: what is not in the message.
  void set_arguments(Bytes message, std::span<const MessageReader::Placed> placed = {}) {
    const Bytes arguments = message.subspan(header_size_);
    if (placed.empty()) [[likely]] {
      std::construct_at(&arguments_, arguments, header_size_);
    } else {
      std::construct_at(&arguments_, arguments, header_size_, placed);
    }
  }

 protected:
  explicit IncomingCall(Serving& serving) : serving_(serving), step_(serving, *this) {}
  ~IncomingCall() = default;

  // Ends the use of the call, so that the next one can take its place.
  void end_call() noexcept;
  bool is_to_be_unwrapped() const noexcept {
    return auth_.with != nullptr && auth_.call.is_wrapped && !auth_.is_unwrapped;
  }
  // Copies a few bytes behind the results, if there is room, so that no memory is registered for
  // them. Returns where they are then.
  Bytes put_behind(Bytes data) noexcept;

  oncrpc::CallHeader header_{};
  AcceptStatus status_ = AcceptStatus::kSuccess;
  bool is_whole_ = false;  // arguments and results are whole messages
  MessageReader arguments_;
  MessageWriter results_;
  MutableBytes results_buffer_;              // kReplyRoom, and the results without bulk items
  const ProcedureTraits* traits_ = nullptr;  // of the procedure; null: NULL
  CallAuth auth_;
  MeteredCall metered_;  // only with a CallMeter

 private:
  friend class DuplicateCalls;
  friend class Serving;
  class Step final : public AuthStep {
   public:
    Step(Serving& serving, IncomingCall& call) noexcept : serving_(serving), call_(call) {}
    void finish() override;

   private:
    Serving& serving_;
    IncomingCall& call_;
  };

  // --- Authentication. The first two return false if their step goes on elsewhere.
  // Unwraps the arguments; status_ says whether it was possible.
  bool unwrap();
  bool seal();
  // Call these when a step has ended elsewhere.
  void finish_unwrap();
  Verdict finish_accept(const oncrpc::ServiceRegistry& registry, oncrpc::ReplyHeader& refusal);
  // Returns why a step ends the connection; empty: none does.
  std::string_view why_ending() const noexcept {
    return auth_.with != nullptr ? auth_.call.ends_connection : std::string_view{};
  }
  // Takes a refusal as the answer of a call that was accepted, to be sent under its seal. Returns
  // false if it is to be sent as it is.
  bool take_refusal(const oncrpc::ReplyHeader& refusal) noexcept;
  // Returns the header of a reply without results.
  oncrpc::ReplyHeader plain_header() const;
  // Writes the header of a reply with results in front of them, and returns where it begins in
  // results_buffer_.
  std::size_t write_header() {
    if (is_whole_) [[unlikely]]
      return kReplyRoom;
    if (auth_.with != nullptr) [[unlikely]]
      return write_sealed_header();
    constexpr std::size_t kStart = kReplyRoom - oncrpc::kReplyHeaderSizeMin;
    oncrpc::encode_plain_success(header_.xid,
                                 std::span<std::byte, oncrpc::kReplyHeaderSizeMin>(
                                     results_buffer_.data() + kStart, oncrpc::kReplyHeaderSizeMin));
    return kStart;
  }
  // Returns the results of a wrapped call as the authenticator has wrapped them. If it could not,
  // status_ says so. write_header() writes what precedes enclosed results.
  WrappedResults take_wrapped();

  const Credential& reply_verifier() const;
  std::size_t write_sealed_header();
  Verdict decode_header(Bytes message, oncrpc::ReplyHeader& refusal);
  Verdict authenticate(const oncrpc::ServiceRegistry& registry, Bytes message,
                       oncrpc::ReplyHeader& refusal);
  Verdict check_accepted(oncrpc::ReplyHeader& refusal) noexcept;
  Verdict find_service(const oncrpc::ServiceRegistry& registry, oncrpc::ReplyHeader& refusal);
  bool admit_whole(const oncrpc::ServiceRegistry& registry, Bytes message);

  Serving& serving_;
  bool is_unanswered_ = false;                // admitted, and neither answered nor refused
  Service* service_ = nullptr;                // that is to execute it; null: not accepted yet
  std::size_t header_size_ = 0;               // bytes of its message before the arguments
  VersionRange versions_{};                   // with PROG_MISMATCH
  std::vector<std::byte> kept_header_;        // keep_header(); empty: nothing is kept
  std::optional<ReplyCache::Key> cache_key_;  // its reply is to be remembered
  struct WaitsFor {
    ReplyCache::Key key;
    ReplyCache::Watch watch;
  };
  std::optional<WaitsFor> duplicate_of_;  // waits for the end of the same call
  Step step_;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_INCOMING_CALL_H_
