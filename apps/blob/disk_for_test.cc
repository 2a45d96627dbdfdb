#include "blob/disk_for_test.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

namespace {

using blob::DiskForTest;

bool is(int descriptor, std::uint64_t inode) {
  struct stat status {};
  return inode != 0 && ::fstat(descriptor, &status) == 0 && status.st_ino == inode;
}

bool hangs(int descriptor) {
  return is(descriptor, DiskForTest::hanging);
}

void wait_for_disk(int descriptor) {
  const std::uint64_t hanging = DiskForTest::hanging;
  if (!is(descriptor, hanging)) return;
  ++DiskForTest::waiting;
  DiskForTest::hanging.wait(hanging);
  --DiskForTest::waiting;
}

}  // namespace

extern "C" {

ssize_t pread(int descriptor, void* data, size_t size, off_t offset) {
  wait_for_disk(descriptor);
  return ::syscall(SYS_pread64, descriptor, data, size, offset);
}

ssize_t pwrite(int descriptor, const void* data, size_t size, off_t offset) {
  if (is(descriptor, DiskForTest::full)) {
    errno = ENOSPC;
    return -1;
  }
  wait_for_disk(descriptor);
  return ::syscall(SYS_pwrite64, descriptor, data, size, offset);
}

// Called with RWF_NOWAIT, and for one part, alone.
ssize_t preadv2(int descriptor, const iovec* parts, int /*count*/, off_t offset, int /*flags*/) {
  if (hangs(descriptor)) {
    errno = EAGAIN;
    return -1;
  }
  const ssize_t count = ::syscall(SYS_pread64, descriptor, parts->iov_base, parts->iov_len, offset);
  if (DiskForTest::after_read_at_once) DiskForTest::after_read_at_once();
  return count;
}

// The tests may run in a tmpfs, whose reads wait for nothing.
int fstatfs(int descriptor, struct statfs* kind) {
  const long result = ::syscall(SYS_fstatfs, descriptor, kind);
  if (result == 0) kind->f_type = EXT4_SUPER_MAGIC;
  return static_cast<int>(result);
}

int fstatat(int directory, const char* path, struct stat* status, int flags) {
  const long result = ::syscall(SYS_newfstatat, directory, path, status, flags);
  const std::uint64_t hanging = DiskForTest::hanging_status;
  if (result == 0 && hanging != 0 && status->st_ino == hanging) {
    ++DiskForTest::waiting;
    DiskForTest::hanging_status.wait(hanging);
    --DiskForTest::waiting;
  }
  return static_cast<int>(result);
}

int mkdirat(int directory, const char* path, mode_t mode) {
  const long result = ::syscall(SYS_mkdirat, directory, path, mode);
  if (DiskForTest::after_mkdir) {
    const int error = errno;
    DiskForTest::after_mkdir();
    errno = error;
  }
  return static_cast<int>(result);
}

}  // extern "C"
