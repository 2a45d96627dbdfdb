// Calls in the reverse direction: the server calls its client, over the client's connection (RFC
// 8167).
#ifndef RPCRDMA_BACKWARD_H_
#define RPCRDMA_BACKWARD_H_

#include <cstdint>

#include "rpcrdma/client.h"
#include "rpcrdma/error.h"
#include "rpcrdma/export.h"
#include "rpcrdma/options.h"

namespace rpcrdma {

class CallContext;
class Service;

class RPCRDMA_EXPORT Backward {
 public:
  // --- On the client
  // Answers the server's calls over the client's connection, and over those that reconnection
  // makes, up to ClientOptions::backward_calls at a time. The server may make no calls before the
  // upper layer has reported that this client is ready. The service outlives the client and runs
  // inside the client's progress(); none of its contexts may be used after the client is destroyed.
  static Expected<void, Error> serve(Client& client, std::uint32_t program, std::uint32_t version,
                                     Service& service);

  // --- On the server
  // Returns a client for calls to the client that made this Call. Call it only after the upper
  // layer has said that the peer accepts calls; both sides must have set `backward_calls`. There is
  // at most one at a time per connection.
  //
  // It belongs to the server's thread and is driven by the server's progress(). start() and
  // call_async() work, also inside services; call() fails; progress(), wait() and drain() do
  // nothing. Bulk items are copied into the message. Arguments and results are limited to one
  // message, unless the peer speaks version two and takes chunks (ClientOptions::backward_support):
  // then they are read and written by it, and a call that times out may cost the connection, when
  // the peer finds that it may no longer do so. When the connection ends, its calls end and no more
  // can be made, unless BackwardOptions::outlives_connection is set. The client may outlive the
  // server. Once the connection is gone, it has no wait_fd() (-1) and no provider_name(). Fails
  // with kUnsupported for a context that the application created itself.
  static Expected<Client, Error> client_of(const CallContext& context,
                                           const BackwardOptions& options = {});
  // For such a client with outlives_connection whose connection is lost: continues over the
  // connection of this call. The upper layer must first have said on that connection that the peer,
  // which must be the same one, accepts calls again. Waiting calls are made again with the same
  // XID, so that the peer can tell which calls it has executed. Fails with kUnsupported if the
  // client has a connection, or that connection has a client.
  static Expected<void, Error> resume(Client& client, const CallContext& context);
};

}  // namespace rpcrdma

#endif  // RPCRDMA_BACKWARD_H_
