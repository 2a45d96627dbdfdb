// The socket at which `rpcrdma serve` gives its figures to `rpcrdma top` and `stat`.
#ifndef RPCRDMA_TOOLS_STAT_SOCKET_H_
#define RPCRDMA_TOOLS_STAT_SOCKET_H_

#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace rpcrdma::tools {

// Listens at a path, and writes a text to each client that connects, and closes. Only the server's
// user and root may connect. A client that does not read holds up other clients for two seconds,
// and no call: it has a thread of its own.
class StatSocket {
 public:
  using Text = std::function<std::string()>;

  // Throws std::system_error if it cannot listen there. The socket of a server that is gone is
  // replaced, and one that is served is not.
  StatSocket(std::string path, Text text);
  ~StatSocket();  // removes the socket
  StatSocket(const StatSocket&) = delete;
  StatSocket& operator=(const StatSocket&) = delete;

  const std::string& path() const noexcept { return path_; }

 private:
  void run();
  void answer(int client) const;

  const std::string path_;
  const Text text_;
  int socket_ = -1;
  int ending_ = -1;  // an eventfd
  std::thread thread_;
};

// Returns the folder in which a server makes its socket, PID.sock; empty: there is none for this
// user. Service managers name it by RUNTIME_DIRECTORY.
std::string own_stat_folder();
// Removes the sockets of servers that were killed.
void remove_stale_stat_sockets(const std::string& folder);
// Returns the paths of the sockets that this user's servers, and the system's, have made.
std::vector<std::string> all_stat_sockets();

// Connects, and reads all that the server says. Throws std::system_error.
std::string read_stat_socket(const std::string& path);

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_STAT_SOCKET_H_
