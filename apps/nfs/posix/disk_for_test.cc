#include "nfs/posix/disk_for_test.h"

#include <dirent.h>
#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

namespace {

using nfs::posix::DiskForTest;

int sync(long number, int descriptor) {
  ++DiskForTest::syncs;
  ++DiskForTest::waiting;
  while (DiskForTest::is_slow) std::this_thread::yield();
  --DiskForTest::waiting;
  struct stat status {};
  const bool fails = DiskForTest::failing == 0 ||
                     (::fstat(descriptor, &status) == 0 && status.st_ino == DiskForTest::failing);
  if (DiskForTest::sync_error != 0 && fails) {
    errno = DiskForTest::sync_error;
    return -1;
  }
  return static_cast<int>(::syscall(number, descriptor));
}

}  // namespace

extern "C" {

int fsync(int descriptor) {
  return sync(SYS_fsync, descriptor);
}

int fdatasync(int descriptor) {
  return sync(SYS_fdatasync, descriptor);
}

int syncfs(int descriptor) {
  ++DiskForTest::whole_syncs;
  return sync(SYS_syncfs, descriptor);
}

dirent* readdir(DIR* directory) {
  if (DiskForTest::names_left == 0) {
    errno = EIO;
    return nullptr;
  }
  --DiskForTest::names_left;
  using Function = dirent* (*)(DIR*);
  static const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "readdir"));
  return real(directory);
}

// The kernel takes the offset in two halves, of which the second has something on 32 bits alone.
ssize_t pwritev2(int descriptor, const iovec* parts, int count, off_t offset, int flags) {
  const int stable = RWF_DSYNC | RWF_SYNC;
  int error = DiskForTest::write_error;
  if (error == 0 && (flags & stable) != 0) error = DiskForTest::sync_error;
  if (error != 0) {
    errno = error;
    return -1;
  }
  constexpr unsigned kHalf = sizeof(long) * 4;
  const auto bits = static_cast<unsigned long long>(offset);
  return ::syscall(SYS_pwritev2, descriptor, parts, count, static_cast<unsigned long>(bits),
                   static_cast<unsigned long>(bits >> kHalf >> kHalf), flags);
}

}  // extern "C"
