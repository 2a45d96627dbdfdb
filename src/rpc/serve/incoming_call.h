// A Call in service: what services see of it is the same for each transport.
#ifndef RPCRDMA_RPC_SERVE_INCOMING_CALL_H_
#define RPCRDMA_RPC_SERVE_INCOMING_CALL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "oncrpc/message.h"
#include "oncrpc/registry.h"
#include "rpc/serve/admission.h"
#include "rpc/serve/call_auth.h"
#include "rpc/serve/reply_cache.h"
#include "rpcrdma/service.h"

namespace rpcrdma::rpc {

// What results take by default, bytes.
inline constexpr std::uint32_t kResultsSizeDefault = 2048;

// In front of the results: room for the largest header of a reply, bytes.
inline constexpr std::size_t kReplyRoom = oncrpc::kReplyHeaderSizeMax;
static_assert(kReplyRoom % xdr::kWordSize == 0);

// The transports derive from it: they own the memory of results, and send the answer.
class IncomingCall : public CallContext {
 public:
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

  // Reads the header of `message`, the whole Call or its inline part, and judges it: the
  // credential, the program, the procedure, and whether the service takes the caller. `refusal` is
  // set with kRefused only, since most Calls need none. A second time, when more of the Call is
  // there, only the views are set anew.
  Admission admit(const oncrpc::ServiceRegistry& registry, Bytes message,
                  oncrpc::ReplyHeader& refusal);

  // The header that was judged will be out of its memory, and its message read again: only what
  // begins with the same header is the same Call.
  void keep_header(Bytes message);

 protected:
  IncomingCall() : step_(*this) {}
  ~IncomingCall() = default;

  // --- Authentication. Each is false while a step goes on elsewhere; step_ended() is told then.
  // Gets at the arguments of a wrapped call; status_ says whether it was possible.
  bool unwrap();
  bool seal();
  bool is_to_be_sealed() const noexcept { return auth_.with != nullptr && !auth_.is_sealed; }
  bool is_to_be_unwrapped() const noexcept {
    return auth_.with != nullptr && auth_.call.is_wrapped && !auth_.is_unwrapped;
  }
  // After either has ended elsewhere.
  void finish_unwrap();
  // Why accept() has denied the call; kOk: it did not.
  AuthStatus accepted() noexcept;
  // What a step has said that ends the connection; empty: nothing has.
  std::string_view why_ending() const noexcept {
    return auth_.with != nullptr ? auth_.call.ends_connection : std::string_view{};
  }
  // False: the refusal is sent as it is. Else the call, which was accepted, is answered with it
  // under its seal.
  bool take_refusal(const oncrpc::ReplyHeader& refusal) noexcept;
  // The header of a reply without results.
  oncrpc::ReplyHeader plain_header() const;
  // Writes the header of a reply with results in front of them; where it begins in results_buffer_.
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
  // What the authenticator has made of the results of a wrapped call. Null: they are sent as the
  // service wrote them, or it could not wrap them, which status_ says. write_header() writes what
  // precedes enclosed results.
  struct Wrapped {
    std::optional<Bytes> replaced{};  // sent in place of the results
    Bytes after{};                    // sent behind them
  };
  Wrapped take_wrapped();
  // Copies a few bytes behind the results, if there is room, so that no memory is registered for
  // them; where they are then.
  Bytes put_behind(Bytes data) noexcept;
  void end_call() noexcept;
  // False: no step is under way elsewhere.
  bool drop_step() noexcept {
    return std::exchange(auth_.stage, CallAuth::Stage::kNone) != CallAuth::Stage::kNone;
  }

  oncrpc::CallHeader header_{};
  AcceptStatus status_ = AcceptStatus::kSuccess;
  bool is_whole_ = false;  // arguments and results are whole messages
  MessageReader arguments_;
  MessageWriter results_;
  MutableBytes results_buffer_;              // kReplyRoom, and the results without bulk items
  Service* service_ = nullptr;               // that is to execute it; null: not accepted yet
  std::size_t header_size_ = 0;              // bytes of its message before the arguments
  const ProcedureTraits* traits_ = nullptr;  // of the procedure; null: NULL
  VersionRange versions_{};                  // with PROG_MISMATCH
  std::vector<std::byte> kept_header_;       // keep_header(); empty: nothing is kept
  CallAuth auth_;
  std::optional<ReplyCache::Key> cache_key_;     // its reply is to be remembered
  std::optional<ReplyCache::Key> duplicate_of_;  // waits for the end of the same call

 private:
  friend class DuplicateCalls;
  class Step final : public AuthStep {
   public:
    explicit Step(IncomingCall& call) noexcept : call_(call) {}
    void finish() override { call_.handle_step_ended(); }

   private:
    IncomingCall& call_;
  };

  const Credential& reply_verifier() const;
  std::size_t write_sealed_header();
  Admission admit_again(Bytes message) const;
  Admission decode_header(Bytes message, oncrpc::ReplyHeader& refusal);
  Admission find_service(const oncrpc::ServiceRegistry& registry, oncrpc::ReplyHeader& refusal);
  std::optional<Admission> admit_whole(const oncrpc::ServiceRegistry& registry, Bytes message);

  // Memory for a reply of `size` bytes without bulk items, kept until the reply is out. Empty:
  // there is none.
  virtual MutableBytes results_room(std::size_t size) = 0;
  // The answer, which is status_ and results_, can be sent. From any thread.
  virtual void handle_answered() = 0;
  // A step of authentication has ended elsewhere: auth_.stage says which. From any thread.
  virtual void handle_step_ended() = 0;

  Step step_;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_INCOMING_CALL_H_
