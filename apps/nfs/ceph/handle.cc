#include "nfs/ceph/handle.h"

namespace nfs::ceph {
namespace {

constexpr std::size_t kWord = 8;

void put(std::uint64_t value, std::byte* to) noexcept {
  for (std::size_t i = 0; i < kWord; ++i) to[i] = static_cast<std::byte>(value >> (56U - 8U * i));
}
std::uint64_t get(const std::byte* from) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < kWord; ++i) value = value << 8U | std::to_integer<unsigned>(from[i]);
  return value;
}

}  // namespace

Handle Handle::of(const Statx& status, std::uint64_t file_system) noexcept {
  const std::uint64_t birth = static_cast<std::uint64_t>(status.stx_btime.tv_sec) * 1'000'000'000U +
                              static_cast<std::uint64_t>(status.stx_btime.tv_nsec);
  return {status.stx_ino, birth, file_system};
}

std::optional<Handle> Handle::decode(std::span<const std::byte> bytes) noexcept {
  if (bytes.size() != kSize) return std::nullopt;
  return Handle{get(bytes.data()), get(&bytes[kWord]), get(&bytes[2 * kWord])};
}

Handle::Encoded Handle::encoded() const noexcept {
  Encoded bytes{};
  put(inode, bytes.data());
  put(birth, &bytes[kWord]);
  put(file_system, &bytes[2 * kWord]);
  return bytes;
}

}  // namespace nfs::ceph
