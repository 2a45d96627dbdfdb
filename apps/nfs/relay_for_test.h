// A relay of TCP connections that can lose answers: for calls that a server has executed, and whose
// client does not know.
#ifndef RPCRDMA_NFS_RELAY_FOR_TEST_H_
#define RPCRDMA_NFS_RELAY_FOR_TEST_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "files/file.h"

namespace nfs {

class Relay {
 public:
  // Relays to "127.0.0.1:PORT".
  explicit Relay(const std::string& target);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  std::string address() const;  // "127.0.0.1:PORT"
  // Drops the answer that follows after so many more, and ends its connection at both ends.
  void lose_after(int answers) noexcept { left_ = answers + 1; }
  bool has_lost_it() const noexcept { return left_ == 0; }

 private:
  struct Pair {
    files::File client, server;
  };
  void run();
  bool pass(Pair& pair, bool to_client);

  const std::uint16_t target_;
  files::File listening_;
  files::File stop_;  // eventfd
  std::atomic<int> left_ = 0;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace nfs

#endif  // RPCRDMA_NFS_RELAY_FOR_TEST_H_
