// The names of one open directory, as pages come from the server and go to the kernel.
//
// The kernel's offset is the server's cookie of the name before it. The kernel takes part of a page
// and comes back for the rest, or goes back. A server that no longer knows a cookie is read from
// the beginning, without the names that the kernel has. A server that goes round in circles, or
// sends names that no directory can have, is refused.
#ifndef RPCRDMA_MOUNT_DIRECTORY_READER_H_
#define RPCRDMA_MOUNT_DIRECTORY_READER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "nfs3.h"

namespace mounts {

// Returns whether a name of a directory may be shown to programs.
bool is_possible_name(std::string_view name) noexcept;

class DirectoryReader {
 public:
  struct Entry {
    std::string name;
    std::uint64_t fileid = 0;
    nfs3::cookie3 cookie = 0;
    std::optional<nfs3::nfs_fh3> handle{};
    std::optional<nfs3::fattr3> attributes{};
  };
  struct Page {
    std::vector<Entry> entries;
    nfs3::cookieverf3 verifier{};
    bool is_last = false;
  };
  struct Ask {
    nfs3::cookie3 cookie = 0;
    nfs3::cookieverf3 verifier{};
  };

  // Goes to the kernel's offset. Names of the page at hand are there without a call.
  void seek(std::uint64_t offset);
  // Returns the page to ask the server for; nullopt: next() has all that there is.
  std::optional<Ask> wanted() const noexcept;
  // Takes the page that was asked for. Returns errno's value if the server cannot be trusted, or 0.
  int take(Page page);
  // The server does not know the cookie, or the verifier. Returns 0 if wanted() begins anew.
  int restart() noexcept;

  // Drops what is only kept to save calls, and to go on behind cookies that the server has lost.
  void give_memory_back() noexcept;
  std::size_t names_in_memory() const noexcept { return entries_.size() + given_.size(); }

  // Returns the next entry; null: the page is used up. give() passes it on.
  const Entry* next();
  void give();

 private:
  static constexpr std::size_t kGivenMax = 1U << 15U;

  std::vector<Entry> entries_;
  std::size_t at_ = 0;            // of the next entry
  std::uint64_t offset_ = 0;      // of the kernel
  std::uint64_t page_begin_ = 0;  // the cookie that the page was asked for by
  Ask next_{};                    // the page behind this one
  bool has_page_ = false, is_last_ = false;
  std::unordered_set<std::size_t> given_;  // hashes of the names that the kernel has
  bool has_all_given_ = true;
  bool skips_given_ = false;
  // A cookie of some pages ago, to find circles without remembering all cookies.
  nfs3::cookie3 mark_ = 0;
  std::uint64_t steps_ = 0, steps_max_ = 1;
};

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_DIRECTORY_READER_H_
