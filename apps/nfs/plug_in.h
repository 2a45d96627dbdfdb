// Back ends in shared objects of their own, which alone need what they stand on. Loaded when an
// export names one ("ceph:/PATH"), and never unloaded.
#ifndef RPCRDMA_NFS_PLUG_IN_H_
#define RPCRDMA_NFS_PLUG_IN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nfs/file_system.h"
#include "rpcrdma/error.h"

namespace nfs {

struct BackEndSettings {
  std::string path;  // behind the colon
  // Options of the export that are the back end's: each a name and a value.
  std::vector<std::pair<std::string, std::string>> options{};
  // The beginning of the paths of files in which the back end keeps state that outlives the
  // process. Empty: it keeps none.
  std::string state_path{};
  std::uint64_t fsid = 0;  // of attributes
  std::size_t workers = 16;
  std::size_t waiting_max = 4096;
  std::size_t open_files_max = 1024;
  bool is_async = false;
  // Told what whoever runs the server should know, a sentence at a time, from any thread. May be
  // empty.
  std::function<void(const std::string&)> report{};
};

class BackEnd {
 public:
  virtual ~BackEnd() = default;
  // `handles` outlives what is opened. The text says what is wrong. It may wait for other machines.
  virtual rpcrdma::Expected<std::unique_ptr<FileSystem>, std::string> open(
      const BackEndSettings& settings, const HandleMaker& handles) = 0;
};

// The object exports this function by the name kBackEndSymbol. It returns null if `build` differs
// from its own: classes with virtual functions cross the boundary. The back end lives as long as
// the process.
using BackEndEntry = BackEnd* (*)(const char* build);
inline constexpr const char* kBackEndSymbol = "rpcrdma_nfs_back_end";
std::string back_end_build();
// Raise this with each change of FileSystem, BackEnd or their arguments.
inline constexpr int kBackEndInterface = 4;

// Returns "ceph" for "ceph:/PATH", and sets `path` to the part behind the colon. Returns an empty
// name for a directory of this machine.
std::string back_end_of(const std::string& directory, std::string& path);
// Loads a back end. The error text says why it cannot be loaded, and what to install.
rpcrdma::Expected<BackEnd*, std::string> load_back_end(const std::string& name);

}  // namespace nfs

#endif  // RPCRDMA_NFS_PLUG_IN_H_
