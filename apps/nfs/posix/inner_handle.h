// A file's handle as a back end knows it, by value.
#ifndef RPCRDMA_NFS_POSIX_INNER_HANDLE_H_
#define RPCRDMA_NFS_POSIX_INNER_HANDLE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "nfs/file_system.h"

namespace nfs::posix {

struct InnerHandle {
  std::array<std::byte, HandleMaker::kInnerHandleMax> bytes{};
  std::uint8_t size = 0;

  std::span<const std::byte> view() const noexcept { return {bytes.data(), size}; }
  bool operator==(const InnerHandle& other) const noexcept {
    return std::ranges::equal(view(), other.view());
  }
  // Longer ones than there can be become empty, which is none.
  static InnerHandle of(std::span<const std::byte> from) noexcept {
    InnerHandle made;
    if (from.size() > made.bytes.size()) return made;
    std::ranges::copy(from, made.bytes.begin());
    made.size = static_cast<std::uint8_t>(from.size());
    return made;
  }
};

struct HashOfHandle {
  std::size_t operator()(const InnerHandle& handle) const noexcept {
    return std::hash<std::string_view>()(
        {reinterpret_cast<const char*>(handle.bytes.data()), handle.size});
  }
};

}  // namespace nfs::posix

#endif  // RPCRDMA_NFS_POSIX_INNER_HANDLE_H_
