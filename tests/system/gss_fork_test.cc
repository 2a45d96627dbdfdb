// Programs that fork when they have used RPCSEC_GSS, whose threads only the parent has.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gss/client_auth.h"
#include "rpcrdma/client.h"
#include "rpcrdma/function_service.h"
#include "rpcrdma/server.h"
#include "support/fake_mechanism.h"

namespace rpcrdma::test {
namespace {

using std::chrono::seconds;

constexpr Procedure kProcedure{0x20000001, 1, 1};

bool is_child = false;
// Runs behind the destructors of what is made during a test, and before leaks are looked for: in
// the child nothing refers to what was on the stacks of its parent's threads.
const int kEndOfChild = std::atexit([] {
  if (is_child) ::_exit(0);
});

class GssFork : public ::testing::Test {
 protected:
  GssFork() {
    EXPECT_EQ(kEndOfChild, 0);
    auto server = Server::listen("tcp://127.0.0.1:0");
    EXPECT_TRUE(server) << server.error().message();
    server_.emplace(std::move(*server));
    service_.on(1, [](CallContext& /*context*/) { return AcceptStatus::kSuccess; });
    EXPECT_TRUE(server_->add(kProcedure.program, kProcedure.version, service_));
    gss::ServerSecurity security;
    security.mechanism = &mechanism_;
    EXPECT_TRUE(server_->secure(security));
    url_ = "tcp://" + std::string(server_->address());
    serving_ = std::thread([this] { server_->run(); });
  }
  ~GssFork() override {
    server_->stop();
    serving_.join();
  }
  Client connect() {
    ClientOptions options;
    options.auth.emplace<gss::ClientSecurity>().mechanism = &mechanism_;
    options.call_timeout = seconds(20);
    return Client::connect(url_, options).value();
  }
  static bool is_answered(Client& client) {
    auto call = client.prepare(kProcedure);
    return call && client.call(std::move(*call));
  }
  // Waits until no other thread does anything. AddressSanitizer holds locks while a thread starts,
  // and a child that is made then finds them locked for ever.
  static bool all_others_sleep() {
    const auto limit = std::chrono::steady_clock::now() + seconds(20);
    const std::string own = std::to_string(::gettid());
    while (std::chrono::steady_clock::now() < limit) {
      bool is_quiet = true;
      for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        std::ifstream file(task.path() / "stat");
        std::string stat;
        std::getline(file, stat);
        const std::size_t name_end = stat.rfind(") ");
        if (task.path().filename() == own || name_end == stat.npos) continue;
        is_quiet = is_quiet && stat[name_end + 2] == 'S';
      }
      if (is_quiet) return true;
      std::this_thread::yield();
    }
    return false;
  }
  // Returns the status of a child that does this, as of waitpid(); it has half a minute.
  static int child_that(const std::function<void()>& act) {
    EXPECT_TRUE(all_others_sleep());
    const pid_t child = ::fork();
    if (child == 0) {
      is_child = true;
      ::alarm(30);
      act();
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
  }

  FakeMechanism mechanism_;
  FunctionService service_;
  std::optional<Server> server_;
  std::thread serving_;
  std::string url_;
};

TEST_F(GssFork, ChildOfAProgramWithSecureCallsEndsByExit) {
  Client client = connect();
  ASSERT_TRUE(is_answered(client));
  EXPECT_EQ(child_that([] { std::exit(0); }), 0);
  EXPECT_TRUE(is_answered(client));
}

TEST_F(GssFork, ChildOfAProgramWithSecureCallsMakesItsOwn) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer ends a child that starts threads if its parent has several";
#endif
  Client client = connect();
  ASSERT_TRUE(is_answered(client));
  EXPECT_EQ(child_that([this] {
              Client own = connect();
              ::_exit(is_answered(own) ? 0 : 1);
            }),
            0);
  EXPECT_TRUE(is_answered(client));
}

// Runs what it has when the test says so, while it is held.
class Held final : public gss::Executor {
 public:
  void submit(Work work) override {
    if (!is_held) return work();
    works.push_back(std::move(work));
  }
  bool is_held = false;
  std::vector<Work> works;
};

// The thread that makes the token is the parent's.
TEST_F(GssFork, ChildDestroysItsCopyOfAClientWhoseNextTokenIsBeingMade) {
  FakeMechanism mechanism({.lifetime = seconds(100)});
  Held executor;
  Instant now{seconds(1000)};
  auto auth = std::make_unique<gss::ClientGss>(
      mechanism, executor, gss::ClientGss::Settings{.target = "nfs@server"}, [&] { return now; });
  ClientOptions options;
  options.auth = auth.get();
  options.call_timeout = seconds(20);
  {
    Client client = Client::connect(url_, options).value();
    ASSERT_TRUE(is_answered(client));
    now += seconds(91);
    executor.is_held = true;
    ASSERT_TRUE(is_answered(client));
    ASSERT_EQ(executor.works.size(), 1U);
    EXPECT_EQ(child_that([&] {
                auth.reset();
                ::_exit(0);
              }),
              0);
  }
  executor.works.front()();
}

}  // namespace
}  // namespace rpcrdma::test
