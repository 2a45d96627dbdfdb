// What the shards of a server share: what they serve, and what correctness asks for.
#ifndef RPCRDMA_RPC_SERVE_SERVER_STATE_H_
#define RPCRDMA_RPC_SERVE_SERVER_STATE_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/types.h"
#include "oncrpc/configuration.h"
#include "oncrpc/registry.h"
#include "rpc/engine_options.h"
#include "rpc/serve/configuration_service.h"
#include "rpc/serve/connection_log.h"
#include "rpc/serve/reply_cache.h"
#include "rpc/serve/shard_inbox.h"
#include "rpcrdma/options.h"

namespace rpcrdma::rpc {

// A shard is a thread with connections of its own (ServerOptions::shards); most servers have one.
// The registry changes only before the shards run.
struct ServerState {
  explicit ServerState(const ServerOptions& given)
      : options(part_of(given)),
        engine_options(rpc::engine_options(options)),  // names what is in them
        configuration(options, engine_options),
        cache(options.reply_cache_entries, options.reply_cache_bytes),
        log(options) {
    if (options.connection.profile == Profile::kRfc5666) {
      const auto& procedure = oncrpc::kConfigureConnection;
      (void)registry.add(procedure.program, procedure.version, configuration);  // the first of all
    }
  }

  static std::uint32_t shards_of(const ServerOptions& options) noexcept {
    return std::clamp(options.shards, 1U, kShardsMax);
  }
  // Where the next connection goes. Called by the first shard, which listens.
  ShardInbox& deal() noexcept { return *inboxes[next_++ % inboxes.size()]; }

  const ServerOptions options;  // of each shard
  const engine::Options engine_options;
  ConfigurationService configuration;
  oncrpc::ServiceRegistry registry;
  ReplyCache cache;
  ConnectionLog log;
  std::vector<ShardInbox*> inboxes;          // of all shards, by their numbers
  std::atomic<bool> takes_step_ups = false;  // the first shard adopts TCP connections

 private:
  static constexpr std::uint32_t kShardsMax = 256;

  // Memory, Receives and idle TCP connections are bounded for each shard, so that none has to ask
  // the others.
  static ServerOptions part_of(ServerOptions options) {
    const std::uint32_t shards = options.shards = shards_of(options);
    const auto share = [shards](auto whole) {
      return static_cast<decltype(whole)>((whole + shards - 1) / shards);
    };
    options.memory_max /= shards;
    options.receives_max = share(options.receives_max);
    options.tcp.connections_max = share(options.tcp.connections_max);
    return options;
  }

  std::size_t next_ = 0;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_SERVER_STATE_H_
