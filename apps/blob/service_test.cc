// Calls of several hosts and connections where the disk hangs below one of them.
#include "blob/service.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "blob/disk_for_test.h"
#include "blob/sha256.h"
#include "rpcrdma/server.h"
#include "rpcrdma/take_over.h"

namespace blob {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Left = BlobService::Left;
using rpcrdma::Bytes;
using rpcrdma::Client;
using rpcrdma::Server;

constexpr std::chrono::seconds kBound{20};
constexpr const char* kHost = "127.0.0.1";
constexpr const char* kOtherHost = "127.0.0.2";
constexpr std::uint32_t kSize = 1000;  // bytes of each blob

class Lines final : public Log {
 public:
  void write(LogLevel level, std::string_view text) override {
    {
      const std::lock_guard lock(mutex_);
      if (level == LogLevel::kError) errors_.emplace_back(text);
    }
    if (on_line) on_line(level, text);
  }
  std::vector<std::string> errors() const {
    const std::lock_guard lock(mutex_);
    return errors_;
  }
  // Runs behind each line, on its thread. Set it while none is written.
  std::function<void(LogLevel level, std::string_view text)> on_line;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> errors_;
};

// One connection, and the calls that it waits for.
class Caller {
 public:
  explicit Caller(Client client) : client_(std::move(client)), stub_(client_) {}

  BLOB_V1_Client& stub() { return stub_; }
  // Returns a function that notes the statuses of calls, for the functions of the stub that start
  // one. The statuses are in the order of the answers.
  auto note() {
    ++started_;
    return [this](const auto& result) {
      if (!result) return errors_.push_back(result.error().message());
      if constexpr (requires {
                      result->ok()->end;
                      result->ok()->data;
                    }) {
        if (const auto* const got = result->ok()) data_.assign(got->data.begin(), got->data.end());
      }
      if constexpr (requires { result->status(); }) {
        statuses_.push_back(result->status());
      } else {
        statuses_.push_back(*result);
      }
    };
  }
  void get(const std::string& name, std::uint64_t offset = 0) {
    EXPECT_TRUE(stub_.BLOB_GET_start({.name = name, .offset = offset, .count = kSize}, {}, note()));
  }
  // Waits until the server has taken the calls that were started: it takes them in order.
  void expect_taken() { EXPECT_TRUE(stub_.BLOB_NULL()); }
  void sum(const std::string& name) { EXPECT_TRUE(stub_.BLOB_SUM_start(name, note())); }
  // Waits until there is what is asked for. False: it took too long.
  template <class Condition>
  bool await(Condition condition) {
    for (const auto begin = Clock::now(); !condition();) {
      if (Clock::now() - begin > kBound) return false;
      pollfd entry{client_.wait_fd(), POLLIN, 0};
      ::poll(&entry, 1, 5);
      client_.progress();
    }
    return true;
  }
  bool await_all() {
    return await([this] { return statuses_.size() + errors_.size() == started_; });
  }
  // Returns what the last GET that succeeded has read.
  const std::vector<std::byte>& data() const { return data_; }
  const std::vector<blob_status>& statuses() const { return statuses_; }
  const std::vector<std::string>& errors() const { return errors_; }

 private:
  std::size_t started_ = 0;
  std::vector<blob_status> statuses_;
  std::vector<std::string> errors_;
  std::vector<std::byte> data_;
  Client client_;  // ends its calls when it goes, and notes them
  BLOB_V1_Client stub_;
};

// A host has two threads for short calls, and one for long ones.
class HangingBlob : public testing::Test {
 protected:
  explicit HangingBlob(std::chrono::seconds patience = std::chrono::hours(1),
                       std::chrono::milliseconds period = BlobThreads().chores_period,
                       Clock::time_point (*now)() noexcept = &Clock::now) {
    std::string pattern = testing::TempDir() + "rpcrdma-hanging-blob.XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    for (const char* const name : {"hangs", "other"}) {
      std::ofstream(directory_ / name) << std::string(kSize, *name);
      // A time of access that reading does not set, which would have to wait.
      const std::array<timespec, 2> times{timespec{::time(nullptr) + 3600, 0},
                                          timespec{0, UTIME_OMIT}};
      EXPECT_EQ(::utimensat(AT_FDCWD, (directory_ / name).c_str(), times.data(), 0), 0);
    }
    StoreOptions options;
    options.log = &log_;
    store_.emplace(directory_, options);
    EXPECT_EQ(store_->open(), blob_status::BLOB_OK);
    service_.emplace(*store_, BlobThreads{.short_calls = 2,
                                          .long_calls = 1,
                                          .patience = patience,
                                          .patience_with_lists = patience,
                                          .chores_period = period,
                                          .now = now});
    rpcrdma::ServerOptions server_options;
    server_options.provider.name = "siwarp";
    auto server = Server::listen("rdma://127.0.0.1:0", server_options);
    EXPECT_TRUE(server) << server.error().message();
    server_.emplace(std::move(*server));
    EXPECT_TRUE(server_->add(BLOB_PROGRAM, BLOB_V1, *service_));
    thread_ = std::thread([this] { server_->run(); });
  }
  ~HangingBlob() override {
    DiskForTest::release();
    callers_.clear();
    server_->stop();
    thread_.join();
    EXPECT_EQ(service_->stop(Clock::now() + kBound), Left::kNone);
    server_.reset();
    service_.reset();
    store_.reset();
    fs::remove_all(directory_);
  }
  // Connects from an address of this machine.
  Caller& from(const char* host) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in own = address_of(host, 0);
    EXPECT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&own), sizeof(own)), 0);
    const std::string_view address = server_->address();
    std::uint16_t port = 0;
    std::from_chars(address.data() + address.rfind(':') + 1, address.data() + address.size(), port);
    const sockaddr_in there = address_of("127.0.0.1", port);
    EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&there), sizeof(there)), 0);
    rpcrdma::ClientOptions options;
    options.call_timeout = kBound;
    auto client = rpcrdma::TakeOver::adopt(fd, options);
    EXPECT_TRUE(client) << client.error().message();
    Caller& caller = *callers_.emplace_back(std::make_unique<Caller>(std::move(*client)));
    EXPECT_TRUE(caller.stub().BLOB_NULL()) << "its answer grants more than one call at a time";
    return caller;
  }
  static sockaddr_in address_of(const char* host, std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    EXPECT_EQ(::inet_pton(AF_INET, host, &address.sin_addr), 1);
    return address;
  }
  static std::uint64_t inode_of(const fs::path& path) {
    struct stat status {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0);
    return status.st_ino;
  }
  // Lets each read and write of a file wait from now on.
  static void hang(const fs::path& path) { DiskForTest::hanging = inode_of(path); }
  void hang() const { hang(directory_ / "hangs"); }
  static bool are_waiting(Caller& caller, int count) {
    return caller.await([count] { return DiskForTest::waiting == count; });
  }
  // Begins an upload, and returns the file that takes its data.
  fs::path begin(Caller& caller) {
    const auto begun = caller.stub().BLOB_PUT_BEGIN({id_, "new", data_.size()});
    EXPECT_TRUE(begun) << begun.error().message();
    for (const auto& each : fs::directory_iterator(directory_ / ".uploads")) {
      if (each.path().extension() == ".data") return each.path();
    }
    ADD_FAILURE() << "the upload has no file";
    return {};
  }
  static void expect_served(Caller& caller) {
    const auto found = caller.stub().BLOB_STAT("other");
    ASSERT_TRUE(found) << found.error().message();
    EXPECT_EQ(found->status(), blob_status::BLOB_OK);
  }
  static std::vector<blob_status> ok(std::size_t count) {
    return std::vector<blob_status>(count, blob_status::BLOB_OK);
  }

  fs::path directory_;
  Lines log_;
  std::optional<Store> store_;
  std::optional<BlobService> service_;
  std::optional<Server> server_;
  std::thread thread_;
  std::vector<std::unique_ptr<Caller>> callers_;
  const blob_id id_{std::byte{1}, std::byte{2}};
  const std::vector<std::byte> data_ = std::vector<std::byte>(kSize, std::byte{7});
};

TEST_F(HangingBlob, LeavesOtherConnectionsServedWhileItIsRead) {
  Caller& reader = from(kHost);
  Caller& other = from(kHost);
  hang();
  reader.get("hangs");
  ASSERT_TRUE(are_waiting(reader, 1));
  expect_served(other);
  DiskForTest::release();
  EXPECT_TRUE(reader.await_all());
  EXPECT_EQ(reader.statuses(), ok(1));
}

TEST_F(HangingBlob, LeavesOtherConnectionsServedWhileItIsWritten) {
  Caller& writer = from(kHost);
  Caller& other = from(kHost);
  hang(begin(writer));
  EXPECT_TRUE(writer.stub().BLOB_PUT_DATA_start({id_, 0, data_}, writer.note()));
  ASSERT_TRUE(are_waiting(writer, 1));
  expect_served(other);
  DiskForTest::release();
  EXPECT_TRUE(writer.await_all());
  EXPECT_EQ(writer.statuses(), ok(1));
  std::ifstream written(begin(writer), std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(written), {}), std::string(kSize, '\7'))
      << "the data stays where it is until the answer";
}

// The line of the log is written between the failure and its answer.
TEST_F(HangingBlob, FailsCallsOfAnUploadWithItsFirstFailureUntilThatIsAnswered) {
  Caller& writer = from(kHost);
  const fs::path upload = begin(writer);
  std::optional<blob_status> other;
  log_.on_line = [&](LogLevel level, std::string_view) {
    if (level == LogLevel::kWarning) other = store_->put_data(id_, 0, data_);
  };
  DiskForTest::full = inode_of(upload);
  const auto answer = writer.stub().BLOB_PUT_DATA({id_, 0, data_});
  ASSERT_TRUE(answer) << answer.error().message();
  EXPECT_EQ(*answer, blob_status::BLOB_NO_SPACE);
  EXPECT_EQ(other, blob_status::BLOB_NO_SPACE);
}

TEST_F(HangingBlob, TakesNoMoreThanAPartOfTheThreads) {
  Caller& reader = from(kHost);
  Caller& other = from(kOtherHost);
  hang();
  for (int i = 0; i < 10; ++i) reader.get("hangs");
  ASSERT_TRUE(are_waiting(reader, 2));
  expect_served(other);
}

TEST_F(HangingBlob, LeavesWhatIsInMemoryToBeReadAtOnce) {
  // The kernel may forget a name, or be in doubt while others rename.
  constexpr int kAttempts = 10;
  const files::File folder(directory_, O_PATH | O_DIRECTORY);
  files::File known;
  for (int i = 0; i < kAttempts && !known.is_open(); ++i) {
    (void)store_->stat("other");
    known = files::open_beneath(folder.descriptor(), "other", O_PATH, files::Resolving::kInMemory);
  }
  if (!known.is_open())
    GTEST_SKIP() << "this kernel, or a filter of system calls, has no RESOLVE_CACHED";
  Caller& reader = from(kHost);
  hang();
  for (int i = 0; i < 3; ++i) reader.get("hangs");
  ASSERT_TRUE(are_waiting(reader, 2)) << "the host has no more threads";
  for (int i = 0; i < kAttempts && reader.statuses().empty(); ++i) {
    reader.get("other", 1);
    reader.expect_taken();  // and answers in order what it answers at once
  }
  EXPECT_EQ(reader.statuses(), ok(1));
  EXPECT_EQ(reader.data(), std::vector<std::byte>(kSize - 1, std::byte{'o'}));
}

TEST_F(HangingBlob, IsSummedByOneHostWithoutKeepingCommitsOfOthersWaiting) {
  Caller& summing = from(kHost);
  Caller& other = from(kOtherHost);
  hang();
  for (int i = 0; i < 10; ++i) summing.sum("hangs");
  ASSERT_TRUE(are_waiting(summing, 1));
  (void)begin(other);
  ASSERT_TRUE(other.stub().BLOB_PUT_DATA({id_, 0, data_}));
  Sha256Stream sum;
  sum.add(data_);
  const auto committed = other.stub().BLOB_PUT_COMMIT({id_, sum.finish()});
  ASSERT_TRUE(committed) << committed.error().message();
  EXPECT_EQ(*committed, blob_status::BLOB_OK);
  DiskForTest::release();
  EXPECT_TRUE(summing.await_all());
  EXPECT_EQ(summing.statuses(), ok(10));
}

TEST_F(HangingBlob, IsListedWhileSumsOfItWait) {
  Caller& caller = from(kHost);
  hang();
  for (int i = 0; i < 3; ++i) caller.sum("hangs");
  ASSERT_TRUE(are_waiting(caller, 1));
  const auto listed = caller.stub().BLOB_LIST(0);
  ASSERT_TRUE(listed) << listed.error().message();
  ASSERT_NE(listed->ok(), nullptr);
  EXPECT_EQ(listed->ok()->entries.size(), 2U);
}

TEST_F(HangingBlob, AnswersEachCallOnceWhenTheServerEnds) {
  Caller& caller = from(kHost);
  hang();
  for (int i = 0; i < 6; ++i) caller.get("hangs");
  for (int i = 0; i < 3; ++i) caller.sum("hangs");
  ASSERT_TRUE(are_waiting(caller, 3));
  caller.expect_taken();
  EXPECT_EQ(service_->stop(Clock::now()), Left::kCalls) << "three calls wait for the disk";
  caller.get("hangs");
  EXPECT_TRUE(caller.await([&] { return !caller.statuses().empty(); }));
  EXPECT_EQ(caller.statuses(), std::vector{blob_status::BLOB_IO_ERROR}) << "it came too late";
  DiskForTest::release();
  EXPECT_TRUE(caller.await_all());
  auto statuses = ok(10);
  statuses.front() = blob_status::BLOB_IO_ERROR;
  EXPECT_EQ(caller.statuses(), statuses);
}

TEST_F(HangingBlob, TellsExpiryThatIsLeftFromCalls) {
  std::promise<void> begun, end;
  const std::shared_future<void> over = end.get_future().share();
  std::once_flag once;
  StoreOptions options;
  options.upload_idle_max = std::chrono::milliseconds(1);
  options.now = [&] {
    std::call_once(once, [&] {
      begun.set_value();
      over.wait();
    });
    return std::chrono::nanoseconds{};
  };
  Store store(directory_, options);
  EXPECT_EQ(store.put_begin(id_, "new", 1), blob_status::BLOB_OK);
  BlobService service(store);
  EXPECT_EQ(begun.get_future().wait_for(kBound), std::future_status::ready);
  const auto until = Clock::now() + kBound;
  Left left = Left::kCalls;
  while (left == Left::kCalls && Clock::now() < until) {
    left = service.stop(Clock::now() + std::chrono::milliseconds(50));
  }
  EXPECT_EQ(left, Left::kExpiry);
  end.set_value();
  EXPECT_EQ(service.stop(Clock::now() + kBound), Left::kNone);
}

class HangingForAWhile : public HangingBlob {
 protected:
  HangingForAWhile() : HangingBlob(std::chrono::seconds(1)) {}
};

TEST_F(HangingForAWhile, TurnsShortCallsAwayAndLeavesLongOnes) {
  Caller& reader = from(kHost);
  Caller& summing = from(kHost);
  hang();
  for (int i = 0; i < 3; ++i) summing.sum("hangs");
  for (int i = 0; i < 2; ++i) reader.get("hangs");
  ASSERT_TRUE(are_waiting(reader, 3));
  reader.get("hangs");
  ASSERT_TRUE(reader.await([&] { return !reader.statuses().empty(); }))
      << "it keeps memory of the server";
  EXPECT_EQ(reader.statuses(), std::vector{blob_status::BLOB_IO_ERROR});
  ASSERT_EQ(log_.errors().size(), 1U);
  EXPECT_NE(log_.errors().front().find(" get failed: "), std::string::npos);
  EXPECT_TRUE(log_.errors().front().starts_with("127.0.0.1:"));
  summing.sum("hangs");  // later than the patience of short calls
  summing.expect_taken();
  DiskForTest::release();
  EXPECT_TRUE(summing.await_all());
  EXPECT_EQ(summing.statuses(), ok(4));
}

// Read by threads of the service.
std::atomic<Clock::time_point> virtual_now;
std::atomic<int> looks;  // at it

class SlowBlob : public HangingBlob {
 protected:
  SlowBlob()
      : HangingBlob(std::chrono::seconds(10), std::chrono::milliseconds(1), []() noexcept {
          ++looks;
          return virtual_now.load();
        }) {}
  // Waits until the service has looked for late calls.
  static bool has_looked(Caller& caller) {
    return caller.await([before = looks.load()] { return looks >= before + 3; });
  }
  static void pass(std::chrono::seconds time) { virtual_now = virtual_now.load() + time; }
  // Lets seconds pass, in each of which the service looks.
  static bool pass_with_looks(Caller& caller, int count) {
    for (int i = 0; i < count; ++i) {
      pass(std::chrono::seconds(1));
      if (!has_looked(caller)) return false;
    }
    return true;
  }
};

TEST_F(SlowBlob, FailsNoCallWhileOthersOfItsHostGoOn) {
  Caller& caller = from(kHost);
  const fs::path upload = begin(caller);
  hang();
  for (int i = 0; i < 2; ++i) caller.get("hangs");
  ASSERT_TRUE(are_waiting(caller, 2));
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(caller.stub().BLOB_PUT_DATA_start({id_, 0, data_}, caller.note()));
  }
  EXPECT_TRUE(caller.stub().BLOB_STAT_start("other", caller.note()));
  caller.expect_taken();
  ASSERT_TRUE(pass_with_looks(caller, 6));
  hang(upload);
  DiskForTest::hanging.notify_all();
  ASSERT_TRUE(caller.await([&] { return caller.statuses().size() == 2; })) << "reading goes on";
  ASSERT_TRUE(are_waiting(caller, 2)) << "it comes to the data, and not yet to the last call";
  ASSERT_TRUE(pass_with_looks(caller, 6));
  EXPECT_EQ(caller.statuses(), ok(2));
  DiskForTest::release();
  EXPECT_TRUE(caller.await_all());
  EXPECT_EQ(caller.statuses(), ok(5));
}

TEST_F(SlowBlob, FailsNoCallBecauseItsOwnProcessWasStopped) {
  Caller& caller = from(kHost);
  hang();
  for (int i = 0; i < 3; ++i) caller.get("hangs");
  ASSERT_TRUE(are_waiting(caller, 2));
  caller.expect_taken();
  ASSERT_TRUE(has_looked(caller));
  pass(std::chrono::seconds(11));
  ASSERT_TRUE(has_looked(caller));
  EXPECT_EQ(caller.statuses(), ok(0));
  DiskForTest::release();
  EXPECT_TRUE(caller.await_all());
  EXPECT_EQ(caller.statuses(), ok(3));
}

TEST_F(HangingForAWhile, TurnsListsAway) {
  Caller& caller = from(kHost);
  DiskForTest::hanging_status = inode_of(directory_ / "hangs");
  const auto list = [&] { EXPECT_TRUE(caller.stub().BLOB_LIST_start(0, caller.note())); };
  list();
  ASSERT_TRUE(are_waiting(caller, 1));
  list();
  ASSERT_TRUE(caller.await([&] { return !caller.statuses().empty(); }))
      << "it keeps memory of the server";
  EXPECT_EQ(caller.statuses(), std::vector{blob_status::BLOB_IO_ERROR});
  DiskForTest::release();
  EXPECT_TRUE(caller.await_all());
  EXPECT_EQ(caller.statuses().back(), blob_status::BLOB_OK);
}

// Where the line of the log does not end, the call has not been answered.
TEST_F(HangingForAWhile, EndsBehindTheAnswersToCallsThatItTurnsAway) {
  Caller& reader = from(kHost);
  std::promise<void> begun, end;
  const std::shared_future<void> over = end.get_future().share();
  log_.on_line = [&](LogLevel level, std::string_view) {
    if (level != LogLevel::kError) return;
    begun.set_value();
    over.wait();
  };
  hang();
  for (int i = 0; i < 3; ++i) reader.get("hangs");
  const bool has_begun = begun.get_future().wait_for(kBound) == std::future_status::ready;
  EXPECT_TRUE(has_begun);
  DiskForTest::release();
  EXPECT_EQ(service_->stop(Clock::now() + std::chrono::seconds(1)), Left::kCalls)
      << "a call is left";
  end.set_value();
  EXPECT_EQ(service_->stop(Clock::now() + kBound), Left::kNone);
}

}  // namespace
}  // namespace blob
