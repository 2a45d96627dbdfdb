// Closes files that nobody uses any more, also at a gateway to which no calls come: as long as they
// are open there, the other gateways have to ask for each of their reads and writes.
#ifndef RPCRDMA_NFS_CEPH_IDLE_CLOSER_H_
#define RPCRDMA_NFS_CEPH_IDLE_CLOSER_H_

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "nfs/ceph/tree.h"

namespace nfs::ceph {

class IdleCloser {
 public:
  explicit IdleCloser(Tree& tree);  // which outlives it
  ~IdleCloser();                    // waits
  IdleCloser(const IdleCloser&) = delete;
  IdleCloser& operator=(const IdleCloser&) = delete;

  // False: closing is not done at that time, and goes on.
  bool stop(std::chrono::steady_clock::time_point until) noexcept;

 private:
  static constexpr std::chrono::seconds kPeriod{1};
  void run();

  Tree& tree_;
  std::mutex mutex_;
  std::condition_variable news_;
  bool stopping_ = false;   // guarded by mutex_
  bool has_ended_ = false;  // guarded by mutex_
  std::thread thread_;      // last: it uses the rest
};

}  // namespace nfs::ceph

#endif  // RPCRDMA_NFS_CEPH_IDLE_CLOSER_H_
