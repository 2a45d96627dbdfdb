#include "tcp/connection.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <memory>
#include <vector>

#include "rpcrdma/xdr.h"
#include "tcp/listener.h"

namespace rpcrdma::tcp {
namespace {

using Stream = std::vector<std::byte>;
using std::chrono::milliseconds;

Stream some_bytes(std::size_t size, std::uint32_t seed = 1) {
  Stream bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * seed + i / 251);
  return bytes;
}
Stream record_of(Bytes data) {
  const RecordMark mark = mark_of(data.size());
  Stream record(mark.begin(), mark.end());
  record.insert(record.end(), data.begin(), data.end());
  return record;
}

// A connection, and the test at its other end.
class ConnectionTest : public ::testing::Test {
 protected:
  void connect(const ConnectionOptions& options = {}) {
    const auto address = posix::parse_address("127.0.0.1:0");
    auto listener = Listener::open(*reactor, *address);
    ASSERT_TRUE(listener);
    const auto real = posix::parse_address((*listener)->address());
    peer = posix::Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(peer.value(), real->pointer(), real->size), 0);
    std::optional<Accepted> accepted;
    run_until([&] { return (accepted = (*listener)->accept()).has_value(); });
    auto opened = Connection::open(*reactor, std::move(*accepted), memory, options);
    ASSERT_TRUE(opened);
    connection = std::move(*opened);
  }
  void run_until(const std::function<bool()>& condition) {
    const Instant limit = posix::Reactor::now() + std::chrono::seconds(20);
    for (;;) {
      reactor->dispatch();
      if (condition()) return;
      ASSERT_LT(posix::Reactor::now(), limit) << "the condition never held";
      reactor->arm();
      pollfd fd{reactor->fd(), POLLIN, 0};
      ::poll(&fd, 1, 10);  // the peer may be what the condition is about
    }
  }
  void say(Bytes bytes) {
    ASSERT_EQ(::send(peer.value(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // Reads all that the connection has sent so far.
  void hear() {
    Stream bytes(1U << 16U);
    const ssize_t size = ::recv(peer.value(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    heard_end = size == 0;
    if (size > 0) heard.insert(heard.end(), bytes.begin(), bytes.begin() + size);
  }
  Stream next_message() {
    std::optional<Message> message;
    run_until([&] { return (message = connection->receive()).has_value() || connection->ended(); });
    if (!message) return {};
    return {message->bytes().begin(), message->bytes().end()};
  }
  // Sets a deadline, which stays when the record is here.
  void exchange_a_record_in_two_parts() {
    const Stream data = some_bytes(1'000);
    const Stream record = record_of(data);
    say(Bytes(record).first(100));
    run_until([&] { return !connection->receive() && !connection->is_between_records(); });
    say(Bytes(record).subspan(100));
    EXPECT_EQ(next_message(), data);
    EXPECT_FALSE(connection->receive());
  }
  // Time passes, and nobody dispatches.
  static void spin_until(Instant when) {
    while (posix::Reactor::now() < when) {
    }
  }
  void run_until_ended() {
    run_until([&] { return !connection->receive() && connection->ended(); });
  }
  void send_more_than_sockets_take() {
    sent = some_bytes(16U << 20U);
    const Bytes run(sent);
    ASSERT_TRUE(connection->send({&run, 1}));
    connection->flush();
  }

  std::unique_ptr<posix::Reactor> reactor = std::move(*posix::Reactor::make());
  HeapMemory memory;
  posix::Fd peer;
  Stream sent;  // from which the connection sends
  std::unique_ptr<Connection> connection;
  Stream heard;
  bool heard_end = false;
};

// Its connection would keep its place for a quarter of an hour.
TEST_F(ConnectionTest, PeerThatVanishesWithBytesUnderWayIsNoticedWithinAMinute) {
  connect();
  const std::optional<posix::Fd> socket = connection->release();
  ASSERT_TRUE(socket);
  int unanswered_ms = 0;
  socklen_t size = sizeof(unanswered_ms);
  ASSERT_EQ(::getsockopt(socket->value(), IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, &size), 0);
  EXPECT_EQ(unanswered_ms, 60'000);
}

TEST_F(ConnectionTest, HandsOutMessagesInTheirOrder) {
  connect();
  Stream stream;
  for (std::uint32_t i = 1; i <= 3; ++i) {
    const Stream record = record_of(some_bytes(100'000 * i, i));
    stream.insert(stream.end(), record.begin(), record.end());
  }
  std::size_t said = 0;
  std::vector<Stream> messages;
  run_until([&] {
    if (said < stream.size()) {
      const ssize_t size = ::send(peer.value(), stream.data() + said,
                                  std::min<std::size_t>(7'777, stream.size() - said), MSG_DONTWAIT);
      if (size > 0) said += static_cast<std::size_t>(size);
    }
    while (auto message = connection->receive()) {
      messages.emplace_back(message->bytes().begin(), message->bytes().end());
    }
    return messages.size() == 3;
  });
  for (std::uint32_t i = 1; i <= 3; ++i) {
    EXPECT_EQ(messages[i - 1], some_bytes(100'000 * i, i));
  }
  EXPECT_EQ(connection->bytes_received(), stream.size());
}

TEST_F(ConnectionTest, KeepsWhatWasReadAheadForTheNextMessage) {
  connect();
  Stream stream = record_of(some_bytes(40));
  const Stream second = record_of(some_bytes(50));
  stream.insert(stream.end(), second.begin(), second.end());
  say(stream);
  EXPECT_EQ(next_message(), some_bytes(40));
  EXPECT_TRUE(connection->has_more());
  EXPECT_TRUE(connection->receive().has_value());
  EXPECT_FALSE(connection->receive().has_value());
  EXPECT_FALSE(connection->has_more());
}

TEST_F(ConnectionTest, SendsRunsAsOneRecordAndSettlesItWhenAllOfItIsOut) {
  connect();
  const Stream data = some_bytes(8U << 20U);  // more than sockets hold
  const Bytes all(data);
  const Bytes runs[] = {all.first(44), all.subspan(44, 5'000'000), all.subspan(5'000'044)};
  ASSERT_TRUE(connection->send(runs));
  ASSERT_TRUE(connection->send({runs, 1}));
  connection->flush();
  EXPECT_EQ(connection->settled(), 0U);
  EXPECT_GT(connection->bytes_unsent(), 0U);
  Stream expected = record_of(data);
  const Stream second = record_of(runs[0]);
  expected.insert(expected.end(), second.begin(), second.end());
  run_until([&] {
    hear();
    return heard.size() >= expected.size();
  });
  EXPECT_TRUE(heard == expected);
  EXPECT_EQ(connection->settled(), 2U);
  EXPECT_EQ(connection->bytes_unsent(), 0U);
}

TEST_F(ConnectionTest, PeerWaitsWhileNobodyAsksForMessages) {
  connect();
  const Stream record = record_of(some_bytes(60'000));
  // The sockets take some megabytes; then sending would block.
  ssize_t size = 0;
  std::size_t said = 0;
  while ((size = ::send(peer.value(), record.data(), record.size(), MSG_DONTWAIT)) > 0) {
    said += static_cast<std::size_t>(size);
    reactor->dispatch();
    ASSERT_LT(said, 100U << 20U);
  }
  EXPECT_EQ(connection->bytes_received(), 0U);
  EXPECT_TRUE(connection->has_more());
  // The reactor has nothing to say about it meanwhile.
  reactor->dispatch();
  pollfd fd{reactor->fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&fd, 1, 0), 0);
  EXPECT_EQ(next_message(), some_bytes(60'000));
}

TEST_F(ConnectionTest, AnswersAPeerThatHasFinishedSending) {
  connect();
  say(record_of(some_bytes(10)));
  ::shutdown(peer.value(), SHUT_WR);
  EXPECT_EQ(next_message(), some_bytes(10));
  run_until([&] { return !connection->receive() && connection->peer_finished(); });
  EXPECT_FALSE(connection->ended());
  const Stream reply = some_bytes(20);
  const Bytes run(reply);
  ASSERT_TRUE(connection->send({&run, 1}));
  connection->finish();
  EXPECT_TRUE(connection->ended());
  EXPECT_EQ(connection->cause().kind, EndKind::kClosed);
  run_until([&] {
    hear();
    return heard_end;
  });
  EXPECT_EQ(heard, record_of(reply));
}

TEST_F(ConnectionTest, ResetEndsItAndSettlesWhatIsUnsent) {
  connect();
  send_more_than_sockets_take();
  const linger now{1, 0};
  ::setsockopt(peer.value(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  peer.close();
  run_until_ended();
  EXPECT_EQ(connection->cause().kind, EndKind::kLost);
  EXPECT_EQ(connection->cause().code, ECONNRESET);
  EXPECT_EQ(connection->settled(), 1U);
  const Bytes again(sent);
  ASSERT_TRUE(connection->send({&again, 1}));
  EXPECT_EQ(connection->settled(), 2U);
}

TEST_F(ConnectionTest, EndInsideOfARecordIsALoss) {
  connect();
  say(Bytes(record_of(some_bytes(100))).first(50));
  ::shutdown(peer.value(), SHUT_WR);
  run_until_ended();
  EXPECT_EQ(connection->cause().kind, EndKind::kLost);
  EXPECT_EQ(connection->cause().code, 0);
}

TEST_F(ConnectionTest, RestOfACallOverItsLimitIsReadInTurns) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  peer = posix::Fd(ends[0]);
  const ConnectionOptions options{.record = {.size_max = 100, .excess = Excess::kCutCalls}};
  connection =
      std::move(*Connection::open(*reactor, {posix::Fd(ends[1]), "local"}, memory, options));
  constexpr std::size_t kSize = 150'000;
  say(record_of(Stream(kSize)));  // zeros begin as a Call does
  run_until([&] { return connection->has_more(); });
  std::optional<Message> message;
  for (std::uint64_t before = 0; !message; before = connection->bytes_received()) {
    ASSERT_TRUE(connection->has_more());
    message = connection->receive();
    EXPECT_LE(connection->bytes_received() - before, 80U << 10U) << "others have their turn";
  }
  EXPECT_TRUE(message->is_cut());
  EXPECT_EQ(message->bytes().size(), 100U);
  EXPECT_EQ(connection->bytes_received(), kMarkSize + kSize);
  say(record_of(some_bytes(100)));
  EXPECT_EQ(next_message(), some_bytes(100));
}

TEST_F(ConnectionTest, RecordsBeyondTheLimitsEndIt) {
  connect({.record = {.size_max = 100, .fragments_max = 5}});
  say(record_of(some_bytes(100)));
  EXPECT_EQ(next_message(), some_bytes(100));
  say(record_of(some_bytes(101)));
  run_until_ended();
  EXPECT_EQ(connection->cause().kind, EndKind::kTooLarge);
  connect({.record = {.size_max = 100, .fragments_max = 5}});
  say(Stream(6 * kMarkSize));
  run_until_ended();
  EXPECT_EQ(connection->cause().kind, EndKind::kTooManyFragments);
}

TEST_F(ConnectionTest, SilentPeerInsideOfARecordIsDropped) {
  connect({.stall_timeout = milliseconds(30)});
  say(record_of(some_bytes(10)));
  EXPECT_EQ(next_message(), some_bytes(10));
  say(Stream(3));
  run_until_ended();
  EXPECT_EQ(connection->cause().kind, EndKind::kStalled);
}

// Whenever its time is over, there is another byte to be read.
TEST_F(ConnectionTest, PeerThatDripsIsDropped) {
  connect({.stall_timeout = milliseconds(30)});
  say(Bytes(record_of(some_bytes(1'000'000))).first(10));
  run_until([&] {
    if (connection->receive() || connection->ended()) return true;
    say(Stream(1));
    return false;
  });
  EXPECT_EQ(connection->cause().kind, EndKind::kStalled);
  EXPECT_EQ(connection->cause().code, 0) << "no call of the system has failed";
}

// It is not the peer's fault that nobody has read what it has sent.
TEST_F(ConnectionTest, PeerWhoseBytesWereLeftUnreadIsKept) {
  connect({.stall_timeout = milliseconds(30)});
  const Stream data = some_bytes(60'000);
  const Stream record = record_of(data);
  const Bytes all(record);
  say(all.first(1'000));
  run_until([&] { return !connection->receive() && !connection->is_between_records(); });
  say(all.subspan(1'000, 30'000));
  const Instant late = posix::Reactor::now() + milliseconds(60);
  run_until([&] { return posix::Reactor::now() > late; });
  EXPECT_FALSE(connection->receive());
  EXPECT_FALSE(connection->ended());
  say(all.subspan(31'000));
  EXPECT_EQ(next_message(), data);
}

// The deadline of the message before is still set, since nobody has dispatched.
TEST_F(ConnectionTest, MessageHasAllItsTimeHoweverLongTheConnectionRested) {
  connect({.stall_timeout = milliseconds(30), .send_timeout = milliseconds(30)});
  exchange_a_record_in_two_parts();
  spin_until(posix::Reactor::now() + milliseconds(40));
  const Stream data = some_bytes(100);
  const Bytes run(data);
  ASSERT_TRUE(connection->send({&run, 1}));
  reactor->dispatch();
  ASSERT_FALSE(connection->ended());
  connection->flush();
  run_until([&] {
    hear();
    return heard == record_of(data);
  });
}

// The deadline that is set when it begins is that of the record before.
TEST_F(ConnectionTest, RecordHasAllItsTimeHoweverLongTheConnectionRested) {
  constexpr auto kTime = milliseconds(60);
  for (bool was_in_time = false; !was_in_time;) {  // the test may be stopped for longer than that
    connect({.stall_timeout = kTime});
    exchange_a_record_in_two_parts();
    const Instant rests = posix::Reactor::now();
    spin_until(rests + kTime / 2);
    const Instant begins = posix::Reactor::now();
    say(Stream(3));
    run_until([&] { return !connection->receive() && !connection->is_between_records(); });
    spin_until(rests + kTime + milliseconds(1));
    reactor->dispatch();
    const bool has_ended = connection->ended();
    was_in_time = posix::Reactor::now() - begins < kTime;
    EXPECT_FALSE(was_in_time && has_ended);
  }
}

TEST_F(ConnectionTest, PeerThatDoesNotReadIsDropped) {
  connect({.send_timeout = milliseconds(30)});
  send_more_than_sockets_take();
  run_until_ended();
  EXPECT_EQ(connection->cause().kind, EndKind::kStalled);
}

// It would keep the memory of its replies for as long as it likes. In small buffers each read lets
// the connection send, which is progress.
TEST_F(ConnectionTest, PeerThatReadsALittleNowAndThenIsDropped) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const int size = 32 << 10;
  ASSERT_EQ(::setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
  peer = posix::Fd(ends[0]);
  const ConnectionOptions options{.send_timeout = milliseconds(300), .record_rate_min = 1U << 30U};
  connection =
      std::move(*Connection::open(*reactor, {posix::Fd(ends[1]), "local"}, memory, options));
  const Stream data(64U << 20U);
  const Bytes run(data);
  ASSERT_TRUE(connection->send({&run, 1}));
  connection->flush();
  Instant heard_at = posix::Reactor::now();
  run_until([&] {
    if (posix::Reactor::now() - heard_at > milliseconds(20)) {
      hear();  // 64 KiB at most: the whole would take 20 s
      heard.clear();
      heard_at = posix::Reactor::now();
    }
    (void)connection->receive();
    return connection->ended();
  });
  EXPECT_EQ(connection->cause().kind, EndKind::kStalled);
}

// A record that a peer has begun has its own time, whatever the peer takes of our messages.
TEST_F(ConnectionTest, PeerThatNeitherReadsNorEndsItsRecordIsDroppedForTheRecord) {
  connect({.stall_timeout = milliseconds(30)});
  send_more_than_sockets_take();
  const Instant late = posix::Reactor::now() + milliseconds(60);
  run_until([&] { return posix::Reactor::now() > late; });
  EXPECT_FALSE(connection->ended());
  say(Stream(3));
  run_until_ended();
  EXPECT_EQ(connection->cause().kind, EndKind::kStalled);
}

TEST_F(ConnectionTest, FinishSendsWhatWasHandedOverAndThenEnds) {
  connect();
  const Stream data = some_bytes(8U << 20U);
  const Bytes run(data);
  ASSERT_TRUE(connection->send({&run, 1}));
  connection->finish();
  EXPECT_FALSE(connection->ended());
  say(record_of(some_bytes(1000)));  // read and thrown away, so that nothing is lost by a reset
  run_until([&] {
    hear();
    return heard_end;
  });
  EXPECT_TRUE(heard == record_of(data));
  peer.close();
  run_until_ended();
  EXPECT_EQ(connection->cause().kind, EndKind::kClosed);
}

// Else the peer would wait until its bytes are taken, and not come to its own end.
TEST_F(ConnectionTest, FinishedConnectionTakesWhatThePeerStillSends) {
  connect();
  connection->finish();
  run_until([&] {
    hear();
    return heard_end;
  });
  const Stream rest(32U << 20U);  // more than sockets take
  std::size_t taken = 0;
  run_until([&] {
    const ssize_t size =
        ::send(peer.value(), rest.data() + taken, rest.size() - taken, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (size > 0) taken += static_cast<std::size_t>(size);
    return taken == rest.size() || connection->ended();
  });
  EXPECT_EQ(taken, rest.size());
  peer.close();
  run_until_ended();
  EXPECT_EQ(connection->cause().kind, EndKind::kClosed);
}

TEST_F(ConnectionTest, FinishedConnectionDoesNotWaitForEverForThePeersEnd) {
  connect({.linger = milliseconds(20)});
  connection->finish();
  run_until_ended();
  EXPECT_EQ(connection->cause().kind, EndKind::kClosed);
}

TEST_F(ConnectionTest, ReleasesTheSocketExactlyBehindARecord) {
  connect({.read_ahead = false});
  Stream stream;
  for (int i = 0; i < 20; ++i) {  // many fragments, whose marks are read one by one
    const Stream piece = some_bytes(5);
    Stream record = record_of(piece);
    if (i < 19) record[0] = std::byte{0};
    stream.insert(stream.end(), record.begin(), record.end());
  }
  const std::size_t size = stream.size();
  const Stream behind = some_bytes(33, 9);
  stream.insert(stream.end(), behind.begin(), behind.end());
  say(stream);
  EXPECT_EQ(next_message().size(), 100U);
  EXPECT_EQ(connection->bytes_received(), size);
  const Stream reply = some_bytes(24);
  const Bytes run(reply);
  ASSERT_TRUE(connection->send({&run, 1}));
  connection->flush();
  const auto socket = connection->release();
  ASSERT_TRUE(socket.has_value());
  EXPECT_TRUE(connection->ended());
  Stream rest(100);
  ASSERT_EQ(::recv(socket->value(), rest.data(), rest.size(), 0), 33);
  rest.resize(33);
  EXPECT_EQ(rest, behind);
  run_until([&] {
    hear();
    return heard.size() == kMarkSize + 24;
  });
  EXPECT_EQ(::send(socket->value(), "x", 1, MSG_NOSIGNAL), 1);
}

TEST_F(ConnectionTest, ReleasesNothingWhenBytesWereReadAheadOrAreUnsent) {
  connect();
  Stream stream = record_of(some_bytes(5));
  stream.push_back(std::byte{1});
  say(stream);
  EXPECT_EQ(next_message().size(), 5U);
  EXPECT_FALSE(connection->release().has_value());
  EXPECT_FALSE(connection->ended());
  connect({.read_ahead = false});
  send_more_than_sockets_take();
  EXPECT_FALSE(connection->release().has_value());
}

// --- The connecting side -----------------------------------------------------------------------

class ConnectingTest : public ConnectionTest {
 protected:
  void listen() {
    listener = std::move(*Listener::open(*reactor, *posix::parse_address("127.0.0.1:0")));
    address = *posix::parse_address(listener->address());
  }
  void accept() {
    std::optional<Accepted> accepted;
    run_until([&] { return (accepted = listener->accept()).has_value(); });
    connection = std::move(*Connection::open(*reactor, std::move(*accepted), memory, {}));
  }
  std::unique_ptr<Listener> listener;
  posix::Address address;
};

TEST_F(ConnectingTest, MessagesThatWereHandedOverBeforeGoOutWhenItIsConnected) {
  listen();
  auto client = std::move(*Connection::connect(*reactor, address, memory, {}));
  EXPECT_EQ(client->peer_address(), listener->address());
  const Stream call = some_bytes(300'000, 3);
  const Bytes run(call);
  ASSERT_TRUE(client->send({&run, 1}));
  client->flush();
  accept();
  EXPECT_EQ(next_message(), call);
  EXPECT_TRUE(client->connected());
  ASSERT_TRUE(connection->send({&run, 1}));
  connection->flush();
  std::optional<Message> reply;
  run_until([&] { return (reply = client->receive()).has_value(); });
  EXPECT_TRUE(std::ranges::equal(reply->bytes(), call));
  client->finish();
  run_until([&] { return !connection->receive() && connection->peer_finished(); });
  connection->finish();
  run_until([&] { return client->ended(); });
  EXPECT_EQ(client->cause().kind, EndKind::kClosed);
}

TEST_F(ConnectingTest, RefusalEndsIt) {
  listen();
  listener.reset();
  auto client = Connection::connect(*reactor, address, memory, {});
  if (!client) {  // the system may know at once
    EXPECT_EQ(client.error().code, ECONNREFUSED);
    return;
  }
  run_until([&] { return (*client)->ended(); });
  EXPECT_FALSE((*client)->connected());
  EXPECT_EQ((*client)->cause().kind, EndKind::kLost);
  EXPECT_EQ((*client)->cause().code, ECONNREFUSED);
}

TEST_F(ConnectingTest, SilenceEndsItInTime) {
  // A socket whose queue is full answers no more attempts.
  const posix::Fd full(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  address = *posix::parse_address("127.0.0.1:0");
  ASSERT_EQ(::bind(full.value(), address.pointer(), address.size), 0);
  ASSERT_EQ(::listen(full.value(), 0), 0);
  ASSERT_EQ(::getsockname(full.value(), address.pointer(), &address.size), 0);
  std::vector<std::unique_ptr<Connection>> clients;
  const ConnectionOptions options{.connect_timeout = milliseconds(300)};
  const auto has_timed_out = [](const auto& each) {
    return !each->connected() && each->cause().kind == EndKind::kStalled;
  };
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::move(*Connection::connect(*reactor, address, memory, options)));
  }
  run_until([&] { return std::ranges::any_of(clients, has_timed_out); });
}

// Memory that the test gives out.
class Tap final : public Memory {
 public:
  MutableBytes take(std::size_t size, std::size_t whole) override {
    if (!open) return {};
    ++given;
    return heap_.take(size, whole);
  }
  void give_back(MutableBytes buffer) override {
    --given;
    heap_.give_back(buffer);
  }
  bool open = false;
  int given = 0;  // buffers

 private:
  HeapMemory heap_;
};

TEST(ConnectionMemory, ReceivingGoesOnWhenThereIsSomeAgain) {
  auto reactor = std::move(*posix::Reactor::make());
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  const posix::Fd peer(pair[1]);
  Tap memory;
  auto connection =
      std::move(*Connection::open(*reactor, {posix::Fd(pair[0]), "local"}, memory, {}));
  const Stream record = record_of(some_bytes(1000));
  ASSERT_EQ(::send(peer.value(), record.data(), record.size(), 0), 1004);
  reactor->dispatch();
  EXPECT_FALSE(connection->receive().has_value());
  EXPECT_TRUE(connection->starved());
  EXPECT_FALSE(connection->has_more());
  memory.open = true;
  const auto message = connection->receive();
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(message->bytes().size(), 1000U);
}

TEST(ConnectionMemory, PeerThatWaitsForItIsNotSaidToStall) {
  auto reactor = std::move(*posix::Reactor::make());
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  const posix::Fd peer(pair[1]);
  Tap memory;
  auto connection = std::move(*Connection::open(*reactor, {posix::Fd(pair[0]), "local"}, memory,
                                                {.stall_timeout = milliseconds(20)}));
  const Stream record = record_of(some_bytes(1000));
  ASSERT_EQ(::send(peer.value(), record.data(), record.size(), 0), 1004);
  const Instant limit = posix::Reactor::now() + std::chrono::seconds(20);
  while (!connection->ended() && posix::Reactor::now() < limit) {
    reactor->dispatch();
    EXPECT_FALSE(connection->receive().has_value());
    connection->flush();
  }
  EXPECT_EQ(connection->cause().kind, EndKind::kStalled);
  EXPECT_EQ(connection->cause().code, ENOMEM);
}

class ConnectionInARecord : public ::testing::Test {
 protected:
  void SetUp() override {
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    peer_ = posix::Fd(pair[1]);
    memory_.open = true;
    connection_ =
        std::move(*Connection::open(*reactor_, {posix::Fd(pair[0]), "local"}, memory_, {}));
    const Stream record = record_of(some_bytes(1000));
    ASSERT_EQ(::send(peer_.value(), record.data(), 500, 0), 500);
    reactor_->dispatch();
    EXPECT_FALSE(connection_->receive().has_value());
    EXPECT_EQ(memory_.given, 1);
  }

  std::unique_ptr<posix::Reactor> reactor_ = std::move(*posix::Reactor::make());
  posix::Fd peer_;
  Tap memory_;
  std::unique_ptr<Connection> connection_;
};

TEST_F(ConnectionInARecord, GivesItsMemoryBackWhenItEnds) {
  connection_->abort();
  EXPECT_EQ(memory_.given, 0);
}

TEST_F(ConnectionInARecord, GivesItsMemoryBackWhenItReceivesNothingMore) {
  connection_->finish();
  EXPECT_FALSE(connection_->ended()) << "the peer has time to end its side";
  EXPECT_EQ(memory_.given, 0);
  EXPECT_FALSE(connection_->receive().has_value());
}

// --- A look at the peer ------------------------------------------------------------------------

TEST_F(ConnectionTest, LookingAtThePeerReadsNothing) {
  connect();
  EXPECT_EQ(connection->look_at_peer(), PeerState::kQuiet);
  const Stream record = record_of(some_bytes(40));
  say(Bytes(record).first(1));
  run_until([&] { return connection->look_at_peer() == PeerState::kTalks; });
  say(Bytes(record).subspan(1));
  EXPECT_EQ(next_message(), some_bytes(40));
  EXPECT_EQ(connection->look_at_peer(), PeerState::kQuiet);
  ASSERT_EQ(::shutdown(peer.value(), SHUT_WR), 0);
  run_until([&] { return connection->look_at_peer() == PeerState::kHasEnded; });
  EXPECT_FALSE(connection->ended()) << "it may have an answer to send";
}

// The system reports a reset to the first who asks.
TEST_F(ConnectionTest, LookingAtAPeerThatHasResetItEndsTheConnectionWithItsReason) {
  connect();
  const linger reset{1, 0};
  ASSERT_EQ(::setsockopt(peer.value(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
  peer = {};  // the reactor has not seen it when somebody looks
  const Instant limit = posix::Reactor::now() + std::chrono::seconds(20);
  while (connection->look_at_peer() == PeerState::kQuiet && posix::Reactor::now() < limit) {
  }
  EXPECT_EQ(connection->look_at_peer(), PeerState::kHasEnded);
  EXPECT_EQ(connection->cause().kind, EndKind::kLost);
  EXPECT_EQ(connection->cause().code, ECONNRESET);
}

// --- Listener ----------------------------------------------------------------------------------

// A service manager, or a parent, may have the same socket.
TEST_F(ConnectionTest, ListenerRestsWhenAnotherHasShutItsSocketDown) {
  const posix::Fd other(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::listen(other.value(), 1), 0);
  auto listener = std::move(*Listener::take_over(*reactor, posix::Fd(::dup(other.value()))));
  ASSERT_EQ(::shutdown(other.value(), SHUT_RDWR), 0);
  for (int i = 0; i < 10; ++i) {
    reactor->dispatch();
    EXPECT_FALSE(listener->accept().has_value());
  }
}

TEST_F(ConnectionTest, ListenerRestsWhileThereAreNoDescriptors) {
  auto listener = std::move(*Listener::open(*reactor, *posix::parse_address("127.0.0.1:0")));
  const auto real = posix::parse_address(listener->address());
  peer = posix::Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(peer.value(), real->pointer(), real->size), 0);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  reactor->dispatch();  // before: UBSan's checks need descriptors themselves
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto refused = listener->accept();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  reactor->arm();
  pollfd fd{reactor->fd(), POLLIN, 0};
  EXPECT_FALSE(refused.has_value());
  EXPECT_EQ(listener->poll_failure(), EMFILE);
  EXPECT_EQ(listener->poll_failure(), std::nullopt);
  EXPECT_EQ(::poll(&fd, 1, 0), 0) << "the loop would spin";
  run_until([&] { return listener->accept().has_value(); });
}

TEST_F(ConnectionTest, ListenerKnowsThePeerOfAConnectionThatWasResetBeforeItWasTaken) {
  auto listener = std::move(*Listener::open(*reactor, *posix::parse_address("127.0.0.1:0")));
  const auto real = posix::parse_address(listener->address());
  peer = posix::Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(peer.value(), real->pointer(), real->size), 0);
  posix::Address own;
  own.size = sizeof(own.storage);
  ASSERT_EQ(::getsockname(peer.value(), own.pointer(), &own.size), 0);
  const linger reset{1, 0};
  ASSERT_EQ(::setsockopt(peer.value(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
  peer = {};
  std::optional<Accepted> accepted;
  run_until([&] { return (accepted = listener->accept()).has_value(); });
  EXPECT_EQ(accepted->peer, posix::to_string(own));
  const auto opened = Connection::open(*reactor, std::move(*accepted), memory, {});
  ASSERT_TRUE(opened);
  EXPECT_EQ((*opened)->peer_address(), posix::to_string(own));
}

TEST(Listener, SaysWhyItCannotListen) {
  auto reactor = std::move(*posix::Reactor::make());
  const auto first = Listener::open(*reactor, *posix::parse_address("127.0.0.1:0"));
  ASSERT_TRUE(first);
  const auto second = Listener::open(*reactor, *posix::parse_address((*first)->address()));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, EADDRINUSE);
  EXPECT_STREQ(second.error().operation, "bind");
}

}  // namespace
}  // namespace rpcrdma::tcp
