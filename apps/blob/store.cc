#include "blob/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "blob/name.h"
#include "blob/sha256.h"
#include "blob/store_files.h"

namespace blob {

using files::File;

using rpcrdma::Expected;
using rpcrdma::MutableBytes;
using rpcrdma::Unexpected;

namespace {

Unexpected<blob_status> no(blob_status status) {
  return Unexpected<blob_status>(status);
}

Store::Entry entry_of(std::string_view name, const struct stat& status) {
  return {std::string(name), static_cast<std::uint64_t>(status.st_size),
          static_cast<std::uint64_t>(status.st_mtim.tv_sec) * 1'000'000'000U +
              static_cast<std::uint64_t>(status.st_mtim.tv_nsec)};
}

}  // namespace

Store::Store(std::string directory, StoreOptions options)
    : path_(std::move(directory)),
      options_(std::move(options)),
      directory_(path_, O_RDONLY | O_DIRECTORY),
      quick_reads_(directory_.descriptor()) {}

blob_status Store::open() {
  if (!directory_.is_open()) return failed("opening the directory", path_);
  if (options_.is_read_only) return blob_status::BLOB_OK;
  const std::string uploads(kUploadsName);
  if (::mkdirat(directory_.descriptor(), uploads.c_str(), 0700) != 0 && errno != EEXIST) {
    return failed("making the directory of uploads", uploads);
  }
  const File opened(::openat(directory_.descriptor(), uploads.c_str(),
                             O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!opened.is_open()) return failed("opening the directory of uploads", uploads);
  expire();
  return blob_status::BLOB_OK;
}

blob_status Store::failed(std::string_view what, std::string_view name) const {
  const int error = errno;
  if (options_.log != nullptr) {
    std::string text(what);
    text.append(" ").append(name).append(": ").append(std::strerror(error));
    options_.log->write(LogLevel::kError, text);
  }
  return error == ENOSPC || error == EDQUOT || error == EFBIG ? blob_status::BLOB_NO_SPACE
                                                              : blob_status::BLOB_IO_ERROR;
}

// Looks at the file before it opens it: opening a FIFO or a device may have an effect.
File Store::open_regular(std::string_view name, files::Resolving resolving) const {
  if (!valid_name(name)) return File();
  const std::string path(name);
  const File found = files::open_beneath(directory_.descriptor(), path, O_PATH, resolving);
  const auto status = found.is_open() ? found.status() : std::nullopt;
  if (!status || !S_ISREG(status->st_mode)) return File();
  File file = files::open_beneath(directory_.descriptor(), path, O_RDONLY | O_NONBLOCK | O_NOCTTY,
                                  resolving);
  const auto opened = file.is_open() ? file.status() : std::nullopt;
  return opened && S_ISREG(opened->st_mode) ? std::move(file) : File();
}

Expected<Store::Got, blob_status> Store::get(std::string_view name, std::uint64_t offset,
                                             MutableBytes into) {
  if (!valid_name(name)) return no(blob_status::BLOB_BAD_NAME);
  File file = open_regular(name);
  const auto status = file.is_open() ? file.status() : std::nullopt;
  if (!status) return no(blob_status::BLOB_NO_SUCH_BLOB);
  const auto size = static_cast<std::uint64_t>(status->st_size);
  if (offset >= size) return Got{0, true};
  const auto count = file.read_at(into, offset);
  if (!count) return no(failed("reading", name));
  return Got{*count, offset + *count >= size};
}

std::optional<Store::Got> Store::get_at_once(std::string_view name, std::uint64_t offset,
                                             MutableBytes into, File& removed) const {
  if (!quick_reads_.keeps_inodes()) return std::nullopt;
  File file = open_regular(name, files::Resolving::kInMemory);
  if (!file.is_open()) return std::nullopt;
  const auto got = read_at_once(file, offset, into);
  // One that loses its name behind this is closed here all the same: that takes a removal within a
  // few system calls.
  const auto status = file.status();
  if (!status || status->st_nlink == 0) removed = std::move(file);
  return got;
}

std::optional<Store::Got> Store::read_at_once(const File& file, std::uint64_t offset,
                                              MutableBytes into) const {
  const auto status = file.is_open() ? file.status() : std::nullopt;
  if (!status) return std::nullopt;
  const auto size = static_cast<std::uint64_t>(status->st_size);
  if (offset >= size) return Got{0, true};
  if (!quick_reads_.keeps_data() && quick_reads_.sets_time(*status)) return std::nullopt;
  const auto count = quick_reads_.keeps_data() ? file.read_at(into, offset)
                                               : files::read_if_in_memory(file, into, offset, size);
  if (!count) return std::nullopt;
  return Got{*count, offset + *count >= size};
}

Expected<Store::Entry, blob_status> Store::stat(std::string_view name) {
  if (!valid_name(name)) return no(blob_status::BLOB_BAD_NAME);
  const std::string path(name);
  struct stat status {};
  if (::fstatat(directory_.descriptor(), path.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return no(blob_status::BLOB_NO_SUCH_BLOB);
  }
  if (S_ISLNK(status.st_mode)) {
    const File found = files::open_beneath(directory_.descriptor(), path, O_PATH);
    const auto target = found.is_open() ? found.status() : std::nullopt;
    if (!target) return no(blob_status::BLOB_NO_SUCH_BLOB);
    status = *target;
  }
  if (!S_ISREG(status.st_mode)) return no(blob_status::BLOB_NO_SUCH_BLOB);
  return entry_of(name, status);
}

Store::Page Store::list(std::uint64_t after, std::size_t size_min) {
  const std::lock_guard lock(list_mutex_);
  are_names_used_ = true;
  names_.read(directory_.descriptor());
  const auto& names = names_.names();
  auto next = std::ranges::upper_bound(names, after, {}, &NameOrder::Placed::place);
  Page page{.entries = {}, .place = after, .end = false};
  // Names of one place are not parted.
  for (std::size_t size = 0; next != names.end() && (size < size_min || next->place == page.place);
       ++next) {
    auto entry = stat(next->name);
    if (!entry) continue;
    page.entries.push_back(std::move(*entry));
    page.place = next->place;
    size += next->name.size() + kEntrySize;
  }
  page.end = next == names.end();
  return page;
}

Expected<blob_sum, blob_status> Store::sum(std::string_view name) {
  if (!valid_name(name)) return no(blob_status::BLOB_BAD_NAME);
  File file = open_regular(name);
  if (!file.is_open()) return no(blob_status::BLOB_NO_SUCH_BLOB);
  const auto sum = sum_of(file);
  if (!sum) return no(failed("reading", name));
  return *sum;
}

blob_status Store::remove(std::string_view name) {
  if (options_.is_read_only) return blob_status::BLOB_READ_ONLY;
  if (!valid_name(name)) return blob_status::BLOB_BAD_NAME;
  const std::string path(name);
  if (::unlinkat(directory_.descriptor(), path.c_str(), 0) == 0 || errno == ENOENT) {
    return blob_status::BLOB_OK;
  }
  return errno == EISDIR ? blob_status::BLOB_NOT_A_FILE : failed("removing", name);
}

// A link is replaced itself, not what it leads to.
bool Store::may_be_replaced(std::string_view name) const {
  struct stat status {};
  const std::string path(name);
  if (::fstatat(directory_.descriptor(), path.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return true;
  }
  return S_ISREG(status.st_mode) || S_ISLNK(status.st_mode);
}

}  // namespace blob
