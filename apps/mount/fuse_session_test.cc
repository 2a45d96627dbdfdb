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
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "files/file.h"
#include "mount/hostile_server_for_test.h"

namespace mounts {
namespace {

class SessionTest : public Lied {
 protected:
  static constexpr std::chrono::milliseconds kPatience{1000};

  // `patience_of_calls`: as long as that of requests, if the command makes the session.
  explicit SessionTest(std::chrono::milliseconds patience_of_calls = kPatience)
      : patience_of_calls_(patience_of_calls) {}
  void SetUp() override {
    Lied::SetUp();
    mount_ = std::make_unique<MountForTest>(url(), TreeOptions(), 128, patience_of_calls_);
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
    // A call outlives the answer to its program, and needs the session.
    EXPECT_TRUE(goes_on_until([&] { return session_->requests().count() == 0; }));
    session_.reset();
    other_.reset();
    if (!server_) serve();
    Lied::TearDown();
  }

  void serve() {
    rpcrdma::ServerOptions settings;
    settings.provider.name = "siwarp";
    server_.emplace(rpcrdma::Server::listen("rdma://127.0.0.1:0", settings).value());
    thread_ = std::thread([this] { server_->run(); });
  }
  void end_server() {
    server_->stop();
    thread_.join();
    server_.reset();
  }
  // Asks a question that has no answer before release_answer(), and returns once it is there.
  void ask_what_the_server_holds() {
    liar_.attributes = [this](const nfs3::nfs_fh3&) {
      ++questions_;
      return attributes_of(ftype3::NF3DIR, 1);
    };
    liar_.holds_attributes = true;
    ask(FUSE_GETATTR, fuse_getattr_in{});
    (void)session_->go_on();  // once: the time of the request may end before the server has it
    const Time end = Clock::now() + 10 * kPatience;
    while (questions_ == 0 && Clock::now() < end) std::this_thread::yield();
    ASSERT_GT(questions_, 0);
  }
  static void pass_the_time_of_a_request() {
    const Time end = Clock::now() + kPatience;
    while (Clock::now() <= end) std::this_thread::yield();
  }
  // Has the server answer the question that it holds, and returns once it has sent that answer.
  void release_answer() {
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(other_->run(other_->tree->ask_attributes(*other_->root(), {})));
    }
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

  const std::chrono::milliseconds patience_of_calls_;
  std::atomic<int> questions_ = 0;  // that have reached the server
  files::File kernel_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<MountForTest> other_;  // another client of the server
};

// The process does nothing for longer than a request has time.
TEST_F(SessionTest, TakesRepliesThatAreHereBeforeItGivesRequestsUp) {
  ask_what_the_server_holds();
  release_answer();
  pass_the_time_of_a_request();
  EXPECT_EQ(answered(), 0);
  EXPECT_EQ(session_->requests().timed_out(), 0U);
}

TEST_F(SessionTest, CountsRequestsWhoseCallsTimeOutAtTheSameTime) {
  ask_what_the_server_holds();
  pass_the_time_of_a_request();
  EXPECT_EQ(answered(), ETIMEDOUT);
  EXPECT_EQ(session_->requests().timed_out(), 1U);
}

TEST_F(SessionTest, TimesRequestsOutWhoseServerIsGone) {
  end_server();
  ask(FUSE_GETATTR, fuse_getattr_in{});
  EXPECT_EQ(answered(), ETIMEDOUT) << "a call that never began has an error of its own";
  EXPECT_EQ(session_->requests().timed_out(), 1U);
}

class PatientCalls : public SessionTest {
 protected:
  PatientCalls() : SessionTest(std::chrono::minutes(1)) {}
};

TEST_F(PatientCalls, HaveNoMoreTimeThanTheirRequest) {
  ask_what_the_server_holds();
  EXPECT_EQ(answered(), ETIMEDOUT);
  EXPECT_EQ(session_->requests().timed_out(), 1U);
  release_answer();
}

}  // namespace
}  // namespace mounts
