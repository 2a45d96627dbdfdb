// Tests the times of a client over streams against a server in raw bytes, in the world's time:
// minutes pass at once.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "posix/fd.h"
#include "rdma/sim/world.h"
#include "rpcrdma/client.h"
#include "rpcrdma/xdr.h"
#include "sim/stream_world.h"

namespace rpcrdma::simulation {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::size_t kLong = 800'000;  // bytes, more than sockets take

class StreamClientTest : public ::testing::Test {
 protected:
  StreamClientTest() {
    const std::string path = streams_.next_path();
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(
        ::bind(listener_.value(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::listen(listener_.value(), 1), 0);
    ClientOptions options;
    options.memory_max = 1U << 20U;
    client_ = Client::begin_connect("unix://" + path, options).value();
    server_ = posix::Fd(::accept4(listener_.value(), nullptr, nullptr, SOCK_NONBLOCK));
    client_->progress();
    EXPECT_TRUE(client_->connected());
  }

  void start(std::size_t size, std::chrono::nanoseconds timeout) {
    auto call = client_->prepare({.program = 0x20010003, .version = 1, .number = 1}).value();
    arguments_.assign(size, std::byte{1});
    call.arguments().bulk(arguments_);
    call.time_out_after(timeout);
    end_.clear();
    EXPECT_TRUE(client_->start(std::move(call), [this](Expected<Reply, Error> reply) {
      end_ = reply ? "ended well" : reply.error().message();
      if (reply) kept_.push_back(std::move(*reply));
    }));
    client_->progress();
  }
  // Lets the client look at its sockets and its time once a second.
  void pass(std::chrono::nanoseconds time) {
    const Instant end = world_.now() + time;
    while (world_.now() < end) {
      world_.after(seconds(1), [] {});
      world_.step();
      client_->progress();
    }
  }
  // Takes all that the client sends, and keeps the first bytes.
  void take() {
    std::vector<std::byte> bytes(1U << 20U);
    call_.clear();
    for (bool moved = true; moved; client_->progress()) {
      const ssize_t size = ::recv(server_.value(), bytes.data(), bytes.size(), 0);
      moved = size > 0;
      if (moved && call_.empty()) call_.assign(bytes.begin(), bytes.begin() + 8);
    }
  }
  // Sends the first bytes of an answer to the call that take() has taken, as far as the client
  // takes them.
  void answer(std::size_t size, std::size_t results_size = 0) {
    ASSERT_EQ(call_.size(), 8U);
    std::vector<std::byte> reply(28 + results_size);
    xdr::store_word(reply.data(), 0x80000000U + static_cast<std::uint32_t>(reply.size() - 4));
    std::copy_n(call_.begin() + 4, 4, reply.begin() + 4);  // the XID
    xdr::store_word(reply.data() + 8, 1);                  // a REPLY, accepted, SUCCESS
    for (std::size_t sent = 0, moved = 1; sent < size && moved > 0; sent += moved) {
      const ssize_t result = ::send(server_.value(), reply.data() + sent, size - sent, 0);
      moved = result > 0 ? static_cast<std::size_t>(result) : 0;
      client_->progress();
    }
  }

  rdma::sim::World world_{1};
  StreamWorld streams_{world_, [](int /*epoll*/) {}};
  posix::Fd listener_{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  posix::Fd server_;
  std::vector<std::byte> arguments_, call_;
  std::string end_;  // of the last call
  std::optional<Client> client_;
  std::vector<Reply> kept_;
};

// A server may be stopped, or wait for its disk, for longer than a connection may stand still.
TEST_F(StreamClientTest, CallHasAllItsTimeWhileTheServerTakesNothing) {
  start(kLong, minutes(10));
  pass(minutes(9));
  EXPECT_EQ(end_, "");
  take();
  answer(28);
  EXPECT_EQ(end_, "ended well");
}

TEST_F(StreamClientTest, CallThatTheServerDoesNotTakeEndsInItsTime) {
  start(kLong, minutes(10));
  pass(minutes(11));
  EXPECT_NE(end_.find("the server has not taken a call within its time"), std::string::npos)
      << end_;
}

TEST_F(StreamClientTest, ReplyThatStopsInTheMiddleEndsTheConnectionBeforeItsCallIsOver) {
  start(100, minutes(10));
  take();
  answer(12);
  pass(seconds(29));
  EXPECT_EQ(end_, "");
  pass(seconds(2));
  EXPECT_NE(end_.find("the server stopped in the middle of a reply"), std::string::npos) << end_;
}

TEST_F(StreamClientTest, ReplyThatWaitsForTheMemoryOfOthersIsNotTheServersFault) {
  constexpr std::size_t kResults = 300'000;
  for (int i = 0; i < 2; ++i) {
    start(100, minutes(10));
    take();
    answer(28 + kResults, kResults);
  }
  ASSERT_EQ(kept_.size(), 1U) << "there is memory for one";
  pass(seconds(31));
  EXPECT_NE(end_.find("let go of replies that were read"), std::string::npos) << end_;
}

}  // namespace
}  // namespace rpcrdma::simulation
