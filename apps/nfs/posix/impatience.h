// Calls that are answered at once, on the thread of the connection, if that takes no waiting.
//
// In the scope of an Impatience nothing waits for a disk: what would have to, gives up instead, and
// the call is made again on a worker. A worker costs two changes of threads, more than a GETATTR or
// LOOKUP whose file the kernel has in memory.
#ifndef RPCRDMA_NFS_POSIX_IMPATIENCE_H_
#define RPCRDMA_NFS_POSIX_IMPATIENCE_H_

namespace nfs::posix {

// Makes the calling thread impatient for the scope: an operation that might wait gives up instead.
class Impatience {
 public:
  Impatience() noexcept { current() = this; }
  ~Impatience() { current() = nullptr; }
  Impatience(const Impatience&) = delete;
  Impatience& operator=(const Impatience&) = delete;

  // The result of the call is of no use.
  bool has_given_up() const noexcept { return has_given_up_; }

  static bool is_on() noexcept { return current() != nullptr; }
  // Something would have to wait.
  static void give_up() noexcept { current()->has_given_up_ = true; }

 private:
  static Impatience*& current() noexcept {
    thread_local Impatience* current = nullptr;
    return current;
  }
  bool has_given_up_ = false;
};

}  // namespace nfs::posix

#endif  // RPCRDMA_NFS_POSIX_IMPATIENCE_H_
