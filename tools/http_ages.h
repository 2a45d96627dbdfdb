// Ends each connection of an HTTP daemon that has had its time, however fast it goes on: the
// daemon's own bound begins anew with each byte.
#ifndef RPCRDMA_TOOLS_HTTP_AGES_H_
#define RPCRDMA_TOOLS_HTTP_AGES_H_

#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>

namespace rpcrdma::tools {

// Both functions may be called on any thread.
class HttpAges {
 public:
  struct Connection {
    int socket;
    std::chrono::steady_clock::time_point end;
  };
  using Handle = std::list<Connection>::iterator;

  explicit HttpAges(std::chrono::milliseconds time_max);  // throws std::system_error: no thread
  ~HttpAges();
  HttpAges(const HttpAges&) = delete;
  HttpAges& operator=(const HttpAges&) = delete;

  Handle begin(int socket);
  // Before the socket is closed, also if its time was over.
  void end(Handle connection);

 private:
  void run();

  const std::chrono::milliseconds time_max_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Connection> connections_, ended_;  // the oldest first; whose time is not over, and is
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_HTTP_AGES_H_
