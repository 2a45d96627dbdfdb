#include "nfs/client/holes.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace nfs {
namespace {

constexpr std::uint64_t kBlock = 4096;  // fewer zeros are cheaper to write than to leave out

bool is_zero(rpcrdma::Bytes bytes) {
  return bytes.front() == std::byte{} &&
         std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

}  // namespace

Result<Extent> next_data(const files::File& file, std::uint64_t from, std::uint64_t size) {
  const off_t begin = ::lseek(file.descriptor(), static_cast<off_t>(from), SEEK_DATA);
  if (begin < 0 && errno != ENXIO) return Extent{from, size};
  if (begin < 0) {  // there is a hole, or nothing
    const auto status = file.status();
    if (!status || static_cast<std::uint64_t>(status->st_size) < size) {
      return rpcrdma::Unexpected<Failure>(Failure::here("it became shorter while it was copied"));
    }
    return Extent{size, size};
  }
  const off_t end = ::lseek(file.descriptor(), begin, SEEK_HOLE);
  const std::uint64_t first = std::min(static_cast<std::uint64_t>(begin), size);
  if (end <= begin) return Extent{first, size};
  return Extent{first, std::min(static_cast<std::uint64_t>(end), size)};
}

Extent next_that_is_not_zero(rpcrdma::Bytes memory, std::uint64_t offset, std::uint64_t from) {
  // The first byte of the memory that is of the next block, or the end.
  const auto next_block = [&](std::uint64_t at) {
    return std::min<std::uint64_t>(memory.size(), at + kBlock - (offset + at) % kBlock);
  };
  Extent found{memory.size(), memory.size()};
  for (std::uint64_t at = from; at < memory.size();) {
    const std::uint64_t next = next_block(at);
    const bool is_hole = is_zero(memory.subspan(at, next - at));
    const bool has_begun = found.begin < memory.size();
    if (is_hole && has_begun) return {found.begin, at};
    if (!is_hole && !has_begun) found.begin = at;
    at = next;
  }
  return found;
}

}  // namespace nfs
