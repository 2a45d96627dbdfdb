// Counters of a connection, the source of the demo's table and of --json.
#ifndef RPCRDMA_COUNTERS_H_
#define RPCRDMA_COUNTERS_H_

#include <array>
#include <cstdint>
#include <string_view>

namespace rpcrdma {

// The counters of one connection, or of all connections that a server has had. RFC 8166 §3.5 names
// the forms.
struct TransferCounters {
  // Calls that ended, once for each time that they were sent (client), or were answered (server).
  std::uint64_t calls = 0;
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
  std::uint64_t versions_refused = 0;  // of errors_sent: ERR_VERS, for versions that are not served
  std::uint64_t messages_dropped = 0;  // short, stray, bad or unknown ones
  std::uint64_t credit_overruns = 0;   // peers that made more Calls than granted
  std::uint64_t credits_exhausted = 0;  // server: Calls that took the last credit of their client
  // Client: Calls that waited for a credit of the server, and the time of all of them, ns.
  std::uint64_t credit_waits = 0, credit_wait_ns = 0;
  std::uint64_t handles_invalidated_remotely = 0, handles_revoked = 0;
  std::uint64_t messages_received = 0;                         // Receives that were used, over RDMA
  std::uint64_t rdma_reads = 0, rdma_writes = 0;               // that this side has posted
  std::uint64_t wire_bytes_sent = 0, wire_bytes_received = 0;  // 0 if a device does not report
  std::uint64_t payload_bytes = 0;  // of Sends, Writes and Read Responses, both ways
  std::uint64_t registrations = 0;  // of memory, with the provider; see registered_memory.h
  // RDMA devices only: batches of work handed over; completions requested.
  std::uint64_t doorbells = 0, completions = 0;
  std::uint64_t bytes_copied = 0;  // from one user buffer to another by our own code
};

// One of them, with the name that reports give it.
struct TransferCounter {
  std::string_view name;  // static text
  std::uint64_t TransferCounters::*value;
};

// All of them, in their order: for sums and reports.
inline constexpr std::array kTransferCounters = {
    TransferCounter{"calls", &TransferCounters::calls},
    TransferCounter{"short_calls", &TransferCounters::short_calls},
    TransferCounter{"read_chunks", &TransferCounters::read_chunks},
    TransferCounter{"write_chunks", &TransferCounters::write_chunks},
    TransferCounter{"reply_chunks", &TransferCounters::reply_chunks},
    TransferCounter{"long_calls", &TransferCounters::long_calls},
    TransferCounter{"long_replies", &TransferCounters::long_replies},
    TransferCounter{"read_chunk_bytes", &TransferCounters::read_chunk_bytes},
    TransferCounter{"write_chunk_bytes", &TransferCounters::write_chunk_bytes},
    TransferCounter{"padded_calls", &TransferCounters::padded_calls},
    TransferCounter{"read_replies", &TransferCounters::read_replies},
    TransferCounter{"cached_replies", &TransferCounters::cached_replies},
    TransferCounter{"errors_sent", &TransferCounters::errors_sent},
    TransferCounter{"errors_received", &TransferCounters::errors_received},
    TransferCounter{"versions_refused", &TransferCounters::versions_refused},
    TransferCounter{"messages_dropped", &TransferCounters::messages_dropped},
    TransferCounter{"credit_overruns", &TransferCounters::credit_overruns},
    TransferCounter{"credits_exhausted", &TransferCounters::credits_exhausted},
    TransferCounter{"credit_waits", &TransferCounters::credit_waits},
    TransferCounter{"credit_wait_ns", &TransferCounters::credit_wait_ns},
    TransferCounter{"handles_invalidated_remotely",
                    &TransferCounters::handles_invalidated_remotely},
    TransferCounter{"handles_revoked", &TransferCounters::handles_revoked},
    TransferCounter{"messages_received", &TransferCounters::messages_received},
    TransferCounter{"rdma_reads", &TransferCounters::rdma_reads},
    TransferCounter{"rdma_writes", &TransferCounters::rdma_writes},
    TransferCounter{"wire_bytes_sent", &TransferCounters::wire_bytes_sent},
    TransferCounter{"wire_bytes_received", &TransferCounters::wire_bytes_received},
    TransferCounter{"payload_bytes", &TransferCounters::payload_bytes},
    TransferCounter{"registrations", &TransferCounters::registrations},
    TransferCounter{"doorbells", &TransferCounters::doorbells},
    TransferCounter{"completions_signaled", &TransferCounters::completions},
    TransferCounter{"bytes_copied", &TransferCounters::bytes_copied},
};
static_assert(kTransferCounters.size() * sizeof(std::uint64_t) == sizeof(TransferCounters));

}  // namespace rpcrdma

#endif  // RPCRDMA_COUNTERS_H_
