// A Call in service: what services see of it is the same for each transport.
#ifndef RPCRDMA_RPC_SERVE_INCOMING_CALL_H_
#define RPCRDMA_RPC_SERVE_INCOMING_CALL_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "oncrpc/message.h"
#include "rpc/serve/reply_cache.h"
#include "rpcrdma/service.h"

namespace rpcrdma::rpc {

// What results take by default, bytes.
inline constexpr std::uint32_t kResultsSizeDefault = 2048;

// The transports derive from it: they own the memory of results, and send the answer.
class IncomingCall : public CallContext {
 public:
  const Procedure& procedure() const noexcept final { return header_.procedure; }
  const Credential& credential() const noexcept final { return header_.credential; }
  MessageReader& arguments() noexcept final { return arguments_; }
  MessageWriter& results() noexcept final { return results_; }
  bool reserve_results(std::uint32_t size_max) final;
  void succeed() final;
  void fail(AcceptStatus status) final;

 protected:
  ~IncomingCall() = default;

  oncrpc::CallHeader header_{};
  AcceptStatus status_ = AcceptStatus::kSuccess;
  bool is_whole_ = false;  // arguments and results are whole messages
  MessageReader arguments_;
  MessageWriter results_;
  MutableBytes results_buffer_;                  // the reply without bulk items, header first
  Service* service_ = nullptr;                   // that is to execute it
  const ProcedureTraits* traits_ = nullptr;      // of the procedure; null: NULL
  std::optional<ReplyCache::Key> cache_key_;     // its reply is to be remembered
  std::optional<ReplyCache::Key> duplicate_of_;  // waits for the end of the same call

 private:
  friend class DuplicateCalls;

  // Memory for a reply of `size` bytes without bulk items, kept until the reply is out. Empty:
  // there is none.
  virtual MutableBytes results_room(std::size_t size) = 0;
  // The answer, which is status_ and results_, can be sent. From any thread.
  virtual void handle_answered() = 0;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_INCOMING_CALL_H_
