#include "rpc/counters.h"

namespace rpcrdma::rpc {

void add(TransferCounters& sum, const transport::Connection& connection) noexcept {
  const engine::Counters& engine = connection.engine().counters();
  const rdma::Counters link = connection.counters();
  sum.calls += engine.calls_ended;
  sum.short_calls += engine.short_calls;
  sum.read_chunks += engine.read_chunk_count;
  sum.write_chunks += engine.write_chunk_count;
  sum.reply_chunks += engine.reply_chunk_count;
  sum.long_calls += engine.nomsg_calls;
  sum.long_replies += engine.nomsg_replies;
  sum.read_chunk_bytes += engine.read_chunk_bytes;
  sum.write_chunk_bytes += engine.write_chunk_bytes;
  sum.padded_calls += engine.padded_calls;
  sum.read_replies += engine.read_replies;
  sum.errors_sent += engine.err_vers_sent + engine.err_chunk_sent + engine.err_option_sent;
  sum.errors_received += engine.err_received;
  sum.versions_refused += engine.err_vers_sent;
  sum.messages_dropped += engine.bad_reply_count + engine.unknown_xid_count +
                          engine.short_message_count + engine.stray_error_count;
  sum.credit_overruns += engine.credit_overruns;
  sum.credits_exhausted += engine.credits_exhausted;
  sum.credit_waits += engine.credit_waits;
  sum.credit_wait_ns += engine.credit_wait_ns;
  sum.handles_invalidated_remotely += engine.invalidated_remotely;
  sum.handles_revoked += engine.revoked_locally;
  sum.messages_received += engine.messages_received;
  sum.rdma_reads += link.reads;
  sum.rdma_writes += link.writes;
  sum.wire_bytes_sent += link.bytes_sent;
  sum.wire_bytes_received += link.bytes_received;
  sum.payload_bytes += link.payload_sent + link.payload_received;
  sum.registrations += link.registrations;
  sum.doorbells += link.doorbells;
  sum.completions += link.completions;
  sum.bytes_copied += link.bytes_copied;
}

void add(TransferCounters& sum, const TransferCounters& other) noexcept {
  for (const TransferCounter& each : kTransferCounters) sum.*each.value += other.*each.value;
}

}  // namespace rpcrdma::rpc
