// Copies files and trees between this machine and an export, and between two of them, many files
// and many READs or WRITEs at a time, on one thread.
//
//   nfs::Copier copier(*server, {.recursive = true});
//   nfs::CopyResult result = copier.upload({"photos"}, server->path());
//
// A file that is there already gets the new content and keeps its permissions; a new file or
// directory has those of the source that the umask leaves. With `keep`, permissions and times are
// those of the source; of directories they are set after their content. Owners are not kept, so
// set-user-id and set-group-id are not either. Symbolic links are copied as links (their times only
// to this machine).
//
// Holes of a file stay holes, by default: holes that this machine's file system reports are neither
// read nor sent. If a file at the server has less room than its size, blocks of zeros that are read
// there are not written here.
//
// On both sides a file is written beside its place under another name, and renamed when it is
// whole: until then, and after a failure, the target keeps its old content. A lost connection or a
// kill leaves a file at the server whose name is ".NAME.rpcrdma-XXXXXXXXXXXX". Where the server
// lets nobody make files beside a file that may be written, that one is written in place, which
// `in_place` counts. A file at the server is committed; when the server was restarted meanwhile,
// the file is written again. While the server says NFS3ERR_JUKEBOX, a call is repeated after
// pauses, for about half a minute.
//
// The copier does not trust the names that a server sends: it refuses a name that is not the name
// of a single file, and opens files below directories that are open already, never through symbolic
// links.
//
// Skips a directory that the copying itself fills, as happens if an export lies below the source,
// and does not copy a file onto itself.
//
// Memory: the buffers, and the lists of the directories on the way to where the copying is.
#ifndef RPCRDMA_NFS_CLIENT_COPIER_H_
#define RPCRDMA_NFS_CLIENT_COPIER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nfs/client/mounted.h"

namespace nfs {

struct CopyProgress {
  std::uint64_t files = 0;        // done
  std::uint64_t bytes = 0;        // done, those of holes as well
  std::uint64_t bytes_known = 0;  // of all files seen so far; there may be more
};

// Says which zeros become holes where a file is copied to: those of holes, as far as it is known
// where they are; all that fill a block of 4 KiB; none.
enum class Sparse : std::uint8_t { kAuto, kAlways, kNever };

struct CopyOptions {
  bool recursive = false;
  bool keep = false;  // permissions and times
  // Leaves existing files and links as they are, also those that appear while something is copied
  // (unless the server's file system has no hard links). Directories take what is new.
  bool no_clobber = false;
  std::uint32_t umask = 022;  // takes permissions from what is new, unless `keep`
  bool verify = false;        // read each file again from the server, and compare
  Sparse sparse = Sparse::kAuto;
  std::uint32_t files = 16;    // under way at a time, at most 64
  std::uint32_t buffers = 16;  // calls with data under way at a time, at most 32
  std::function<void(const CopyProgress&)> progress{};
  // Called when something is whole, and when a directory is made; the paths are those of failures.
  std::function<void(const std::string& from, const std::string& to)> copied{};
  // Once it returns true, nothing more is copied, and incomplete files are removed.
  std::function<bool()> is_interrupted{};
};

struct CopyResult {
  static constexpr std::size_t kListedMax = 20;  // of each list below

  std::uint64_t files = 0, directories = 0, links = 0, bytes = 0;
  std::uint64_t rewritten = 0;   // files written once more since the server was restarted
  std::uint64_t stayed = 0;      // files and links that were there, with `no_clobber`
  std::uint64_t in_place = 0;    // files that had their names while they were written
  std::uint64_t parts_left = 0;  // files that are not whole, under temporary names at the server
  std::uint64_t skipped_count = 0;
  std::vector<std::string> skipped{};  // sockets, FIFOs, devices: the first of them
  std::uint64_t failure_count = 0;
  std::vector<Failure> failures{};  // the first of them
  bool is_lost = false;             // the connection; the rest was not tried
  bool is_interrupted = false;      // likewise
};

// Returns whether a name that a server sent names a single file of a directory.
bool is_safe_name(std::string_view name) noexcept;

class Copier {
 public:
  explicit Copier(Mounted& server, CopyOptions options = {})
      : server_(server), options_(std::move(options)) {}

  // Paths of this machine to a path below the export: into it when it is a directory, else, one
  // source, as this name. Blocks.
  CopyResult upload(const std::vector<std::string>& sources, const std::string& target);
  // The other way round.
  CopyResult download(const std::vector<std::string>& sources, const std::string& target);
  // Paths of another server, or of this one, to a path here, through the buffers: as many READs or
  // WRITEs are under way.
  CopyResult relay(Mounted& from, const std::vector<std::string>& sources,
                   const std::string& target);

 private:
  Mounted& server_;
  const CopyOptions options_;
};

}  // namespace nfs

#endif  // RPCRDMA_NFS_CLIENT_COPIER_H_
