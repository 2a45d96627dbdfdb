// Reads the records of a running server's tap from its socket.
#ifndef RPCRDMA_APPS_EXPLAIN_LIVE_READER_H_
#define RPCRDMA_APPS_EXPLAIN_LIVE_READER_H_

#include <cstddef>
#include <string>
#include <vector>

#include "explain/facts.h"
#include "explain/live.h"
#include "rpcrdma/tap.h"
#include "rpcrdma/types.h"

namespace explaining {

class LiveReader {
 public:
  // Reads the server's greeting. problem() says why there is none. The stream ends, without a
  // problem and with what has happened until then, when the descriptor `stop` becomes readable; -1:
  // never. The socket is not closed.
  LiveReader(int socket, int stop);

  // Waits for the next record. False: there is none.
  bool next();
  const rpcrdma::TapRecord& record() const noexcept { return record_; }
  rpcrdma::Bytes bytes() const noexcept { return bytes_; }  // valid until next()
  // The peer's address; of an introduction alone.
  const rpcrdma::explain::Endpoint& peer() const noexcept { return peer_; }

  const rpcrdma::explain::Live::Servers& servers() const noexcept { return servers_; }
  const std::string& problem() const noexcept { return problem_; }
  // Returns whether a whole record can be had without waiting.
  bool has_buffered() const noexcept;

 private:
  bool greet();
  // Waits until more bytes are there; false: the stream has ended.
  bool read_more(int timeout_ms);
  rpcrdma::Bytes unread() const noexcept { return rpcrdma::Bytes(buffer_).subspan(begin_); }

  const int socket_, stop_;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0;  // of what is not read yet
  rpcrdma::TapRecord record_;
  rpcrdma::Bytes bytes_;
  rpcrdma::explain::Endpoint peer_;
  rpcrdma::explain::Live::Servers servers_;
  std::string problem_;
  bool has_timed_out_ = false, is_stopping_ = false;
};

}  // namespace explaining

#endif  // RPCRDMA_APPS_EXPLAIN_LIVE_READER_H_
