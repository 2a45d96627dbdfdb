// A limit that holds for root too, as a full disk does.
#ifndef RPCRDMA_NFS_FILE_SIZE_LIMIT_FOR_TEST_H_
#define RPCRDMA_NFS_FILE_SIZE_LIMIT_FOR_TEST_H_

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

namespace nfs {

// Lets no file of this process grow beyond a size, while it lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t size_max) {
    before_ = ::signal(SIGXFSZ, SIG_IGN);
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &limit_), 0);
    rlimit lower = limit_;
    lower.rlim_cur = size_max;
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &lower), 0);
  }
  ~FileSizeLimit() {
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit_), 0);
    ::signal(SIGXFSZ, before_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit limit_{};
  sighandler_t before_ = nullptr;
};

}  // namespace nfs

#endif  // RPCRDMA_NFS_FILE_SIZE_LIMIT_FOR_TEST_H_
