// A call while its reply is awaited, and the terms of its connection.
#ifndef RPCRDMA_EXPLAIN_CALL_RECORD_H_
#define RPCRDMA_EXPLAIN_CALL_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "explain/facts.h"

namespace rpcrdma::explain {

// The bytes of a Long message that are kept: they hold its RPC header.
inline constexpr std::size_t kLongHeadSize = 1024;

struct CallRecord {
  CallFact fact;
  std::vector<std::byte> call_head, reply_head;     // of Long messages
  std::vector<std::vector<std::uint64_t>> written;  // bytes in each segment of each Write chunk
  std::vector<std::uint64_t> written_reply;         // bytes in each segment of the Reply chunk
  std::vector<std::uint64_t> read_back;             // of each segment of the Read list
  std::uint64_t digest = 0;                         // of the message that called
  std::size_t arguments_at = 0;   // of an inline Call, bytes from the start of its RPC message
  std::uint64_t gaps_before = 0;  // of the connection, when the record was made
  std::uint32_t open_reads = 0;   // RDMA Reads of its chunks that are not complete
  std::size_t footprint = 0;      // bytes, roughly
  bool has_late_head = false;     // bytes of its Long reply came before the Call, and are not kept
  bool is_counted = false;        // among the Calls whose grants are in force
  bool awaits_done = false;
  bool has_write_fault = false;  // a Write that missed its chunk was reported
};

// The terms on which the sides of a connection agreed, and how far the capture is complete.
struct Terms {
  int client = -1;                      // the side that began; -1: unknown
  std::uint32_t limits[2] = {0, 0};     // of Sends, by sender, bytes; 0: unknown
  bool is_default[2] = {false, false};  // the limit is that of RFC 8166 for want of a better one
  std::optional<std::uint32_t> reads_accepted[2];  // by the side that reads; nothing: unknown
  std::uint32_t grants[2] = {0, 0};                // to the side that calls; 0: none yet
  bool has_reply[2] = {false, false};              // to the side that calls
  std::uint64_t sends[2] = {0, 0};
  bool is_complete = false;  // every byte since the beginning was captured
  bool is_rfc5666 = false, has_backward = false, is_record = false;
};

}  // namespace rpcrdma::explain

#endif  // RPCRDMA_EXPLAIN_CALL_RECORD_H_
