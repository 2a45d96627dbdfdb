// An rpcbind that does as a test wants, in a thread, on a port of the loopback.
#ifndef RPCRDMA_RPCBIND_FAKE_DAEMON_FOR_TEST_H_
#define RPCRDMA_RPCBIND_FAKE_DAEMON_FOR_TEST_H_

#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "rpcbind.h"

namespace rpcrdma::rpcbinding {

class FakeDaemon {
 public:
  FakeDaemon();
  ~FakeDaemon();

  std::uint16_t port() const { return port_; }
  std::string where() const { return "127.0.0.1:" + std::to_string(port_); }

  using Key = std::tuple<std::uint32_t, std::uint32_t, std::string>;  // program, version, netid
  // Not while a client is being served.
  std::map<Key, rpcbind::rpcb> entries;
  std::vector<Key> of_others;     // entries that may not be removed
  std::uint32_t version_max = 4;  // of its program; 2 is a port mapper's
  bool nonsense = false;          // results are none

 private:
  void serve();
  void serve_connection(int descriptor);
  std::vector<std::byte> answer(const std::vector<std::byte>& call);
  std::vector<std::byte> execute(std::uint32_t procedure, const rpcbind::rpcb& argument);

  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace rpcrdma::rpcbinding

#endif  // RPCRDMA_RPCBIND_FAKE_DAEMON_FOR_TEST_H_
