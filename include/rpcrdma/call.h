// A Call of a client and the Reply to it.
#ifndef RPCRDMA_CALL_H_
#define RPCRDMA_CALL_H_

#include <chrono>
#include <cstdint>
#include <optional>

#include "rpcrdma/callback.h"
#include "rpcrdma/error.h"
#include "rpcrdma/export.h"
#include "rpcrdma/message.h"
#include "rpcrdma/types.h"

namespace rpcrdma {

class Client;
class ClientImpl;

// A Call being put together. Destroying it before it is started costs nothing. Does not outlive its
// client.
class RPCRDMA_EXPORT Call {
 public:
  Call(Call&& other) noexcept : impl_(other.impl_), slot_(other.slot_) { other.impl_ = nullptr; }
  Call& operator=(Call&&) = delete;
  ~Call();

  // The arguments in XDR; bulk() items are lent from here until the call has ended.
  MessageWriter& arguments() noexcept;
  // Memory for the next bulk result, filled by RDMA up to its size; in the order of the results.
  // Lent until the call has ended, when nothing can write to it any more. At most kBulkItemsMax,
  // none of them empty; otherwise the call is refused when it is started.
  void place_result(MutableBytes destination) noexcept;
  // Bound on the XDR results, without what place_result() has room for; default 512 bytes. When a
  // reply could be longer than a message, room for a Long Reply is provided.
  void expect_results(std::uint32_t size_max) noexcept;
  // Instead of ClientOptions::call_timeout.
  void time_out_after(std::chrono::nanoseconds timeout) noexcept;

 private:
  friend class ClientImpl;
  friend class Client;
  friend class CallAwaiter;
  Call(ClientImpl* impl, std::uint32_t slot) noexcept : impl_(impl), slot_(slot) {}

  ClientImpl* impl_;
  std::uint32_t slot_;
};

// The successful answer to a Call. Its views die with it. Does not outlive its client; keep few,
// since each holds a Receive buffer back.
class RPCRDMA_EXPORT Reply {
 public:
  Reply(Reply&& other) noexcept : impl_(other.impl_), slot_(other.slot_) { other.impl_ = nullptr; }
  Reply& operator=(Reply&&) = delete;
  ~Reply();

  // The results in XDR. bulk() finds an item in the place that place_result() named, or, when the
  // peer left it in the message, there (last_was_placed() is then false: copy it).
  MessageReader& results() noexcept;
  // Copies what the peer left in the message to the place that place_result() named, as bulk()
  // comes to it; before the first bulk().
  void land_results() noexcept;
  // Whether all results were decoded and nothing was wrong; else the error to report.
  std::optional<Error> finish() noexcept;

 private:
  friend class ClientImpl;
  Reply(ClientImpl* impl, std::uint32_t slot) noexcept : impl_(impl), slot_(slot) {}

  ClientImpl* impl_;
  std::uint32_t slot_;
};

using ReplyCallback = Callback<void(Expected<Reply, Error>)>;

}  // namespace rpcrdma

#endif  // RPCRDMA_CALL_H_
