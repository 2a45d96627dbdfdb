#include "nfs/posix/listing.h"

#include <dirent.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <string_view>
#include <utility>

namespace nfs::posix {
namespace {

constexpr long kXfsMagic = 0x58465342;

// Behind it comes the name; see getdents64(2).
struct RawEntry {
  std::uint64_t fileid;
  std::int64_t next;
  std::uint16_t size;
  std::uint8_t type;
};
constexpr std::size_t kNameAt = 19;

// FNV-1a of 64 bits; never 0 to 2, and not above what clients take for a signed number.
std::uint64_t cookie_of(std::string_view name) {
  if (name == ".") return 1;
  if (name == "..") return 2;
  std::uint64_t digest = 14695981039346656037U;
  for (const char each : name)
    digest = (digest ^ static_cast<unsigned char>(each)) * 1099511628211U;
  // FNV mixes upwards; what is sorted by should be mixed everywhere.
  digest ^= digest >> 32U;
  digest *= 0x9e3779b97f4a7c15U;
  digest ^= digest >> 29U;
  return std::max<std::uint64_t>(digest & 0x7fffffffffffff00U, 0x100);
}

// Names with the same digest get cookies one behind the other.
void sort_by_cookie(Listings::Entries& entries) {
  std::ranges::sort(entries, [](const DirectoryEntry& a, const DirectoryEntry& b) {
    return a.cookie != b.cookie ? a.cookie < b.cookie : a.name < b.name;
  });
  for (std::size_t i = 1; i < entries.size(); ++i) {
    if (entries[i].cookie <= entries[i - 1].cookie) entries[i].cookie = entries[i - 1].cookie + 1;
  }
}

Listings::Page page_of(const Listings::Entries& entries, std::uint64_t cookie, std::size_t count) {
  const auto begin = std::ranges::upper_bound(entries, cookie, {}, &DirectoryEntry::cookie);
  const auto left = static_cast<std::size_t>(entries.end() - begin);
  const auto end = begin + static_cast<std::ptrdiff_t>(std::min(left, count));
  return {{begin, end}, left <= count};
}

// The clock of file times moves in steps: what changed within the last one may change again without
// being seen.
bool is_past(const timespec& time) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  constexpr std::int64_t kStepNs = 50'000'000;
  const std::int64_t passed =
      (now.tv_sec - time.tv_sec) * 1'000'000'000 + (now.tv_nsec - time.tv_nsec);
  return passed > kStepNs;
}

bool same(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

}  // namespace

bool has_stable_positions(const files::File& root) {
  struct statfs status {};
  if (::fstatfs(root.descriptor(), &status) != 0) return false;
  const auto type = static_cast<long>(status.f_type);
  return type == EXT4_SUPER_MAGIC || type == kXfsMagic || type == BTRFS_SUPER_MAGIC ||
         type == F2FS_SUPER_MAGIC;
}

ListingEnd for_each_by_position(const files::File& directory, std::uint64_t position,
                                const std::function<bool(const DirectoryEntry&)>& take) {
  if (::lseek(directory.descriptor(), static_cast<off_t>(position), SEEK_SET) < 0) {
    return ListingEnd::kError;
  }
  alignas(RawEntry) std::array<char, 32 * 1024> buffer;
  for (;;) {
    const long size =
        ::syscall(SYS_getdents64, directory.descriptor(), buffer.data(), buffer.size());
    if (size < 0) return ListingEnd::kError;
    if (size == 0) return ListingEnd::kAll;
    for (long at = 0; at < size;) {
      RawEntry raw{};
      std::memcpy(&raw, &buffer[static_cast<std::size_t>(at)], sizeof(raw));
      const char* const name = &buffer[static_cast<std::size_t>(at) + kNameAt];
      if (!take({name, raw.fileid, static_cast<std::uint64_t>(raw.next)})) {
        return ListingEnd::kStopped;
      }
      at += raw.size;
    }
  }
}

// Callers that read long directories at the same time would take memory for all of each.
bool Listings::read(const files::File& directory, Entries& entries, LongOne& long_one) {
  bool is_refused = false;
  const ListingEnd end = for_each_by_position(directory, 0, [&](const DirectoryEntry& entry) {
    if (entries.size() == limits_.long_min) {
      is_refused = !long_.try_acquire();
      if (!is_refused) long_one.of = &long_;
    }
    if (!is_refused) entries.push_back({entry.name, entry.fileid, cookie_of(entry.name)});
    return !is_refused;
  });
  if (is_refused) errno = EAGAIN;
  return end == ListingEnd::kAll;
}

std::optional<Listings::Page> Listings::page(const InnerHandle& handle,
                                             const files::File& directory,
                                             const struct stat& status, std::uint64_t cookie,
                                             std::size_t count) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(kept_, handle, &Kept::handle);
    if (found != kept_.end() && same(found->changed, status.st_ctim)) {
      kept_.splice(kept_.begin(), kept_, found);
      return page_of(found->entries, cookie, count);
    }
    if (found != kept_.end()) {
      entries_kept_ -= found->entries.size();
      kept_.erase(found);
    }
  }
  const bool may_be_kept = is_past(status.st_ctim);
  Entries entries;
  LongOne long_one;
  if (!read(directory, entries, long_one)) return std::nullopt;
  sort_by_cookie(entries);
  Page page = page_of(entries, cookie, count);
  // One page has all of it, and is often all that is asked for; else the next page keeps it.
  const bool is_all = cookie == 0 && page.is_last;
  if (!may_be_kept || is_all || entries.size() > limits_.entries_max) return page;
  const std::lock_guard lock(mutex_);
  entries_kept_ += entries.size();
  kept_.push_front({handle, status.st_ctim, std::move(entries)});
  while (entries_kept_ > limits_.entries_max || kept_.size() > limits_.directories_max) {
    entries_kept_ -= kept_.back().entries.size();
    kept_.pop_back();
  }
  return page;
}

}  // namespace nfs::posix
