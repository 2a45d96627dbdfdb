#include <sys/statvfs.h>

#include <array>
#include <chrono>
#include <ctime>
#include <mutex>
#include <optional>

#include "nfs/back_end/attributes.h"
#include "nfs/back_end/limits.h"
#include "nfs/back_end/rights.h"
#include "nfs/ceph/call.h"

namespace nfs::ceph {
namespace {

using nfs3::nfsstat3;
using nfs3::time_how;

nfsstat3 set(const Call& call, const Found& file, Statx values, int mask,
             const UserPerm* identity) {
  if (mask == 0) return nfsstat3::NFS3_OK;
  return call.status_of(ceph_ll_setattr(call.mount(), file.inode.get(), &values, mask, identity));
}

// The library lets nobody but whoever may write now; the owner had the file open, perhaps, before
// its mode changed.
nfsstat3 set_size(const Call& call, const Found& file, std::uint64_t size) {
  if (S_ISDIR(file.status.st_mode)) return nfsstat3::NFS3ERR_ISDIR;
  if (!S_ISREG(file.status.st_mode)) return nfsstat3::NFS3ERR_INVAL;
  const nfsstat3 refused = may_write_data(file.status, call.caller(),
                                          [&](unsigned rights) { return call.may(file, rights); });
  if (refused != nfsstat3::NFS3_OK) return refused;
  Statx values{};
  values.stx_size = size;
  const nfsstat3 status = set(call, file, values, CEPH_SETATTR_SIZE, superuser());
  return status == nfsstat3::NFS3_OK ? drop_set_id_bits(call, file) : status;
}

std::optional<timespec> time_to_set(time_how how, const nfs3::nfstime3* time) {
  timespec now{};
  switch (how) {
    case time_how::SET_TO_SERVER_TIME:
      ::clock_gettime(CLOCK_REALTIME, &now);
      return now;
    case time_how::SET_TO_CLIENT_TIME:
      return time_of(*time);
    case time_how::DONT_CHANGE:
      break;
  }
  return std::nullopt;
}

nfsstat3 set_times(const Call& call, const Found& file, const nfs3::sattr3& attributes) {
  Statx values{};
  int mask = 0;
  if (const auto time = time_to_set(attributes.atime.set_it(), attributes.atime.atime())) {
    values.stx_atime = *time;
    mask |= CEPH_SETATTR_ATIME;
  }
  if (const auto time = time_to_set(attributes.mtime.set_it(), attributes.mtime.mtime())) {
    values.stx_mtime = *time;
    mask |= CEPH_SETATTR_MTIME;
  }
  return set(call, file, values, mask, superuser());
}

// Acts as the caller, whom the library knows by then. A change of the owner removes the set-user-id
// bit, so that the mode comes after it.
nfsstat3 set_owner_and_mode(const Call& call, const Found& file, const nfs3::sattr3& attributes) {
  Statx values{};
  int mask = 0;
  if (const auto* const uid = attributes.uid.uid()) {
    values.stx_uid = *uid;
    mask |= CEPH_SETATTR_UID;
  }
  if (const auto* const gid = attributes.gid.gid()) {
    values.stx_gid = *gid;
    mask |= CEPH_SETATTR_GID;
  }
  nfsstat3 status = set(call, file, values, mask, call.identity());
  if (status == nfsstat3::NFS3_OK && mask != 0) status = drop_set_id_bits(call, file);
  const auto* const mode = attributes.mode.mode();
  if (status != nfsstat3::NFS3_OK || mode == nullptr) return status;
  values.stx_mode = static_cast<std::uint16_t>(*mode & 07777U);
  return set(call, file, values, CEPH_SETATTR_MODE, call.identity());
}

// FSSTAT and check() must reach the cluster: statfs asks the monitors, and a recursive statistic is
// never answered from what this client remembers, so that it asks the servers of metadata.
nfsstat3 ask_cluster(const Call& call, Inode* inode, struct statvfs& space) {
  std::array<char, 64> text{};
  int result = ceph_ll_getxattr(call.mount(), call.session().root(), "ceph.dir.rctime", text.data(),
                                text.size(), superuser());
  if (result >= 0) result = ceph_ll_statfs(call.mount(), inode, &space);
  return call.status_of(result);
}

nfs3::GETATTR3res attributes(const Call& call, const Found& file) {
  if (!file) return failed<nfs3::GETATTR3res>(file.error);
  return succeeded<nfs3::GETATTR3res>(
      nfs3::GETATTR3resok{attributes_of(file.status, call.tree().fsid())});
}

}  // namespace

nfsstat3 drop_set_id_bits(const Call& call, const Found& file) {
  if (call.caller().uid == 0 || !S_ISREG(file.status.st_mode)) return nfsstat3::NFS3_OK;
  // Without the right to execute, set-group-id is a mark for locks.
  const mode_t group = (file.status.st_mode & S_IXGRP) != 0 ? S_ISGID : 0;
  const mode_t dropped = file.status.st_mode & (S_ISUID | group);
  if (dropped == 0) return nfsstat3::NFS3_OK;
  // Its owner may have changed the rest meanwhile.
  Statx values{};
  const int result =
      ceph_ll_getattr(call.mount(), file.inode.get(), &values, CEPH_STATX_MODE, 0, superuser());
  if (result < 0) return call.status_of(result);
  values.stx_mode = static_cast<std::uint16_t>(values.stx_mode & 07777U & ~dropped);
  return set(call, file, values, CEPH_SETATTR_MODE, superuser());
}

nfsstat3 set_attributes(const Call& call, const Found& file, const nfs3::sattr3& attributes) {
  nfsstat3 status = may_set(file.status, call.caller(), attributes,
                            [&](unsigned rights) { return call.may(file, rights); });
  // A refused change of the owner is not to cost the file's content.
  if (status == nfsstat3::NFS3_OK) status = may_own(file.status, call.caller(), attributes);
  if (const auto* const size = attributes.size.size(); status == nfsstat3::NFS3_OK && size) {
    status = set_size(call, file, *size);
  }
  if (status == nfsstat3::NFS3_OK) status = set_owner_and_mode(call, file, attributes);
  if (status == nfsstat3::NFS3_OK) status = set_times(call, file, attributes);
  return status;
}

nfs3::GETATTR3res run(const Call& call, const nfs3::GETATTR3args& args) {
  return attributes(call, call.find(args.object));
}

nfs3::GETATTR3res run(const Call& call, const Check& /*check*/) {
  struct statvfs space {};
  const nfsstat3 status = ask_cluster(call, call.session().root(), space);
  if (status != nfsstat3::NFS3_OK) return failed<nfs3::GETATTR3res>(status);
  return attributes(call, call.by_handle(call.tree().root()));
}

nfs3::SETATTR3res run(const Call& call, const nfs3::SETATTR3args& args) {
  // One of them may wait for a file that hangs; the others are asked for again.
  constexpr std::chrono::seconds kPatience{2};
  std::unique_lock<std::timed_mutex> lock;
  const auto* const guard = args.guard.obj_ctime();
  if (guard != nullptr) {
    lock = std::unique_lock(call.tree().guard(), kPatience);
    if (!lock) return failed<nfs3::SETATTR3res>(nfsstat3::NFS3ERR_JUKEBOX);
  }
  const Found file = call.find(args.object);
  if (!file) return failed<nfs3::SETATTR3res>(file.error);
  nfsstat3 status = nfsstat3::NFS3ERR_NOT_SYNC;
  if (guard == nullptr || is_time(*guard, file.status.st_ctim)) {
    status = set_attributes(call, file, args.new_attributes);
    if (status == nfsstat3::NFS3_OK) status = call.settle(file);
  }
  if (status != nfsstat3::NFS3_OK) {
    return failed<nfs3::SETATTR3res>(status, nfs3::SETATTR3resfail{call.change_of(file)});
  }
  return succeeded<nfs3::SETATTR3res>(nfs3::SETATTR3resok{call.change_of(file)});
}

nfs3::ACCESS3res run(const Call& call, const nfs3::ACCESS3args& args) {
  const Found file = call.find(args.object);
  if (!file) return failed<nfs3::ACCESS3res>(file.error);
  const std::uint32_t rights =
      granted(args.access, file.status, [&](unsigned each) { return call.may(file, each); });
  return succeeded<nfs3::ACCESS3res>(nfs3::ACCESS3resok{call.attributes_then(file), rights});
}

nfs3::FSSTAT3res run(const Call& call, const nfs3::FSSTAT3args& args) {
  const Found file = call.find(args.fsroot);
  if (!file) return failed<nfs3::FSSTAT3res>(file.error);
  struct statvfs space {};
  const nfsstat3 status = ask_cluster(call, file.inode.get(), space);
  if (status != nfsstat3::NFS3_OK) {
    return failed<nfs3::FSSTAT3res>(status, nfs3::FSSTAT3resfail{call.attributes_then(file)});
  }
  // There is no bound of files; what it gives are their number and -1.
  space.f_files = space.f_ffree = space.f_favail = 0;
  return succeeded<nfs3::FSSTAT3res>(space_of(call.attributes_then(file), space));
}

nfs3::FSINFO3res run(const Call& call, const nfs3::FSINFO3args& args) {
  const Found file = call.find(args.fsroot);
  if (!file) return failed<nfs3::FSINFO3res>(file.error);
  return succeeded<nfs3::FSINFO3res>(limits_of(call.attributes_then(file)));
}

nfs3::PATHCONF3res run(const Call& call, const nfs3::PATHCONF3args& args) {
  const Found file = call.find(args.object);
  if (!file) return failed<nfs3::PATHCONF3res>(file.error);
  return succeeded<nfs3::PATHCONF3res>(path_limits_of(call.attributes_then(file)));
}

}  // namespace nfs::ceph
