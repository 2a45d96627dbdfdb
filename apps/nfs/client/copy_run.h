// One run of a Copier: what both directions share.
#ifndef RPCRDMA_NFS_CLIENT_COPY_RUN_H_
#define RPCRDMA_NFS_CLIENT_COPY_RUN_H_

#include <sys/stat.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "files/file.h"
#include "nfs/client/copier.h"
#include "nfs/client/holes.h"
#include "nfs/client/mounted.h"
#include "nfs/client/turns.h"

namespace nfs {

// Permissions and times that are set where a file is copied to.
struct Kept {
  std::uint32_t mode = 0;
  bool has_times = true;
  timespec atime{}, mtime{};

  static Kept of(const struct stat& status);
  static Kept of(const nfs3::fattr3& attributes);
  nfs3::sattr3 to_server() const;
  // Sets them on the open file; false: errno.
  bool set_here(int descriptor) const;
};

// A directory that exists on both sides. It lives until all in it has been copied.
struct Folder {
  files::File here{};
  nfs3::nfs_fh3 there{};
  std::string path{};           // of the source, for messages; ends with '/' unless it is empty
  std::string to{};             // the same of the target
  std::uint64_t target_id = 0;  // the number of what is copied into: of its inode, or its fileid
  Folder* parent = nullptr;
  std::optional<Kept> kept{};   // nullopt: it has the permissions that it shall have
  std::uint64_t under_way = 1;  // the listing, and what it has started
  std::uint32_t depth = 0;
  bool is_new = false;  // nothing but this run has put anything into it there
};

struct FileJob {
  files::File here{};
  nfs3::nfs_fh3 there{};
  nfs3::nfs_fh3 source{};       // at the server that is copied from, if there is one
  std::uint64_t source_id = 0;  // the number of the source's inode, or its fileid
  std::uint64_t size = 0;
  Kept kept{};
  std::string name{}, path{};
  Folder* into = nullptr;
  Route route{};  // one file, one server
  bool skips_zeros = false;
  // The first failure of the file's parts.
  std::optional<Failure> failure{};
  std::vector<nfs3::writeverf3> verifiers{};  // different ones
  bool has_mode = false;                      // at the server, the one that is kept
  bool has_stayed = false;                    // what has the name already
  bool has_holes = false;                     // something was not written, at the end perhaps
};

class CopyRun {
 public:
  // `source`: another server that is copied from; nullptr: none.
  CopyRun(Mounted& server, const CopyOptions& options, Mounted* source = nullptr);
  virtual ~CopyRun() = default;
  CopyRun(const CopyRun&) = delete;
  CopyRun& operator=(const CopyRun&) = delete;

  // Blocks.
  CopyResult run(rpcrdma::Task<void> task);

 protected:
  enum class Step : std::uint8_t { kRead, kWrite, kCompare };

  Mounted& server() noexcept { return server_; }
  const CopyOptions& options() const noexcept { return options_; }
  CopyResult& result() noexcept { return result_; }
  Slots& file_slots() noexcept { return file_slots_; }
  Turns& turns() noexcept { return turns_; }
  // It is copied from another server.
  bool has_source() const noexcept { return source_ != nullptr; }
  bool has_stopped();

  void fail(const std::string& path, Failure why);
  // Reports a failure of this machine, with errno's text.
  void fail_here(const std::string& path, const std::string& what);
  // Reports something that is neither a file, a directory nor a link; for a source that the caller
  // named itself, at depth 0, that is an error.
  void skip(const std::string& path, const Folder& into);
  // Counts a file that will be copied, and returns its route.
  Route know_of(std::uint64_t bytes);
  // Counts a file that was copied, or that stays as it was at the target.
  void end_file(const FileJob& job);
  void end_link(const std::string& path, const Folder& into, const std::string& name,
                bool has_stayed);
  // A directory that is new where the copying goes to, or that was there.
  void begin_folder(const std::string& path, const std::string& to, bool is_new);
  // Returns the attributes that the options want the copy to have.
  Kept wanted(Kept source) const;
  // Whoever enters keeps the folder; when the last has left, finish() sets what is kept.
  static void enter(Folder& folder) noexcept { ++folder.under_way; }
  void leave(Folder& folder);
  virtual rpcrdma::Task<void> finish(Folder& folder) = 0;
  // One file from beginning to end, in a slot that was taken for it.
  rpcrdma::Task<void> file(std::unique_ptr<FileJob> job);
  // Moves the file's data to the other side.
  virtual rpcrdma::Task<Result<void>> move_content(FileJob& job) = 0;

  // Tells if an open file or directory and one of the server are the same one.
  rpcrdma::Task<bool> is_same(int here, const nfs3::nfs_fh3& there);

  // Gets what the source of a file for the server has at `offset`, as much as fits.
  virtual rpcrdma::Task<Result<void>> fetch(FileJob& job, std::uint64_t offset,
                                            rpcrdma::MutableBytes into);

  // All parts of the file, with many under way.
  rpcrdma::Task<Result<void>> transfer(FileJob& job, Step step);
  // Writes the file until the server has committed it, and gives up after some restarts of the
  // server.
  rpcrdma::Task<Result<void>> write_and_commit(FileJob& job);

  // Repeats a call while the server is busy; the function makes its Task.
  template <class Make>
  auto patiently(Make make) -> decltype(make()) {
    for (std::chrono::milliseconds time(50);; time *= 2) {
      auto result = co_await make();
      if (result || !result.error().is_busy() || time > kPauseMax) co_return std::move(result);
      co_await turns_.pause(time);
    }
  }

 private:
  static constexpr std::chrono::milliseconds kPauseMax{13'000};  // the sum is 25.55 s

  rpcrdma::Task<void> finish_and_free(std::unique_ptr<Folder> folder);
  rpcrdma::Task<void> part(FileJob& job, Step step, std::uint64_t offset, std::size_t size,
                           Group& group);
  rpcrdma::Task<Result<void>> write_part(FileJob& job, std::uint64_t offset,
                                         rpcrdma::MutableBytes buffer);
  rpcrdma::Task<Result<void>> read_all(FileJob& job, std::uint64_t offset,
                                       rpcrdma::MutableBytes buffer);
  rpcrdma::Task<Result<void>> read_part(FileJob& job, std::uint64_t offset,
                                        rpcrdma::MutableBytes buffer);
  // Compares with the source's bytes, which are read into a second buffer.
  rpcrdma::Task<Result<void>> compare(FileJob& job, std::uint64_t offset, rpcrdma::Bytes there,
                                      rpcrdma::MutableBytes source);
  std::size_t part_size(Step step) const;
  Result<void> equal_here(const FileJob& job, std::uint64_t offset, rpcrdma::Bytes data);
  // The size is set since nothing may have been written at the end.
  rpcrdma::Task<Result<void>> set_size(FileJob& job);
  rpcrdma::Task<Result<void>> write_all(FileJob& job, std::uint64_t offset, rpcrdma::Bytes data);
  // Returns the part of the data that is written next.
  static Extent to_write(FileJob& job, rpcrdma::Bytes data, std::uint64_t offset,
                         std::uint64_t from);
  void pass_hole(FileJob& job, std::uint64_t size);
  void show();

  Mounted& server_;
  Mounted* const source_;
  const CopyOptions& options_;
  Turns turns_;
  Slots file_slots_;
  Slots buffer_slots_;
  const std::size_t buffer_size_;
  std::vector<std::byte> memory_;
  std::vector<std::byte*> buffers_;  // that are free
  std::vector<std::byte> compared_;  // what is here, of a comparison
  const Connections::Memory registered_, registered_at_source_;
  CopyProgress progress_;
  CopyResult result_;
  std::uint32_t next_route_ = 0;  // around the servers
};

inline constexpr std::uint32_t kDepthMax = 512;  // of directories, each of which is open

// The path of a directory, as what is in it begins with it; empty: the names alone.
std::string path_to(std::string path);
// Says that a file would be copied onto itself, as what is called `to`.
Failure same_file(const std::string& to);
// The last name of a path; empty if that is none, such as "..".
std::string name_of(std::string path);
rpcrdma::Unexpected<Failure> failed_here(const std::string& what);  // with errno's text

}  // namespace nfs

#endif  // RPCRDMA_NFS_CLIENT_COPY_RUN_H_
