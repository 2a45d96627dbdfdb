#include "nfs/back_end/limits.h"

#include <cstdint>
#include <utility>

namespace nfs {

nfs3::FSSTAT3resok space_of(nfs3::post_op_attr attributes, const struct statvfs& space) {
  nfs3::FSSTAT3resok result;
  result.obj_attributes = std::move(attributes);
  result.tbytes = space.f_blocks * space.f_frsize;
  result.fbytes = space.f_bfree * space.f_frsize;
  result.abytes = space.f_bavail * space.f_frsize;
  result.tfiles = space.f_files;
  result.ffiles = space.f_ffree;
  result.afiles = space.f_favail;
  return result;
}

nfs3::FSINFO3resok limits_of(nfs3::post_op_attr attributes, const FileSystemLimits& limits) {
  nfs3::FSINFO3resok result;
  result.obj_attributes = std::move(attributes);
  result.maxfilesize = limits.size_max;
  result.time_delta = {0, 1};
  result.properties =
      nfs3::FSF3_LINK | nfs3::FSF3_SYMLINK | nfs3::FSF3_HOMOGENEOUS | nfs3::FSF3_CANSETTIME;
  return result;
}

nfs3::PATHCONF3resok path_limits_of(nfs3::post_op_attr attributes, const FileSystemLimits& limits) {
  nfs3::PATHCONF3resok result;
  result.obj_attributes = std::move(attributes);
  result.linkmax = limits.links_max;
  result.name_max = limits.name_max;
  result.no_trunc = true;
  result.chown_restricted = true;
  result.case_insensitive = false;
  result.case_preserving = true;
  return result;
}

}  // namespace nfs
