#include "posix/fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <limits>
#include <utility>

namespace rpcrdma::posix {
namespace {

TEST(Fd, MovesUpWhereTheLimitAllowsIt) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  constexpr int kFrom = 300;
  ASSERT_GT(limit.rlim_cur, static_cast<rlim_t>(kFrom));
  Fd fd(::open("/dev/null", O_RDONLY));
  const int before = fd.value();
  ASSERT_LT(before, kFrom);
  fd.move_up(kFrom);
  EXPECT_GE(fd.value(), kFrom);
  EXPECT_EQ(::fcntl(fd.value(), F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(::fcntl(before, F_GETFD), -1) << "it is closed";
  const int moved = fd.value();
  fd.move_up(std::numeric_limits<int>::max());
  EXPECT_EQ(fd.value(), moved) << "no process has as many";
  Fd none;
  none.move_up(kFrom);
  EXPECT_FALSE(none);
}

}  // namespace
}  // namespace rpcrdma::posix
