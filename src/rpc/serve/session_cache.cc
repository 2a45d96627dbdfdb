// Calls that must not be executed twice: how a session uses the server's ReplyCache.
#include <algorithm>
#include <utility>

#include "rpc/serve/session.h"

namespace rpcrdma::rpc {
namespace {

std::string host_of(std::string_view address) {
  return std::string(address.substr(0, address.rfind(':')));
}

}  // namespace

// The arguments wherever they are: in the message, and in the chunks that were pulled.
ReplyCache::Key Session::key_of(const Context& context, Bytes arguments,
                                std::span<const MessageReader::Placed> placed) const {
  ReplyCache::Key key;
  key.host = host_of(connection_->peer_address());
  key.procedure = context.header_.procedure;
  key.xid = context.header_.xid;
  const Credential& credential = context.header_.credential;
  key.credential =
      ReplyCache::checksum(credential.body, static_cast<std::uint32_t>(credential.flavor));
  key.arguments = ReplyCache::checksum(arguments, 0);
  for (const MessageReader::Placed& item : placed) {
    key.arguments = ReplyCache::checksum(item.data, key.arguments + item.position);
  }
  return key;
}

// Names a Call by what stays the same when it is made again: the host, the XID, the positions and
// lengths of its chunks, and the start of its inline part, which a Long Call has not. Never zero.
std::uint64_t Session::name_of(engine::CallId call, Xid xid, Bytes inline_part) {
  constexpr std::size_t kPartMax = 512;  // bytes; RPC header, credential and the first arguments
  if (host_ == 0) {
    const std::string host = host_of(connection_->peer_address());
    host_ = ReplyCache::checksum(std::as_bytes(std::span(host)), 0) | 1U;
  }
  const std::uint64_t chunks = connection_->engine().chunk_digest(call);
  const std::uint64_t seed = (host_ ^ chunks) + static_cast<std::uint32_t>(xid);
  return ReplyCache::checksum(inline_part.first(std::min(inline_part.size(), kPartMax)), seed) | 1U;
}

// Whether the Call, before any of its chunks is touched, is one that has ended a connection.
bool Session::was_refused(Context& context, Xid xid, Bytes inline_part) {
  context.name_ = name_of(context.call_, xid, inline_part);
  return cache_.was_refused(context.name_, now_);
}

// False: it is not to be executed now; it was answered, or waits until it is known how the one ends
// that is being executed.
bool Session::is_new(Context& context, ReplyCache::Key&& key) {
  switch (cache_.begin(key)) {
    case ReplyCache::Found::kNew:
      context.cache_key_ = std::move(key);
      return true;
    case ReplyCache::Found::kDone:
      answer_from_cache(context, cache_.reply(key));
      return false;
    case ReplyCache::Found::kInProgress:
      context.duplicate_of_ = std::move(key);
      ++duplicates_waiting_;
      return false;
  }
  return true;
}

// Returns whether any went on.
bool Session::retry_duplicates() {
  bool moved = false;
  for (const auto& each : contexts_) {
    Context& context = *each;
    if (!context.duplicate_of_) continue;
    if (!connection_->ended()) {
      ReplyCache::Key key = *context.duplicate_of_;
      const auto found = cache_.begin(key);
      if (found == ReplyCache::Found::kInProgress) continue;
      context.duplicate_of_.reset();
      --duplicates_waiting_;
      if (found == ReplyCache::Found::kDone) {
        answer_from_cache(context, cache_.reply(key));
      } else {  // the first one failed, or its reply was too large to be kept
        context.cache_key_ = std::move(key);
        execute(context, context.service_);
      }
    } else {
      context.duplicate_of_.reset();
      --duplicates_waiting_;
      connection_->engine().reject(context.call_);
    }
    moved = true;
  }
  return moved;
}

// Before the results are sent, and also when the connection has gone meanwhile.
void Session::remember(Context& context) {
  const ReplyCache::Key key = std::move(*context.cache_key_);
  context.cache_key_.reset();
  if (context.status_ != AcceptStatus::kSuccess) return cache_.forget(key);
  ReplyCache::Reply reply;
  const Bytes stream = context.results_buffer_.first(context.results_.size());
  reply.stream.assign(stream.begin(), stream.end());
  for (const BulkItem& item : context.results_.items()) {
    reply.items.push_back({item.at, {item.data.begin(), item.data.end()}});
  }
  cache_.finish(key, std::move(reply));
}

void Session::answer_from_cache(Context& context, const ReplyCache::Reply& reply) {
  ++cached_replies_;
  if (!copy_results(context, reply)) context.status_ = AcceptStatus::kSystemErr;
  send_answer(context);
}

// Writes the results as they were, with the bulk items as bulk items again.
bool Session::copy_results(Context& context, const ReplyCache::Reply& reply) {
  const std::size_t header = oncrpc::kReplyHeaderSizeMin;
  context.status_ = AcceptStatus::kSuccess;
  if (!context.begin_results(static_cast<std::uint32_t>(reply.stream.size()))) return false;
  const Bytes stream(reply.stream);
  std::size_t done = header;  // begin_results() has written it
  for (const ReplyCache::Item& item : reply.items) {
    const std::size_t count_word = item.at - xdr::kWordSize;
    context.results_.xdr().opaque_fixed(stream.subspan(done, count_word - done));
    const MutableBytes memory = context.result_memory(static_cast<std::uint32_t>(item.data.size()));
    if (memory.size() != item.data.size()) return false;
    std::ranges::copy(item.data, memory.begin());
    context.results_.bulk(memory);
    done = item.at + xdr::pad_size(item.data.size());
  }
  context.results_.xdr().opaque_fixed(stream.subspan(done));
  return context.results_.ok();
}

}  // namespace rpcrdma::rpc
