// The socket at which `rpcrdma serve` gives its figures to `rpcrdma top` and `stat`.
#ifndef RPCRDMA_TOOLS_STAT_SOCKET_H_
#define RPCRDMA_TOOLS_STAT_SOCKET_H_

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace rpcrdma::tools {

// A file, whatever names it has.
struct FileNumber {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileNumber&) const = default;
};

// Listens at a path, serves one client after the other, and closes. Only the server's user and root
// may connect. It has a thread of its own, so that no client holds up a call.
class StatSocket {
 public:
  // Serves a client. Returns soon when the descriptor `ending` is readable.
  using Serve = std::function<void(int client, int ending)>;
  using Text = std::function<std::string()>;

  // Throws std::system_error if it cannot listen there. The socket of a server that is gone is
  // replaced, and one that is served is not.
  StatSocket(std::string path, Serve serve);
  // Writes a text to each client. One that has not taken the whole text after `patience` does not
  // get the rest, so that it holds up no others.
  StatSocket(std::string path, Text text,
             std::chrono::milliseconds patience = std::chrono::seconds(2));
  ~StatSocket();  // removes the socket, unless another one has its place
  StatSocket(const StatSocket&) = delete;
  StatSocket& operator=(const StatSocket&) = delete;

  const std::string& path() const noexcept { return path_; }

 private:
  void run();

  const std::string path_;
  const Serve serve_;
  FileNumber own_;  // of the socket in its folder
  int socket_ = -1;
  int ending_ = -1;  // an eventfd
  std::thread thread_;
};

// Returns the path of the socket at which a server shows its traffic, next to that of its figures.
std::string live_socket_of(const std::string& stat_socket);
// Returns the folder in which a server makes its socket, PID.sock; empty: there is none for this
// user. Service managers name it by RUNTIME_DIRECTORY.
std::string own_stat_folder();
// The end of the names of sockets of mounts, which nobody finds who has not named one.
inline constexpr const char* kMountSocket = ".mount.sock";
// Returns the paths of the sockets of mounts.
std::vector<std::string> all_mount_sockets();
// Removes the sockets of servers that were killed.
void remove_stale_stat_sockets(const std::string& folder);
// Returns the paths of the sockets that this user's servers, and the system's, have made.
std::vector<std::string> all_stat_sockets();

// Connects. Throws std::system_error.
int connect_stat_socket(const std::string& path);
// Connects, and reads all that the server says, or, if this descriptor becomes readable meanwhile,
// a part of it. Throws std::system_error.
std::string read_stat_socket(const std::string& path, int stop = -1);

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_STAT_SOCKET_H_
