#include "nfs/service.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>

#include "nfs/results.h"

namespace nfs {
namespace {

using nfs3::nfsstat3;

// A name of one component. Others never reach a back end.
nfsstat3 check_name(std::string_view name) {
  if (name.empty() || name == "." || name == "..") return nfsstat3::NFS3ERR_INVAL;
  if (name.find('/') != std::string_view::npos || name.find('\0') != std::string_view::npos) {
    return nfsstat3::NFS3ERR_INVAL;
  }
  if (name.size() > nfs3::NFS3_NAME_MAX) return nfsstat3::NFS3ERR_NAMETOOLONG;
  return nfsstat3::NFS3_OK;
}

// Attributes that can be set. What a system call would take for "now" or "as it is" is refused
// here, and so is all of it, before anything is made or changed.
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

nfsstat3 check_attributes_of(const nfs3::mknoddata3& node) {
  if (const auto* const device = node.device()) return check_attributes(device->dev_attributes);
  const auto* const pipe = node.pipe_attributes();
  return pipe != nullptr ? check_attributes(*pipe) : nfsstat3::NFS3_OK;
}

// The same of what has a size.
nfsstat3 check_attributes_of_file(const nfs3::sattr3& attributes) {
  constexpr std::uint64_t kSizeMax = std::numeric_limits<std::int64_t>::max();
  const auto* const size = attributes.size.size();
  if (size != nullptr && *size > kSizeMax) return nfsstat3::NFS3ERR_FBIG;
  return check_attributes(attributes);
}

// Ends the call when the back end has.
template <class R>
FileSystem::Done<R> end_of(rpcrdma::Answer<R> answer) {
  return [answer = std::move(answer)](R results) mutable { answer.succeed(results); };
}

// Says so to the client.
template <class R>
bool is_refused(nfsstat3 error, rpcrdma::Answer<R>& answer) {
  if (error == nfsstat3::NFS3_OK) return false;
  answer.succeed(failed<R>(error));
  return true;
}

}  // namespace

rpcrdma::AuthStatus NfsService::check_credential(
    std::uint32_t /*procedure*/, const rpcrdma::Credential& credential) const noexcept {
  if (credential.flavor == rpcrdma::AuthFlavor::kNone) return rpcrdma::AuthStatus::kOk;
  // Which service it has shows in CallContext::caller(), and what the export wants behind that.
  if (credential.flavor == rpcrdma::AuthFlavor::kRpcsecGss) return rpcrdma::AuthStatus::kOk;
  if (credential.flavor != rpcrdma::AuthFlavor::kSys) return rpcrdma::AuthStatus::kTooWeak;
  return rpcrdma::parse_auth_sys(credential.body) ? rpcrdma::AuthStatus::kOk
                                                  : rpcrdma::AuthStatus::kBadCredential;
}

NfsService::Target NfsService::target_of(const rpcrdma::CallContext& context,
                                         nfs3::nfs_fh3& handle) const {
  const auto opened = exports_.key().open(handle);
  if (!opened) return {.error = nfsstat3::NFS3ERR_BADHANDLE};
  Target target;
  target.served = exports_.find(opened->id);
  // It was exported once: the handle is good, and the export is gone.
  if (target.served == nullptr) return {.error = nfsstat3::NFS3ERR_STALE};
  target.rules = target.served->rules.rules_for(context.peer_address());
  if (target.rules == nullptr) return {.error = nfsstat3::NFS3ERR_ACCES};
  auto caller = target.rules->caller(context.caller(), context.credential());
  if (!caller) return {.error = nfsstat3::NFS3ERR_ACCES};
  target.caller = std::move(*caller);
  handle.data.assign(opened->inner.begin(), opened->inner.end());
  return target;
}

NfsService::Target NfsService::target_of_change(const rpcrdma::CallContext& context,
                                                nfs3::nfs_fh3& handle) const {
  Target target = target_of(context, handle);
  if (target.error == nfsstat3::NFS3_OK && target.rules->is_read_only) {
    return {.error = nfsstat3::NFS3ERR_ROFS};
  }
  return target;
}

NfsService::Target NfsService::target_of_name(const rpcrdma::CallContext& context,
                                              nfs3::diropargs3& where) const {
  Target target = target_of_change(context, where.dir);
  if (target.error != nfsstat3::NFS3_OK) return target;
  if (const nfsstat3 wrong = check_name(where.name); wrong != nfsstat3::NFS3_OK) {
    return {.error = wrong};
  }
  return target;
}

nfsstat3 NfsService::second(const Target& target, nfs3::nfs_fh3& handle) const {
  const auto opened = exports_.key().open(handle);
  if (!opened) return nfsstat3::NFS3ERR_BADHANDLE;
  if (opened->id != target.served->id) return nfsstat3::NFS3ERR_XDEV;
  const std::vector<std::byte> inner(opened->inner.begin(), opened->inner.end());
  handle.data = inner;
  return nfsstat3::NFS3_OK;
}

void NfsService::NFSPROC3_GETATTR(Answer<nfs3::GETATTR3res> answer, nfs3::GETATTR3args arg1) {
  Target target = target_of(answer.context(), arg1.object);
  if (is_refused(target.error, answer)) return;
  target.served->files->get_attributes(std::move(target.caller), std::move(arg1),
                                       end_of(std::move(answer)));
}

void NfsService::NFSPROC3_SETATTR(Answer<nfs3::SETATTR3res> answer, nfs3::SETATTR3args arg1) {
  Target target = target_of_change(answer.context(), arg1.object);
  if (target.error == nfsstat3::NFS3_OK) {
    target.error = check_attributes_of_file(arg1.new_attributes);
  }
  if (is_refused(target.error, answer)) return;
  target.served->files->set_attributes(std::move(target.caller), std::move(arg1),
                                       end_of(std::move(answer)));
}

void NfsService::NFSPROC3_LOOKUP(Answer<nfs3::LOOKUP3res> answer, nfs3::LOOKUP3args arg1) {
  Target target = target_of(answer.context(), arg1.what.dir);
  const std::string_view name = arg1.what.name;
  if (target.error == nfsstat3::NFS3_OK && name != "." && name != "..") {
    target.error = check_name(name);
  }
  if (is_refused(target.error, answer)) return;
  target.served->files->look_up(std::move(target.caller), std::move(arg1),
                                end_of(std::move(answer)));
}

void NfsService::NFSPROC3_ACCESS(Answer<nfs3::ACCESS3res> answer, nfs3::ACCESS3args arg1) {
  Target target = target_of(answer.context(), arg1.object);
  if (is_refused(target.error, answer)) return;
  if (target.rules->is_read_only) {
    arg1.access &= ~(nfs3::ACCESS3_MODIFY | nfs3::ACCESS3_EXTEND | nfs3::ACCESS3_DELETE);
  }
  target.served->files->access(std::move(target.caller), std::move(arg1),
                               end_of(std::move(answer)));
}

void NfsService::NFSPROC3_READLINK(Answer<nfs3::READLINK3res> answer, nfs3::READLINK3args arg1) {
  Target target = target_of(answer.context(), arg1.symlink);
  if (is_refused(target.error, answer)) return;
  const rpcrdma::MutableBytes memory = answer.result_memory(nfs3::NFS3_PATH_MAX);
  if (memory.empty()) return (void)is_refused(nfsstat3::NFS3ERR_JUKEBOX, answer);
  target.served->files->read_link(std::move(target.caller), std::move(arg1), memory,
                                  end_of(std::move(answer)));
}

void NfsService::NFSPROC3_READ(Answer<nfs3::READ3res> answer, nfs3::READ3args arg1) {
  Target target = target_of(answer.context(), arg1.file);
  if (is_refused(target.error, answer)) return;
  const std::uint32_t count = std::min(arg1.count, kTransferMax);
  const rpcrdma::MutableBytes memory = answer.result_memory(std::max(count, 1U));
  if (memory.empty()) return (void)is_refused(nfsstat3::NFS3ERR_JUKEBOX, answer);
  target.served->files->read(std::move(target.caller), std::move(arg1), memory.first(count),
                             end_of(std::move(answer)));
}

void NfsService::NFSPROC3_WRITE(Answer<nfs3::WRITE3res> answer, nfs3::WRITE3args arg1) {
  Target target = target_of_change(answer.context(), arg1.file);
  if (is_refused(target.error, answer)) return;
  target.served->files->write(std::move(target.caller), std::move(arg1), end_of(std::move(answer)));
}

void NfsService::NFSPROC3_CREATE(Answer<nfs3::CREATE3res> answer, nfs3::CREATE3args arg1) {
  Target target = target_of_name(answer.context(), arg1.where);
  const auto* const attributes = arg1.how.obj_attributes();
  if (target.error == nfsstat3::NFS3_OK && attributes != nullptr) {
    target.error = check_attributes_of_file(*attributes);
  }
  if (is_refused(target.error, answer)) return;
  target.served->files->create(std::move(target.caller), std::move(arg1),
                               end_of(std::move(answer)));
}

void NfsService::NFSPROC3_MKDIR(Answer<nfs3::MKDIR3res> answer, nfs3::MKDIR3args arg1) {
  Target target = target_of_name(answer.context(), arg1.where);
  if (target.error == nfsstat3::NFS3_OK) target.error = check_attributes(arg1.attributes);
  if (is_refused(target.error, answer)) return;
  target.served->files->make_directory(std::move(target.caller), std::move(arg1),
                                       end_of(std::move(answer)));
}

void NfsService::NFSPROC3_SYMLINK(Answer<nfs3::SYMLINK3res> answer, nfs3::SYMLINK3args arg1) {
  Target target = target_of_name(answer.context(), arg1.where);
  if (target.error == nfsstat3::NFS3_OK) {
    target.error = check_attributes(arg1.symlink.symlink_attributes);
  }
  // A path has room for the zero behind it, also where it is resolved.
  if (target.error == nfsstat3::NFS3_OK &&
      arg1.symlink.symlink_data.size() >= nfs3::NFS3_PATH_MAX) {
    target.error = nfsstat3::NFS3ERR_NAMETOOLONG;
  }
  if (is_refused(target.error, answer)) return;
  target.served->files->make_symbolic_link(std::move(target.caller), std::move(arg1),
                                           end_of(std::move(answer)));
}

void NfsService::NFSPROC3_MKNOD(Answer<nfs3::MKNOD3res> answer, nfs3::MKNOD3args arg1) {
  Target target = target_of_name(answer.context(), arg1.where);
  if (target.error == nfsstat3::NFS3_OK) target.error = check_attributes_of(arg1.what);
  if (is_refused(target.error, answer)) return;
  target.served->files->make_node(std::move(target.caller), std::move(arg1),
                                  end_of(std::move(answer)));
}

void NfsService::NFSPROC3_REMOVE(Answer<nfs3::REMOVE3res> answer, nfs3::REMOVE3args arg1) {
  Target target = target_of_name(answer.context(), arg1.object);
  if (is_refused(target.error, answer)) return;
  target.served->files->remove(std::move(target.caller), std::move(arg1),
                               end_of(std::move(answer)));
}

void NfsService::NFSPROC3_RMDIR(Answer<nfs3::RMDIR3res> answer, nfs3::RMDIR3args arg1) {
  Target target = target_of_name(answer.context(), arg1.object);
  // What rmdir(2) says: the parent is not empty.
  if (target.error == nfsstat3::NFS3ERR_INVAL && arg1.object.name == "..") {
    target.error = nfsstat3::NFS3ERR_EXIST;
  }
  if (is_refused(target.error, answer)) return;
  target.served->files->remove_directory(std::move(target.caller), std::move(arg1),
                                         end_of(std::move(answer)));
}

void NfsService::NFSPROC3_RENAME(Answer<nfs3::RENAME3res> answer, nfs3::RENAME3args arg1) {
  Target target = target_of_name(answer.context(), arg1.from);
  if (target.error == nfsstat3::NFS3_OK) target.error = second(target, arg1.to.dir);
  if (target.error == nfsstat3::NFS3_OK) target.error = check_name(arg1.to.name);
  if (is_refused(target.error, answer)) return;
  target.served->files->rename(std::move(target.caller), std::move(arg1),
                               end_of(std::move(answer)));
}

void NfsService::NFSPROC3_LINK(Answer<nfs3::LINK3res> answer, nfs3::LINK3args arg1) {
  Target target = target_of_change(answer.context(), arg1.file);
  if (target.error == nfsstat3::NFS3_OK) target.error = second(target, arg1.link.dir);
  if (target.error == nfsstat3::NFS3_OK) target.error = check_name(arg1.link.name);
  if (is_refused(target.error, answer)) return;
  target.served->files->link(std::move(target.caller), std::move(arg1), end_of(std::move(answer)));
}

void NfsService::NFSPROC3_READDIR(Answer<nfs3::READDIR3res> answer, nfs3::READDIR3args arg1) {
  Target target = target_of(answer.context(), arg1.dir);
  if (is_refused(target.error, answer)) return;
  arg1.count = std::min(arg1.count, kListingMax);
  if (!answer.reserve(arg1.count)) {
    return (void)is_refused(nfsstat3::NFS3ERR_JUKEBOX, answer);
  }
  target.served->files->read_directory(std::move(target.caller), std::move(arg1),
                                       end_of(std::move(answer)));
}

void NfsService::NFSPROC3_READDIRPLUS(Answer<nfs3::READDIRPLUS3res> answer,
                                      nfs3::READDIRPLUS3args arg1) {
  Target target = target_of(answer.context(), arg1.dir);
  if (is_refused(target.error, answer)) return;
  arg1.maxcount = std::min(arg1.maxcount, kListingMax);
  if (!answer.reserve(arg1.maxcount)) {
    return (void)is_refused(nfsstat3::NFS3ERR_JUKEBOX, answer);
  }
  target.served->files->read_directory_plus(std::move(target.caller), std::move(arg1),
                                            end_of(std::move(answer)));
}

void NfsService::NFSPROC3_FSSTAT(Answer<nfs3::FSSTAT3res> answer, nfs3::FSSTAT3args arg1) {
  Target target = target_of(answer.context(), arg1.fsroot);
  if (is_refused(target.error, answer)) return;
  target.served->files->space(std::move(target.caller), std::move(arg1), end_of(std::move(answer)));
}

void NfsService::NFSPROC3_FSINFO(Answer<nfs3::FSINFO3res> answer, nfs3::FSINFO3args arg1) {
  Target target = target_of(answer.context(), arg1.fsroot);
  if (is_refused(target.error, answer)) return;
  target.served->files->limits(std::move(target.caller), std::move(arg1),
                               [answer = std::move(answer)](nfs3::FSINFO3res results) mutable {
                                 if (nfs3::FSINFO3resok* const info = results.resok()) {
                                   constexpr std::uint32_t kPage = 4096;
                                   info->rtmax = info->rtpref = info->wtmax = info->wtpref =
                                       kTransferMax;
                                   info->rtmult = info->wtmult = kPage;
                                   info->dtpref = kListingMax;
                                 }
                                 answer.succeed(results);
                               });
}

void NfsService::NFSPROC3_PATHCONF(Answer<nfs3::PATHCONF3res> answer, nfs3::PATHCONF3args arg1) {
  Target target = target_of(answer.context(), arg1.object);
  if (is_refused(target.error, answer)) return;
  target.served->files->path_limits(std::move(target.caller), std::move(arg1),
                                    end_of(std::move(answer)));
}

void NfsService::NFSPROC3_COMMIT(Answer<nfs3::COMMIT3res> answer, nfs3::COMMIT3args arg1) {
  Target target = target_of_change(answer.context(), arg1.file);
  if (is_refused(target.error, answer)) return;
  target.served->files->commit(std::move(target.caller), std::move(arg1),
                               end_of(std::move(answer)));
}

}  // namespace nfs
