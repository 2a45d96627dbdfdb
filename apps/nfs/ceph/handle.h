// A handle names a file of a CephFS for as long as the file exists, on every gateway.
#ifndef RPCRDMA_NFS_CEPH_HANDLE_H_
#define RPCRDMA_NFS_CEPH_HANDLE_H_

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "nfs/ceph/api.h"

namespace nfs::ceph {

struct Handle {
  static constexpr std::size_t kSize = 24;
  using Encoded = std::array<std::byte, kSize>;

  std::uint64_t inode = 0;
  std::uint64_t birth = 0;  // ns; inode numbers have no generation
  std::uint64_t file_system = 0;

  static Handle of(const Statx& status, std::uint64_t file_system) noexcept;
  // nullopt: it is none.
  static std::optional<Handle> decode(std::span<const std::byte> bytes) noexcept;
  Encoded encoded() const noexcept;  // the same on all machines
  auto operator<=>(const Handle&) const = default;
};

}  // namespace nfs::ceph

#endif  // RPCRDMA_NFS_CEPH_HANDLE_H_
