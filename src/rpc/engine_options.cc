#include "rpc/engine_options.h"

#include <algorithm>

namespace rpcrdma::rpc {
namespace {

engine::Options common(const ConnectionOptions& options) noexcept {
  engine::Options result;
  const std::uint32_t size = std::clamp(options.inline_size, 1024U, 65536U);
  result.inline_send = result.inline_receive = size;
  result.credits = std::clamp(options.credits, 1U, 4096U);
  result.reduce_size_min = options.reduce_size_min;
  result.reduce = options.reduce;
  return result;
}

}  // namespace

engine::Options engine_options(const ClientOptions& options) noexcept {
  engine::Options result = common(options.connection);
  result.calls_max = std::clamp(options.calls_max, 1U, 4096U);
  result.call_timeout = options.call_timeout;
  return result;
}

engine::Options engine_options(const ServerOptions& options) noexcept {
  engine::Options result = common(options.connection);
  result.read_chunk_size_max = options.bulk_size_max;
  result.long_call_size_max = options.long_call_size_max;
  // A server advertises no memory, so there is nothing that a peer could invalidate.
  result.takes_invalidation = false;
  return result;
}

}  // namespace rpcrdma::rpc
