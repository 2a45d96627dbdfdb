// Options of the provider and facts about RDMA devices; plain values without rdma-core.
#ifndef RPCRDMA_RDMA_VERBS_OPTIONS_H_
#define RPCRDMA_RDMA_VERBS_OPTIONS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace rpcrdma::rdma::verbs {

// The way in which memory is exposed to a peer. In each, the peer gets a right to exactly the
// exposed run, of one kind, on one connection.
enum class Registration : std::uint8_t {
  kAuto,     // the first of these two that the device has
  kWindows,  // type 2 memory windows: bound and invalidated by posted work, no system call
  kPerCall,  // a registration for each exposure, undone when it is revoked
  // Like kPerCall, but registrations with their rights are kept for the next exposure of the same
  // run. Weaker: the peer can go on using a tag that was revoked, and memory that was exposed once
  // must stay mapped as long as the connection lives. Never chosen by itself.
  kCache,
};

// Receives that all connections which are accepted on a device have in common, in one queue of the
// device; where that has none, or does not keep those that share apart, each has its own.
struct SharedReceives {
  std::uint32_t count = 0;  // 0: each connection has its own
  std::uint32_t size = 0;   // of the longest message, bytes
  // Share Receives even if a peer could then access memory that another connection has exposed, or
  // registered.
  bool anyway = false;
};

struct Options {
  Registration registration = Registration::kAuto;
  std::uint16_t ird = 16;  // RDMA Reads of the peer that we serve at a time
  std::uint16_t ord = 16;  // RDMA Reads that we want to have in flight
  std::chrono::milliseconds setup_timeout_initiator{10'000};
  std::chrono::milliseconds setup_timeout_responder{5'000};
  std::uint32_t queue_depth = 1024;  // Receives, and as many other work requests, a connection
  std::uint32_t exposures = 1024;    // live steering tags a connection
  std::uint32_t regions = 1024;      // attached regions a connection
  std::uint32_t inline_max = 256;    // Sends up to so many bytes go by the queue, if it can, bytes
  SharedReceives shared_receives;
  std::size_t connections_max = 4096;
  std::size_t requests_max = 256;      // connection requests that wait to be accepted
  std::chrono::microseconds spin{20};  // wait() polls so long before it sleeps; 0: never
};

// The RDMA device for an address.
struct DeviceChoice {
  std::string name;
  std::string problem;  // why it cannot be used now, with the remedy; empty: it can
};

// An RDMA device as `rpcrdma info` shows it.
struct DeviceFacts {
  std::string name;
  std::string transport;               // "iWARP", "RoCE" or "InfiniBand"
  std::string registration;            // what kAuto comes to
  std::vector<std::string> addresses;  // IP addresses that it serves, numeric
  std::uint32_t reads_max = 0;         // RDMA Reads at a time, both ways
  std::uint32_t slices_max = 0;        // in one work request
  std::uint32_t shared_receives = 0;   // that its shared receive queue takes; 0: it has none
  bool takes_invalidation = false;     // flag R of RFC 8797
  std::string caution;                 // what it does not keep a peer from; empty: nothing known
  std::string problem;                 // why it cannot be used now, with the remedy; empty: it can
};

}  // namespace rpcrdma::rdma::verbs

#endif  // RPCRDMA_RDMA_VERBS_OPTIONS_H_
