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
  sum.errors_sent += engine.err_vers_sent + engine.err_chunk_sent;
  sum.errors_received += engine.err_received;
  sum.messages_dropped += engine.bad_reply_count + engine.unknown_xid_count +
                          engine.short_message_count + engine.stray_error_count;
  sum.credit_overruns += engine.credit_overruns;
  sum.handles_invalidated_remotely += engine.invalidated_remotely;
  sum.handles_revoked += engine.revoked_locally;
  sum.wire_bytes_sent += link.bytes_sent;
  sum.wire_bytes_received += link.bytes_received;
  sum.payload_bytes += link.payload_sent + link.payload_received;
  sum.registrations += link.registrations;
  sum.doorbells += link.doorbells;
  sum.completions += link.completions;
  sum.bytes_copied += link.bytes_copied;
}

void add(TransferCounters& sum, const TransferCounters& other) noexcept {
  sum.calls += other.calls;
  sum.short_calls += other.short_calls;
  sum.read_chunks += other.read_chunks;
  sum.write_chunks += other.write_chunks;
  sum.reply_chunks += other.reply_chunks;
  sum.long_calls += other.long_calls;
  sum.long_replies += other.long_replies;
  sum.read_chunk_bytes += other.read_chunk_bytes;
  sum.write_chunk_bytes += other.write_chunk_bytes;
  sum.padded_calls += other.padded_calls;
  sum.read_replies += other.read_replies;
  sum.cached_replies += other.cached_replies;
  sum.errors_sent += other.errors_sent;
  sum.errors_received += other.errors_received;
  sum.messages_dropped += other.messages_dropped;
  sum.credit_overruns += other.credit_overruns;
  sum.handles_invalidated_remotely += other.handles_invalidated_remotely;
  sum.handles_revoked += other.handles_revoked;
  sum.wire_bytes_sent += other.wire_bytes_sent;
  sum.wire_bytes_received += other.wire_bytes_received;
  sum.payload_bytes += other.payload_bytes;
  sum.registrations += other.registrations;
  sum.doorbells += other.doorbells;
  sum.completions += other.completions;
  sum.bytes_copied += other.bytes_copied;
}

}  // namespace rpcrdma::rpc
