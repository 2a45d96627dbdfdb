// READDIR and READDIRPLUS. Positions are digests of names, the same on every gateway.
#include <dirent.h>
#include <fcntl.h>

#include <cerrno>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>

#include "nfs/back_end/attributes.h"
#include "nfs/back_end/listing_answer.h"
#include "nfs/back_end/rights.h"
#include "nfs/ceph/call.h"

namespace nfs::ceph {
namespace {

using nfs3::nfsstat3;

struct Entry {
  std::string_view name;
  std::uint64_t cookie = 0;
  const Statx& status;
};

// `take(entry)` for the entries behind the position until it is false; `result` becomes a negative
// errno when that fails. If all is `wanted`, attributes are exact, for which whoever is changing a
// file is asked: clients take the size of a file from here, and read no further. Those that come
// with the listing are older, whatever is asked for.
template <class Take>
ListingEnd for_each_entry(const Call& call, const Found& directory, std::uint64_t position,
                          unsigned wanted, int& result, const Take& take) {
  const auto close = [&](ceph_dir_result* opened) { ceph_ll_releasedir(call.mount(), opened); };
  ceph_dir_result* opened = nullptr;
  result = ceph_ll_opendir(call.mount(), directory.inode.get(), &opened, call.identity());
  if (result < 0) return ListingEnd::kError;
  const std::unique_ptr<ceph_dir_result, decltype(close)> closing(opened, close);
  if (position != 0) {
    ceph_seekdir(call.mount(), opened, static_cast<std::int64_t>(position));
  }
  dirent entry{};
  Statx status{};
  for (;;) {
    Inode* inode = nullptr;
    result = ceph_readdirplus_r(call.mount(), opened, &entry, &status, wanted, AT_STATX_DONT_SYNC,
                                wanted == kAll ? &inode : nullptr);
    if (result < 0) return ListingEnd::kError;
    if (result == 0) return ListingEnd::kAll;
    const InodeUse use(call.mount(), inode);
    if (inode != nullptr && S_ISREG(status.stx_mode)) {
      result = ceph_ll_getattr(call.mount(), inode, &status, kAll, 0, superuser());
      if (result == -ENOENT || result == -ESTALE) continue;  // it was removed meanwhile
      if (result < 0) return ListingEnd::kError;
    }
    if (!take(Entry{entry.d_name, static_cast<std::uint64_t>(entry.d_off), status})) {
      return ListingEnd::kStopped;
    }
  }
}

template <class Args, class MakeEntry>
auto read_directory(const Call& call, const Args& args, unsigned wanted, MakeEntry make_entry) {
  using Results = typename ListingTypes<Args>::Results;
  const Found directory = call.find_directory(args.dir);
  if (!directory) return failed<Results>(directory.error);
  // Positions are not negative, and the library takes what is for none.
  if (args.cookie > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    using Failure = typename ListingTypes<Args>::Failure;
    return failed<Results>(nfsstat3::NFS3ERR_BAD_COOKIE, Failure{call.attributes_then(directory)});
  }
  nfsstat3 error = nfsstat3::NFS3_OK;
  const auto list = [&](const auto& add) {
    int result = 0;
    const ListingEnd end = for_each_entry(
        call, directory, args.cookie, wanted, result,
        [&](const Entry& entry) { return add(make_entry(directory, entry), entry.name); });
    error = call.status_of(result);
    return end;
  };
  const auto attributes = [&] { return call.attributes_then(directory); };
  return answer_listing(args, attributes, list, error);
}

// Reports the directory's own number for the ".." of the export, so that nothing above is
// disclosed.
std::uint64_t fileid_of(const Call& call, const Found& directory, const Entry& entry) {
  const bool is_outside = entry.name == ".." && directory.handle == call.tree().root();
  return is_outside ? directory.status.st_ino : entry.status.stx_ino;
}

}  // namespace

nfs3::READDIR3res run(const Call& call, const nfs3::READDIR3args& args) {
  return read_directory(call, args, CEPH_STATX_INO,
                        [&](const Found& directory, const Entry& entry) {
                          return nfs3::entry3{fileid_of(call, directory, entry),
                                              std::string(entry.name), entry.cookie};
                        });
}

nfs3::READDIRPLUS3res run(const Call& call, const nfs3::READDIRPLUS3args& args) {
  // Attributes are for those who may look names up.
  std::optional<bool> may_search;
  return read_directory(call, args, kAll, [&](const Found& directory, const Entry& entry) {
    nfs3::entryplus3 made{
        fileid_of(call, directory, entry), std::string(entry.name), entry.cookie, {}, {}};
    if (!may_search) may_search = call.may(directory, kExecute) == nfsstat3::NFS3_OK;
    if (*may_search && entry.name != "..") {
      made.name_attributes = after(stat_of(entry.status), call.tree().fsid());
      made.name_handle.set_handle(
          call.tree().sealed(Handle::of(entry.status, call.session().file_system())));
    }
    return made;
  });
}

}  // namespace nfs::ceph
