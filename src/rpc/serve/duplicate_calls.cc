#include "rpc/serve/duplicate_calls.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/copy.h"
#include "base/peer_host.h"

namespace rpcrdma::rpc {

std::string host_of(std::string_view address) {
  return host_of_peer(address);
}

std::uint64_t sum_of_arguments(Bytes stream, std::uint64_t position,
                               std::span<const MessageReader::Placed> placed) noexcept {
  constexpr std::array<std::byte, xdr::kWordSize> kPadding{};
  RequestSum sum(0);
  for (const MessageReader::Placed& item : placed) {
    // The decoder refuses an item whose position is not where it belongs.
    const std::uint64_t before = item.position > position ? item.position - position : 0;
    const std::size_t size = std::min<std::uint64_t>(before, stream.size());
    sum.add(stream.first(size));
    if (before > size) sum.add(std::as_bytes(std::span(&item.position, 1)));  // it is nowhere
    sum.add(item.data);
    sum.add(Bytes(kPadding).first(xdr::pad_size(item.data.size())));
    stream = stream.subspan(size);
    position += size + xdr::padded_memory(item.data.size());
  }
  sum.add(stream);
  return sum.value();
}

// The XID and the RPC header are in the key by their parts, since a verifier may differ; the
// arguments wherever they are, in the message or in the chunks that were pulled.
DuplicateCalls::Next DuplicateCalls::begin(IncomingCall& call, std::string_view peer_address,
                                           std::span<const MessageReader::Placed> placed) {
  ReplyCache::Key key;
  key.host = host_of(peer_address);
  key.procedure = call.header_.procedure;
  key.xid = call.header_.xid;
  const Credential& credential = call.header_.credential;
  const bool is_named = call.auth_.with != nullptr && call.auth_.call.identity;
  key.credential = ReplyCache::checksum(is_named ? *call.auth_.call.identity : credential.body,
                                        static_cast<std::uint32_t>(credential.flavor));
  key.arguments =
      sum_of_arguments(call.arguments_.xdr().rest(), call.arguments_.position(), placed);
  const ReplyCache::Begun begun = cache_.begin(key);
  switch (begun.found) {
    case ReplyCache::Found::kNew:
      call.cache_key_ = std::move(key);
      return Next::kExecute;
    case ReplyCache::Found::kDone:
      return replay(call, begun.reply);
    case ReplyCache::Found::kInProgress:
      break;
  }
  call.duplicate_of_ = {std::move(key), begun.watch};
  return Next::kWait;
}

DuplicateCalls::Next DuplicateCalls::retry(IncomingCall& call) {
  if (!call.duplicate_of_->watch.may_have_ended()) return Next::kWait;
  ReplyCache::Key key = call.duplicate_of_->key;
  const auto [found, reply, watch] = cache_.begin(key);
  if (found == ReplyCache::Found::kInProgress) {
    call.duplicate_of_->watch = watch;
    return Next::kWait;
  }
  call.duplicate_of_.reset();
  if (found == ReplyCache::Found::kDone) return replay(call, reply);
  // The first one failed, or its reply was too large to be kept.
  call.cache_key_ = std::move(key);
  return Next::kExecute;
}

void DuplicateCalls::remember(IncomingCall& call) {
  const ReplyCache::Key key = std::move(*call.cache_key_);
  call.cache_key_.reset();
  if (call.status_ != AcceptStatus::kSuccess) return cache_.forget(key);
  ReplyCache::Reply reply;
  const Bytes stream = Bytes(call.results_buffer_).subspan(kReplyRoom, call.results_.size());
  reply.stream.assign(stream.begin(), stream.end());
  for (const BulkItem& item : call.results_.items()) {
    reply.items.push_back({item.at, {item.data.begin(), item.data.end()}, item.is_eligible});
  }
  cache_.finish(key, std::move(reply));
}

DuplicateCalls::Next DuplicateCalls::replay(IncomingCall& call, const ReplyCache::Reply& reply) {
  ++cached_replies_;
  call.status_ = copy_results(call, reply) ? AcceptStatus::kSuccess : AcceptStatus::kSystemErr;
  return Next::kAnswer;
}

// Writes the results as they were, with the bulk items as bulk items again.
bool DuplicateCalls::copy_results(IncomingCall& call, const ReplyCache::Reply& reply) {
  if (!call.reserve_results(static_cast<std::uint32_t>(reply.stream.size()))) return false;
  const Bytes stream(reply.stream);
  std::size_t done = 0;
  for (const ReplyCache::Item& item : reply.items) {
    call.results_.xdr().opaque_fixed(stream.subspan(done, item.at - done));
    const MutableBytes memory = call.result_memory(static_cast<std::uint32_t>(item.data.size()));
    if (memory.size() != item.data.size()) return false;
    copy_bytes(item.data, memory.data());
    if (item.is_eligible) {
      call.results_.bulk_fixed(memory);
    } else {
      call.results_.lend(memory);
    }
    done = item.at + xdr::pad_size(item.data.size());
  }
  call.results_.xdr().opaque_fixed(stream.subspan(done));
  return call.results_.ok();
}

}  // namespace rpcrdma::rpc
