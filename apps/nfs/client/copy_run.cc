#include "nfs/client/copy_run.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

namespace nfs {
namespace {

using rpcrdma::MutableBytes;
using rpcrdma::Task;
using rpcrdma::Unexpected;

constexpr std::uint32_t kFilesMax = 64, kBuffersMax = 32;  // fewer than Client's calls_max
constexpr int kWritesMax = 5;                              // of one file, after restarts
constexpr std::uint32_t kPermissions = 01777;

timespec to_timespec(const nfs3::nfstime3& time) {
  return {static_cast<time_t>(time.seconds),
          static_cast<long>(std::min<std::uint32_t>(time.nseconds, 999'999'999))};
}

nfs3::nfstime3 to_nfs(const timespec& time) {
  if (time.tv_sec < 0) return {};
  const auto most = static_cast<time_t>(std::numeric_limits<std::uint32_t>::max());
  return {static_cast<std::uint32_t>(std::min(time.tv_sec, most)),
          static_cast<std::uint32_t>(time.tv_nsec)};
}

bool is_of_connection(const rpcrdma::Error& error) {
  using rpcrdma::Errc;
  return error.code == Errc::kConnectionLost || error.code == Errc::kCanceled ||
         error.code == Errc::kTimedOut || error.code == Errc::kUnreachable ||
         error.code == Errc::kRefused || error.code == Errc::kUnknownHost;
}

bool is_before(const timespec& one, const nfs3::nfstime3& other) {
  return one.tv_sec != static_cast<time_t>(other.seconds)
             ? one.tv_sec < static_cast<time_t>(other.seconds)
             : one.tv_nsec < static_cast<long>(other.nseconds);
}

bool is_after(const timespec& one, const nfs3::nfstime3& other) {
  return one.tv_sec != static_cast<time_t>(other.seconds)
             ? one.tv_sec > static_cast<time_t>(other.seconds)
             : one.tv_nsec > static_cast<long>(other.nseconds);
}

}  // namespace

std::string path_to(std::string path) {
  if (!path.empty() && !path.ends_with('/')) path += '/';
  return path;
}

Failure same_file(const std::string& to) {
  return Failure::here("it and " + to + " are the same file");
}

std::string name_of(std::string path) {
  while (path.ends_with('/')) path.pop_back();
  const std::size_t slash = path.rfind('/');
  std::string name = path.substr(slash == std::string::npos ? 0 : slash + 1);
  return is_safe_name(name) ? name : std::string();
}

Unexpected<Failure> failed_here(const std::string& what) {
  return Unexpected<Failure>(Failure{.local = what + ": " + std::strerror(errno)});
}

Kept Kept::of(const struct stat& status) {
  return {status.st_mode & kPermissions, true, status.st_atim, status.st_mtim};
}

Kept Kept::of(const nfs3::fattr3& attributes) {
  return {attributes.mode & kPermissions, true, to_timespec(attributes.atime),
          to_timespec(attributes.mtime)};
}

nfs3::sattr3 Kept::to_server() const {
  nfs3::sattr3 attributes;
  attributes.mode.set_mode(mode);
  if (!has_times) return attributes;
  attributes.atime.set_atime_(to_nfs(atime));
  attributes.mtime.set_mtime_(to_nfs(mtime));
  return attributes;
}

bool Kept::set_here(int descriptor) const {
  const timespec times[2] = {atime, mtime};
  return ::fchmod(descriptor, mode) == 0 && (!has_times || ::futimens(descriptor, times) == 0);
}

CopyRun::CopyRun(Mounted& server, const CopyOptions& options, Mounted* source)
    : server_(server),
      source_(source),
      options_(options),
      file_slots_(turns_, std::clamp(options.files, 1U, kFilesMax)),
      buffer_slots_(turns_, std::clamp(options.buffers, 1U, kBuffersMax)),
      buffer_size_(std::max(server.read_size(), server.write_size())),
      memory_(std::clamp(options.buffers, 1U, kBuffersMax) * buffer_size_),
      compared_(64U << 10U),
      registered_(server.connections().use_memory(memory_)),
      registered_at_source_(source == nullptr ? Connections::Memory()
                                              : source->connections().use_memory(memory_)) {
  for (std::size_t at = 0; at < memory_.size(); at += buffer_size_) {
    buffers_.push_back(memory_.data() + at);
  }
}

CopyResult CopyRun::run(Task<void> task) {
  std::vector<Connections*> connections{&server_.connections()};
  if (source_ != nullptr) connections.push_back(&source_->connections());
  turns_.run(connections, std::move(task));
  return std::move(result_);
}

// --- Reports -----------------------------------------------------------------------------------

bool CopyRun::has_stopped() {
  if (options_.is_interrupted && options_.is_interrupted()) result_.is_interrupted = true;
  return result_.is_lost || result_.is_interrupted;
}

void CopyRun::fail(const std::string& path, Failure why) {
  // A file that the end of the copying has stopped is no failure of its own.
  if (result_.is_interrupted || result_.is_lost) return;
  const bool is_any_down = !server_.connections().is_any_up() ||
                           (source_ != nullptr && !source_->connections().is_any_up());
  if (why.error && is_of_connection(*why.error) && is_any_down) {
    // The others fail for the same reason, which is said once.
    result_.is_lost = true;
    result_.failures.insert(result_.failures.begin(), why);
    ++result_.failure_count;
    return;
  }
  ++result_.failure_count;
  if (result_.failures.size() >= CopyResult::kListedMax) return;
  why.path = path;
  result_.failures.push_back(std::move(why));
}

void CopyRun::fail_here(const std::string& path, const std::string& what) {
  fail(path, failed_here(what).error());
}

void CopyRun::skip(const std::string& path, const Folder& into) {
  if (into.depth == 0) {
    return fail(path, Failure{.local = "it is no file, directory or symbolic link"});
  }
  ++result_.skipped_count;
  if (result_.skipped.size() < CopyResult::kListedMax) result_.skipped.push_back(path);
}

Route CopyRun::know_of(std::uint64_t bytes) {
  progress_.bytes_known += bytes;
  show();
  return Route{next_route_++};
}

void CopyRun::end_file(const FileJob& job) {
  if (job.has_stayed) {
    ++result_.stayed;
    progress_.bytes_known -= job.size;
  } else {
    ++result_.files;
    result_.bytes += job.size;
    progress_.files = result_.files;
    if (options_.copied) options_.copied(job.path, job.into->to + job.name);
  }
  show();
}

void CopyRun::end_link(const std::string& path, const Folder& into, const std::string& name,
                       bool has_stayed) {
  ++(has_stayed ? result_.stayed : result_.links);
  if (!has_stayed && options_.copied) options_.copied(path, into.to + name);
}

void CopyRun::begin_folder(const std::string& path, const std::string& to, bool is_new) {
  ++result_.directories;
  if (is_new && options_.copied) options_.copied(path, to);
}

Kept CopyRun::wanted(Kept source) const {
  if (options_.keep) return source;
  source.mode &= ~options_.umask;
  source.has_times = false;
  return source;
}

void CopyRun::show() {
  if (options_.progress) options_.progress(progress_);
}

// --- Directories -------------------------------------------------------------------------------

void CopyRun::leave(Folder& folder) {
  if (--folder.under_way == 0) {
    turns_.begin(finish_and_free(std::unique_ptr<Folder>(&folder)));
  }
}

Task<void> CopyRun::finish_and_free(std::unique_ptr<Folder> folder) {
  if (folder->kept && !has_stopped()) co_await finish(*folder);
  Folder* const parent = folder->parent;
  folder.reset();
  if (parent != nullptr) leave(*parent);
}

// The number may be that of another file system's. The time of the last change, in
// nanoseconds, is not: if it is the same one, that lies between what is seen here before and after.
Task<bool> CopyRun::is_same(int here, const nfs3::nfs_fh3& there) {
  struct stat before {
  }, after{};
  if (::fstat(here, &before) != 0) co_return false;
  const auto make = [&] { return server_.attributes(there); };
  const auto now = co_await patiently(make);
  if (!now || ::fstat(here, &after) != 0 || now->fileid != before.st_ino) co_return false;
  co_return !is_after(before.st_ctim, now->ctime) && !is_before(after.st_ctim, now->ctime);
}

// --- Data --------------------------------------------------------------------------------------

Task<Result<void>> CopyRun::transfer(FileJob& job, Step step) {
  Group group(turns_);
  job.failure.reset();
  job.verifiers.clear();
  if (step != Step::kCompare) job.has_holes = false;
  const std::uint64_t most = part_size(step);
  const bool has_extents =
      step == Step::kWrite && source_ == nullptr && options_.sparse != Sparse::kNever;
  Extent data{0, has_extents ? 0 : job.size};
  for (std::uint64_t offset = 0; offset < job.size && !job.failure;) {
    if (offset == data.end) {
      const auto next = next_data(job.here, offset, job.size);
      if (!next) {
        job.failure = next.error();
        break;
      }
      data = *next;
      if (data.begin > offset) pass_hole(job, data.begin - offset);
      offset = data.begin;
      continue;
    }
    co_await buffer_slots_.take();
    group.enter();
    const std::uint64_t size = std::min(most - offset % most, data.end - offset);
    turns_.begin(part(job, step, offset, static_cast<std::size_t>(size), group));
    offset += size;
  }
  co_await group.end();
  if (job.failure) co_return Unexpected<Failure>(*job.failure);
  co_return Result<void>();
}

std::size_t CopyRun::part_size(Step step) const {
  if (step == Step::kWrite) return server_.write_size();
  // One buffer has both that are compared, of this server and of the other.
  const bool is_half = step == Step::kCompare && source_ != nullptr;
  return is_half ? std::min<std::size_t>(server_.read_size(), buffer_size_ / 2)
                 : server_.read_size();
}

Task<void> CopyRun::part(FileJob& job, Step step, std::uint64_t offset, std::size_t size,
                         Group& group) {
  std::byte* const start = buffers_.back();
  buffers_.pop_back();
  const MutableBytes buffer(start, size);
  Result<void> done;
  if (job.failure) {
    // It is over.
  } else if (has_stopped()) {
    done = Unexpected<Failure>(Failure{.local = "the copying has ended"});
  } else if (step == Step::kWrite) {
    done = co_await write_part(job, offset, buffer);
  } else if (step == Step::kRead) {
    done = co_await read_part(job, offset, buffer);
  } else {
    const MutableBytes source(start + size, source_ == nullptr ? 0 : size);
    done = co_await read_all(job, offset, buffer);
    if (done) done = co_await compare(job, offset, buffer, source);
  }
  if (!done && !job.failure) job.failure = std::move(done.error());
  if (done && step != Step::kCompare) {
    progress_.bytes += size;
    show();
  }
  buffers_.push_back(start);
  buffer_slots_.give_back();
  group.leave();
}

void CopyRun::pass_hole(FileJob& job, std::uint64_t size) {
  job.has_holes = true;
  progress_.bytes += size;
  show();
}

Task<Result<void>> CopyRun::write_part(FileJob& job, std::uint64_t offset, MutableBytes buffer) {
  auto fetched = co_await fetch(job, offset, buffer);
  if (!fetched) co_return fetched;
  for (std::uint64_t done = 0; done < buffer.size();) {
    const Extent data = to_write(job, buffer, offset, done);
    if (data.size() > 0) {
      auto written =
          co_await write_all(job, offset + data.begin, buffer.subspan(data.begin, data.size()));
      if (!written) co_return written;
    }
    done = data.end;
  }
  co_return Result<void>();
}

Extent CopyRun::to_write(FileJob& job, rpcrdma::Bytes data, std::uint64_t offset,
                         std::uint64_t from) {
  if (!job.skips_zeros) return {from, data.size()};
  const Extent found = next_that_is_not_zero(data, offset, from);
  if (found.begin > from) job.has_holes = true;
  return found;
}

Task<Result<void>> CopyRun::write_all(FileJob& job, std::uint64_t offset, rpcrdma::Bytes data) {
  for (std::size_t done = 0; done < data.size();) {
    const rpcrdma::Bytes rest = data.subspan(done);
    const std::uint64_t at = offset + done;
    const auto make = [&] { return server_.write(job.there, at, rest, job.route); };
    auto written = co_await patiently(make);
    if (!written) co_return Unexpected<Failure>(written.error());
    if (written->count == 0) {
      co_return Unexpected<Failure>(Failure{.local = "the server writes nothing"});
    }
    // Two say as much as more of them.
    if (job.verifiers.size() < 2 &&
        std::ranges::find(job.verifiers, written->verifier) == job.verifiers.end()) {
      job.verifiers.push_back(written->verifier);
    }
    done += written->count;
  }
  co_return Result<void>();
}

Task<Result<void>> CopyRun::fetch(FileJob& job, std::uint64_t offset, MutableBytes into) {
  const auto got = job.here.read_at(into, offset);
  if (!got) co_return failed_here("reading failed");
  if (*got < into.size()) {
    co_return Unexpected<Failure>(Failure{.local = "it became shorter while it was copied"});
  }
  co_return Result<void>();
}

Task<Result<void>> CopyRun::compare(FileJob& job, std::uint64_t offset, rpcrdma::Bytes there,
                                    MutableBytes source) {
  if (source_ == nullptr) co_return equal_here(job, offset, there);
  auto fetched = co_await fetch(job, offset, source);
  if (!fetched || std::memcmp(source.data(), there.data(), there.size()) == 0) co_return fetched;
  co_return Unexpected<Failure>(Failure{.local = "the servers have different data between byte " +
                                                 std::to_string(offset) + " and " +
                                                 std::to_string(offset + there.size())});
}

Task<Result<void>> CopyRun::read_all(FileJob& job, std::uint64_t offset, MutableBytes buffer) {
  for (std::size_t done = 0; done < buffer.size();) {
    const MutableBytes rest = buffer.subspan(done);
    const std::uint64_t at = offset + done;
    const auto make = [&] { return server_.read(job.there, at, rest, job.route); };
    auto got = co_await patiently(make);
    if (!got) co_return Unexpected<Failure>(got.error());
    if (got->count == 0) {
      co_return Unexpected<Failure>(Failure{.local = "it became shorter while it was copied"});
    }
    done += got->count;
  }
  co_return Result<void>();
}

Task<Result<void>> CopyRun::read_part(FileJob& job, std::uint64_t offset, MutableBytes buffer) {
  auto got = co_await read_all(job, offset, buffer);
  if (!got) co_return got;
  for (std::uint64_t done = 0; done < buffer.size();) {
    const Extent data = to_write(job, buffer, offset, done);
    const rpcrdma::Bytes bytes = buffer.subspan(data.begin, data.size());
    if (!job.here.write_at(bytes, offset + data.begin)) co_return failed_here("writing failed");
    done = data.end;
  }
  co_return Result<void>();
}

Result<void> CopyRun::equal_here(const FileJob& job, std::uint64_t offset, rpcrdma::Bytes data) {
  for (std::size_t done = 0; done < data.size(); done += compared_.size()) {
    const rpcrdma::Bytes there = data.subspan(done, std::min(compared_.size(), data.size() - done));
    const MutableBytes here = MutableBytes(compared_).first(there.size());
    const auto got = job.here.read_at(here, offset + done);
    if (!got) return failed_here("reading it again failed");
    // Comparing spans of std::byte, std::ranges::equal would look at each by itself.
    if (*got != there.size() || std::memcmp(here.data(), there.data(), there.size()) != 0) {
      return Unexpected<Failure>(
          Failure{.local = "the server's copy differs from the file here, between byte " +
                           std::to_string(offset + done) + " and " +
                           std::to_string(offset + done + there.size())});
    }
  }
  return {};
}

Task<Result<void>> CopyRun::write_and_commit(FileJob& job) {
  for (int i = 0; i < kWritesMax; ++i) {
    auto written = co_await transfer(job, Step::kWrite);
    if (written && job.has_holes) written = co_await set_size(job);
    if (!written) co_return std::move(written);
    if (job.verifiers.empty()) co_return Result<void>();  // there was nothing to write
    const auto make = [&] { return server_.commit(job.there, job.route); };
    auto committed = co_await patiently(make);
    if (!committed) co_return Unexpected<Failure>(committed.error());
    // Else the server was restarted in between, and may have lost what was written before.
    if (job.verifiers.size() == 1 && job.verifiers.front() == *committed) co_return Result<void>();
    ++result_.rewritten;
    progress_.bytes -= job.size;
    // A hole may be now where data was.
    const auto empty = [&] { return server_.empty(job.there, job.route); };
    auto emptied = co_await patiently(empty);
    if (!emptied) co_return std::move(emptied);
  }
  co_return Unexpected<Failure>(
      Failure{.local = "the server was restarted each time while it was written"});
}

Task<Result<void>> CopyRun::set_size(FileJob& job) {
  nfs3::sattr3 attributes;
  attributes.size.set_size(job.size);
  const auto make = [&] { return server_.set(job.there, attributes, job.route); };
  co_return co_await patiently(make);
}

Task<void> CopyRun::file(std::unique_ptr<FileJob> job) {
  if (!has_stopped()) {
    auto moved = co_await move_content(*job);
    if (moved) {
      end_file(*job);
    } else {
      fail(job->path, moved.error());
    }
  }
  Folder& into = *job->into;
  job.reset();
  file_slots().give_back();
  leave(into);
}

}  // namespace nfs
