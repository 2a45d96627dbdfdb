// iWARP in software: RDMA over ordinary TCP sockets, without any special hardware.
//
// The bytes on the connection are those of RFC 5040 (RDMAP), RFC 5041 (DDP) and RFC 5044/6581
// (MPA), so that Linux's siw, an iWARP adapter and Wireshark understand them. All rules of the wire
// live in src/iwarp; here are only sockets, time and entropy.
//
// Each post() ends with one sendmsg for the whole batch, if the socket takes it: post in batches to
// need few system calls. Completions of work that post() finishes by itself (exposures, Sends that
// the socket took) have to be polled after it; they do not make wait_fd() readable, but wait() does
// not block then.
#ifndef RPCRDMA_RDMA_SIWARP_PROVIDER_H_
#define RPCRDMA_RDMA_SIWARP_PROVIDER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "rpcrdma/provider.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rdma::siwarp {

// The mode that the set-up requests with the peer-to-peer model of RFC 6581 §9 (A, B, C and D
// bits).
enum class PeerToPeer : std::uint8_t {
  kOff,    // the initiator's first message is the application's
  kWrite,  // zero-length RDMA Write opens the stream
  kRead,   // zero-length RDMA Read opens the stream
  kSend,   // zero-length FPDU (a Send without data) opens the stream
};

struct Options {
  bool crc = true;                             // ask for MPA CRC; it is used if either side asks
  std::uint16_t ird = 16;                      // RDMA Reads of the peer that we serve at a time
  std::uint16_t ord = 16;                      // RDMA Reads that we want to have in flight
  std::uint8_t mpa_revision = 2;               // of our requests: 1 (no IRD/ORD negotiation) or 2
  PeerToPeer peer_to_peer = PeerToPeer::kOff;  // as initiator
  std::chrono::milliseconds setup_timeout_initiator{10'000};
  std::chrono::milliseconds setup_timeout_responder{5'000};
  std::chrono::milliseconds linger{2'000};  // how long a closed connection may still drain
  // So long after the first FPDU without an answer, send a zero-length Write to wake Linux's siw,
  // which overlooks an FPDU that follows its MPA Reply too soon; again, some times, after twice as
  // long each. 0: never.
  std::chrono::milliseconds first_answer_nudge{10};
  std::uint32_t queue_depth = 1024;    // Receives, and as many other work requests, a connection
  std::uint32_t exposures = 1024;      // live steering tags and RDMA Reads a connection
  std::uint32_t regions = 1024;        // attached regions a connection
  std::uint32_t segment_size_max = 0;  // payload bytes of an FPDU; 0: from the TCP segment size
  int socket_buffer_size = 2 * 1024 * 1024;  // SO_SNDBUF and SO_RCVBUF; 0: the system's choice
  std::size_t connections_max = 4096;        // established and in set-up
  std::size_t half_open_max = 256;           // accepted connections that are still in set-up
  std::size_t lingering_max = 256;           // closed ones that drain; the oldest makes room
  std::chrono::microseconds spin{20};        // wait() polls so long before it sleeps; 0: never
  // Messages come in memory of the provider, so that a quiet connection has none; only
  // post_receives() takes Receives then (Capabilities::shares_receives).
  bool shares_receives = false;
  // Sockets get numbers from this on, where the limit of descriptors allows it.
  int descriptors_from = 0;
  bool share_port = false;   // listeners of several providers may have one port (SO_REUSEPORT)
  std::string remedy;        // Provider::remedy(): why it is siwarp, where it was not asked for
  std::string capture_file;  // pcapng of all connections; empty: none
  std::uint64_t capture_bytes_max = 256ULL * 1024 * 1024;  // the file stops growing here
};

class ReceivePool;
class TurnSize;

// Counts the outcomes of connections that others opened to us; for tests and reports.
struct SetupCounters {
  std::uint64_t accepted = 0;   // TCP connections taken from listening sockets
  std::uint64_t presented = 0;  // of these: finished their MPA Request in time and in form
  std::uint64_t timed_out = 0;  // silent or too slow
  std::uint64_t malformed = 0;  // spoke something else, or broke off
  std::uint64_t evicted = 0;    // gave way, since too many were half open or open
};

// Opens the descriptors (and the capture file) that a provider needs. Fails with kNoResources or
// kProvider (see provider_code) when the system refuses, kUnsupported for options out of range.
Expected<std::unique_ptr<Provider>, Error> make_provider(const Options& options);
// Precondition: made by make_provider() of this module.
const SetupCounters& setup_counters(const Provider& provider) noexcept;
// Returns what decides on the turns of a provider that make_provider() made, for tests.
TurnSize& turn_size(Provider& provider) noexcept;
// Returns the memory of the messages of such a provider, for tests.
ReceivePool& receive_pool(Provider& provider) noexcept;

}  // namespace rpcrdma::rdma::siwarp

#endif  // RPCRDMA_RDMA_SIWARP_PROVIDER_H_
