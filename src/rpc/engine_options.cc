#include "rpc/engine_options.h"

#include <algorithm>
#include <bit>

#include "engine/connection.h"
#include "rpc/time_limit.h"
#include "transport/buffer_pool.h"

namespace rpcrdma::rpc {
namespace {

constexpr std::uint32_t kBackwardCallsMax = 1024;

engine::Versions versions_of(ProtocolVersion version) noexcept {
  switch (version) {
    case ProtocolVersion::kOne:
      return {1, 1};
    case ProtocolVersion::kTwo:
      return {2, 2};
    case ProtocolVersion::kAny:
      return {1, 2};
  }
  return {1, 1};
}

std::uint32_t inline_arguments_max(const ConnectionOptions& options) noexcept {
  const bool is_usual = options.inline_size == ConnectionOptions().inline_size;
  return std::min(options.inline_arguments_max.value_or(is_usual ? kInlineSizeMax : 0),
                  kInlineArgumentsMax);
}

engine::Options common(const ConnectionOptions& options, ProtocolVersion version) noexcept {
  engine::Options result;
  if (options.profile == Profile::kRfc8166) result.versions = versions_of(version);
  const std::uint32_t size = std::clamp(options.inline_size, kInlineSizeMin, kInlineSizeMax);
  result.inline_send = result.inline_receive = size;
  result.receive_size_max = std::min(options.receive_size_max, kInlineSizeMax);
  result.credits = std::clamp(options.credits, 1U, 4096U);
  result.reduce_size_min = options.reduce_size_min;
  result.reduce = options.reduce;
  if (options.profile == Profile::kRfc8166) {
    result.inline_arguments_max = inline_arguments_max(options);
    return result;
  }
  result.profile = Profile::kRfc5666;
  const Rfc5666Options& profile = options.rfc5666;
  result.rfc5666.results_by_read = profile.results_by_read;
  result.rfc5666.padding_threshold = profile.padding_threshold;
  result.rfc5666.padding_base = profile.padding_base;
  result.rfc5666.exposed_replies_max = std::clamp(profile.exposed_replies_max, 1U, 1024U);
  result.rfc5666.done_timeout = limited(profile.done_timeout);
  result.remote_invalidation = false;
  return result;
}

// An item that no buffer of the pool could ever hold is refused, since it would wait for memory for
// ever. Bytes.
std::uint32_t within(std::uint32_t size, std::size_t memory_max) noexcept {
  const std::size_t buffer_max =
      std::min(transport::BufferPool::kSizeMax,
               std::bit_floor(transport::BufferPool::large_bytes_max(memory_max)));
  return static_cast<std::uint32_t>(std::min<std::size_t>(size, buffer_max));
}

// Returns the alignment of a server's Receives: room must be left behind the first aligned byte.
std::uint32_t receive_alignment(const ConnectionOptions& options) noexcept {
  if (options.profile == Profile::kRfc8166) return 0;
  const std::uint32_t size = std::clamp(options.inline_size, kInlineSizeMin, kInlineSizeMax);
  return std::bit_floor(std::min(options.rfc5666.alignment, size / 2));
}

}  // namespace

engine::Options engine_options(const ClientOptions& options) noexcept {
  engine::Options result = common(options.connection, options.version);
  result.calls_max = std::clamp(options.calls_max, 1U, 4096U);
  result.backward_calls = std::min(options.backward_calls, kBackwardCallsMax);
  result.backward_support = options.backward_support;
  result.characteristics = options.characteristics;
  result.long_call_size_max = within(result.long_call_size_max, options.memory_max);
  result.read_chunk_size_max = within(result.read_chunk_size_max, options.memory_max);
  result.call_timeout = limited(options.call_timeout);
  result.ends_silent_connections = options.ends_silent_connections;
  result.pull_rate_min = 0;  // of backward Calls, whose server this side has chosen
  // An application that sets less time for the set-up does not want to wait for an answer either.
  result.offer_timeout = std::min<std::chrono::nanoseconds>(
      result.offer_timeout, limited(options.provider.setup_timeout_client) / 2);
  // One more for the Call that configures the connection, or offers version 2.
  if (result.profile == Profile::kRfc5666 || result.versions.high > 1) ++result.calls_max;
  return result;
}

engine::Options engine_options(const ServerOptions& options) noexcept {
  engine::Options result = common(options.connection, options.version);
  result.inline_arguments_max = 0;  // results stay inline by inline_send
  result.backward_calls = std::min(options.backward_calls, kBackwardCallsMax);
  result.characteristics = options.characteristics;
  result.read_chunk_size_max = within(options.bulk_size_max, options.memory_max);
  result.peer_timeout = limited(options.peer_timeout);
  result.pull_timeout = limited(options.pull_timeout);
  result.pull_rate_min = options.pull_rate_min;
  result.return_form =
      options.return_full_write_lists ? engine::ReturnForm::kFull : engine::ReturnForm::kShortened;
  result.long_call_size_max = within(options.long_call_size_max, options.memory_max);
  result.receive_alignment = receive_alignment(options.connection);
  if (result.profile == Profile::kRfc5666) {
    result.credits = std::max(result.credits, 2U);
    // RFC 5666 §3.6: every segment with its length rewritten.
    result.return_form = engine::ReturnForm::kFull;
  }
  return result;
}

std::uint32_t long_receive_size(const ServerOptions& options) noexcept {
  const engine::Options result = common(options.connection, options.version);
  const std::uint32_t arguments = result.inline_arguments_max;
  const std::uint32_t size = arguments == 0 ? 0 : arguments + engine::kBesideArguments;
  return size > engine::receive_size(result) ? size : 0;
}

std::vector<std::byte> set_up_data(const engine::Options& options) {
  if (options.profile == Profile::kRfc5666) return {};
  const auto data = engine::private_data(options);
  return {data.begin(), data.end()};
}

}  // namespace rpcrdma::rpc
