// A disk that hangs, in place of this machine's: the test program's own pread(2) and so on, which
// the code under test calls.
#ifndef RPCRDMA_BLOB_DISK_FOR_TEST_H_
#define RPCRDMA_BLOB_DISK_FOR_TEST_H_

#include <atomic>
#include <cstdint>
#include <functional>

namespace blob {

struct DiskForTest {
  // Reads and writes of the file with this inode do not return while it is set; `waiting` counts
  // them. All other data is in memory, on any disk. 0: no file.
  static inline std::atomic<std::uint64_t> hanging = 0;
  static inline std::atomic<int> waiting = 0;
  // A look at the status of the file with this inode, by its name, does not return while it is set;
  // `waiting` counts it. 0: no file.
  static inline std::atomic<std::uint64_t> hanging_status = 0;
  // Writes to the file with this inode find no room, and do not wait. 0: no file.
  static inline std::atomic<std::uint64_t> full = 0;
  // Runs behind each preadv2(2), which reads what is in memory.
  static inline std::function<void()> after_read_at_once;
  // Runs behind each mkdirat(2).
  static inline std::function<void()> after_mkdir;

  static void release() {
    full = 0;
    for (auto* const each : {&hanging, &hanging_status}) {
      *each = 0;
      each->notify_all();
    }
  }
};

}  // namespace blob

#endif  // RPCRDMA_BLOB_DISK_FOR_TEST_H_
