#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string_view>

#include "nfs/back_end/attributes.h"
#include "nfs/posix/calls.h"
#include "nfs/posix/impatience.h"
#include "nfs/results.h"

namespace nfs::posix {
namespace {

using nfs3::nfsstat3;
using nfs3::stable_how;

constexpr std::uint64_t kFileSizeMax = std::numeric_limits<std::int64_t>::max();

nfsstat3 may_read(const Tree& tree, const Caller& caller, const Found& file) {
  return may_read_data(file.status, caller,
                       [&](unsigned rights) { return tree.may(caller, file, rights); });
}

nfsstat3 may_write(const Tree& tree, const Caller& caller, const Found& file) {
  return may_write_data(file.status, caller,
                        [&](unsigned rights) { return tree.may(caller, file, rights); });
}

int flags_of(stable_how stable) {
  switch (stable) {
    case stable_how::DATA_SYNC:
      return RWF_DSYNC;
    case stable_how::FILE_SYNC:
      return RWF_SYNC;
    case stable_how::UNSTABLE:
      break;
  }
  return 0;
}

// If it must not wait, only what is in the cache of pages. `size` is the file's.
std::optional<std::size_t> read_at(const files::File& file, bool must_not_wait,
                                   rpcrdma::MutableBytes into, std::uint64_t offset,
                                   std::uint64_t size) {
  if (!must_not_wait) return file.read_at(into, offset);
  const auto read = files::read_if_in_memory(file, into, offset, size);
  if (!read) Impatience::give_up();
  return read;
}

// Bytes written, fewer than given if the disk is full; nullopt: errno, and none.
std::optional<std::size_t> write_at(const files::File& file, rpcrdma::Bytes data,
                                    std::uint64_t offset, int flags) {
  std::size_t done = 0;
  while (done < data.size()) {
    const rpcrdma::Bytes rest = data.subspan(done);
    const iovec part{const_cast<std::byte*>(rest.data()), rest.size()};  // NOLINT: it is only read
    const ssize_t count =
        ::pwritev2(file.descriptor(), &part, 1, static_cast<off_t>(offset + done), flags);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0 && done == 0) return std::nullopt;
    if (count <= 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

// Returns whether the disk failed to take the data of a stable write, so that other data may be
// lost as well: without waiting for the disk, the same write succeeds. The largest file size, a
// quota and a full disk fail it before that; no data is lost then, however often a client provokes
// them.
bool has_failed_to_sync(const files::File& file, const nfs3::WRITE3args& args, int error) {
  return error == EIO || write_at(file, args.data, args.offset, 0).has_value();
}

}  // namespace

nfs3::READLINK3res run(Tree& tree, const Caller& /*caller*/, const nfs3::READLINK3args& args,
                       rpcrdma::MutableBytes into) {
  using Results = nfs3::READLINK3res;
  const Found file = tree.find(args.symlink);
  if (!file) return failed<Results>(file.error);
  const auto fail = [&](nfsstat3 status) {
    return failed<Results>(status, nfs3::READLINK3resfail{tree.attributes_now(file)});
  };
  if (!S_ISLNK(file.status.st_mode)) return fail(nfsstat3::NFS3ERR_INVAL);
  auto* const text = reinterpret_cast<char*>(into.data());
  const ssize_t size = ::readlinkat(file.descriptor(), "", text, into.size());
  if (size < 0) return fail(status_of(errno));
  return succeeded<Results>(nfs3::READLINK3resok{
      tree.attributes_now(file), std::string_view(text, static_cast<std::size_t>(size))});
}

nfs3::READ3res run(Tree& tree, const Caller& caller, const nfs3::READ3args& args,
                   rpcrdma::MutableBytes into) {
  using Results = nfs3::READ3res;
  const Found file = tree.find(args.file);
  if (!file) return failed<Results>(file.error);
  nfsstat3 status = must_be_regular(file.status);
  if (status == nfsstat3::NFS3_OK) status = may_read(tree, caller, file);
  std::size_t count = 0;
  const bool must_not_wait = Impatience::is_on() && !tree.quick_reads().keeps_data();
  if (must_not_wait && tree.quick_reads().sets_time(file.status)) {
    Impatience::give_up();
    status = nfsstat3::NFS3ERR_JUKEBOX;  // nothing is read
  }
  if (status == nfsstat3::NFS3_OK && args.offset <= kFileSizeMax) {
    const files::File* const content = file.file->content(false);
    const std::size_t wanted = std::min<std::uint64_t>(into.size(), kFileSizeMax - args.offset);
    const auto read = content == nullptr
                          ? std::nullopt
                          : read_at(*content, must_not_wait, into.first(wanted), args.offset,
                                    static_cast<std::uint64_t>(file.status.st_size));
    if (read) {
      count = *read;
    } else {
      status = status_of(errno);
    }
  }
  if (status != nfsstat3::NFS3_OK) {
    return failed<Results>(status, nfs3::READ3resfail{tree.attributes_now(file)});
  }
  nfs3::READ3resok result;
  // Reading has set the time of access, and the file may have grown (RFC 1813 §3.3.6).
  result.file_attributes = tree.attributes_now(file);
  const nfs3::fattr3* const now = result.file_attributes.attributes();
  const auto size = now != nullptr ? now->size : static_cast<std::uint64_t>(file.status.st_size);
  result.count = static_cast<nfs3::count3>(count);
  // A file that has grown meanwhile is not at its end because it was so before.
  result.eof = count < into.size() || (args.offset <= size && size - args.offset == count);
  result.data = into.first(count);
  return succeeded<Results>(std::move(result));
}

// Pre-operation attributes are omitted: writes of one file run concurrently, and would make them
// claim that no one else changed the file.
nfs3::WRITE3res run(Tree& tree, const Caller& caller, const nfs3::WRITE3args& args) {
  using Results = nfs3::WRITE3res;
  const Found file = tree.find(args.file);
  if (!file) return failed<Results>(file.error);
  nfsstat3 status = must_be_regular(file.status);
  if (status == nfsstat3::NFS3_OK) status = may_write(tree, caller, file);
  if (status == nfsstat3::NFS3_OK) status = check(args);
  std::size_t count = 0;
  const nfs3::writeverf3 verifier = tree.verifier();
  const OpenFile::Writing writing(*file.file);
  if (status == nfsstat3::NFS3_OK && !args.data.empty()) {
    const files::File* const content = file.file->content(true);
    const auto written = content == nullptr
                             ? std::nullopt
                             : write_at(*content, args.data, args.offset, flags_of(args.stable));
    if (written) {
      count = *written;
      // Behind the write: a COMMIT that forgets this before has written the data.
      if (args.stable == stable_how::UNSTABLE) file.file->set_unstable();
      if (args.stable != stable_how::UNSTABLE) file.file->close_writable_when_idle(file.status);
    } else {
      const int error = errno;
      status = status_of(error);
      const bool is_stable = content != nullptr && args.stable != stable_how::UNSTABLE;
      if (is_stable && has_failed_to_sync(*content, args, error)) {
        tree.change_verifier();  // as in COMMIT
      }
    }
  }
  nfs3::wcc_data wcc{{}, tree.attributes_now(file)};
  if (status != nfsstat3::NFS3_OK) {
    return failed<Results>(status, nfs3::WRITE3resfail{std::move(wcc)});
  }
  return succeeded<Results>(
      nfs3::WRITE3resok{std::move(wcc), static_cast<nfs3::count3>(count), args.stable, verifier});
}

nfs3::COMMIT3res run(Tree& tree, const Caller& caller, const nfs3::COMMIT3args& args) {
  using Results = nfs3::COMMIT3res;
  const Found file = tree.find(args.file);
  if (!file) return failed<Results>(file.error);
  nfsstat3 status = must_be_regular(file.status);
  if (status == nfsstat3::NFS3_OK) status = may_write(tree, caller, file);
  nfs3::writeverf3 verifier{};
  if (status == nfsstat3::NFS3_OK) {
    // The kernel reports an error of writing back only once: of two COMMITs at a time, one would
    // report it, and the other would succeed with the old verifier.
    const std::lock_guard lock(file.file->commits());
    if (file.file->content(true) == nullptr) {
      status = status_of(errno);
    } else if (!file.file->commit()) {
      status = status_of(errno);
      // The kernel says this once. Whoever has written since the last COMMIT has to write again.
      tree.change_verifier();
    }
    verifier = tree.verifier();
    file.file->close_writable_when_idle(file.status);
  }
  nfs3::wcc_data wcc{{}, tree.attributes_now(file)};
  if (status != nfsstat3::NFS3_OK) {
    return failed<Results>(status, nfs3::COMMIT3resfail{std::move(wcc)});
  }
  return succeeded<Results>(nfs3::COMMIT3resok{std::move(wcc), verifier});
}

}  // namespace nfs::posix
