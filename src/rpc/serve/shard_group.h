// Owns all shards of a server, and runs their threads.
#ifndef RPCRDMA_RPC_SERVE_SHARD_GROUP_H_
#define RPCRDMA_RPC_SERVE_SHARD_GROUP_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "posix/born_here.h"
#include "rpc/security.h"
#include "rpc/serve/server_impl.h"
#include "rpc/serve/server_state.h"
#include "rpcrdma/statistics.h"

namespace rpcrdma::rpc {

// The first shard is driven by the owner's thread and listens; each other one has a thread, from
// the first progress() until all have drained.
class ShardGroup {
 public:
  // `owned` and `provider`: as for ServerImpl, of the first shard.
  ShardGroup(std::unique_ptr<rdma::Provider> owned, rdma::Provider* provider,
             const ServerOptions& options);
  ~ShardGroup();
  // Destroys the group, or leaves it in memory as it is: a child of fork() has none of its threads,
  // and in the middle of which change each of them was nobody knows.
  static void end(std::unique_ptr<ShardGroup> group) noexcept;
  ShardGroup(const ShardGroup&) = delete;
  ShardGroup& operator=(const ShardGroup&) = delete;

  ServerImpl& first() noexcept { return *shards_.front()->impl; }
  const ServerImpl& first() const noexcept { return *shards_.front()->impl; }
  const ServerOptions& options() const noexcept { return state_.options; }
  std::size_t connections() const noexcept { return state_.log.connections(); }

  // Fails with kUnsupported if several shards run already: what all of them do can be changed only
  // before.
  Expected<void, Error> expect_still(std::string_view operation) const;
  // Precondition of all these: expect_still(). The first two take numeric addresses, and return the
  // address with the real port.
  Expected<std::string, Error> listen_rdma(const std::string& address);
  Expected<std::string, Error> listen_tcp(const std::string& address);
  Expected<std::string, Error> listen_tcp(posix::Fd socket);
  Expected<void, Error> add(std::uint32_t program, std::uint32_t version, Service& service);
  Expected<void, Error> serve_messages(MessageService& service);
  Expected<void, Error> accept_flavor(AuthFlavor flavor, ServerAuth& auth);
  Expected<void, Error> secure(const gss::ServerSecurity& security);
  Expected<void, Error> require(std::uint32_t program, std::uint32_t version,
                                std::vector<Protection> allowed,
                                std::optional<std::uint32_t> procedure);
  Expected<void, Error> register_read_only(Bytes memory);

  void progress();
  void stop() noexcept;  // from any thread, and from a signal handler
  bool drained() const noexcept;
  // The owner's thread, which drives the first shard, or a thread that is in a shard's progress();
  // or any other one.
  enum class Asker : std::uint8_t { kOwner, kAnybody };
  // Returns the sum over all shards. A shard that is busy contributes its previous figures.
  ServerStatistics statistics(Asker asker, bool with_connections = false);

 private:
  struct Shard {
    std::unique_ptr<ServerImpl> impl;
    std::thread thread;              // none: the first one's, or it never ran
    std::atomic<bool> runs = false;  // the thread uses the shard
    bool has_drained = false;        // the thread that drives it has noted that
  };

  Expected<void, Error> share_provider();
  Expected<void, Error> prepare_tcp();
  Expected<std::string, Error> listen_with_provider(const std::string& address);
  void start();
  void run(Shard& shard);
  bool note_drained(Shard& shard);

  ServerState state_;
  std::unique_ptr<ServerSecurity> security_;  // outlives the shards' calls
  std::vector<std::unique_ptr<Shard>> shards_;
  std::optional<posix::BornHere> threads_;  // since start()
  std::atomic<std::size_t> undrained_ = 1;  // the first shard, and those with a thread
  std::atomic<bool> quits_ = false;
  ShardGroup* left_before_ = nullptr;  // of those that end() left
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_SHARD_GROUP_H_
