// Taking names away, and giving others.
#include <cerrno>

#include "nfs/ceph/call.h"

namespace nfs::ceph {
namespace {

using nfs3::nfsstat3;

// Closes the file whose name was removed: an open file would keep its data.
void forget(const Call& call, const Found& taken) {
  if (taken) call.session().open_files().forget(taken.handle);
}

template <class Results, class Remove>
Results take_away(const Call& call, const nfs3::diropargs3& object, const Remove& remove) {
  using Success = std::remove_pointer_t<decltype(Results().resok())>;
  using Failure = std::remove_pointer_t<decltype(Results().resfail())>;
  const Found directory = call.find_directory(object.dir);
  if (!directory) return failed<Results>(directory.error);
  const char* const one = component(object.name);
  nfsstat3 status = one == nullptr ? nfsstat3::NFS3ERR_NOENT : nfsstat3::NFS3_OK;
  if (status == nfsstat3::NFS3_OK) {
    const Found taken = call.entry(directory, object.name);
    status = call.status_of(remove(call.mount(), directory.inode.get(), one, call.identity()));
    if (status == nfsstat3::NFS3_OK) {
      forget(call, taken);
      status = call.settle(directory);
    }
  }
  if (status != nfsstat3::NFS3_OK) {
    return failed<Results>(status, Failure{call.change_of(directory)});
  }
  return succeeded<Results>(Success{call.change_of(directory)});
}

}  // namespace

nfs3::REMOVE3res run(const Call& call, const nfs3::REMOVE3args& args) {
  return take_away<nfs3::REMOVE3res>(call, args.object, ceph_ll_unlink);
}

nfs3::RMDIR3res run(const Call& call, const nfs3::RMDIR3args& args) {
  return take_away<nfs3::RMDIR3res>(call, args.object, ceph_ll_rmdir);
}

nfs3::RENAME3res run(const Call& call, const nfs3::RENAME3args& args) {
  using Results = nfs3::RENAME3res;
  const Found from = call.find_directory(args.from.dir);
  if (!from) return failed<Results>(from.error);
  const Found to = call.find_directory(args.to.dir);
  if (!to) return failed<Results>(to.error);
  const char *const old_name = component(args.from.name), *const name = component(args.to.name);
  nfsstat3 status = old_name == nullptr ? nfsstat3::NFS3ERR_NOENT
                    : name == nullptr   ? nfsstat3::NFS3ERR_ACCES
                                        : nfsstat3::NFS3_OK;
  if (status == nfsstat3::NFS3_OK) {
    const Found moved = call.entry(from, args.from.name), replaced = call.entry(to, args.to.name);
    const bool is_the_same = moved && replaced && moved.handle == replaced.handle;
    status = call.status_of(ceph_ll_rename(call.mount(), from.inode.get(), old_name, to.inode.get(),
                                           name, call.identity()));
    if (status == nfsstat3::NFS3_OK && !is_the_same) forget(call, replaced);
  }
  // First where the name is, so that a crash does not lose it.
  if (status == nfsstat3::NFS3_OK) status = call.settle(to);
  if (status == nfsstat3::NFS3_OK && from.handle != to.handle) status = call.settle(from);
  if (status != nfsstat3::NFS3_OK) {
    return failed<Results>(status, nfs3::RENAME3resfail{call.change_of(from), call.change_of(to)});
  }
  return succeeded<Results>(nfs3::RENAME3resok{call.change_of(from), call.change_of(to)});
}

nfs3::LINK3res run(const Call& call, const nfs3::LINK3args& args) {
  using Results = nfs3::LINK3res;
  const Found file = call.find(args.file);
  if (!file) return failed<Results>(file.error);
  const Found directory = call.find_directory(args.link.dir);
  if (!directory) return failed<Results>(directory.error);
  const char* const one = component(args.link.name);
  nfsstat3 status = one == nullptr ? nfsstat3::NFS3ERR_ACCES : nfsstat3::NFS3_OK;
  if (S_ISDIR(file.status.st_mode)) status = nfsstat3::NFS3ERR_ISDIR;
  if (status == nfsstat3::NFS3_OK) {
    status = call.status_of(
        ceph_ll_link(call.mount(), file.inode.get(), directory.inode.get(), one, call.identity()));
  }
  if (status == nfsstat3::NFS3_OK) status = call.settle(directory);
  const nfs3::post_op_attr attributes = call.attributes_now(file);
  if (status != nfsstat3::NFS3_OK) {
    return failed<Results>(status, nfs3::LINK3resfail{attributes, call.change_of(directory)});
  }
  return succeeded<Results>(nfs3::LINK3resok{attributes, call.change_of(directory)});
}

}  // namespace nfs::ceph
