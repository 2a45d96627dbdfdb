// Drives several clients on one thread: while one waits for a reply, the others answer callbacks.
#ifndef RPCRDMA_TESTS_INTEROP_NFS41_LOOP_H_
#define RPCRDMA_TESTS_INTEROP_NFS41_LOOP_H_

#include <chrono>
#include <functional>
#include <vector>

#include "rpcrdma/client.h"

namespace rpcrdma::interop {

class Loop {
 public:
  static constexpr std::chrono::hours kForever{24};

  // The client must outlive the loop's use, and may not be moved.
  void add(Client& client) { clients_.push_back(&client); }

  // Makes progress until `done` holds. False if that took longer than `limit`.
  bool run_until(const std::function<bool()>& done, std::chrono::milliseconds limit = kForever);
  // Lets time pass, and answers what comes meanwhile.
  void pause(std::chrono::milliseconds time) {
    run_until([] { return false; }, time);
  }

 private:
  std::vector<Client*> clients_;
};

}  // namespace rpcrdma::interop

#endif  // RPCRDMA_TESTS_INTEROP_NFS41_LOOP_H_
