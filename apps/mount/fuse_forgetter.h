// Has the kernel give nodes back.
//
// Kernels from 6.18 on take a list of nodes, and forget those that no program uses. Older ones are
// asked to forget names, for which they lock the directory of each; and a program that they let
// into that directory keeps the lock until we have answered its request. So the asking is done by
// threads of its own, which may wait while the session goes on answering.
#ifndef RPCRDMA_MOUNT_FUSE_FORGETTER_H_
#define RPCRDMA_MOUNT_FUSE_FORGETTER_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "mount/fuse_library.h"
#include "mount/node_table.h"

namespace mounts {

class Forgetter {
 public:
  Forgetter();
  // Waits for the kernel; a session that answers nobody any more must be unmounted before.
  ~Forgetter();
  Forgetter(const Forgetter&) = delete;
  Forgetter& operator=(const Forgetter&) = delete;

  // Everything that was given is done.
  bool is_idle();
  // Returns whether it takes names: what waits for a directory that a program has locked keeps no
  // other names from being forgotten.
  bool takes_more();
  // Takes names. The first ones start a thread.
  void give(fuse_session* session, std::vector<NameOfNode> names);

 private:
  std::size_t threads_max() const noexcept;
  bool start_thread();  // false: the system gives none
  void run();
  // Returns false if the kernel does not know how.
  bool prune(const std::deque<NameOfNode>& names) const;
  void forget(const NameOfNode& name);
  bool is_current_folder(const std::string& name);

  fuse_session* session_ = nullptr;
  std::mutex mutex_;
  std::condition_variable news_;
  std::deque<NameOfNode> names_;
  std::size_t busy_ = 0;  // threads
  bool ends_ = false;
  bool can_prune_;
  std::mutex folders_mutex_;
  std::set<std::string> folders_;
  Time folders_end_{};  // when they are too old
  std::vector<std::thread> threads_;
};

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_FUSE_FORGETTER_H_
