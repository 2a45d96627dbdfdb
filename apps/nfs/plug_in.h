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
  // What files begin with in which the back end keeps what outlasts the process. Empty: it keeps
  // nothing.
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

// What the object exports, by the name kBackEndSymbol. Null when `build` is another one: classes
// with virtual functions go from one side to the other. The back end lives as long as the process.
using BackEndEntry = BackEnd* (*)(const char* build);
inline constexpr const char* kBackEndSymbol = "rpcrdma_nfs_back_end";
std::string back_end_build();
// To be raised with each change of FileSystem, BackEnd or what they take.
inline constexpr int kBackEndInterface = 4;

// "ceph:/PATH": "ceph", and `path` becomes what follows. Of a directory of this machine: empty.
std::string back_end_of(const std::string& directory, std::string& path);
// The text says why it cannot be loaded, and what to install.
rpcrdma::Expected<BackEnd*, std::string> load_back_end(const std::string& name);

}  // namespace nfs

#endif  // RPCRDMA_NFS_PLUG_IN_H_
