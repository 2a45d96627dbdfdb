#include "nfs/procedures.h"

#include <limits>

namespace nfs {

using nfs3::nfsstat3;

nfsstat3 check_name(std::string_view name) {
  if (name.empty() || name == "." || name == "..") return nfsstat3::NFS3ERR_INVAL;
  if (name.find('/') != std::string_view::npos || name.find('\0') != std::string_view::npos) {
    return nfsstat3::NFS3ERR_INVAL;
  }
  if (name.size() > nfs3::NFS3_NAME_MAX) return nfsstat3::NFS3ERR_NAMETOOLONG;
  return nfsstat3::NFS3_OK;
}

nfsstat3 check_attributes(const nfs3::sattr3& attributes) {
  constexpr std::uint32_t kSecond = 1'000'000'000;  // nanoseconds
  for (const nfs3::nfstime3* const time : {attributes.atime.atime(), attributes.mtime.mtime()}) {
    if (time != nullptr && time->nseconds >= kSecond) return nfsstat3::NFS3ERR_INVAL;
  }
  constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  for (const std::uint32_t* const id : {attributes.uid.uid(), attributes.gid.gid()}) {
    if (id != nullptr && *id == kNone) return nfsstat3::NFS3ERR_INVAL;
  }
  return nfsstat3::NFS3_OK;
}

nfsstat3 check_attributes_of_file(const nfs3::sattr3& attributes) {
  constexpr std::uint64_t kSizeMax = std::numeric_limits<std::int64_t>::max();
  const auto* const size = attributes.size.size();
  if (size != nullptr && *size > kSizeMax) return nfsstat3::NFS3ERR_FBIG;
  return check_attributes(attributes);
}

nfsstat3 Procedure<nfs3::NFSPROC3_CREATE>::check(const Args& args) {
  const auto* const attributes = args.how.obj_attributes();
  return attributes != nullptr ? check_attributes_of_file(*attributes) : nfsstat3::NFS3_OK;
}

nfsstat3 Procedure<nfs3::NFSPROC3_SYMLINK>::check(const Args& args) {
  const nfsstat3 status = check_attributes(args.symlink.symlink_attributes);
  if (status != nfsstat3::NFS3_OK) return status;
  // A path has room for the zero behind it, also where it is resolved.
  const bool is_too_long = args.symlink.symlink_data.size() >= nfs3::NFS3_PATH_MAX;
  return is_too_long ? nfsstat3::NFS3ERR_NAMETOOLONG : nfsstat3::NFS3_OK;
}

nfsstat3 Procedure<nfs3::NFSPROC3_MKNOD>::check(const Args& args) {
  if (const auto* const device = args.what.device()) {
    return check_attributes(device->dev_attributes);
  }
  const auto* const pipe = args.what.pipe_attributes();
  return pipe != nullptr ? check_attributes(*pipe) : nfsstat3::NFS3_OK;
}

void Procedure<nfs3::NFSPROC3_FSINFO>::complete(Results& results) {
  nfs3::FSINFO3resok* const info = results.resok();
  if (info == nullptr) return;
  constexpr std::uint32_t kPage = 4096;
  info->rtmax = info->rtpref = info->wtmax = info->wtpref = kServerTransferMax;
  info->rtmult = info->wtmult = kPage;
  info->dtpref = kServerListingMax;
}

}  // namespace nfs
