#include "tools/http_ages.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

namespace rpcrdma::tools {
namespace {

using std::chrono::milliseconds;

struct Pair {
  Pair() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0); }
  ~Pair() {
    for (const int each : ends) ::close(each);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  bool is_open() const {
    std::array<char, 64> bytes{};
    return ::recv(ends[1], bytes.data(), bytes.size(), MSG_DONTWAIT) != 0;
  }
  // Sends and takes a byte at a time until the connection has ended.
  void trickle() const {
    char byte = 'x';
    while (::send(ends[1], &byte, 1, MSG_NOSIGNAL) == 1 && ::recv(ends[0], &byte, 1, 0) == 1) {
    }
  }
  std::array<int, 2> ends{};
};

TEST(HttpAges, EndConnectionsThatGoOnByteByByte) {
  HttpAges ages(milliseconds(5));
  for (int i = 0; i < 3; ++i) {
    const Pair first, second;
    const auto begun = std::chrono::steady_clock::now();
    const auto one = ages.begin(first.ends[0]), other = ages.begin(second.ends[0]);
    second.trickle();
    first.trickle();
    EXPECT_GE(std::chrono::steady_clock::now() - begun, milliseconds(5));
    EXPECT_FALSE(first.is_open());
    ages.end(one);
    ages.end(other);
  }
}

// Descriptors have the numbers of those that were closed.
TEST(HttpAges, LeaveASocketAloneThatEndedInTime) {
  HttpAges ages(milliseconds(5));
  const Pair kept, other;
  ages.end(ages.begin(kept.ends[0]));
  const auto later = ages.begin(other.ends[0]);
  other.trickle();
  EXPECT_TRUE(kept.is_open());
  ages.end(later);
}

TEST(HttpAges, GoWhileConnectionsLast) {
  const Pair pair;
  {
    HttpAges ages(std::chrono::hours(1));
    (void)ages.begin(pair.ends[0]);
  }
  EXPECT_TRUE(pair.is_open());
}

}  // namespace
}  // namespace rpcrdma::tools
