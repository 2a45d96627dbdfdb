#include "rpc/engine_options.h"

#include <algorithm>
#include <bit>

#include "transport/buffer_pool.h"

namespace rpcrdma::rpc {
namespace {

constexpr std::uint32_t kBackwardCallsMax = 1024;

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
  result.backward_calls = std::min(options.backward_calls, kBackwardCallsMax);
  result.call_timeout = options.call_timeout;
  return result;
}

engine::Options engine_options(const ServerOptions& options) noexcept {
  engine::Options result = common(options.connection);
  // What no buffer of the pool could ever hold is refused; it would wait for memory for ever.
  const std::size_t buffer_max =
      std::min(transport::BufferPool::kSizeMax,
               std::bit_floor(transport::BufferPool::large_bytes_max(options.memory_max)));
  const auto within = [&](std::uint32_t size) {
    return static_cast<std::uint32_t>(std::min<std::size_t>(size, buffer_max));
  };
  result.backward_calls = std::min(options.backward_calls, kBackwardCallsMax);
  result.read_chunk_size_max = within(options.bulk_size_max);
  result.peer_timeout = options.peer_timeout;
  result.return_form =
      options.return_full_write_lists ? engine::ReturnForm::kFull : engine::ReturnForm::kShortened;
  result.long_call_size_max = within(options.long_call_size_max);
  // A server advertises no memory, so there is nothing that a peer could invalidate.
  result.takes_invalidation = false;
  return result;
}

}  // namespace rpcrdma::rpc
