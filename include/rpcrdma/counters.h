// Counters of a connection, the source of the demo's table and of --json.
#ifndef RPCRDMA_COUNTERS_H_
#define RPCRDMA_COUNTERS_H_

#include <cstdint>

namespace rpcrdma {

// Of one connection, or of all connections that a server has had. RFC 8166 §3.5 names the forms.
struct TransferCounters {
  std::uint64_t calls = 0;         // Calls that ended (client) or were answered (server)
  std::uint64_t short_calls = 0;   // Calls without any chunk
  std::uint64_t read_chunks = 0;   // bulk arguments
  std::uint64_t write_chunks = 0;  // bulk results: offered (client), filled (server)
  std::uint64_t reply_chunks = 0;  // room for Long Replies: offered (client), used (server)
  std::uint64_t long_calls = 0, long_replies = 0;
  std::uint64_t read_chunk_bytes = 0, write_chunk_bytes = 0;
  // Profile::kRfc5666: Calls with aligned data (RDMA_MSGP); replies by Read chunks.
  std::uint64_t padded_calls = 0, read_replies = 0;
  std::uint64_t cached_replies = 0;  // server: repeated calls that were answered from memory
  std::uint64_t errors_sent = 0, errors_received = 0;  // RDMA_ERROR
  std::uint64_t messages_dropped = 0;                  // short, stray, bad or unknown ones
  std::uint64_t credit_overruns = 0;                   // peers that made more Calls than granted
  std::uint64_t handles_invalidated_remotely = 0, handles_revoked = 0;
  std::uint64_t wire_bytes_sent = 0, wire_bytes_received = 0;  // 0 if a device does not report
  std::uint64_t payload_bytes = 0;  // of Sends, Writes and Read Responses, both ways
  std::uint64_t registrations = 0;  // of memory, with the provider; see registered_memory.h
  // RDMA devices only: batches of work handed over; completions requested.
  std::uint64_t doorbells = 0, completions = 0;
  std::uint64_t bytes_copied = 0;  // from one user buffer to another by our own code
};

}  // namespace rpcrdma

#endif  // RPCRDMA_COUNTERS_H_
