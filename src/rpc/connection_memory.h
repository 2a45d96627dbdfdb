// Names memory of the application for the engine on one connection: of Calls that are made, and of
// results that are answered with.
#ifndef RPCRDMA_RPC_CONNECTION_MEMORY_H_
#define RPCRDMA_RPC_CONNECTION_MEMORY_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bounded_vector.h"
#include "rpc/region_table.h"
#include "rpcrdma/message.h"
#include "rpcrdma/provider.h"
#include "transport/connection.h"

namespace rpcrdma::rpc {

// The memory that one call, made or answered, has lent.
struct LentMemory {
  BoundedVector<engine::Lease, 2 * kBulkItemsMax + 2> leases;  // of this call only
  BoundedVector<std::uint32_t, 2 * kBulkItemsMax> regions;     // in use, of the RegionTable

  void clear() noexcept {
    leases.clear();
    regions.clear();
  }
};

// When a connection registers what the application has registered for long.
enum class Registering : std::uint8_t {
  kAhead,     // attach() or attach_all(), so that no call waits for it
  kWhenUsed,  // by the first call that lends some of it: many connections, of which few do
};

// Memory that the application has registered for long has one lease on each connection; other
// memory gets a lease for the call that lends it.
class ConnectionMemory {
 public:
  // The table outlives it.
  ConnectionMemory(RegionTable& regions, Registering when) noexcept
      : regions_(regions), when_(when) {}

  struct Place {
    engine::Lease lease;
    std::uint64_t offset;  // of the memory in the lease, bytes
  };

  // The leases of the connection before are forgotten; they end with it. Null: there is none.
  void move_to(transport::Connection* connection);
  // Registers a region on the connection; why it cannot be, if it cannot.
  std::optional<rdma::Error> attach(std::uint32_t id);
  // All that are not yet. Where this fails, calls register what they need themselves.
  void attach_all();
  // Ends a region; also without a connection. Precondition: no call uses it.
  void remove(std::uint32_t id);

  // nullopt: it cannot be registered, or the call has lent too much.
  std::optional<Place> lend(LentMemory& lent, MutableBytes memory);
  std::optional<Place> lend_read_only(LentMemory& lent, Bytes memory);
  // Precondition: no call holds it any more. `connection`: over which it was lent; null: it has
  // gone, and its leases with it.
  void take_back(LentMemory& lent, transport::Connection* connection) {
    if (lent.leases.empty() && lent.regions.empty()) return;
    if (connection != nullptr) {
      for (const engine::Lease lease : lent.leases) connection->detach(lease);
    }
    for (const std::uint32_t id : lent.regions) regions_.end_use(id);
    lent.clear();
  }

 private:
  std::optional<Place> find(LentMemory& lent, Bytes memory, bool to_write);
  bool is_attached(std::uint32_t id) const noexcept { return id < leases_.size() && leases_[id]; }

  RegionTable& regions_;
  const Registering when_;
  transport::Connection* connection_ = nullptr;
  std::vector<std::optional<engine::Lease>> leases_;  // of regions, by their ids
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_CONNECTION_MEMORY_H_
