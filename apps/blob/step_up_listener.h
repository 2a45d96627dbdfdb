// The blob program over plain TCP: a connection whose client asks for it is handed over to the
// server and goes on as RPC over RDMA (RFC 5666 §3). BLOB_NULL and BLOB_STEP_UP are answered,
// nothing else. The client's side is step_up.h.
//
// No peer is trusted: its records are bounded, as are its time and the number of those that wait;
// who sends what is no Call, or talks on before it has the answer, loses its connection.
#ifndef RPCRDMA_BLOB_STEP_UP_LISTENER_H_
#define RPCRDMA_BLOB_STEP_UP_LISTENER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rpcrdma/error.h"
#include "rpcrdma/server.h"
#include "rpcrdma/types.h"
#include "stream/descriptor.h"
#include "stream/record.h"

namespace blob {

struct StepUpOptions {
  // A connection that has not stepped up is closed after it, whatever has come meanwhile.
  std::chrono::milliseconds timeout{5'000};
  // Connections that have not stepped up; the oldest makes room.
  std::size_t waiting_max = 64;
};

class StepUpListener {
 public:
  // Listens on a numeric address and a port, 0 for a free one. The server outlives this object, and
  // both belong to one thread.
  static rpcrdma::Expected<StepUpListener, rpcrdma::Error> listen(
      const std::string& host, std::uint16_t port, rpcrdma::Server& server,
      const StepUpOptions& options = {});
  StepUpListener(StepUpListener&&) = default;
  StepUpListener& operator=(StepUpListener&&) = delete;
  // Closes the connections that have not stepped up; the others are the server's.
  ~StepUpListener() = default;

  // Poll wait_fd() for reading, then call progress(), then the server's, which may have got a
  // connection.
  int wait_fd() const noexcept { return epoll_.value(); }
  void progress();

  // "ADDR:PORT" with the real port.
  const std::string& address() const noexcept { return address_; }
  std::size_t waiting() const noexcept { return waiting_.size(); }

 private:
  using Clock = std::chrono::steady_clock;
  using Descriptor = rpcrdma::stream::Descriptor;

  struct Connection {
    Connection(int descriptor, Clock::time_point end);
    Descriptor socket;
    Clock::time_point deadline;
    rpcrdma::stream::RecordReader reader;
    std::list<Connection>::iterator self;
  };

  StepUpListener(rpcrdma::Server& server, const StepUpOptions& options)
      : server_(&server), options_(options) {}

  void accept_connections();
  void rest();
  void expire();
  void arm_timer();
  void receive(Connection& connection);
  void answer(Connection& connection);
  void step_up(Connection& connection, std::uint32_t xid);
  void send(Connection& connection, rpcrdma::Bytes record);
  void close(Connection& connection) { waiting_.erase(connection.self); }

  rpcrdma::Server* server_;
  StepUpOptions options_;
  std::string address_;
  Descriptor listening_;
  Descriptor timer_;
  Descriptor epoll_;
  std::list<Connection> waiting_;  // oldest first, so that the first is due first
  std::optional<Clock::time_point> resting_until_;
};

}  // namespace blob

#endif  // RPCRDMA_BLOB_STEP_UP_LISTENER_H_
