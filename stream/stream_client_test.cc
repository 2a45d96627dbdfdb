#include "stream/stream_client.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <thread>

#include "rpcrdma/xdr.h"
#include "stream/record.h"

namespace rpcrdma::stream {
namespace {

using Words = std::vector<std::uint32_t>;
constexpr Procedure kProcedure{100000, 4, 3};

// The other end of a socket pair, with what a server would do in a thread of its own.
class Peer {
 public:
  explicit Peer(int descriptor) : descriptor_(descriptor) {}
  ~Peer() { ::close(descriptor_); }

  // The words of the next call; empty when there is none.
  Words receive() {
    std::uint32_t header = 0;
    if (::recv(descriptor_, &header, 4, MSG_WAITALL) != 4) return {};
    std::vector<std::byte> bytes(xdr::load_word(reinterpret_cast<std::byte*>(&header)) &
                                 ~kLastFragment);
    if (::recv(descriptor_, bytes.data(), bytes.size(), MSG_WAITALL) !=
        static_cast<ssize_t>(bytes.size())) {
      return {};
    }
    Words words(bytes.size() / 4);
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = xdr::load_word(&bytes[4 * i]);
    return words;
  }
  bool send(const Words& words) {
    std::vector<std::byte> bytes(words.size() * 4);
    xdr::Writer writer(bytes);
    for (const std::uint32_t word : words) writer.u32(word);
    return ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  // Until the client has closed.
  void wait_for_end() {
    std::byte byte;
    while (::recv(descriptor_, &byte, 1, 0) > 0) {
    }
  }

 private:
  int descriptor_;
};

// A client, and the thread that is its server.
class Pair {
 public:
  explicit Pair(std::function<void(Peer&)> serve, const StreamOptions& options = {}) {
    int descriptors[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, descriptors), 0);
    client.emplace(descriptors[0], "the fake server", options);
    thread_ = std::thread([descriptor = descriptors[1], serve = std::move(serve)] {
      Peer peer(descriptor);
      serve(peer);
    });
  }
  ~Pair() {
    client.reset();
    thread_.join();
  }

  std::optional<StreamClient> client;

 private:
  std::thread thread_;
};

// What a call ends with when the server answers with these words, whose first is replaced by the
// XID when it is 0.
Errc end_of(const Words& answer, const StreamOptions& options = {}) {
  Pair pair(
      [answer](Peer& peer) {
        const Words call = peer.receive();
        Words words = answer;
        if (words.size() > 1 && words[1] == 0 && !call.empty()) words[1] = call[0];
        peer.send(words);
        peer.wait_for_end();
      },
      options);
  const auto results = pair.client->call(kProcedure, {});
  EXPECT_FALSE(results);
  if (results) return Errc::kCanceled;
  EXPECT_EQ(results.error().peer, "the fake server");
  EXPECT_FALSE(results.error().cause.empty());
  return results.error().code;
}

TEST(StreamClient, CallGoesOutAsOneRecordAndItsResultsComeBack) {
  Words seen;
  {
    Pair pair([&seen](Peer& peer) {
      seen = peer.receive();
      peer.send({kLastFragment | 28, seen[0], 1, 0, 0, 0, 0, 4711});
    });
    const std::vector<std::byte> arguments(8, std::byte{0x11});
    const auto results = pair.client->call(kProcedure, arguments);
    ASSERT_TRUE(results) << results.error().message();
    ASSERT_EQ(results->size(), 4U);
    EXPECT_EQ(xdr::load_word(results->data()), 4711U);
  }
  const Words expected = {seen[0], 0, 2, 100000, 4, 3, 0, 0, 0, 0, 0x11111111, 0x11111111};
  EXPECT_EQ(seen, expected);
}

TEST(StreamClient, ConnectionIsUsedAgainAfterARefusalByTheProgram) {
  Pair pair([](Peer& peer) {
    Words call = peer.receive();
    peer.send({kLastFragment | 32, call[0], 1, 0, 0, 0, 2, 2, 3});
    const std::uint32_t first = call[0];
    call = peer.receive();
    EXPECT_NE(call[0], first);
    peer.send({12, call[0], 1, 0, kLastFragment | 12, 0, 0, 0});
  });
  const auto refused = pair.client->call(kProcedure, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kNotAvailable);
  EXPECT_NE(refused.error().cause.find("2 to 3"), std::string::npos);
  const auto results = pair.client->call(kProcedure, {});
  ASSERT_TRUE(results) << results.error().message();
  EXPECT_TRUE(results->empty());
}

TEST(StreamClient, GivesTheSocketAwayBehindTheLastReply) {
  Pair pair([](Peer& peer) {
    const Words call = peer.receive();
    peer.send({kLastFragment | 24, call[0], 1, 0, 0, 0, 0, 4711});  // and what is no record
    peer.wait_for_end();
  });
  ASSERT_TRUE(pair.client->call(kProcedure, {}));
  const Descriptor socket(pair.client->release());
  std::byte next[8];
  ASSERT_EQ(::recv(socket.value(), next, sizeof(next), 0), 4);
  EXPECT_EQ(xdr::load_word(next), 4711U);
  EXPECT_EQ(pair.client->release(), -1);
  EXPECT_EQ(pair.client->call(kProcedure, {}).error().code, Errc::kConnectionLost);
}

TEST(StreamClient, HostileRepliesAreRefusedAndEndTheConnection) {
  EXPECT_EQ(end_of({kLastFragment | 24, 1, 1, 0, 0, 0, 0}), Errc::kBadReply);  // another XID
  EXPECT_EQ(end_of({kLastFragment | 24, 0, 0, 0, 0, 0, 0}), Errc::kBadReply);  // a Call
  EXPECT_EQ(end_of({kLastFragment | 8, 0, 1}), Errc::kBadReply);               // cut off
  EXPECT_EQ(end_of({kLastFragment}), Errc::kBadReply);                         // nothing
  EXPECT_EQ(end_of({0x7fffffff, 0}), Errc::kBadReply);
  EXPECT_EQ(end_of(Words(1000, 0)), Errc::kBadReply);  // empty fragments
  EXPECT_EQ(end_of({kLastFragment | 28, 0, 1, 0, 0, 0, 0, 5}, {.record_size_max = 24}),
            Errc::kBadReply);
  Pair pair([](Peer& peer) {
    peer.receive();
    peer.send({kLastFragment});
    peer.wait_for_end();
  });
  EXPECT_FALSE(pair.client->call(kProcedure, {}));
  EXPECT_EQ(pair.client->call(kProcedure, {}).error().code, Errc::kConnectionLost);
}

TEST(StreamClient, PeerThatClosesIsTold) {
  Pair pair([](Peer& peer) {
    peer.receive();
    peer.send({kLastFragment | 24, 1, 1});
  });
  const auto results = pair.client->call(kProcedure, {});
  ASSERT_FALSE(results);
  EXPECT_EQ(results.error().code, Errc::kConnectionLost);
}

TEST(StreamClient, SilentPeerIsGivenUp) {
  EXPECT_EQ(end_of({kLastFragment | 24, 0, 1}, {.timeout = std::chrono::milliseconds(50)}),
            Errc::kTimedOut);
}

TEST(StreamClient, PeerThatAlwaysHasOneMoreByteIsGivenUp) {
  const auto start = std::chrono::steady_clock::now();
  Pair pair(
      [](Peer& peer) {
        peer.receive();
        peer.send({kLastFragment | 0x00ffffff});
        // Far more than it takes; until the client closes.
        while (peer.send({0})) {
          ::poll(nullptr, 0, 1);
        }
      },
      {.timeout = std::chrono::milliseconds(100), .record_size_max = 0x00ffffff});
  const auto results = pair.client->call(kProcedure, {});
  ASSERT_FALSE(results);
  EXPECT_EQ(results.error().code, Errc::kTimedOut);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(StreamClient, NobodyThereIsUnreachable) {
  const auto nothing = StreamClient::connect_unix("rpcbind", testing::TempDir() + "no-such.sock");
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, Errc::kUnreachable);
  EXPECT_EQ(StreamClient::connect_unix("rpcbind", std::string(200, 'x')).error().code,
            Errc::kUnreachable);
  EXPECT_EQ(StreamClient::connect_unix("rpcbind", "").error().code, Errc::kUnreachable);
  EXPECT_EQ(StreamClient::connect_tcp("rpcbind", "no.such.host.invalid", 111).error().code,
            Errc::kUnknownHost);
}

}  // namespace
}  // namespace rpcrdma::stream
