// Exports of a directory of its own, a server of them on a thread, and a client of NFS and MOUNT.
#ifndef RPCRDMA_NFS_SERVED_FOR_TEST_H_
#define RPCRDMA_NFS_SERVED_FOR_TEST_H_

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "mount3.h"
#include "nfs/exporter.h"
#include "nfs3.h"
#include "rpcrdma/client.h"
#include "rpcrdma/server.h"

namespace nfs {

inline rpcrdma::Bytes bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}
// All of a file. Iterators over its bytes took most of the time of tests that are not optimised.
std::string content_of(const std::string& path);
// Removes a tree, even with directories that nobody may change.
void remove_tree(const std::string& top);

class Served {
 public:
  // Exports `folder()` as /data (everything as it comes, root as well), /squash (root_squash), /ro
  // (read-only), and /elsewhere to nobody that calls here.
  explicit Served(ExporterOptions options = {});
  // Another server of the same directory, with the same key, or one of its own.
  enum class Key : std::uint8_t { kSame, kOwn };
  Served(const Served& twin, Key key);
  ~Served();
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  // The files are on a CephFS.
  static bool is_elsewhere();
  const std::string& folder() const noexcept { return folder_; }
  std::string path(std::string_view name) const { return folder_ + "/" + std::string(name); }
  // Prepare a test as a shell would; they fail the test if they fail.
  void write_file(std::string_view name, std::string_view content) const;
  std::string read_file(std::string_view name) const;

  // "rdma" or "tcp".
  std::unique_ptr<rpcrdma::Client> connect(const std::string& scheme, std::uint32_t uid = 0,
                                           std::uint32_t gid = 0,
                                           std::vector<std::uint32_t> groups = {}) const;
  // "127.0.0.1:PORT"
  std::string address(const std::string& scheme) const {
    const std::string& url = scheme == "tcp" ? tcp_ : rdma_;
    return url.substr(url.find("//") + 2);
  }
  // Returns the URL of an export for nfs::Mounted.
  std::string url(const std::string& scheme, std::string_view below) const {
    return "nfs+" + (scheme == "tcp" ? tcp_ : rdma_) + std::string(below);
  }
  // Ends the workers: from now on, calls that need one are answered with JUKEBOX.
  void stop_workers() { (void)exporter_->stop(); }
  // Another server of the same directory knows these handles.
  bool has_handles_for_all() const { return exporter_->notes().empty(); }
  // The files are on a file system, and with handles, that calls may be answered from at once.
  bool may_answer_at_once() const { return has_handles_for_all() && !is_elsewhere(); }
  // Ends the server; begin() makes another one at its addresses.
  void end();
  void begin();
  // Ends the server, and begins another one of the same exports at the same addresses.
  void restart();
  // Counts the calls over both transports and all connections, of the servers that have ended.
  std::uint64_t calls_served() const { return calls_served_; }
  // Restarts the server with another directory of the same name; the old one is kept beside it.
  void replace_folder();

 private:
  const std::string folder_;
  const std::string state_;
  const bool is_twin_ = false;  // the folder is another one's
  ExporterOptions options_;
  std::unique_ptr<Exporter> exporter_;
  std::optional<rpcrdma::Server> server_;
  std::uint64_t calls_served_ = 0;
  std::string rdma_, tcp_;
  std::thread thread_;
};

// The handle of a mount; empty if it was refused.
nfs3::nfs_fh3 mounted(rpcrdma::Client& client, const std::string& name);

}  // namespace nfs

#endif  // RPCRDMA_NFS_SERVED_FOR_TEST_H_
