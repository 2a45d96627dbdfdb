// A disk that is slow, or fails, in place of this machine's: the test program's own fsync(2) and so
// on, which the code under test calls.
#ifndef RPCRDMA_NFS_POSIX_DISK_FOR_TEST_H_
#define RPCRDMA_NFS_POSIX_DISK_FOR_TEST_H_

#include <atomic>
#include <cstdint>

namespace nfs::posix {

struct DiskForTest {
  // While it is set, fsync(2), fdatasync(2) and syncfs(2) do not return; `waiting` counts them.
  static inline std::atomic<bool> is_slow = false;
  static inline std::atomic<int> waiting = 0;
  // Errors of those, and of writes that wait for the disk; 0: none.
  static inline std::atomic<int> sync_error = 0;
  // The only file, by its number, that they fail for; 0: all.
  static inline std::atomic<std::uint64_t> failing = 0;
  // The error of any write.
  static inline std::atomic<int> write_error = 0;
  // So many names are read of directories before they fail with EIO.
  static inline std::atomic<int> names_left = 1'000'000'000;
  static inline std::atomic<int> syncs = 0;        // calls of any of them
  static inline std::atomic<int> whole_syncs = 0;  // calls of syncfs(2)
};

}  // namespace nfs::posix

#endif  // RPCRDMA_NFS_POSIX_DISK_FOR_TEST_H_
