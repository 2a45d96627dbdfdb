// Errors, with messages that a person can act on.
#ifndef RPCRDMA_ERROR_H_
#define RPCRDMA_ERROR_H_

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

#include "rpcrdma/export.h"

namespace rpcrdma {

enum class Errc : std::uint8_t {
  kBadUrl,          // not rdma://HOST[:PORT], tcp://HOST:PORT or unix:///PATH
  kUnreachable,     // no connection to the peer
  kRefused,         // the peer refused the connection
  kTimedOut,        // connection setup or call took too long
  kConnectionLost,  // the connection ended before the reply
  kVersion,         // no version of RPC-over-RDMA in common with the peer
  kChunk,           // the peer could not use the call's chunks (RDMA_ERROR ERR_CHUNK)
  kBadReply,        // the reply cannot be decoded or does not fit the call
  kCanceled,        // by the caller, or because the client is closing
  kTooLarge,        // arguments or results larger than a call may have
  kTooManyCalls,    // ClientOptions::calls_max calls are outstanding
  kNoResources,     // memory, descriptors or registrations
  kDenied,          // RPC: the server rejects the credential or the RPC version
  kNotAvailable,    // RPC: no such program, version or procedure
  kBadArguments,    // RPC: the server could not decode the arguments
  kServerFault,     // RPC: the server failed (SYSTEM_ERR)
  kUnsupported,     // this build or this machine cannot do it
  kUnknownHost,     // the host's name has no address
  kSecurity,        // the security mechanism: no ticket, another clock, a reply that proves nothing
};
RPCRDMA_EXPORT std::string_view to_string(Errc code) noexcept;

// operation: what was attempted; peer: with whom ("ADDR:PORT", a socket's path or the URL), empty
// if it takes no peer; cause: what happened, and what to do about it if anything can be done.
struct RPCRDMA_EXPORT Error {
  Errc code;
  std::string operation;
  std::string peer;
  std::string cause;

  // "put of x.tar (10.0.0.1:20049) failed: the connection was lost: …"
  std::string message() const;
};

// Prints the message. A template, so that this header does not include those of streams.
template <class Traits>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& out,
                                             const Error& error) {
  return out << error.message();
}

}  // namespace rpcrdma

#endif  // RPCRDMA_ERROR_H_
