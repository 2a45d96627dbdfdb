// Servers of version two that share no code with the library: what they grant, how few Receives
// they have, how large messages get, and floods. Each call of the client ends exactly once.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rpcrdma/version_two.h"
#include "support/checked_reply.h"
#include "system/version_two_server_for_test.h"

namespace rpcrdma::test {
namespace {

using draft::Seen;

class ServerCredits : public VersionTwoServer {
 protected:
  // Serves calls with exactly the Receives that it grants. One that an option took comes back with
  // the next message of the server, as the client cannot know of it earlier (B6).
  void serve_strictly(std::uint32_t credits, std::size_t count) {
    receives_ = 1;  // until the first grant there is one message (A4)
    reposts_ = false;
    handle_ = [credits](VersionTwoPeer& peer, const Seen& seen) {
      if (!is_call(seen)) return;  // the client makes itself known
      peer.post(credits);
      peer.send(reply_to(seen, credits));
    };
    connect();
    handle_ = keep();
    for (std::size_t i = 0; i < count; ++i) start();
    for (std::size_t i = 0; i < count; ++i) {
      time_.settle();
      ASSERT_FALSE(calls_.empty()) << "the client sends no more Calls";
      ASSERT_LE(calls_.size(), credits);
      const Seen call = calls_.front();
      calls_.erase(calls_.begin());
      const auto taken = static_cast<std::uint32_t>(peer().posted() + calls_.size());
      if (taken < credits) peer().post(credits - taken);
      peer().send(reply_to(call, credits));
    }
    time_.settle();
    EXPECT_EQ(ends_, std::vector<std::vector<CallEnd>>(count, {std::nullopt}));
  }
  // Answers the kept Calls with this grant.
  void answer_calls(std::uint32_t grant) {
    const std::vector<Seen> calls = std::exchange(calls_, {});
    for (const Seen& call : calls) peer().send(reply_to(call, grant));
    time_.settle();
  }
};

TEST_F(ServerCredits, LimitTheClientToOneMessage) {
  serve_strictly(1, 6);
}
TEST_F(ServerCredits, LimitTheClientToTwoMessages) {
  serve_strictly(2, 12);
}
TEST_F(ServerCredits, LimitTheClientToFiveMessages) {
  serve_strictly(5, 20);
}

// A4: nothing goes out behind the offer before its answer.
TEST_F(ServerCredits, AreOneBeforeTheFirstReply) {
  receives_ = 1;
  reposts_ = false;
  handle_ = keep();
  begin();
  time_.settle();
  EXPECT_EQ(calls_.size(), 1U);
  peer().post(kReceives);
  answer_calls(8);
  EXPECT_TRUE(client_->connected());
}

TEST_F(ServerCredits, CountAsOneIfZero) {  // V1-C3
  handle_ = [](VersionTwoPeer& peer, const Seen& seen) {
    if (is_call(seen)) peer.send(reply_to(seen, 0));
  };
  connect();
  for (int i = 0; i < 5; ++i) expect_served();
}

// V1-C5: what is under way stays so, and nothing is added before fewer than the grant are.
TEST_F(ServerCredits, MayShrinkWhileCallsAreUnderWay) {
  connect();
  for (int i = 0; i < 2; ++i) expect_served();  // so that no option counts any more
  handle_ = keep();
  for (int i = 0; i < 12; ++i) start();
  time_.settle();
  ASSERT_EQ(calls_.size(), 8U);
  std::vector<Seen> calls = std::exchange(calls_, {});
  for (std::size_t i = 0; i < 6; ++i) peer().send(reply_to(calls[i], 2));
  time_.settle();
  EXPECT_EQ(calls_.size(), 0U) << "two are under way, and the grant is two";
  peer().send(reply_to(calls[6], 2));
  time_.settle();
  EXPECT_EQ(calls_.size(), 1U);
  peer().send(reply_to(calls[7], 2));
  time_.settle();
  EXPECT_EQ(calls_.size(), 2U);
  answer_calls(2);
  answer_calls(2);
  expect_ends();
}

// V1-C4: no more than the client asked for, in the credit words of its own Calls.
TEST_F(ServerCredits, AreCappedByTheClientsWish) {
  handle_ = [](VersionTwoPeer& peer, const Seen& seen) {
    if (is_call(seen)) peer.send(reply_to(seen, 0xffffffff));
  };
  connect();
  for (int i = 0; i < 2; ++i) expect_served();
  handle_ = keep();
  for (int i = 0; i < 30; ++i) start();
  time_.settle();
  ASSERT_FALSE(calls_.empty());
  EXPECT_EQ(calls_.size(), calls_.front().credit);
  EXPECT_EQ(calls_.front().credit, 8U);
  for (int i = 0; i < 4; ++i) answer_calls(0xffffffff);
  expect_ends();
}

// An error grants as a reply does (V1-C11).
TEST_F(ServerCredits, AreGrantedByErrors) {
  handle_ = [](VersionTwoPeer& peer, const Seen& seen) {
    if (is_call(seen)) peer.send(reply_to(seen, 1));
  };
  connect();
  handle_ = keep();
  for (int i = 0; i < 5; ++i) start();
  time_.settle();
  ASSERT_EQ(calls_.size(), 1U);
  const Seen call = std::exchange(calls_, {}).front();
  send(draft::error(call.xid, 4, draft::kErrBadHeader));
  EXPECT_EQ(end_of(0), std::vector<CallEnd>{Errc::kChunk});
  EXPECT_EQ(calls_.size() + others_.size(), 4U) << "an option may be one of the four";
  for (int i = 0; i < 4; ++i) answer_calls(4);
  expect_ends();
}

// --- The client's own options

class ClientOptionsOnTheWire : public ServerCredits {
 protected:
  void begin_and_keep_options(const ClientOptions& options = VersionTwoServer::options()) {
    handle_ = [this](VersionTwoPeer& peer, const Seen& seen) {
      if (!is_call(seen)) others_.push_back(seen);
      serve(peer, seen);
    };
    connect(options);
    for (int i = 0; i < 2; ++i) expect_served();
    time_.settle();
  }
  std::optional<std::uint32_t> said_;  // the client's Receive size, by its last UPDXCH
};

// B3, B4: one INITXCH without payload, of values that there are.
TEST_F(ClientOptionsOnTheWire, AreOneInitxchWithEachValueOnce) {
  begin_and_keep_options();
  ASSERT_EQ(others_.size(), 1U);
  const Seen& seen = others_.front();
  EXPECT_TRUE(seen.is_option(draft::kInitxch)) << draft::to_string(seen);
  EXPECT_EQ(seen.direction, draft::kCall);
  EXPECT_TRUE(seen.payload.empty());
  draft::Words nochg;
  const auto values = draft::decode_values(seen, &nochg);
  ASSERT_TRUE(values);
  EXPECT_LE(nochg.size(), 1U);
  std::vector<std::uint32_t> ids;
  for (const draft::Value& value : *values) {
    ids.push_back(value.id);
    ASSERT_EQ(value.data.size(), 1U);
    if (value.id == draft::kRbsiz) {
      EXPECT_EQ(value.data[0], 4096U);
    }
    if (value.id == draft::kBrs) {
      EXPECT_EQ(value.data[0], std::uint32_t{draft::kBrsNone}) << "it serves no calls";
    }
  }
  std::ranges::sort(ids);
  EXPECT_EQ(ids, (draft::Words{draft::kRbsiz, draft::kReqreminv, draft::kBrs}));
}

TEST_F(ClientOptionsOnTheWire, HaveNoCreditWordOfZero) {  // bis-02 §7.2.1
  begin_and_keep_options();
  ASSERT_TRUE(client_->version_two().request_receive_size(8192, {}));
  time_.settle();
  EXPECT_EQ(others_.size(), 2U);
  EXPECT_EQ(peer().zero_credits(), std::vector<std::string>());
}

TEST_F(ClientOptionsOnTheWire, HaveNoCreditWordOfZeroInUpdates) {
  begin_and_keep_options();
  ASSERT_TRUE(client_->version_two().raise_receive_size(8192));
  handle_ = [this](VersionTwoPeer& peer, const Seen& seen) {
    serve(peer, seen);
    if (seen.is_option(draft::kReqxch)) {
      peer.send(
          draft::option(seen.xid, 16, draft::kReply, draft::kRespxch, draft::respxch(1, 0, 0)));
    }
    if (const auto update = draft::decode_updxch(seen)) said_ = update->now.data.at(0);
    if (!is_call(seen)) others_.push_back(seen);
  };
  for (int i = 0; i < 50 && !said_; ++i) expect_served();
  EXPECT_EQ(said_, 8192U);
  for (const Seen& seen : others_) EXPECT_GE(seen.credit, 1U) << draft::to_string(seen);
}

// B6: a server without the extension keeps the client from sending more of it, and from no Call.
TEST_F(ClientOptionsOnTheWire, AreNoMoreWhereTheServerDoesNotKnowThem) {
  handle_ = [this](VersionTwoPeer& peer, const Seen& seen) {
    serve(peer, seen);
    if (is_call(seen)) return;
    others_.push_back(seen);
    peer.send(draft::error(seen.xid, 16, draft::kErrInvalOption));
  };
  connect();
  for (int i = 0; i < 4; ++i) expect_served();
  EXPECT_EQ(others_.size(), 1U);
}

TEST_F(ClientOptionsOnTheWire, MayBeAnsweredByBadHeader) {
  handle_ = [](VersionTwoPeer& peer, const Seen& seen) {
    serve(peer, seen);
    if (!is_call(seen)) peer.send(draft::error(seen.xid, 16, draft::kErrBadHeader));
  };
  connect();
  for (int i = 0; i < 4; ++i) expect_served();
}

// --- Floods, and the end

TEST_F(ServerCredits, AreNotNeededForManyOptionsOneByOne) {
  connect();
  const Seen call = started();
  others_.clear();
  for (std::uint32_t i = 0; i < 100; ++i) {
    send(draft::option(0x33000000 + i, 16, draft::kCall, 5 + i, {i}));
    ASSERT_EQ(others_.size(), i + 1);
    EXPECT_TRUE(others_.back().is_error(draft::kErrInvalOption));
    EXPECT_EQ(others_.back().xid, 0x33000000 + i);
  }
  send(reply_to(call));
  EXPECT_EQ(ends_.back(), std::vector<CallEnd>{std::nullopt});
}

TEST_F(ServerCredits, AreNotNeededForTwoOptionsAtATime) {  // B6
  connect();
  const Seen call = started();
  for (std::uint32_t i = 0; i < 20; ++i) {
    peer().send(draft::option(0x33000000 + i, 16, draft::kCall, 5, {}));
    send(draft::option(0x34000000 + i, 16, draft::kCall, draft::kUpdxch,
                       draft::updxch(draft::value(draft::kRbsiz, 4096 + i), false)));
  }
  EXPECT_TRUE(ends_.back().empty());
  send(reply_to(call));
  EXPECT_EQ(ends_.back(), std::vector<CallEnd>{std::nullopt});
}

TEST_F(ServerCredits, DoNotSaveAServerThatFloodsItsClient) {
  connect();
  started();
  breaks_rules_ = true;
  for (std::uint32_t i = 0; i < 300; ++i) {
    peer().send(draft::option(0x33000000 + i, 16, draft::kCall, 5, {}));
  }
  EXPECT_TRUE(time_.run_until([this] { return !ends_.back().empty(); }));
  EXPECT_EQ(ends_.back(), std::vector<CallEnd>{Errc::kConnectionLost});
  EXPECT_FALSE(client_->connected());
}

TEST_F(ServerCredits, EndWithTheConnection) {
  connect();
  handle_ = keep();
  for (int i = 0; i < 3; ++i) start();
  time_.settle();
  peer().disconnect();
  time_.settle();
  EXPECT_EQ(ends_, (std::vector<std::vector<CallEnd>>(3, {Errc::kConnectionLost})));
}

TEST_F(ServerCredits, DoNotKeepACallFromItsTimeOut) {
  connect();
  started();
  EXPECT_TRUE(time_.run_until([this] { return !ends_.back().empty(); }));
  EXPECT_EQ(ends_.back(), std::vector<CallEnd>{Errc::kTimedOut});
}

// --- Sizes

draft::Words reply_of(const Seen& call, std::uint32_t message_size) {
  const std::uint32_t words = (message_size - 32 - 24) / 4;
  return draft::msg(call.xid, 16, draft::kReply, draft::rpc_reply(call.xid, draft::Words(words)));
}

TEST_F(ServerCredits, LetRepliesOf4096BytesCome) {  // A3
  connect();
  const Seen call = started();
  send(reply_of(call, 4096));
  EXPECT_EQ(ends_.back(), std::vector<CallEnd>{std::nullopt});
  expect_ends();
}

TEST_F(ServerCredits, LetNoLongerReplyCome) {
  connect();
  const Seen call = started();
  breaks_rules_ = true;
  send(reply_of(call, 4100));
  EXPECT_EQ(ends_.back(), std::vector<CallEnd>{Errc::kConnectionLost});
}

class SizesOfTheServer : public ServerCredits {
 protected:
  static constexpr std::uint32_t kLarge = 16'384;
  static ClientOptions large() {
    ClientOptions some = options();
    some.connection.inline_size = kLarge;
    some.connection.reduce_size_min = 65'536;
    return some;
  }
  // Makes a call with so many words of arguments and returns its Call.
  Seen call_of(std::uint32_t argument_words) {
    handle_ = keep();
    start(1, argument_words);
    time_.settle();
    EXPECT_EQ(calls_.size(), 1U);
    const Seen call = calls_.empty() ? Seen{} : calls_.front();
    answer_calls(16);
    EXPECT_EQ(ends_.back(), std::vector<CallEnd>{std::nullopt});
    return call;
  }
  void say_size(std::uint32_t size, draft::OptionType type) {
    const draft::Words value = draft::value(draft::kRbsiz, size);
    send(draft::option(
        0x33000001, 16, draft::kCall, type,
        type == draft::kInitxch ? draft::initxch({value}) : draft::updxch(value, false)));
  }
};

// A3: 4096 bytes are what everybody has, whatever the client could send.
TEST_F(SizesOfTheServer, Are4096BytesUntilItSaysMore) {
  connect(large());
  EXPECT_TRUE(call_of(900).is(draft::kMsg));
  EXPECT_TRUE(call_of(1100).is(draft::kNomsg)) << "a Long Call";
  EXPECT_LE(peer().received_size_max(), 4096U);
}

TEST_F(SizesOfTheServer, CountFromItsWordOn) {
  for (const auto type : {draft::kInitxch, draft::kUpdxch}) {
    reposts_ = true;
    connect(large());
    EXPECT_TRUE(call_of(1100).is(draft::kNomsg));
    EXPECT_LE(peer().received_size_max(), 4096U);
    peer().repost(false);  // what is posted now comes in front of the larger ones, and is used up
    while (peer().posted() > 0) call_of(1);
    peer().post(kReceives, kLarge);
    peer().repost(true);
    say_size(kLarge, type);
    EXPECT_TRUE(call_of(4000).is(draft::kMsg));
    EXPECT_GT(peer().received_size_max(), 16'000U);
    EXPECT_TRUE(call_of(4100).is(draft::kNomsg));
    client_.reset();
    handle_ = &serve;
  }
}

TEST_F(SizesOfTheServer, ChangeWhileCallsAreUnderWay) {
  connect(large());
  handle_ = keep();
  start(1, 1100);
  start(1, 900);
  time_.settle();
  ASSERT_EQ(calls_.size(), 2U);
  peer().repost(false);
  VersionTwoPeer& mine = peer();
  while (mine.posted() > 0) {
    send(draft::option(0x35000000, 16, draft::kCall, 77, {}));  // its answer takes one
  }
  mine.post(kReceives, 8192);
  mine.repost(true);
  say_size(8192, draft::kUpdxch);
  start(1, 1900);
  start(1, 2100);
  time_.settle();
  ASSERT_EQ(calls_.size(), 4U);
  EXPECT_TRUE(calls_[2].is(draft::kMsg));
  EXPECT_TRUE(calls_[3].is(draft::kNomsg));
  answer_calls(16);
  expect_ends();
  EXPECT_LE(mine.received_size_max(), 8192U);
}

// who asks for smaller Receives keeps to them at once, and sends more again once rejected.
TEST_F(SizesOfTheServer, LimitTheClientThatAskedForLess) {
  receives_ = 0;
  handle_ = &serve;
  begin(large());
  ASSERT_TRUE(time_.run_until([this] { return !peers_.empty(); }));
  peer().post(kReceives, kLarge);
  ASSERT_TRUE(time_.run_until([this] { return client_->connected(); }));
  time_.settle();
  say_size(kLarge, draft::kInitxch);
  EXPECT_TRUE(call_of(3000).is(draft::kMsg));
  others_.clear();
  std::optional<ChangeResult> result;
  ASSERT_TRUE(
      client_->version_two().request_receive_size(8192, [&](ChangeResult end) { result = end; }));
  time_.settle();
  ASSERT_EQ(others_.size(), 1U);
  EXPECT_TRUE(call_of(3000).is(draft::kNomsg)) << "while the request is open";
  send(draft::option(others_[0].xid, 16, draft::kReply, draft::kRespxch, draft::respxch(0, 1, 0)));
  EXPECT_EQ(result, ChangeResult::kRejected);
  EXPECT_TRUE(call_of(3000).is(draft::kMsg)) << "it is rejected";
}

// --- Long replies

TEST_F(ServerCredits, LetALongReplyCome) {
  connect();
  handle_ = keep();
  ends_.emplace_back();
  auto call = client_->prepare({kProgram, 1, 1});
  ASSERT_TRUE(call);
  call->expect_results(20'000);
  std::size_t results = 0;
  ASSERT_TRUE(client_->start(std::move(*call), [&](auto reply) {
    ends_.back().push_back(reply ? std::nullopt : CallEnd(reply.error().code));
    if (reply) results = read(*reply)->xdr().rest().size();
  }));
  time_.settle();
  ASSERT_EQ(calls_.size(), 1U);
  const Seen& seen = calls_.front();
  ASSERT_FALSE(seen.reply_chunk.empty()) << "V1-P1";
  const draft::Words reply = draft::rpc_reply(seen.xid, draft::Words(2000, 7));
  draft::Segment segment = seen.reply_chunk.front();
  ASSERT_GE(segment.size, 4 * reply.size());
  peer().write(reply, segment);
  segment.size = static_cast<std::uint32_t>(4 * reply.size());
  send(draft::nomsg(seen.xid, 16, draft::kReply,
                    draft::join({{0, 0, 1}, draft::chunk_of(segment)})));
  EXPECT_EQ(ends_.back(), std::vector<CallEnd>{std::nullopt});
  EXPECT_EQ(results, 8000U);
}

}  // namespace
}  // namespace rpcrdma::test
