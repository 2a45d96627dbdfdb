// The memory that an application has registered for long: found by address, counted while in use.
#ifndef RPCRDMA_RPC_REGION_TABLE_H_
#define RPCRDMA_RPC_REGION_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "rpcrdma/types.h"

namespace rpcrdma::rpc {

class RegionTable {
 public:
  struct Place {
    std::uint32_t id;
    std::uint64_t offset;  // bytes from the start of the region
  };

  // `writable` is null for memory that is only read. nullopt: empty, or it overlaps a region that
  // is there. Ids are small and used again.
  std::optional<std::uint32_t> add(Bytes memory, std::byte* writable);
  // Precondition: the region is there and not in use.
  void remove(std::uint32_t id);

  bool empty() const noexcept { return by_address_.empty(); }
  // The region that holds all of `data`, if any, and may be written to if that is asked.
  std::optional<Place> find(Bytes data, bool to_write) const;

  // Each use keeps the region from being removed.
  void use(std::uint32_t id) { ++regions_[id].uses; }
  void end_use(std::uint32_t id);

  std::uint32_t ids_end() const noexcept { return static_cast<std::uint32_t>(regions_.size()); }
  bool is_live(std::uint32_t id) const { return regions_[id].live; }  // added, and not removed
  Bytes memory(std::uint32_t id) const { return regions_[id].memory; }
  std::byte* writable(std::uint32_t id) const { return regions_[id].writable; }

 private:
  struct Region {
    Bytes memory;
    std::byte* writable = nullptr;
    std::uint32_t uses = 0;
    bool live = false;
  };
  // The index in by_address_ of the first region that starts behind `data`.
  std::size_t behind(const std::byte* data) const;
  bool holds(std::uint32_t id, Bytes data) const;

  std::vector<Region> regions_;            // by id
  std::vector<std::uint32_t> by_address_;  // ids of live regions
  mutable std::uint32_t last_ = 0;         // what find() found last
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_REGION_TABLE_H_
