// The blob program's dynamic enabling (RFC 5666 §3): what its TCP port answers, who is sent away,
// and that a connection which steps up is one of RPC over RDMA from the next byte on.
#include "blob/step_up.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <optional>
#include <thread>

#include "blob/service.h"
#include "blob/step_up_listener.h"
#include "rpcrdma/client.h"
#include "rpcrdma/server.h"
#include "support/raw_peer.h"
#include "support/raw_rpc.h"

namespace rpcrdma {
namespace {

using blob::step_up_status;
using test::join;
using test::Message;
using test::RawPeer;
using test::to_words;
using test::words;
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

class StepUp : public testing::Test {
 protected:
  StepUp() { start({}); }

  void start(const blob::StepUpOptions& options, const ServerOptions& server_options = {}) {
    plain_.reset();
    server_.reset();
    auto server = Server::listen("rdma://127.0.0.1:0", server_options);
    ASSERT_TRUE(server) << server.error().message();
    server_.emplace(std::move(*server));
    ASSERT_TRUE(server_->add(blob::BLOB_PROGRAM, blob::BLOB_V1, service_));
    auto plain = blob::StepUpListener::listen("127.0.0.1", 0, *server_, options);
    ASSERT_TRUE(plain) << plain.error().message();
    plain_.emplace(std::move(*plain));
  }
  void pump() {
    plain_->progress();
    server_->progress();
  }
  std::unique_ptr<RawPeer> connect() {
    auto peer = RawPeer::connect(plain_->address(), [this] { pump(); });
    EXPECT_NE(peer, nullptr);
    return peer;
  }
  std::string url() const { return "tcp://" + plain_->address(); }
  // What comes back, as many bytes as are expected.
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
      pollfd entries[2] = {{server_->wait_fd(), POLLIN, 0}, {plain_->wait_fd(), POLLIN, 0}};
      ::poll(entries, 2, 5);
      pump();
    }
    thread.join();
  }

  blob::Store store_{testing::TempDir()};  // nothing is put into it
  blob::BlobService service_{store_};
  std::optional<Server> server_;
  std::optional<blob::StepUpListener> plain_;
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
    EXPECT_EQ(client->peer_address(), plain_->address()) << "the port that was TCP's";
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
  EXPECT_EQ(plain_->waiting(), 0U);
}

TEST_F(StepUp, TwoThatAskInTheSameMomentBothGetIt) {
  const auto first = connect();
  const auto second = connect();
  ASSERT_TRUE(first->send(kAsk) && second->send(kAsk));
  EXPECT_EQ(to_words(second->receive(kYes.size() * 4)), kYes);
  EXPECT_EQ(to_words(first->receive(kYes.size() * 4)), kYes);
  EXPECT_EQ(plain_->waiting(), 0U);
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

TEST_F(StepUp, WhatElseIsCalledIsRefusedAsRpcHasIt) {
  const auto peer = connect();
  const struct {
    Message record;
    Words reply;
  } rows[] = {
      {call(9, 100003), {kLast | 24, kXid, 1, 0, 0, 0, 1}},                       // PROG_UNAVAIL
      {call(9, blob::BLOB_PROGRAM, 2), {kLast | 32, kXid, 1, 0, 0, 0, 2, 1, 1}},  // its versions
      {call(blob::BLOB_LIST), {kLast | 24, kXid, 1, 0, 0, 0, 3}},                 // PROC_UNAVAIL
      {call(77), {kLast | 24, kXid, 1, 0, 0, 0, 3}},
      {call(9, blob::BLOB_PROGRAM, 1, 2, words({5})), {kLast | 24, kXid, 1, 0, 0, 0, 4}},
      {call(9, blob::BLOB_PROGRAM, 1, 3), {kLast | 24, kXid, 1, 1, 0, 2, 2}},  // RPC_MISMATCH
  };
  for (const auto& row : rows) EXPECT_EQ(ask(*peer, row.record, row.reply), row.reply);
  EXPECT_EQ(ask(*peer, kAsk, kYes), kYes) << "the connection is as good as before";
}

// --- Peers that do not ---------------------------------------------------------------------------

TEST_F(StepUp, MalformedBytesEndTheirConnectionAndNoOther) {
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
      {"too long a credential", words({kLast | 32, kXid, 0, 2, 7, 1, 9, 0, 404})},
      {"a record over 1 KiB", words({kLast | 1028})},
      {"the largest there is", words({0xffffffff})},
      {"fragments that add up", join({words({1000}), Message(1000), words({kLast | 28})})},
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
  EXPECT_EQ(plain_->waiting(), 1U);
  EXPECT_EQ(ask(*bystander, kAsk, kYes), kYes);
}

TEST_F(StepUp, PeersThatGoAwayAreForgotten) {
  for (const bool reset : {false, true}) {
    for (const std::size_t size : {0U, 3U, 20U, 43U, 44U}) {
      const auto peer = connect();
      EXPECT_TRUE(peer->pump_until([this] { return plain_->waiting() == 1; }));
      ASSERT_TRUE(peer->send(test::first(kAsk, size)));
      reset ? peer->reset() : peer->finish();
      EXPECT_TRUE(peer->pump_until([this] { return plain_->waiting() == 0; })) << size;
    }
  }
  expect_served();
}

TEST_F(StepUp, PeersThatDoNotAskInTimeAreClosed) {
  start({.timeout = std::chrono::milliseconds(50)});
  const auto silent = connect();
  const auto slow = connect();
  const auto chatty = connect();
  ASSERT_TRUE(slow->send(test::first(kAsk, 30)));
  EXPECT_TRUE(silent->pump_until([this] { return plain_->waiting() == 3; }));
  // No answered NULL buys time.
  while (chatty->send(kNull) && chatty->receive(28).size() == 28) {
  }
  EXPECT_TRUE(silent->receive_to_end());
  EXPECT_TRUE(slow->receive_to_end());
  EXPECT_EQ(plain_->waiting(), 0U);
}

TEST_F(StepUp, PeerThatIsSilentAfterTheStepUpIsClosed) {
  ServerOptions options;
  options.provider.setup_timeout_server = std::chrono::milliseconds(50);
  start({}, options);
  const auto peer = connect();
  EXPECT_EQ(ask(*peer, kAsk, kYes), kYes);
  const auto rest = peer->receive_to_end();
  ASSERT_TRUE(rest);
  EXPECT_TRUE(rest->empty());
}

// A TCP connection to the listener that nobody has accepted yet.
int connected_socket(const std::string& address, int receive_buffer) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ::setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
  sockaddr_in there{};
  there.sin_family = AF_INET;
  there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  there.sin_port =
      htons(static_cast<std::uint16_t>(std::stoul(address.substr(address.rfind(':') + 1))));
  EXPECT_EQ(::connect(descriptor, reinterpret_cast<const sockaddr*>(&there), sizeof(there)), 0);
  EXPECT_EQ(::fcntl(descriptor, F_SETFL, O_NONBLOCK), 0);
  return descriptor;
}

TEST_F(StepUp, PeerThatDoesNotReadItsRepliesIsClosed) {
  RawPeer peer(connected_socket(plain_->address(), 1), [this] { pump(); });
  Message many;
  for (int i = 0; i < 100; ++i) many = join({many, kNull});
  while (peer.send(many)) {
  }
  EXPECT_TRUE(peer.pump_until([this] { return plain_->waiting() == 0; }));
  expect_served();
}

TEST_F(StepUp, AcceptsAgainAfterTheSystemHadNoMoreDescriptors) {
  RawPeer peer(connected_socket(plain_->address(), 1 << 16), [this] { pump(); });
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(0);
  ::close(next);
  const rlimit none{static_cast<rlim_t>(next), before.rlim_max};
  // Without a descriptor UBSan cannot look at objects with virtual functions, such as this test.
  blob::StepUpListener& plain = *plain_;
  pollfd entry{plain.wait_fd(), POLLIN, 0};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  plain.progress();
  const int ready = ::poll(&entry, 1, 0);
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(plain_->waiting(), 0U);
  EXPECT_EQ(ready, 0) << "a loop would spin";
  EXPECT_EQ(ask(peer, kAsk, kYes), kYes);
}

TEST_F(StepUp, WaitFdIsReadableWhenTimeIsUp) {
  start({.timeout = std::chrono::milliseconds(50)});
  const auto silent = connect();
  EXPECT_TRUE(silent->pump_until([this] { return plain_->waiting() == 1; }));
  pollfd entry{plain_->wait_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 10'000), 1);
  plain_->progress();
  EXPECT_EQ(plain_->waiting(), 0U);
  EXPECT_EQ(::poll(&entry, 1, 0), 0) << "nothing is left to do";
}

TEST_F(StepUp, OldestMakesRoomWhenTooManyWait) {
  start({.timeout = std::chrono::seconds(60), .waiting_max = 4});
  std::vector<std::unique_ptr<RawPeer>> silent;
  for (std::size_t i = 0; i < 6; ++i) {
    silent.push_back(connect());
    const std::size_t expected = std::min<std::size_t>(i + 1, 4);
    EXPECT_TRUE(silent.back()->pump_until([&] { return plain_->waiting() == expected; }));
  }
  EXPECT_TRUE(silent[0]->receive_to_end());
  EXPECT_TRUE(silent[1]->receive_to_end());
  EXPECT_EQ(ask(*silent[2], kAsk, kYes), kYes);
  EXPECT_EQ(ask(*silent[5], kAsk, kYes), kYes);
}

TEST_F(StepUp, ServerThatStopsTakesNobodyOver) {
  const auto peer = connect();
  EXPECT_EQ(ask(*peer, kNull, kNullReply), kNullReply);
  server_->stop();
  pump();
  ASSERT_TRUE(peer->send(kAsk));
  EXPECT_TRUE(peer->receive_to_end());
  EXPECT_EQ(plain_->waiting(), 0U);
}

// --- What a client is told -----------------------------------------------------------------------

void expect_told(const std::string& url, Errc code, std::string_view text) {
  ClientOptions options;
  options.provider.setup_timeout_client = std::chrono::seconds(5);
  const auto client = blob::connect_and_step_up(url, options);
  ASSERT_FALSE(client) << url;
  EXPECT_EQ(client.error().code, code) << client.error().message();
  EXPECT_EQ(client.error().peer, url);
  EXPECT_NE(client.error().cause.find(text), std::string::npos) << client.error().message();
}

TEST_F(StepUp, ClientIsToldOfAServerThatDoesNotStepUp) {
  const std::string rdma = "tcp://" + std::string(server_->address());
  beside([&] { expect_told(rdma, Errc::kNotAvailable, "rpcrdma serve --tcp-port"); });
}

TEST_F(StepUp, ClientIsToldWhenNobodyIsThere) {
  const std::string gone = url();
  plain_.reset();
  expect_told(gone, Errc::kUnreachable, "is the server running");
}

TEST_F(StepUp, ClientIsToldOfUrlsThatAreNone) {
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
  peer->finish();
  thread.join();
}

TEST(StepUpClient, IsToldOfAnswersThatAreNone) {
  constexpr auto kNo = Errc::kNotAvailable;
  expect_told_of_answer({kLast | 24, 0, 1, 0, 0, 0, 1}, kNo, "does not serve the program");
  expect_told_of_answer({kLast | 24, 0, 1, 0, 0, 0, 3}, kNo, "does not have the procedure");
  expect_told_of_answer({kLast | 28, 0, 1, 0, 0, 0, 0, 1}, kNo, "another answer");
  expect_told_of_answer({kLast | 28, 0, 1, 0, 0, 0, 0, 7}, kNo, "another answer");
  expect_told_of_answer({kLast | 24, 0, 1, 0, 0, 0, 0}, kNo, "another answer");
  expect_told_of_answer({kLast | 4, 0}, kNo, "cannot be decoded");
  expect_told_of_answer({kLast | 2000}, kNo, "longer than any");
  expect_told_of_answer({}, kNo, "closed the connection");
  expect_told_of_answer({kLast | 28, 0, 1, 0, 0, 0, 0, 0}, Errc::kRefused, "agreed");
}

}  // namespace
}  // namespace rpcrdma
