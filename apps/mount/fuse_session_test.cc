// The session with the kernel, over a socket in place of the kernel's device.
#include "mount/fuse_session.h"

#include <gtest/gtest.h>
#include <linux/fuse.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "files/file.h"
#include "mount/hostile_server_for_test.h"

namespace mounts {
namespace {

class SessionTest : public Lied {
 protected:
  static constexpr std::chrono::milliseconds kPatience{1000};

  void SetUp() override {
    Lied::SetUp();
    mount_ = std::make_unique<MountForTest>(url(), TreeOptions(), 128, kPatience);
    other_ = std::make_unique<MountForTest>(url());
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    kernel_ = files::File(ends[0]);
    SessionOptions options;
    options.tree.time_outs.directory_min = options.tree.time_outs.directory_max = {};
    options.patience = kPatience;
    options.source = "test";
    // So libfuse takes a descriptor, and mounts nothing.
    auto session = Session::mount(*mount_->server, "/dev/fd/" + std::to_string(ends[1]), options);
    ASSERT_TRUE(session) << session.error();
    session_ = std::move(*session);
    fuse_init_in version{};
    version.major = FUSE_KERNEL_VERSION;
    version.minor = FUSE_KERNEL_MINOR_VERSION;
    ask(FUSE_INIT, version);
    ASSERT_EQ(answered(), 0);
  }
  void TearDown() override {
    session_.reset();
    other_.reset();
    Lied::TearDown();
  }

  // Asks as the kernel does for a program.
  template <class Body>
  void ask(std::uint32_t what, const Body& body) const {
    fuse_in_header header{};
    header.len = sizeof(header) + sizeof(body);
    header.opcode = what;
    header.unique = 2;
    header.nodeid = FUSE_ROOT_ID;
    std::array<std::byte, sizeof(header) + sizeof(body)> message{};
    std::memcpy(message.data(), &header, sizeof(header));
    std::memcpy(message.data() + sizeof(header), &body, sizeof(body));
    ASSERT_EQ(::send(kernel_.descriptor(), message.data(), message.size(), 0),
              static_cast<ssize_t>(message.size()));
  }
  // Returns the error of an answer, as the kernel gets it; nullopt: there is none yet.
  std::optional<int> answer() const {
    std::array<std::byte, 4096> message{};
    const ssize_t size = ::recv(kernel_.descriptor(), message.data(), message.size(), MSG_DONTWAIT);
    fuse_out_header header{};
    if (size < static_cast<ssize_t>(sizeof(header))) return std::nullopt;
    std::memcpy(&header, message.data(), sizeof(header));
    return -header.error;
  }
  // Lets the session go on until the condition holds; at most for ten times the patience.
  template <class Condition>
  bool goes_on_until(Condition condition) {
    const Time end = Clock::now() + 10 * kPatience;
    while (!condition() && Clock::now() < end) (void)session_->go_on();
    return condition();
  }
  std::optional<int> answered() {
    std::optional<int> error;
    (void)goes_on_until([&] { return error || (error = answer()); });
    return error;
  }

  files::File kernel_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<MountForTest> other_;  // another client of the server
};

// The process is stopped for longer than the time of a request, and the reply comes meanwhile.
TEST_F(SessionTest, TakesRepliesThatAreHereBeforeItGivesRequestsUp) {
  std::atomic<int> questions = 0;
  liar_.attributes = [&](const nfs3::nfs_fh3&) {
    ++questions;
    return attributes_of(ftype3::NF3DIR, 1);
  };
  liar_.holds_attributes = true;
  ask(FUSE_GETATTR, fuse_getattr_in{});
  ASSERT_TRUE(goes_on_until([&] { return questions == 1; }));
  const Time stopped = Clock::now();
  // The first question has the server answer the one that it holds, and the second shows that it
  // has sent that answer.
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(other_->run(other_->tree->ask_attributes(*other_->root(), {})));
  }
  while (Clock::now() <= stopped + kPatience) std::this_thread::yield();
  EXPECT_EQ(answered(), 0);
  EXPECT_EQ(session_->requests().timed_out(), 0U);
}

}  // namespace
}  // namespace mounts
