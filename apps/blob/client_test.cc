// The blob client against servers that do not keep to the blob program, or not to any time.
#include "blob/client.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "rpcrdma/server.h"

namespace blob {
namespace {

using rpcrdma::Answer;
using rpcrdma::Bytes;
using rpcrdma::Client;
using rpcrdma::Errc;
using rpcrdma::Server;

// Answers as each test says. Its answers that wait are given when it goes.
class HostileService final : public BLOB_V1_Service {
 public:
  std::uint64_t stat_size = 0;
  std::uint64_t data_size = 0;  // of each GET
  bool as_asked = false;        // each GET returns what was asked for instead
  std::uint32_t entries = 0;    // in each LIST
  bool end = false;             // of GET and LIST
  bool silent = false;          // COMMIT and SUM are never answered
  std::atomic<std::uint64_t> gets = 0;

 private:
  void BLOB_PUT_BEGIN(Answer<blob_status> answer, put_begin_args) override {
    answer.succeed(blob_status::BLOB_OK);
  }
  void BLOB_PUT_DATA(Answer<blob_status> answer, put_data_args) override {
    answer.succeed(blob_status::BLOB_OK);
  }
  void BLOB_PUT_COMMIT(Answer<blob_status> answer, put_commit_args) override {
    if (silent) return waiting_.push_back(std::move(answer));
    answer.succeed(blob_status::BLOB_OK);
  }
  void BLOB_GET(Answer<get_result> answer, get_args arguments) override {
    ++gets;
    const auto size = as_asked ? arguments.count : static_cast<std::uint32_t>(data_size);
    const auto memory = answer.result_memory(std::max(size, 1U));
    get_result results;
    results.set_ok({.end = end, .data = memory.first(size)});
    answer.succeed(results);
  }
  void BLOB_STAT(Answer<stat_result> answer, blob_name) override {
    stat_result results;
    results.set_ok({.size = stat_size, .time_ns = 0});
    answer.succeed(results);
  }
  void BLOB_LIST(Answer<list_result> answer, std::uint64_t cookie) override {
    list_result results;
    list_ok& listed = results.set_ok();
    for (std::uint32_t i = 0; i < entries; ++i) {
      listed.entries.push_back(
          {.name = std::to_string(cookie) + "-" + std::to_string(i), .size = 1});
    }
    listed.cookie = cookie + 1;
    listed.end = end;
    answer.succeed(results);
  }
  void BLOB_SUM(Answer<sum_result> answer, blob_name) override {
    waiting_sums_.push_back(std::move(answer));
  }
  void BLOB_REMOVE(Answer<blob_status> answer, blob_name) override {
    answer.succeed(blob_status::BLOB_OK);
  }
  void BLOB_STEP_UP(Answer<step_up_status> answer) override {
    answer.succeed(step_up_status::STEP_UP_ALREADY);
  }

  std::vector<Answer<blob_status>> waiting_;
  std::vector<Answer<sum_result>> waiting_sums_;
};

class BlobClientTest : public testing::Test {
 protected:
  ~BlobClientTest() override {
    client_.reset();
    if (server_) server_->stop();
    if (thread_.joinable()) thread_.join();
    service_.reset();  // its answers are owed to the server
  }
  // The service is set up before.
  void start(std::uint32_t inline_size = 4096,
             std::chrono::seconds timeout = std::chrono::seconds(60)) {
    rpcrdma::ServerOptions server_options;
    server_options.connection.inline_size = inline_size;
    server_options.drain_timeout = std::chrono::milliseconds(0);
    auto server = Server::listen("rdma://127.0.0.1:0", server_options);
    ASSERT_TRUE(server) << server.error().message();
    server_.emplace(std::move(*server));
    ASSERT_TRUE(server_->add(BLOB_PROGRAM, BLOB_V1, *service_));
    address_ = std::string(server_->address());
    thread_ = std::thread([this] { server_->run(); });
    rpcrdma::ClientOptions options;
    options.connection.inline_size = inline_size;
    options.call_timeout = timeout;
    auto client = Client::connect("rdma://" + address_, options);
    ASSERT_TRUE(client) << client.error().message();
    client_.emplace(std::move(*client));
  }
  static bool take(Bytes) { return true; }
  void expect_bad_reply(const BlobClient::Result<TransferResult>& result, std::string_view cause) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Errc::kBadReply) << result.error().message();
    EXPECT_NE(result.error().message().find(address_), std::string::npos)
        << "names the server: " << result.error().message();
    EXPECT_NE(result.error().message().find(cause), std::string::npos) << result.error().message();
  }

  std::unique_ptr<HostileService> service_ = std::make_unique<HostileService>();
  std::optional<Server> server_;
  std::string address_;
  std::thread thread_;
  std::optional<Client> client_;
};

TEST_F(BlobClientTest, ServerThatReturnsMoreThanAskedIsAnErrorAndNoForeignMemory) {
  service_->stat_size = 10'000;
  service_->data_size = 40'000;  // all of it inside of the message
  start(65536);
  std::uint64_t written = 0;
  const auto result = BlobClient(*client_, {.size = 1000}).get("name", [&](Bytes data) {
    written += data.size();
    return true;
  });
  EXPECT_EQ(written, 0U);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::kBadReply) << result.error().message();
  EXPECT_NE(result.error().message().find(address_), std::string::npos);
}

TEST_F(BlobClientTest, TheSameInTheReplyChunk) {
  service_->stat_size = 10'000;
  service_->data_size = 1'001;
  start(1024);
  const auto result = BlobClient(*client_, {.size = 1000}).get("name", take);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message().find(address_), std::string::npos) << result.error().message();
}

TEST_F(BlobClientTest, GetTakesNoMoreThanStatSaid) {
  service_->stat_size = 10'000;
  service_->as_asked = true;
  start();
  std::uint64_t written = 0;
  expect_bad_reply(BlobClient(*client_, {.size = 4000})
                       .get("name",
                            [&](Bytes data) {
                              written += data.size();
                              return true;
                            }),
                   "grown");
  EXPECT_LE(written, 10'000U);
  EXPECT_EQ(service_->gets, 3U);
}

TEST_F(BlobClientTest, GetOfWhatBecameShorterIsAnError) {
  service_->stat_size = 10'000;
  service_->data_size = 300;
  service_->end = true;
  start();
  expect_bad_reply(BlobClient(*client_, {.size = 4000}).get("name", take), "shorter");
}

// --- Servers that take their time --------------------------------------------------------------

class SlowServer : public BlobClientTest {
 protected:
  SlowServer() {
    service_->silent = true;
    service_->stat_size = 100;
    service_->as_asked = service_->end = true;
    start(4096, std::chrono::seconds(1));
  }
  const TransferOptions strict_{.more_time_to_sum = false};
  void expect_timed_out(const std::optional<rpcrdma::Error>& error) const {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code, Errc::kTimedOut) << error->message();
    EXPECT_LT(std::chrono::steady_clock::now() - begin_, std::chrono::seconds(30));
  }
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

TEST_F(SlowServer, CommitIsGivenUpWhenTheTimeOfACallIsOver) {
  Source empty(files::File("/dev/null", O_RDONLY));
  const auto result = BlobClient(*client_, strict_).put(empty, "name");
  expect_timed_out(result ? std::nullopt : std::optional(result.error()));
}

TEST_F(SlowServer, SumIsGivenUpWhenTheTimeOfACallIsOver) {
  const auto result = BlobClient(*client_, strict_).sum("name", std::uint64_t{1} << 40U);
  expect_timed_out(result ? std::nullopt : std::optional(result.error()));
}

// --- Servers that list for ever ----------------------------------------------------------------

TEST_F(BlobClientTest, ListIsBoundedByACountOfEntries) {
  service_->entries = 100;
  start();
  const auto listed = BlobClient(*client_).list(1000);
  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().code, Errc::kBadReply);
  EXPECT_NE(listed.error().message().find(address_), std::string::npos);
  EXPECT_NE(listed.error().message().find("more than 1000 files"), std::string::npos);
}

TEST_F(BlobClientTest, ListThatDoesNotGoOnIsAnError) {
  service_->entries = 0;
  start();
  const auto listed = BlobClient(*client_).list();
  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().code, Errc::kBadReply) << listed.error().message();
}

TEST_F(BlobClientTest, ListMayBeAsLongAsAllowed) {
  service_->entries = 100;
  service_->end = true;
  start();
  const auto listed = BlobClient(*client_).list(100);
  ASSERT_TRUE(listed);
  EXPECT_EQ(listed->size(), 100U);
}

}  // namespace
}  // namespace blob
