#include "tcp/listener.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

#include "support/descriptors.h"

namespace rpcrdma::tcp {
namespace {

using test::descriptors_left;
using test::kManyDescriptors;

TEST(Listener, ReportsALackThatLetsOneConnectionThroughNowAndThenOnceASecond) {
  constexpr std::size_t kClients = 4;
  auto reactor = std::move(*posix::Reactor::make());
  auto listener = std::move(*Listener::open(*reactor, *posix::parse_address("127.0.0.1:0")));
  const auto real = posix::parse_address(listener->address());
  std::vector<posix::Fd> clients;
  for (std::size_t i = 0; i < kClients; ++i) {
    clients.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(clients.back().value(), real->pointer(), real->size), 0);
  }
  std::vector<Accepted> accepted;
  int reports = 0;
  const auto run_until = [&](std::size_t count, int reports_wanted) {
    const Instant limit = posix::Reactor::now() + std::chrono::seconds(20);
    while (accepted.size() < count || reports < reports_wanted) {
      ASSERT_LT(posix::Reactor::now(), limit) << accepted.size() << " were accepted";
      reactor->dispatch();
      while (auto next = listener->accept()) accepted.push_back(std::move(*next));
      if (listener->poll_failure()) ++reports;
      reactor->arm();
      pollfd fd{reactor->fd(), POLLIN, 0};
      ::poll(&fd, 1, 10);
    }
  };
  descriptors_left = 0;
  const Instant begin = posix::Reactor::now();
  ASSERT_NO_FATAL_FAILURE(run_until(0, 1));
  for (std::size_t count = 1; count < kClients; ++count) {
    descriptors_left = 1;
    ASSERT_NO_FATAL_FAILURE(run_until(count, 1));
  }
  descriptors_left = kManyDescriptors;
  ASSERT_NO_FATAL_FAILURE(run_until(kClients, 1));
  // A machine that stops the test for a second adds a report.
  EXPECT_LE(reports, 1 + (posix::Reactor::now() - begin) / std::chrono::seconds(1));
}

}  // namespace
}  // namespace rpcrdma::tcp
