#include <algorithm>
#include <cerrno>
#include <limits>
#include <string_view>

#include "nfs/back_end/attributes.h"
#include "nfs/back_end/rights.h"
#include "nfs/ceph/call.h"

namespace nfs::ceph {
namespace {

using nfs3::nfsstat3;
using nfs3::stable_how;

constexpr std::uint64_t kSizeMax = std::numeric_limits<std::int64_t>::max();

// Bytes done, until all are or `transfer(done)` gives none; a negative errno if there were none.
template <class Transfer>
std::int64_t all_of(std::size_t size, const Transfer& transfer) {
  std::size_t done = 0;
  while (done < size) {
    const int count = transfer(done);
    if (count < 0 && done == 0) return count;
    if (count <= 0) break;
    done += static_cast<std::size_t>(count);
  }
  return static_cast<std::int64_t>(done);
}

// The library copies once in each direction, between its messages and this memory.
std::int64_t read_at(const Call& call, Fh* file, rpcrdma::MutableBytes into, std::uint64_t offset) {
  return all_of(into.size(), [&](std::size_t done) {
    return ceph_ll_read(call.mount(), file, static_cast<std::int64_t>(offset + done),
                        into.size() - done, reinterpret_cast<char*>(into.data() + done));
  });
}

std::int64_t write_at(const Call& call, Fh* file, rpcrdma::Bytes data, std::uint64_t offset) {
  return all_of(data.size(), [&](std::size_t done) {
    return ceph_ll_write(call.mount(), file, static_cast<std::int64_t>(offset + done),
                         data.size() - done, reinterpret_cast<const char*>(data.data() + done));
  });
}

}  // namespace

nfs3::READLINK3res run(const Call& call, const nfs3::READLINK3args& args,
                       rpcrdma::MutableBytes into) {
  using Results = nfs3::READLINK3res;
  const Found file = call.find(args.symlink);
  if (!file) return failed<Results>(file.error);
  const auto fail = [&](nfsstat3 status) {
    return failed<Results>(status, nfs3::READLINK3resfail{call.attributes_then(file)});
  };
  if (!S_ISLNK(file.status.st_mode)) return fail(nfsstat3::NFS3ERR_INVAL);
  auto* const text = reinterpret_cast<char*>(into.data());
  const int size = ceph_ll_readlink(call.mount(), file.inode.get(), text, into.size(), superuser());
  if (size < 0) return fail(call.status_of(size));
  return succeeded<Results>(
      nfs3::READLINK3resok{call.attributes_then(file),
                           std::string_view(text, std::min(into.size(), std::size_t(size)))});
}

nfs3::READ3res run(const Call& call, const nfs3::READ3args& args, rpcrdma::MutableBytes into) {
  using Results = nfs3::READ3res;
  const Found file = call.find(args.file);
  if (!file) return failed<Results>(file.error);
  nfsstat3 status = must_be_regular(file.status);
  if (status == nfsstat3::NFS3_OK) {
    status = may_read_data(file.status, call.caller(),
                           [&](unsigned rights) { return call.may(file, rights); });
  }
  std::int64_t count = 0;
  if (status == nfsstat3::NFS3_OK && args.offset <= kSizeMax) {
    int error = 0;
    const OpenFiles::Use open =
        call.session().open_files().open(file.handle, file.inode.get(), false, error);
    const std::size_t wanted = std::min<std::uint64_t>(into.size(), kSizeMax - args.offset);
    count = open ? read_at(call, open.file(), into.first(wanted), args.offset) : error;
    status = call.status_of(static_cast<int>(std::min<std::int64_t>(count, 0)));
  }
  if (status != nfsstat3::NFS3_OK) {
    return failed<Results>(status, nfs3::READ3resfail{call.attributes_then(file)});
  }
  const auto read = static_cast<std::size_t>(count);
  const auto size = static_cast<std::uint64_t>(file.status.st_size);
  nfs3::READ3resok result;
  result.file_attributes = call.attributes_then(file);
  result.count = static_cast<nfs3::count3>(read);
  // Fewer bytes before the end come of an error behind the first ones: the next READ tells it.
  const bool is_empty = read == 0 && !into.empty();  // READ of no bytes says nothing about the end
  result.eof = is_empty || args.offset >= size || size - args.offset <= read;
  result.data = into.first(read);
  return succeeded<Results>(std::move(result));
}

nfs3::WRITE3res run(const Call& call, const nfs3::WRITE3args& args) {
  using Results = nfs3::WRITE3res;
  const Found file = call.find(args.file);
  if (!file) return failed<Results>(file.error);
  nfsstat3 status = must_be_regular(file.status);
  if (status == nfsstat3::NFS3_OK) {
    status = may_write_data(file.status, call.caller(),
                            [&](unsigned rights) { return call.may(file, rights); });
  }
  if (status == nfsstat3::NFS3_OK) status = check(args);
  std::int64_t count = 0;
  if (status == nfsstat3::NFS3_OK && !args.data.empty()) {
    int error = 0;
    const OpenFiles::Use open =
        call.session().open_files().open(file.handle, file.inode.get(), true, error);
    count = open ? write_at(call, open.file(), args.data, args.offset) : error;
    status = call.status_of(static_cast<int>(std::min<std::int64_t>(count, 0)));
  }
  if (status == nfsstat3::NFS3_OK) status = drop_set_id_bits(call, file);
  // The data is with the object stores by now (client_oc=false); its length and times are not.
  if (status == nfsstat3::NFS3_OK && args.stable != stable_how::UNSTABLE) {
    status = call.status_of(ceph_ll_sync_inode(call.mount(), file.inode.get(),
                                               args.stable == stable_how::DATA_SYNC ? 1 : 0));
  }
  nfs3::wcc_data change = call.change_of(file);
  if (status != nfsstat3::NFS3_OK) {
    return failed<Results>(status, nfs3::WRITE3resfail{std::move(change)});
  }
  return succeeded<Results>(nfs3::WRITE3resok{std::move(change), static_cast<nfs3::count3>(count),
                                              args.stable, call.session().verifier()});
}

nfs3::COMMIT3res run(const Call& call, const nfs3::COMMIT3args& args) {
  using Results = nfs3::COMMIT3res;
  const Found file = call.find(args.file);
  if (!file) return failed<Results>(file.error);
  nfsstat3 status = must_be_regular(file.status);
  if (status == nfsstat3::NFS3_OK) {
    status = may_write_data(file.status, call.caller(),
                            [&](unsigned rights) { return call.may(file, rights); });
  }
  if (status == nfsstat3::NFS3_OK) {
    status = call.status_of(ceph_ll_sync_inode(call.mount(), file.inode.get(), 0));
  }
  nfs3::wcc_data change = call.change_of(file);
  if (status != nfsstat3::NFS3_OK) {
    return failed<Results>(status, nfs3::COMMIT3resfail{std::move(change)});
  }
  return succeeded<Results>(nfs3::COMMIT3resok{std::move(change), call.session().verifier()});
}

}  // namespace nfs::ceph
