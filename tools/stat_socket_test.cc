// The socket that `rpcrdma top` and `stat` read, and clients of it that take their time.
#include "tools/stat_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace {

// Other servers do this just then.
std::function<void()> in_front_of_listen, behind_connect;

}  // namespace

extern "C" int listen(int socket, int waiting) noexcept {
  if (const auto other = std::exchange(in_front_of_listen, nullptr)) other();
  return static_cast<int>(::syscall(SYS_listen, socket, waiting));
}

extern "C" int connect(int socket, const sockaddr* address, socklen_t size) {
  const auto result = static_cast<int>(::syscall(SYS_connect, socket, address, size));
  const int error = errno;
  if (const auto other = std::exchange(behind_connect, nullptr)) other();
  errno = error;
  return result;
}

namespace rpcrdma::tools {
namespace {

class StatSocketTest : public testing::Test {
 protected:
  StatSocketTest() {
    std::string name = std::filesystem::temp_directory_path() / "rpcrdma-stat-XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  ~StatSocketTest() override {
    socket_.reset();
    std::filesystem::remove_all(folder_);
  }
  std::string path() const { return folder_ / "server.sock"; }
  void serve(std::size_t size, std::chrono::milliseconds patience) {
    socket_.emplace(
        path(), [size] { return std::string(size, 'x'); }, patience);
  }
  // Reads byte by byte to the end; returns how many there were.
  static std::size_t read_slowly(int socket) {
    std::size_t count = 0;
    for (char each = 0; ::recv(socket, &each, 1, 0) == 1;) ++count;
    ::close(socket);
    return count;
  }

  static constexpr std::size_t kLong = std::size_t{64} << 20U;  // bytes; minutes, byte by byte
  std::filesystem::path folder_;
  std::optional<StatSocket> socket_;
};

TEST_F(StatSocketTest, GivesEachClientTheWholeText) {
  serve(3'000'000, std::chrono::minutes(1));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(read_stat_socket(path()), std::string(3'000'000, 'x')) << i;
}

TEST_F(StatSocketTest, EndsWhileAClientReadsSlowly) {
  serve(kLong, std::chrono::hours(1));
  const int client = connect_stat_socket(path());
  char first = 0;
  ASSERT_EQ(::recv(client, &first, 1, 0), 1);
  std::size_t count = 0;
  std::jthread reader([&] { count = read_slowly(client); });
  socket_.reset();
  reader.join();
  EXPECT_LT(count, kLong / 2);
}

TEST_F(StatSocketTest, IsNotHeldUpByAClientThatReadsSlowly) {
  serve(kLong, std::chrono::milliseconds(20));
  std::size_t count = 0;
  const int client = connect_stat_socket(path());
  std::jthread reader([&] { count = read_slowly(client); });
  reader.join();
  EXPECT_LT(count, kLong / 2);
}

TEST_F(StatSocketTest, WaitsForNobodyWhoseSocketHasTakenTheText) {
  serve(120'000, std::chrono::hours(1));  // less than the socket takes, and more than a quarter
  const int silent = connect_stat_socket(path());
  EXPECT_EQ(read_stat_socket(path()).size(), 120'000U);
  ::close(silent);
}

TEST_F(StatSocketTest, IsNotHeldUpByAClientThatDoesNotRead) {
  serve(kLong, std::chrono::milliseconds(20));
  const int silent = connect_stat_socket(path());
  const int other = connect_stat_socket(path());
  char first = 0;
  EXPECT_EQ(::recv(other, &first, 1, 0), 1);
  ::close(other);
  ::close(silent);
}

TEST_F(StatSocketTest, IsNotStaleToServersThatStartBeforeItListens) {
  in_front_of_listen = [this] { remove_stale_stat_sockets(folder_); };
  serve(10, std::chrono::hours(1));
  EXPECT_EQ(read_stat_socket(path()).size(), 10U);
}

TEST_F(StatSocketTest, IsNotRemovedWhereItReplacesAStaleOne) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path().copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int stale = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::bind(stale, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ::close(stale);
  behind_connect = [this] {
    std::filesystem::remove(path());
    serve(10, std::chrono::hours(1));
  };
  remove_stale_stat_sockets(folder_);
  EXPECT_EQ(read_stat_socket(path()).size(), 10U);
}

TEST_F(StatSocketTest, IsNotMadeWhereAnotherServerListens) {
  serve(10, std::chrono::hours(1));
  try {
    const StatSocket other(path(), [] { return std::string(); });
    ADD_FAILURE() << "it took the place";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().value(), EADDRINUSE);
  }
  EXPECT_EQ(read_stat_socket(path()).size(), 10U);
}

TEST_F(StatSocketTest, LeavesTheSocketOfAnotherServerInItsPlace) {
  serve(10, std::chrono::hours(1));
  std::filesystem::remove(path());
  const StatSocket other(path(), [] { return std::string(20, 'x'); });
  socket_.reset();
  EXPECT_EQ(read_stat_socket(path()).size(), 20U);
  const std::filesystem::directory_iterator files(folder_);
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

}  // namespace
}  // namespace rpcrdma::tools
