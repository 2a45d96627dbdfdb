// State that the shards of a server share: their services, and what must be known to all of them to
// be right.
#ifndef RPCRDMA_RPC_SERVE_SERVER_STATE_H_
#define RPCRDMA_RPC_SERVE_SERVER_STATE_H_

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/connection.h"
#include "engine/types.h"
#include "oncrpc/configuration.h"
#include "oncrpc/registry.h"
#include "rpc/engine_options.h"
#include "rpc/serve/configuration_service.h"
#include "rpc/serve/connection_log.h"
#include "rpc/serve/duplicate_calls.h"
#include "rpc/serve/home_shards.h"
#include "rpc/serve/long_receives.h"
#include "rpc/serve/reply_cache.h"
#include "rpc/serve/shard_inbox.h"
#include "rpcrdma/options.h"
#include "transport/buffer_pool.h"

namespace rpcrdma::rpc {

// A shard is a thread with connections of its own (ServerOptions::shards); most servers have one.
// The registry changes only before the shards run.
struct ServerState {
  explicit ServerState(const ServerOptions& given)
      : options(part_of(given)),
        engine_options(rpc::engine_options(options)),  // names what is in them
        configuration(options, engine_options),
        cache(options.reply_cache_entries, options.reply_cache_bytes),
        log(options, options.tcp.connections_max * shards_of(given)),
        long_receive_size(rpc::long_receive_size(given)),
        long_receives(given.memory_max / kLongReceivesPart,
                      engine::Connection::receive_count(engine::Role::kServer, engine_options) *
                          long_receive_size) {
    if (options.connection.profile == Profile::kRfc5666) {
      const auto& procedure = oncrpc::kConfigureConnection;
      (void)registry.add(procedure.program, procedure.version, configuration);  // the first of all
    }
  }

  static std::uint32_t shards_of(const ServerOptions& options) noexcept {
    return std::clamp(options.shards, 1U, kShardsMax);
  }
  // Returns the inbox of the shard that gets the next connection. The first shard, which listens,
  // calls it. RDMA and TCP are counted apart, since clients that step up alternate between the two.
  ShardInbox& deal_rdma(std::string_view peer_address) {
    if (ShardInbox* const home = homes.find(host_of(peer_address))) return *home;
    return *inboxes[next_rdma_++ % inboxes.size()];
  }
  ShardInbox& deal_tcp() noexcept { return *inboxes[next_tcp_++ % inboxes.size()]; }

  const ServerOptions options;  // of each shard
  const engine::Options engine_options;
  ConfigurationService configuration;
  oncrpc::ServiceRegistry registry;
  ReplyCache cache;
  ConnectionLog log;
  const std::uint32_t long_receive_size;  // bytes; 0: none are longer than others
  LongReceives long_receives;             // of all shards
  std::vector<ShardInbox*> inboxes;       // of all shards, by their numbers
  HomeShards homes;
  std::atomic<bool> takes_step_ups = false;  // the first shard adopts TCP connections

 private:
  static constexpr std::uint32_t kShardsMax = 256;
  static constexpr std::size_t kLongReceivesPart = 8;  // of ServerOptions::memory_max

  // Returns the options of one shard. Memory, Receives and idle TCP connections are bounded for
  // each shard, so that none has to ask the others. Each can answer the largest call, and has room
  // for a few TCP connections.
  static ServerOptions part_of(ServerOptions options) {
    constexpr std::size_t kTcpConnectionsMin = 8;
    const std::uint32_t shards = options.shards = shards_of(options);
    const auto share = [shards](auto whole) {
      return static_cast<decltype(whole)>((whole + shards - 1) / shards);
    };
    const std::size_t largest =
        std::max({std::size_t{options.bulk_size_max}, std::size_t{options.long_call_size_max},
                  std::size_t{options.tcp.record_size_max}});
    const std::size_t for_largest =
        4 * std::bit_ceil(std::min(largest, transport::BufferPool::kSizeMax));
    options.memory_max =
        std::min(options.memory_max, std::max(share(options.memory_max), for_largest));
    options.receives_max = share(options.receives_max);
    options.tcp.connections_max =
        std::min(options.tcp.connections_max,
                 std::max(share(options.tcp.connections_max), kTcpConnectionsMin));
    return options;
  }

  std::size_t next_rdma_ = 0, next_tcp_ = 0;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_SERVER_STATE_H_
