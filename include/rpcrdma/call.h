// A client's Call and its Reply.
#ifndef RPCRDMA_CALL_H_
#define RPCRDMA_CALL_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

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
  // Memory for the next bulk result, in the order of the results. RDMA fills it up to its size;
  // where the peer leaves the item in its message, and over TCP, MessageReader::bulk() copies it
  // there. Lent until the call has ended, and for the copy until the reply was read; nothing writes
  // to it afterwards. At most kBulkItemsMax places, none of them empty; otherwise starting the call
  // fails.
  void place_result(MutableBytes destination) noexcept;
  // Bound on the XDR results, without those that have a place; default 512 bytes. If a reply could
  // be longer than a message, room for a Long Reply is provided.
  void expect_results(std::uint32_t size_max) noexcept;
  // Overrides ClientOptions::call_timeout. A call that times out keeps its credit until the server
  // answers. If nothing at all has come over RDMA since it was sent, or such calls hold every
  // credit, the connection ends, and with it all calls under way unless ClientOptions::reconnect
  // makes them again; so it does when the server answers a call with chunks after its time
  // (docs/adr/0017-silent-connections.md). Over TCP it ends if the server has not taken the call.
  void time_out_after(std::chrono::nanoseconds timeout) noexcept;

 private:
  friend class ClientImpl;
  friend class Client;
  friend class CallAwaiter;
  Call(ClientImpl* impl, std::uint32_t slot) noexcept : impl_(impl), slot_(slot) {}
  ClientImpl& impl() const noexcept;

  ClientImpl* impl_;
  std::uint32_t slot_;
};

// Options of one call in the short form (rpcrdma/short_call.h) and in generated clients.
struct CallOptions {
  // Bound on the results, without placed items, bytes; 0: the bound of the .x file, or of the form.
  std::uint32_t results_size_max = 0;
  std::chrono::nanoseconds timeout{};  // 0: ClientOptions::call_timeout
};

// The answer of a server that has executed the Call. Its views die with it. Must not outlive its
// client. Keep few, since each holds a Receive buffer.
//
// The server may still have sent something else than the procedure returns: a failed reader gives
// zeros and empty text. So results are read by decode(), or by results() and finish(). A Reply
// whose results() were read and never checked by finish() ends the program with a line on stderr,
// whatever the server sent, unless an exception is on its way: such a program would take a reply
// that it cannot read for a success. Where an exception is caught between the two, call
// ignore_rest(). Call finish() before anything else is waited for, since a coroutine that is
// destroyed there destroys its Reply.
class RPCRDMA_EXPORT Reply {
 public:
  Reply(Reply&& other) noexcept
      : impl_(std::exchange(other.impl_, nullptr)),
        slot_(other.slot_),
        is_unchecked_(other.is_unchecked_) {}
  Reply& operator=(Reply&&) = delete;
  ~Reply() {
    if (impl_ != nullptr) end();
  }

  // Returns what `decode(results())` returns, or the error if that has not read all results without
  // failure:
  //
  //   auto name = reply->decode([](rpcrdma::MessageReader& results) {
  //     return std::string(results.xdr().string(255, "name"));
  //   });
  template <class Decode>
  auto decode(Decode decode) -> Expected<std::invoke_result_t<Decode, MessageReader&>, Error> {
    using Value = std::invoke_result_t<Decode, MessageReader&>;
    const Looked looked{*this};
    if constexpr (std::is_void_v<Value>) {
      decode(results());
      if (auto error = finish()) return Unexpected<Error>(std::move(*error));
      return {};
    } else {
      Value value = decode(results());
      if (auto error = finish()) return Unexpected<Error>(std::move(*error));
      return value;
    }
  }

  // The results in XDR; finish() tells whether they could be read. bulk() finds an item in the
  // place named by place_result(), and without one in the message.
  MessageReader& results() noexcept;
  // Items that the peer left in the message stay there, instead of being copied to the places named
  // by place_result(); last_was_placed() is false for them. Call before the first bulk().
  void view_results() noexcept;
  // nullopt if all results were decoded without failure; else the error to report.
  std::optional<Error> finish() noexcept;
  // The caller has checked what it has read, and the rest does not matter to it: the Reply may end
  // without finish().
  void ignore_rest() noexcept { is_unchecked_ = false; }

 private:
  friend class ClientImpl;
  // Also where decode() is left by an exception, its caller knows that there are no results.
  struct Looked {
    Reply& reply;
    ~Looked() { reply.ignore_rest(); }
  };
  Reply(ClientImpl* impl, std::uint32_t slot) noexcept : impl_(impl), slot_(slot) {}
  void end() noexcept;
  ClientImpl& impl() const noexcept;

  ClientImpl* impl_;
  std::uint32_t slot_;
  bool is_unchecked_ = false;
};

using ReplyCallback = Callback<void(Expected<Reply, Error>)>;

}  // namespace rpcrdma

#endif  // RPCRDMA_CALL_H_
