#include "tools/tap_socket.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

namespace rpcrdma::tools {
namespace {

// A server's tap with a reader, in a thread of its own as the server has it.
class TapSocket : public testing::Test {
 protected:
  TapSocket() {
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_.data()), 0);
    constexpr int kRoom = 16'384;  // bytes
    EXPECT_EQ(::setsockopt(ends_[0], SOL_SOCKET, SO_SNDBUF, &kRoom, sizeof(kRoom)), 0);
    server_ = std::jthread([this] {
      serve_tap(tap_, "127.0.0.1:20049", "", ends_[0], ending_);
      ::shutdown(ends_[0], SHUT_WR);
    });
    std::string line;
    for (char each = 0; each != '\n'; line += each) {
      if (::read(ends_[1], &each, 1) != 1) break;
    }
    EXPECT_EQ(line, "rpcrdma tap 1 127.0.0.1:20049 -\n");
  }
  ~TapSocket() override {
    end_server();
    if (server_.joinable()) server_.join();
    for (const int each : {ends_[0], ends_[1], ending_}) ::close(each);
  }

  void add(std::string_view text) {
    const Bytes bytes(reinterpret_cast<const std::byte*>(text.data()), text.size());
    tap_.add({}, {&bytes, 1});
  }
  void end_server() { EXPECT_EQ(::eventfd_write(ending_, 1), 0); }
  // Reads until the server has ended.
  std::string rest() {
    std::string read;
    std::array<char, 65536> part{};
    for (ssize_t size = 0; (size = ::read(ends_[1], part.data(), part.size())) > 0;) {
      read.append(part.data(), static_cast<std::size_t>(size));
    }
    return read;
  }

  std::array<int, 2> ends_{};  // the server's and the reader's
  const int ending_ = ::eventfd(0, EFD_CLOEXEC);
  Tap tap_{1U << 20U};
  std::jthread server_;
};

TEST_F(TapSocket, GivesTheReaderWhatHappensRightBeforeTheServerEnds) {
  for (int i = 0; i < 3; ++i) add("a call " + std::to_string(i));
  end_server();
  const std::string read = rest();
  for (int i = 0; i < 3; ++i) {
    EXPECT_NE(read.find("a call " + std::to_string(i)), std::string::npos) << i;
  }
}

TEST_F(TapSocket, GivesAReaderThatSaysNoMoreWhatHasHappened) {
  add("the last call");
  ::shutdown(ends_[1], SHUT_WR);
  EXPECT_NE(rest().find("the last call"), std::string::npos);
}

// At this pace the reader would take all in eight minutes.
TEST_F(TapSocket, EndsAlthoughTheReaderTakesALittleNowAndThen) {
  const std::string large(Tap::kKeptMax, 'x');
  for (int i = 0; i < 100; ++i) add(large);
  std::jthread reader([this](const std::stop_token& stop) {
    std::array<char, 100> part{};
    while (!stop.stop_requested() && ::read(ends_[1], part.data(), part.size()) > 0) {
      ::poll(nullptr, 0, 50);
    }
  });
  const auto begun = std::chrono::steady_clock::now();
  end_server();
  server_.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(30));
}

}  // namespace
}  // namespace rpcrdma::tools
