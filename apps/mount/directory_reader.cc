#include "mount/directory_reader.h"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <utility>

namespace mounts {
namespace {

constexpr std::size_t kNameMax = 255;

std::size_t hash_of(std::string_view name) {
  return std::hash<std::string_view>()(name);
}

}  // namespace

bool is_possible_name(std::string_view name) noexcept {
  return !name.empty() && name.size() <= kNameMax &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

void DirectoryReader::seek(std::uint64_t offset) {
  // The offset behind an empty directory is that of its beginning, from which it is read anew.
  const bool is_rewound = offset == 0 && entries_.empty();
  if (has_page_ && offset == offset_ && !is_rewound) return;
  if (has_page_ && offset == page_begin_ && offset != 0) {
    for (; at_ > 0; --at_) given_.erase(hash_of(entries_[at_ - 1].name));
    offset_ = offset;
    return;
  }
  const auto before = std::ranges::find(entries_, offset, &Entry::cookie);
  if (has_page_ && before != entries_.end()) {
    const auto index = static_cast<std::size_t>(before - entries_.begin()) + 1;
    for (; at_ > index; --at_) given_.erase(hash_of(entries_[at_ - 1].name));
    at_ = index;
    offset_ = offset;
    return;
  }
  // From the beginning, or to a place that the kernel knows from before.
  if (offset == 0) {
    given_.clear();
    has_all_given_ = true;
    next_.verifier = {};
  } else {
    has_all_given_ = false;
  }
  skips_given_ = false;
  entries_.clear();
  at_ = 0;
  offset_ = offset;
  next_.cookie = offset;
  mark_ = 0;
  steps_ = 0;
  steps_max_ = 1;
  has_page_ = is_last_ = false;
}

std::optional<DirectoryReader::Ask> DirectoryReader::wanted() const noexcept {
  if (has_page_ && (is_last_ || at_ < entries_.size())) return std::nullopt;
  return next_;
}

int DirectoryReader::take(Page page) {
  for (const Entry& each : page.entries) {
    if (!is_possible_name(each.name)) return EIO;
  }
  page_begin_ = next_.cookie;
  if (!page.entries.empty()) next_.cookie = page.entries.back().cookie;
  next_.verifier = page.verifier;
  if (!page.is_last) {
    // Brent's way to find a circle: compare with one cookie, which moves on ever more rarely.
    const bool is_circle = next_.cookie == page_begin_ || (steps_ > 0 && next_.cookie == mark_);
    if (page.entries.empty() || is_circle) return EIO;
    if (++steps_ >= steps_max_) {
      mark_ = next_.cookie;
      steps_max_ *= 2;
      steps_ = 1;
    }
  }
  entries_ = std::move(page.entries);
  at_ = 0;
  has_page_ = true;
  is_last_ = page.is_last;
  return 0;
}

int DirectoryReader::restart() noexcept {
  if (!has_all_given_ || skips_given_) return EIO;
  skips_given_ = true;
  next_ = {};
  mark_ = 0;
  steps_ = 0;
  steps_max_ = 1;
  entries_.clear();
  at_ = 0;
  has_page_ = is_last_ = false;
  return 0;
}

void DirectoryReader::give_memory_back() noexcept {
  entries_ = {};
  at_ = 0;
  given_ = {};
  has_all_given_ = skips_given_ = false;
  has_page_ = is_last_ = false;
  next_.cookie = offset_;
  mark_ = 0;
  steps_ = 0;
  steps_max_ = 1;
}

const DirectoryReader::Entry* DirectoryReader::next() {
  while (skips_given_ && at_ < entries_.size() && given_.contains(hash_of(entries_[at_].name))) {
    ++at_;
  }
  return at_ < entries_.size() ? &entries_[at_] : nullptr;
}

void DirectoryReader::give() {
  const Entry& entry = entries_[at_++];
  offset_ = entry.cookie;
  if (given_.size() >= kGivenMax) has_all_given_ = false;
  if (has_all_given_) given_.insert(hash_of(entry.name));
}

}  // namespace mounts
