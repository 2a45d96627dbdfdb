// A small blocking client of ONC RPC over a stream socket (RFC 5531 §11), for what has to go over
// one here: asking rpcbind, and asking a server to step up. One call at a time, AUTH_NONE.
#ifndef RPCRDMA_STREAM_STREAM_CLIENT_H_
#define RPCRDMA_STREAM_STREAM_CLIENT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rpcrdma/error.h"
#include "rpcrdma/oncrpc.h"
#include "rpcrdma/types.h"
#include "stream/descriptor.h"

namespace rpcrdma::stream {

struct StreamOptions {
  std::chrono::milliseconds timeout{5'000};   // of connecting, and of each call as a whole
  std::uint32_t record_size_max = 1U << 20U;  // of a reply, bytes
};

class StreamClient {
 public:
  // `who` is what listens there, for errors: "WHO at PATH".
  static Expected<StreamClient, Error> connect_unix(std::string_view who, const std::string& path,
                                                    const StreamOptions& options = {});
  // Tries the addresses of the host in turn, all of them within the time-out. Looking a name up may
  // take longer.
  static Expected<StreamClient, Error> connect_tcp(std::string_view who, const std::string& host,
                                                   std::uint16_t port,
                                                   const StreamOptions& options = {});
  // Over a connected stream socket, which is its own from now on. `peer` names the other side in
  // errors.
  StreamClient(int descriptor, std::string peer, const StreamOptions& options = {});

  // Makes a call and waits for its results, which are XDR. kNotAvailable, kDenied, kBadArguments
  // and kServerFault are the peer's answers; after any other error the connection is closed, and
  // further calls fail.
  Expected<std::vector<std::byte>, Error> call(const Procedure& procedure, Bytes arguments);

  const std::string& peer() const noexcept { return peer_; }
  // Of the other end of a TCP connection: "ADDR:PORT"; else empty.
  std::string peer_address() const;
  // The socket, non-blocking, behind the last byte of the last reply and not a byte further: for a
  // protocol that both sides go on with. The caller's from now on; -1 when it is closed.
  int release() noexcept { return descriptor_.release(); }
  // Closes, because the peer sent what cannot be used; the error to report.
  Unexpected<Error> give_up(Errc code, std::string_view cause);

 private:
  using Clock = std::chrono::steady_clock;

  Expected<void, Error> send(Bytes data, Clock::time_point deadline);
  Expected<std::vector<std::byte>, Error> receive(Clock::time_point deadline);
  Expected<void, Error> wait_for(short events, Clock::time_point deadline);

  Descriptor descriptor_;  // none: closed
  std::string peer_;
  StreamOptions options_;
  std::uint32_t next_xid_;
};

}  // namespace rpcrdma::stream

#endif  // RPCRDMA_STREAM_STREAM_CLIENT_H_
