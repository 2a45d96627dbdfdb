// A client's Call and its Reply.
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

// A Call under construction. Destroying it before it is started costs nothing. Must not outlive its
// client.
class RPCRDMA_EXPORT Call {
 public:
  Call(Call&& other) noexcept : impl_(other.impl_), slot_(other.slot_) { other.impl_ = nullptr; }
  Call& operator=(Call&&) = delete;
  ~Call();

  // The arguments in XDR; bulk() items are lent from start() until the call has ended, and must not
  // change meanwhile.
  MessageWriter& arguments() noexcept;
  // Memory for the next bulk result, in the order of the results; RDMA fills it up to its size.
  // Lent until the call has ended, after which nothing can write to it. At most kBulkItemsMax
  // places, none of them empty; otherwise starting the call fails.
  void place_result(MutableBytes destination) noexcept;
  // Bound on the XDR results, without those that have a place; default 512 bytes. If a reply could
  // be longer than a message, room for a Long Reply is provided.
  void expect_results(std::uint32_t size_max) noexcept;
  // Overrides ClientOptions::call_timeout.
  void time_out_after(std::chrono::nanoseconds timeout) noexcept;

 private:
  friend class ClientImpl;
  friend class Client;
  friend class CallAwaiter;
  Call(ClientImpl* impl, std::uint32_t slot) noexcept : impl_(impl), slot_(slot) {}

  ClientImpl* impl_;
  std::uint32_t slot_;
};

// The successful answer to a Call. Its views die with it. Must not outlive its client. Keep few,
// since each holds a Receive buffer.
class RPCRDMA_EXPORT Reply {
 public:
  Reply(Reply&& other) noexcept : impl_(other.impl_), slot_(other.slot_) { other.impl_ = nullptr; }
  Reply& operator=(Reply&&) = delete;
  ~Reply();

  // The results in XDR. bulk() finds an item in the place named by place_result(), or in the
  // message if the peer left it there (last_was_placed() is then false: copy it).
  MessageReader& results() noexcept;
  // When bulk() reaches an item that the peer left in the message, copies it to the place named by
  // place_result(). Call before the first bulk().
  void land_results() noexcept;
  // nullopt if all results were decoded without failure; else the error to report.
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
