// Tests the announcements of both sides of a connection of version 2, and their consequences
// (draft-dnoveck-nfsv4-rpcrdma-xcharext-02; rules of docs/conformance.md).
#include "engine/v2/characteristics.h"

#include <gtest/gtest.h>

#include "engine/v2/option_side_for_test.h"

namespace rpcrdma::engine {
namespace {

using v2::CharacteristicValue;

TEST_F(ClientSide, MakesItselfKnownWhenTheOfferIsTaken) {
  start(1);
  ASSERT_TRUE(sent());
  EXPECT_FALSE(sent()) << "the peer may have version 1 only";
  reply(1);
  EXPECT_EQ(told(), "INITXCH 1=8192 2=1 3=0");
  start(2);
  ASSERT_TRUE(sent());
  reply(2);
  EXPECT_FALSE(sent()) << "once is enough";
}

TEST_F(ClientSide, SendsMoreWhereThePeerTakesMore) {
  begin();
  ASSERT_TRUE(sent());
  EXPECT_EQ(link().inline_send, 4096U);
  side.receive(init(9, {{kSize, 6000}}));
  EXPECT_EQ(link().inline_send, 6000U);
  side.receive(update(10, {{kSize, 65'536}}));
  EXPECT_EQ(link().inline_send, 8192U) << "no more than we like to send";
  side.receive(update(11, {{kSize, 2000}}));
  EXPECT_EQ(link().inline_send, 2000U);
  EXPECT_EQ(side.receives_posted(), 8U);
}

// The server counts on it when it plans the reply: our word has to be there first.
TEST_F(ClientSide, CountsOnLargeRepliesBehindItsOwnWord) {
  start(1);
  ASSERT_TRUE(sent());
  side.receive(init(9, {{kSize, 8192}}));
  EXPECT_EQ(link().inline_receive, 1024U) << "the offer is open";
  reply(1);
  start(2, 40, 8000);
  EXPECT_EQ(told(), "INITXCH 1=8192 2=1 3=0");
  EXPECT_EQ(link().inline_receive, 8192U);
}

TEST_F(ClientSide, CountsOnNoLargeRepliesOfAPeerThatSaysNothing) {
  begin();
  ASSERT_TRUE(sent());
  EXPECT_EQ(link().inline_receive, 4096U);
}

TEST_F(ClientSide, TakesRefusalsOfItsWord) {
  for (const v2::Body& error : {v2::Body(v2::ErrInvalOption{}), v2::Body(v2::ErrBadHeader{})}) {
    Endpoint fresh(Role::kClient, of_size(8192));
    const Fragment run{Lease{1}, 40, 0, 0};
    Outgoing call;
    call.stream = {&run, 1};
    call.reply_size_max = 100;
    ASSERT_TRUE(fresh.engine.requester().start_call(fresh.now, Xid{1}, call, kTimeout));
    fresh.drain();
    const auto offer = fresh.take_action<PostSend>();
    ASSERT_TRUE(offer);
    fresh.done(offer->id);
    fresh.receive(message2({Xid{1}, 2, 4, v2::Msg{v2::Direction::kReply}}, 24, RpcType::kReply));
    ASSERT_TRUE(fresh.take_event<ReplyReady>());
    fresh.receive(message2({Xid{1}, 2, 4, error}));
    EXPECT_EQ(fresh.engine.counters().err_received, 1U);
    EXPECT_EQ(fresh.engine.link().inline_receive, 4096U);
    EXPECT_TRUE(fresh.events.empty());
  }
}

TEST_F(ServerSide, InvalidatesWhereTheClientTakesIt) {
  const auto invalidates = [&](std::uint32_t xid) {
    wire::ChunkLists lists;
    lists.has_reply = true;
    EXPECT_TRUE(lists.reply.push_back({SteeringTag{9}, 5000, 0}));
    side.receive(
        message2({Xid{xid}, 2, 8, v2::Msg{v2::Direction::kCall}}, 40, RpcType::kCall, lists));
    const auto call = side.take_event<CallReceived>();
    const Fragment run{Lease{50}, 24, 0, 0};
    Outgoing outgoing;
    outgoing.stream = {&run, 1};
    side.engine.responder().start_reply(call->call, outgoing);
    side.drain();
    const auto send = side.take_action<PostSend>();
    side.done(send->id);
    return send->invalidate.has_value();
  };
  EXPECT_FALSE(invalidates(2)) << "the default, whatever private data says";
  side.receive(init(3, {{kInvalidation, 1}}));
  EXPECT_TRUE(invalidates(4));
  side.receive(update(5, {{kInvalidation, 0}}));
  EXPECT_FALSE(invalidates(6));
}

TEST_F(ServerSide, HearsValuesOfEachKind) {
  EXPECT_EQ(peer(), Characteristics{});
  side.receive(init(9, {{kSize, 20'000}, {kInvalidation, 1}, {kBackward, 2}}));
  EXPECT_EQ(peer(), (Characteristics{20'000, true, BackwardSupport::kGeneral}));
  side.receive(update(10, {{kBackward, 0}}));
  EXPECT_EQ(peer(), (Characteristics{20'000, true, BackwardSupport::kNone}));
  side.receive(init(11, {{kInvalidation, 0}}));
  EXPECT_EQ(peer(), (Characteristics{20'000, false, BackwardSupport::kNone}))
      << "a second INITXCH replaces what it lists (X-7)";
  EXPECT_FALSE(sent()) << "none of these is answered";
}

TEST_F(ServerSide, LeavesUnknownValuesAlone) {
  side.receive(init(9, {{77, 1}, {kSize, 5000}, {0xffffff00, 1}}));
  EXPECT_EQ(peer().receive_size, 5000U);
  EXPECT_FALSE(sent());
}

TEST_F(ServerSide, AnswersBadHeaderToValuesThatAreNone) {
  for (const Values& values :
       {Values{{kSize, 9000}, {kInvalidation, 2}}, Values{{kSize, 9000}, {kBackward, 3}}}) {
    side.receive(init(9, values));
    EXPECT_EQ(sent(), (v2::Header{Xid{9}, 2, 4, v2::ErrBadHeader{}}));
  }
  // The length of the value, of four bytes: two are no size, and eight reach beyond the message.
  for (const int length : {2, 8}) {
    auto other = init(9, {{kSize, 9000}});
    other[39] = std::byte(length);
    side.receive(other);
    EXPECT_EQ(sent(), (v2::Header{Xid{9}, 2, 4, v2::ErrBadHeader{}})) << length;
  }
  EXPECT_EQ(peer(), Characteristics{}) << "nothing of such a message counts";
}

TEST_F(ServerSide, DropsAnswersToNoRequest) {
  const std::uint32_t all[] = {0};
  side.receive(option(9, v2::Operation::kRespXch, written([&](xdr::Writer& writer) {
                        v2::write_response(writer, all, {}, {});
                      })));
  EXPECT_FALSE(sent());
  EXPECT_EQ(side.receives_posted(), 8U);
}

// --- Of the application's own ------------------------------------------------------------------

constexpr std::uint32_t kOwn = 0xffffff00;
const std::vector<CharacteristicType>& own_types() {
  const auto word_of_one = std::vector<std::byte>{{}, {}, {}, std::byte{1}};
  static const std::vector<CharacteristicType> types{
      {.id = kOwn,
       .initial = word_of_one,
       .is_value = [](Bytes value) { return value.size() == 4 && value[3] < std::byte{100}; },
       .grants = [](Bytes value) { return value[3] <= std::byte{50}; },
       .on_change = {}},
      {.id = kOwn, .initial = {}, .is_value = {}, .grants = {}, .on_change = {}},      // twice
      {.id = kOwn - 1, .initial = {}, .is_value = {}, .grants = {}, .on_change = {}},  // no such id
      {.id = kOwn + 1,
       .initial = std::vector<std::byte>(kCharacteristicSizeMax + 1),
       .is_value = {},
       .grants = {},
       .on_change = {}}};  // too long
  return types;
}
Options with_types() {
  Options options = of_size(8192);
  options.characteristics = own_types();
  return options;
}

class ClientWithTypes : public ClientSide {
 protected:
  ClientWithTypes() : ClientSide(with_types()) {
    begin();
    EXPECT_EQ(told(), "INITXCH 1=8192 2=1 3=0 4294967040=1");
  }
  OptionPort& port() { return side.engine.option_port(); }
  std::uint32_t peer_value() {
    return *v2::as_number(port().characteristics().experimental().peer(kOwn)->view());
  }
};

TEST_F(ClientWithTypes, HearsThePeersValue) {
  EXPECT_EQ(port().poll_changed(), nullptr);
  side.receive(init(9, {{kOwn, 5}, {kOwn + 1, 9}}));
  EXPECT_EQ(peer_value(), 5U);
  ASSERT_NE(port().poll_changed(), nullptr);
  EXPECT_EQ(port().poll_changed(), nullptr) << "once for each change";
  side.receive(update(10, {{kOwn, 5}}));
  EXPECT_EQ(port().poll_changed(), nullptr) << "it is the same";
  EXPECT_EQ(port().characteristics().experimental().peer(kOwn + 1), nullptr);
}

TEST_F(ClientWithTypes, AnswersBadHeaderToWhatIsNoValue) {
  side.receive(update(10, {{kOwn, 100}}));
  EXPECT_EQ(sent(), (v2::Header{Xid{10}, 2, 1, v2::ErrBadHeader{}}));
  side.receive(init(9, {{kSize, 9000}, {kOwn, 100}}));
  EXPECT_EQ(sent(), (v2::Header{Xid{9}, 2, 1, v2::ErrBadHeader{}}));
  EXPECT_EQ(peer(), Characteristics{}) << "nothing of such a message counts";
  EXPECT_EQ(peer_value(), 1U);
}

TEST_F(ClientWithTypes, FollowsItsPolicyOfChange) {
  side.receive(request(9, {{kOwn, 60}}));
  EXPECT_EQ(told(), "RESPXCH 0 rejected");
  side.receive(request(9, {{kOwn, 50}}));
  EXPECT_EQ(told(), "RESPXCH 0 done");
  side.receive(request(9, {{kOwn + 1, 1}}));
  EXPECT_EQ(told(), "RESPXCH 0 rejected");
}

TEST_F(ClientWithTypes, TellsItsOwnChangesOneByOne) {
  ASSERT_TRUE(port().set(SmallValue::of(kOwn, 7)));
  EXPECT_FALSE(port().set(SmallValue::of(kOwn, 100)));
  EXPECT_FALSE(port().set(SmallValue::of(kOwn + 1, 1)));
  side.drain();
  EXPECT_EQ(told(), "UPDXCH 4294967040=7");
  ASSERT_TRUE(port().set(SmallValue::of(kOwn, 8)));
  side.drain();
  EXPECT_EQ(told(), "REQXCH 2=0") << "whether the first was read";
  EXPECT_EQ(told(), "nothing");
  side.receive(response(told_xid, {0}, {}, {}));
  EXPECT_EQ(told(), "UPDXCH 4294967040=8");
  EXPECT_EQ(told(), "nothing");
}

class SmallServer : public ServerSide {
 protected:
  SmallServer() : ServerSide(of_size(1024)) {}
};

TEST_F(SmallServer, SaysWhatItsReceivesReallyAre) {
  EXPECT_EQ(side.engine.option_port().characteristics().own().receive_size, 4096U);
}

}  // namespace
}  // namespace rpcrdma::engine
