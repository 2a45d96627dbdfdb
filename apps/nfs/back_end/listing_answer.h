// The answers of READDIR and READDIRPLUS, which take as many entries as the client has room for.
#ifndef RPCRDMA_NFS_BACK_END_LISTING_ANSWER_H_
#define RPCRDMA_NFS_BACK_END_LISTING_ANSWER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "nfs/results.h"
#include "nfs3.h"

namespace nfs {

// Cookies stay right for ever, so that one verifier is enough for all directories.
inline constexpr nfs3::cookieverf3 kListingVerifier{};

enum class ListingEnd : std::uint8_t { kAll, kStopped, kError };

// Room of an answer, bytes.
struct ListingRoom {
  explicit ListingRoom(const nfs3::READDIR3args& args) : names(args.count), all(args.count) {}
  explicit ListingRoom(const nfs3::READDIRPLUS3args& args)
      : names(args.dircount), all(args.maxcount) {}

  std::uint64_t names;  // file ids, names and cookies
  std::uint64_t all;    // XDR

  bool take(std::uint64_t size, std::uint64_t size_of_names) {
    if (size > all || size_of_names > names) return false;
    all -= size;
    names -= size_of_names;
    return true;
  }
};

template <class Args>
struct ListingTypes;
template <>
struct ListingTypes<nfs3::READDIR3args> {
  using Results = nfs3::READDIR3res;
  using Failure = nfs3::READDIR3resfail;
};
template <>
struct ListingTypes<nfs3::READDIRPLUS3args> {
  using Results = nfs3::READDIRPLUS3res;
  using Failure = nfs3::READDIRPLUS3resfail;
};

// `list(add)` calls `add(entry, name)` for the entries behind the cookie until that returns false,
// and says how it ended; on kError, `error` is why. `directory()` returns the directory's
// attributes, which reading changes: the answer has those from behind it.
template <class Args, class Directory, class List>
auto answer_listing(const Args& args, const Directory& directory, const List& list,
                    const nfs3::nfsstat3& error) {
  using Results = typename ListingTypes<Args>::Results;
  using nfs3::nfsstat3;
  const auto fail = [&](nfsstat3 status) {
    return failed<Results>(status, typename ListingTypes<Args>::Failure{directory()});
  };
  if (args.cookie != 0 && args.cookieverf != kListingVerifier) {
    return fail(nfsstat3::NFS3ERR_BAD_COOKIE);
  }
  Results results;
  auto& success = results.set_resok();
  success.dir_attributes = directory();
  success.cookieverf = kListingVerifier;
  success.reply.eof = false;
  ListingRoom room(args);
  const std::uint64_t size_of_none = encoded_size(results);
  if (size_of_none > room.all) return fail(nfsstat3::NFS3ERR_TOOSMALL);
  room.all -= size_of_none;
  const ListingEnd end = list([&](auto entry, std::string_view name) {
    constexpr std::uint64_t kLinkSize = 4;  // "another entry follows", bytes
    const std::uint64_t names = 8 + 4 + ((name.size() + 3) & ~std::size_t{3}) + 8;
    if (!room.take(encoded_size(entry) + kLinkSize, names)) return false;
    success.reply.entries.push_back(std::move(entry));
    return true;
  });
  if (end == ListingEnd::kError) return fail(error);
  if (end == ListingEnd::kStopped && success.reply.entries.empty()) {
    return fail(nfsstat3::NFS3ERR_TOOSMALL);
  }
  success.dir_attributes = directory();
  success.reply.eof = end == ListingEnd::kAll;
  return results;
}

}  // namespace nfs

#endif  // RPCRDMA_NFS_BACK_END_LISTING_ANSWER_H_
