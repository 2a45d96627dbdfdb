// A service that takes Calls as whole RPC messages: for gateways, and for programs with their own
// RPC library. Client::prepare_message() is its counterpart.
//
//   struct Relay : rpcrdma::MessageService {
//     void call(rpcrdma::CallContext& context) override {
//       const Bytes call = context.arguments().xdr().rest();  // from the XID on
//       …
//       context.results().xdr().opaque_fixed(reply);          // the same, from its XID on
//       context.succeed();
//     }
//   };
//   server->serve_messages(relay);
#ifndef RPCRDMA_MESSAGE_SERVICE_H_
#define RPCRDMA_MESSAGE_SERVICE_H_

#include <cstdint>

#include "rpcrdma/export.h"
#include "rpcrdma/service.h"

namespace rpcrdma {

// Receives every Call for which no other service was added, including NULL. The server checks only
// that it is a Call (RFC 5531 §9) and that both of its headers have the same XID. The context is as
// usual, with these exceptions:
// arguments() starts at the XID. Data that a client sent by Read chunks is not in xdr()'s bytes:
// bulk() finds it, and placed() lists it with its position in the message.
// results() takes the whole Reply, starting with its XID. Data to be placed is passed by
// bulk_fixed() or bulk(), in the order of the Write chunks.
// procedure() and credential() are set as far as the header could be read, else zero.
// fail() answers with a header of the library's, without a verifier.
// Calls with aligned data (RDMA_MSGP, Profile::kRfc5666) are refused, because only their reader
// could find the fill bytes.
//
// No reply is remembered: a Call that a client repeats is executed again.
class RPCRDMA_EXPORT MessageService : public Service {
 public:
  // `item_size_max`: the largest item accepted in a Read chunk, bytes; Calls with larger ones are
  // refused (GARBAGE_ARGS). ServerOptions::memory_max and TcpOptions::record_size_max bound whole
  // messages.
  explicit MessageService(std::uint32_t item_size_max = 1U << 20U) noexcept {
    traits_.bulk_argument_size_max = item_size_max;
    traits_.bulk_arguments_max = kBulkItemsMax;
  }
  ~MessageService() override;
  const ProcedureTraits* traits(std::uint32_t /*procedure*/) const noexcept final {
    return &traits_;
  }

 private:
  ProcedureTraits traits_;
};

}  // namespace rpcrdma

#endif  // RPCRDMA_MESSAGE_SERVICE_H_
