// The blob program's dynamic enabling (RFC 5666 §3): what its TCP port answers, which peers are
// sent away, and that a connection which steps up is one of RPC over RDMA from the next byte on.
// How the library does it is tried in stepping_up_test.cc.
#include "blob/step_up.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <functional>
#include <optional>
#include <thread>

#include "blob/service.h"
#include "rpcrdma/client.h"
#include "rpcrdma/server.h"
#include "support/raw_peer.h"
#include "support/raw_rpc.h"

namespace rpcrdma::test {
namespace {

using blob::step_up_status;
using Words = std::vector<std::uint32_t>;

constexpr std::uint32_t kLast = 0x80000000U;
constexpr std::uint32_t kXid = 0x51000001;

// A record with a Call of AUTH_NONE, and words behind its header.
Message call(std::uint32_t number, std::uint32_t program = blob::BLOB_PROGRAM,
             std::uint32_t version = blob::BLOB_V1, std::uint32_t rpc_version = 2,
             const Message& arguments = {}) {
  const auto size = static_cast<std::uint32_t>(40 + arguments.size());
  return join({words({kLast | size, kXid, 0, rpc_version, program, version, number, 0, 0, 0, 0}),
               arguments});
}
const Message kNull = call(blob::BLOB_NULL);
const Message kAsk = call(blob::BLOB_STEP_UP);
const Words kNullReply = {kLast | 24, kXid, 1, 0, 0, 0, 0};
const Words kYes = {kLast | 28, kXid, 1, 0, 0, 0, 0, 0};

class StepUp : public ::testing::Test {
 protected:
  StepUp() { start({}); }

  void start(const ServerOptions& options) {
    auto server = Server::listen("rdma://127.0.0.1:0", options);
    ASSERT_TRUE(server) << server.error().message();
    server_.emplace(std::move(*server));
    ASSERT_TRUE(server_->add(blob::BLOB_PROGRAM, blob::BLOB_V1, service_));
    const auto plain = server_->add_listener("tcp://127.0.0.1:0");
    ASSERT_TRUE(plain) << plain.error().message();
    plain_ = *plain;
  }
  void pump() { server_->progress(); }
  std::unique_ptr<RawPeer> connect() {
    auto peer = RawPeer::connect(plain_, [this] { pump(); });
    EXPECT_NE(peer, nullptr);
    return peer;
  }
  std::string url() const { return "tcp://" + plain_; }
  // Returns what comes back, as many bytes as are expected.
  static Words ask(RawPeer& peer, const Message& record, const Words& expected) {
    EXPECT_TRUE(peer.send(record));
    return to_words(peer.receive(expected.size() * 4));
  }
  void expect_served() {
    const auto peer = connect();
    EXPECT_EQ(ask(*peer, kNull, kNullReply), kNullReply) << "others are served";
  }
  // Pumps while a client, which blocks, does something in a thread of its own.
  void beside(const std::function<void()>& clients) {
    std::atomic<bool> done = false;
    std::thread thread([&] {
      clients();
      done = true;
    });
    while (!done) {
      pollfd entry{server_->wait_fd(), POLLIN, 0};
      ::poll(&entry, 1, 5);
      pump();
    }
    thread.join();
  }

  blob::Store store_{::testing::TempDir()};  // nothing is put into it
  blob::BlobService service_{store_};
  std::optional<Server> server_;
  std::string plain_;  // "ADDR:PORT"
};

// --- Clients that do as they should --------------------------------------------------------------

void expect_rdma(Client& client) {
  blob::BLOB_V1_Client stub(client);
  for (int i = 0; i < 3; ++i) {
    const auto status = stub.BLOB_STEP_UP();
    ASSERT_TRUE(status) << status.error().message();
    EXPECT_EQ(*status, step_up_status::STEP_UP_ALREADY);
  }
  EXPECT_EQ(client.counters().calls, 3U);
}

TEST_F(StepUp, ClientGoesOnOverRdmaOnTheSameConnection) {
  beside([this] {
    auto client = blob::connect_and_step_up(url());
    ASSERT_TRUE(client) << client.error().message();
    EXPECT_EQ(client->connection().peer_address, plain_) << "the port that was TCP's";
    expect_rdma(*client);
  });
}

TEST_F(StepUp, TwoConnectionsAtOnceAndOneThatCameOverRdma) {
  beside([this] {
    auto first = blob::connect_and_step_up(url());
    auto second = blob::connect_and_step_up(url());
    auto third = Client::connect("rdma://" + std::string(server_->address()));
    ASSERT_TRUE(first && second && third);
    expect_rdma(*second);
    expect_rdma(*first);
    expect_rdma(*third);
  });
}

TEST_F(StepUp, TwoThatAskInTheSameMomentBothGetIt) {
  const auto first = connect();
  const auto second = connect();
  ASSERT_TRUE(first->send(kAsk) && second->send(kAsk));
  EXPECT_EQ(to_words(second->receive(kYes.size() * 4)), kYes);
  EXPECT_EQ(to_words(first->receive(kYes.size() * 4)), kYes);
  EXPECT_FALSE(first->initiate({}).empty());
  EXPECT_FALSE(second->initiate({}).empty());
  EXPECT_TRUE(first->pump_until([this] { return server_->connections() == 2; }));
}

TEST_F(StepUp, NullIsAnsweredAndOneConnectionMayAskMuchBefore) {
  const auto peer = connect();
  EXPECT_EQ(ask(*peer, kNull, kNullReply), kNullReply);
  ASSERT_TRUE(peer->send(join({kNull, kNull, kNull})));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(to_words(peer->receive(28)), kNullReply);
  // In fragments, and byte by byte.
  Message parts = join({words({4, kXid}), words({16, 0, 2, blob::BLOB_PROGRAM, 1}),
                        words({kLast | 20, 9, 0, 0, 0, 0})});
  for (const std::byte byte : parts) {
    ASSERT_TRUE(peer->send({&byte, 1}));
    pump();
  }
  EXPECT_EQ(to_words(peer->receive(kYes.size() * 4)), kYes);
  EXPECT_FALSE(peer->initiate({}).empty());
}

TEST_F(StepUp, OtherCallsAreRefusedAsRpcHasIt) {
  const auto peer = connect();
  const struct {
    Message record;
    Words reply;
  } rows[] = {
      {call(9, 100003), {kLast | 24, kXid, 1, 0, 0, 0, 1}},                       // PROG_UNAVAIL
      {call(9, blob::BLOB_PROGRAM, 2), {kLast | 32, kXid, 1, 0, 0, 0, 2, 1, 1}},  // its versions
      {call(77), {kLast | 24, kXid, 1, 0, 0, 0, 3}},
      {call(9, blob::BLOB_PROGRAM, 1, 2, words({5})), {kLast | 24, kXid, 1, 0, 0, 0, 4}},
      {call(9, blob::BLOB_PROGRAM, 1, 3), {kLast | 24, kXid, 1, 1, 0, 2, 2}},  // RPC_MISMATCH
  };
  for (const auto& row : rows) EXPECT_EQ(ask(*peer, row.record, row.reply), row.reply);
  EXPECT_EQ(ask(*peer, kAsk, kYes), kYes) << "the connection is as good as before";
}

// --- Peers that do not ---------------------------------------------------------------------------

TEST_F(StepUp, WholeProgramIsServedWithoutStepUpToo) {
  beside([this] {
    auto client = Client::connect(url());
    ASSERT_TRUE(client) << client.error().message();
    blob::BLOB_V1_Client stub(*client);
    const auto listed = stub.BLOB_LIST(0);
    ASSERT_TRUE(listed) << listed.error().message();
    EXPECT_EQ(listed->status(), blob::blob_status::BLOB_OK);
  });
}

TEST_F(StepUp, MalformedBytesEndTheirConnectionAndNoOther) {
  ServerOptions options;
  options.tcp.record_size_max = 1024;
  options.tcp.fragments_max = 3;
  start(options);
  const auto bystander = connect();
  EXPECT_EQ(ask(*bystander, kNull, kNullReply), kNullReply);
  const struct {
    const char* what;
    Message bytes;
  } rows[] = {
      {"a record of nonsense", join({words({kLast | 40}), Message(40, std::byte{0xa5})})},
      {"an empty record", words({kLast})},
      {"a reply", words({kLast | 24, kXid, 1, 0, 0, 0, 0})},
      {"a cut off Call", words({kLast | 24, kXid, 0, 2, blob::BLOB_PROGRAM, 1, 9})},
      {"a record over 1 KiB", words({kLast | 1028, kXid, 1})},
      {"the largest there is", words({0xffffffff, kXid, 1})},
      {"fragments that add up",
       join({words({1000}), Message(1000, std::byte{0xa5}), words({kLast | 28})})},
      {"empty fragments", words({0, 0, 0, 0})},
      {"an MPA Request", test::raw_mpa_frame(false, {})},
      {"bytes behind the request", join({kAsk, words({0})})},
      {"an MPA Request behind the request", join({kAsk, test::raw_mpa_frame(false, {})})},
      {"another Call behind the request", join({kAsk, kNull})},
  };
  for (const auto& row : rows) {
    const auto peer = connect();
    ASSERT_TRUE(peer->send(row.bytes)) << row.what;
    const auto answer = peer->receive_to_end();
    ASSERT_TRUE(answer) << row.what << ": not closed";
    EXPECT_TRUE(answer->empty()) << row.what;
  }
  EXPECT_EQ(server_->connections(), 1U);
  EXPECT_EQ(ask(*bystander, kAsk, kYes), kYes);
}

TEST_F(StepUp, PeersThatGoAwayAreForgotten) {
  for (const bool reset : {false, true}) {
    for (const std::size_t size : {0U, 3U, 20U, 43U, 44U}) {
      const auto peer = connect();
      EXPECT_TRUE(peer->pump_until([this] { return server_->connections() == 1; }));
      ASSERT_TRUE(peer->send(test::first(kAsk, size)));
      reset ? peer->reset() : peer->finish();
      EXPECT_TRUE(peer->pump_until([this] { return server_->connections() == 0; })) << size;
    }
  }
  expect_served();
}

TEST_F(StepUp, PeerThatIsSilentAfterTheStepUpIsClosed) {
  ServerOptions options;
  options.provider.setup_timeout_server = std::chrono::milliseconds(50);
  start(options);
  const auto peer = connect();
  EXPECT_EQ(ask(*peer, kAsk, kYes), kYes);
  const auto rest = peer->receive_to_end();
  ASSERT_TRUE(rest);
  EXPECT_TRUE(rest->empty());
}

TEST_F(StepUp, ServerThatStopsTakesNoConnectionOver) {
  const auto peer = connect();
  EXPECT_EQ(ask(*peer, kNull, kNullReply), kNullReply);
  server_->stop();
  pump();
  (void)peer->send(kAsk);
  const auto rest = peer->receive_to_end();
  ASSERT_TRUE(rest);
  EXPECT_TRUE(rest->empty());
}

// --- What a client reports -----------------------------------------------------------------------

void expect_told(const std::string& url, Errc code, std::string_view text) {
  ClientOptions options;
  options.provider.setup_timeout_client = std::chrono::seconds(5);
  const auto client = blob::connect_and_step_up(url, options);
  ASSERT_FALSE(client) << url;
  EXPECT_EQ(client.error().code, code) << client.error().message();
  EXPECT_EQ(client.error().peer, url);
  EXPECT_NE(client.error().cause.find(text), std::string::npos) << client.error().message();
}

TEST_F(StepUp, ClientReportsAServerThatDoesNotStepUp) {
  const std::string rdma = "tcp://" + std::string(server_->address());
  beside([&] { expect_told(rdma, Errc::kNotAvailable, "rpcrdma serve --tcp-port"); });
}

TEST_F(StepUp, ClientReportsThatNothingListensThere) {
  const std::string gone = url();
  server_.reset();
  expect_told(gone, Errc::kRefused, "is the server running");
}

TEST_F(StepUp, ClientReportsUrlsThatAreNone) {
  for (const char* const bad :
       {"rdma://127.0.0.1:1", "tcp://127.0.0.1", "tcp://:1", "tcp://h:x", "tcp://h:65536",
        "tcp://h:", "tcp://::1:20049", "tcp://h:1x", "", "tcp://"}) {
    expect_told(bad, Errc::kBadUrl, "tcp://HOST:PORT");
  }
}

// A server that answers what it wants, and closes.
void expect_told_of_answer(const Words& reply, Errc code, std::string_view text) {
  test::RawListener listener([] {});
  std::thread thread([&] { expect_told("tcp://" + listener.address(), code, text); });
  const auto peer = listener.accept();
  const Words asked = to_words(peer->receive(44));
  Words answer = reply;
  if (answer.size() > 1 && asked.size() > 1) answer[1] = asked[1];
  Message bytes;
  for (const std::uint32_t word : answer) bytes = join({bytes, words({word})});
  EXPECT_TRUE(peer->send(bytes));
  if (text == "agreed") {
    EXPECT_FALSE(peer->receive_mpa_frame().empty());
  }
  peer->finish();
  thread.join();
}

TEST(StepUpClient, ReportsAnswersThatAreNone) {
  constexpr auto kNo = Errc::kNotAvailable;
  expect_told_of_answer({kLast | 24, 0, 1, 0, 0, 0, 1}, kNo, "program unavailable");
  expect_told_of_answer({kLast | 24, 0, 1, 0, 0, 0, 3}, kNo, "procedure unavailable");
  expect_told_of_answer({kLast | 28, 0, 1, 0, 0, 0, 0, 1}, kNo, "another answer");
  expect_told_of_answer({kLast | 28, 0, 1, 0, 0, 0, 0, 7}, kNo, "rpcrdma serve --tcp-port");
  expect_told_of_answer({kLast | 24, 0, 1, 0, 0, 0, 0}, kNo, "rpcrdma serve --tcp-port");
  expect_told_of_answer({kLast | 12, 0, 1, 0}, kNo, "no RPC reply");
  expect_told_of_answer({kLast | 4, 0}, kNo, "the server closed it");
  expect_told_of_answer({kLast | 2000, 0, 0}, kNo, "longer than");  // and no Reply
  expect_told_of_answer({kLast | 2000, 0, 1}, kNo, "the server closed it");
  expect_told_of_answer({}, kNo, "the server closed it");
  expect_told_of_answer({kLast | 28, 0, 1, 0, 0, 0, 0, 0}, Errc::kRefused, "agreed");
}

}  // namespace
}  // namespace rpcrdma::test
