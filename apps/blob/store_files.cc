#include "blob/store_files.h"

#include <dirent.h>
#include <fcntl.h>

#include <memory>

#include "blob/sha256.h"
#include "rpcrdma/types.h"

namespace blob {

using files::File;

std::optional<blob_sum> sum_of(const File& file) {
  std::vector<std::byte> buffer(BLOB_DATA_MAX);
  Sha256Stream sum;
  for (std::uint64_t offset = 0;;) {
    const auto count = file.read_at(buffer, offset);
    if (!count) return std::nullopt;
    sum.add(rpcrdma::Bytes(buffer).first(*count));
    if (*count < buffer.size()) return sum.finish();
    offset += *count;
  }
}

std::vector<std::string> names_in(int directory, const char* path) {
  std::vector<std::string> names;
  const int descriptor = ::openat(directory, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return names;
  struct Close {
    void operator()(DIR* stream) const { ::closedir(stream); }
  };
  const std::unique_ptr<DIR, Close> stream(::fdopendir(descriptor));
  if (stream == nullptr) {
    ::close(descriptor);
    return names;
  }
  while (const dirent* const entry = ::readdir(stream.get())) names.emplace_back(entry->d_name);
  return names;
}

}  // namespace blob
