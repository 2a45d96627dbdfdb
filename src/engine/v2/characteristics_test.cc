// What the two sides of a connection of version 2 tell each other, and what follows from it
// (draft-dnoveck-nfsv4-rpcrdma-xcharext-02; rules of docs/conformance.md).
#include "engine/v2/characteristics.h"

#include <gtest/gtest.h>

#include <functional>

#include "engine/connection.h"
#include "engine/endpoint_for_test.h"
#include "wire/v2/header.h"

namespace rpcrdma::engine {
namespace {

namespace v2 = wire::v2;
using v2::CharacteristicValue;

constexpr std::chrono::nanoseconds kTimeout = std::chrono::seconds(60);
constexpr std::uint32_t kSize = 1, kInvalidation = 2, kBackward = 3;  // ids

Options of_size(std::uint32_t size) {
  Options options;
  options.versions = {1, 2};
  options.credits = 4;
  options.calls_max = 8;
  options.inline_send = options.inline_receive = size;
  return options;
}

// Values by their words, kept for as long as they are looked at.
class Values {
 public:
  Values(std::initializer_list<std::pair<std::uint32_t, std::uint32_t>> all) {
    words_.reserve(all.size());
    for (const auto& [id, word] : all) {
      words_.emplace_back();
      xdr::store_word(words_.back().data(), word);
      values_.push_back({id, words_.back()});
    }
  }
  std::span<const CharacteristicValue> span() const { return values_; }

 private:
  std::vector<std::array<std::byte, 4>> words_;
  std::vector<CharacteristicValue> values_;
};

std::vector<std::byte> written(const std::function<void(xdr::Writer&)>& write) {
  std::vector<std::byte> info(200);
  xdr::Writer writer(info);
  write(writer);
  EXPECT_TRUE(writer.ok());
  info.resize(writer.position());
  return info;
}
std::vector<std::byte> option(std::uint32_t xid, v2::Operation operation, Bytes info) {
  return message2(
      {Xid{xid}, 2, 8,
       v2::Optional{v2::Direction::kCall, static_cast<std::uint32_t>(operation), info}});
}
std::vector<std::byte> init(std::uint32_t xid, const Values& values) {
  return option(xid, v2::Operation::kInitXch,
                written([&](xdr::Writer& writer) { v2::write_init(writer, values.span(), {}); }));
}
std::vector<std::byte> request(std::uint32_t xid, const Values& values) {
  return option(xid, v2::Operation::kReqXch,
                written([&](xdr::Writer& writer) { v2::write_request(writer, values.span()); }));
}
std::vector<std::byte> update(std::uint32_t xid, const Values& values) {
  return option(xid, v2::Operation::kUpdXch, written([&](xdr::Writer& writer) {
                  v2::write_update(writer, values.span()[0], false);
                }));
}

// One side that has begun with version 2, and has made itself known.
class OneSide : public testing::Test {
 protected:
  explicit OneSide(Role role, const Options& options = of_size(8192))
      : side(role, options, LinkParameters{1024, 1024, 16, true}) {}

  // The next message that goes out, which is then done.
  std::optional<v2::Header> sent() {
    const auto send = side.take_action<PostSend>();
    if (!send) return std::nullopt;
    const auto decoded = v2::decode(
        Bytes(side.arena_).subspan(send->header_offset, send->header_size), {}, side.lists);
    EXPECT_TRUE(decoded);
    side.done(send->id);
    return decoded ? std::optional(decoded->header) : std::nullopt;
  }
  // The values of the INITXCH that goes out: "1=8192 2=1".
  std::string announced() {
    const auto header = sent();
    if (!header || !std::holds_alternative<v2::Optional>(header->body)) return "no option";
    const auto& body = std::get<v2::Optional>(header->body);
    EXPECT_EQ(body.direction, v2::Direction::kCall);
    const auto decoded = v2::decode_option(body.type, body.info);
    if (!decoded || !std::holds_alternative<v2::InitXch>(*decoded)) return "no INITXCH";
    std::string text;
    std::get<v2::InitXch>(*decoded).start.for_each(
        [&](std::uint32_t, const CharacteristicValue& value) {
          text += (text.empty() ? "" : " ") + std::to_string(value.id) + '=' +
                  std::to_string(*v2::as_number(value));
        });
    return text;
  }
  const Characteristics& peer() const { return side.engine.characteristics().peer(); }
  const LinkParameters& link() const { return side.engine.link(); }

  Endpoint side;
};

class ServerSide : public OneSide {
 protected:
  explicit ServerSide(const Options& options = of_size(8192)) : OneSide(Role::kServer, options) {
    side.receive(message2({Xid{1}, 2, 8, v2::Msg{v2::Direction::kCall}}, 40));
    const auto call = side.take_event<CallReceived>();
    EXPECT_TRUE(call);
    EXPECT_EQ(announced(), "1=" + std::to_string(receive_size(options)));
    side.engine.start_reply(call->call, {});
    side.drain();
    EXPECT_TRUE(sent());
  }
};

class ClientSide : public OneSide {
 protected:
  explicit ClientSide(const Options& options = of_size(8192)) : OneSide(Role::kClient, options) {}
  void start(std::uint32_t xid, std::uint32_t size = 40, std::uint32_t reply_size_max = 100) {
    const Fragment run{Lease{1}, size, 0, 0};
    Outgoing call;
    call.stream = {&run, 1};
    call.reply_size_max = reply_size_max;
    call.reply_room = ResultRoom{Lease{5}, 100'000, 0, 0};
    ASSERT_TRUE(side.engine.start_call(side.now, Xid{xid}, call, kTimeout));
    side.drain();
  }
  void reply(std::uint32_t xid) {
    side.receive(message2({Xid{xid}, 2, 4, v2::Msg{v2::Direction::kReply}}, 24, RpcType::kReply));
    const auto ready = side.take_event<ReplyReady>();
    ASSERT_TRUE(ready);
    side.engine.release(ready->call);
    side.drain();
  }
  // The offer, and its answer.
  void begin() {
    start(1);
    ASSERT_TRUE(sent());
    reply(1);
  }
};

TEST_F(ClientSide, MakesItselfKnownWhenTheOfferIsTaken) {
  start(1);
  ASSERT_TRUE(sent());
  EXPECT_FALSE(sent()) << "the peer may have version 1 only";
  reply(1);
  EXPECT_EQ(announced(), "1=8192 2=1 3=0");
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
  EXPECT_EQ(side.receives_posted(), 6U);
}

// The server counts on it when it plans the reply: our word has to be there first.
TEST_F(ClientSide, CountsOnLargeRepliesBehindItsOwnWord) {
  start(1);
  ASSERT_TRUE(sent());
  side.receive(init(9, {{kSize, 8192}}));
  EXPECT_EQ(link().inline_receive, 1024U) << "the offer is open";
  reply(1);
  start(2, 40, 8000);
  EXPECT_EQ(announced(), "1=8192 2=1 3=0");
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
    ASSERT_TRUE(fresh.engine.start_call(fresh.now, Xid{1}, call, kTimeout));
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
    side.engine.start_reply(call->call, outgoing);
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
  auto cut = init(9, {{kSize, 9000}});
  cut[39] = std::byte{2};  // of the length of the value
  side.receive(cut);
  EXPECT_EQ(sent(), (v2::Header{Xid{9}, 2, 4, v2::ErrBadHeader{}}));
  EXPECT_EQ(peer(), Characteristics{}) << "nothing of such a message counts";
}

TEST_F(ServerSide, RejectsAllThatItIsAsked) {
  side.receive(request(9, {{kSize, 16'384}, {77, 1}}));
  const auto header = sent();
  ASSERT_TRUE(header);
  EXPECT_EQ(header->xid, Xid{9});
  const auto& body = std::get<v2::Optional>(header->body);
  EXPECT_EQ(body.direction, v2::Direction::kReply);
  const auto answer = v2::decode_option(body.type, body.info);
  ASSERT_TRUE(answer);
  const auto& response = std::get<v2::RespXch>(*answer);
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_FALSE(response.done.contains(i));
    EXPECT_EQ(response.rejected.contains(i), i < 2);
    EXPECT_FALSE(response.pending.contains(i));
  }
}

TEST_F(ServerSide, DropsAnswersToNoRequest) {
  const std::uint32_t all[] = {0};
  side.receive(option(9, v2::Operation::kRespXch, written([&](xdr::Writer& writer) {
                        v2::write_response(writer, all, {}, {});
                      })));
  EXPECT_FALSE(sent());
  EXPECT_EQ(side.receives_posted(), 6U);
}

class SmallServer : public ServerSide {
 protected:
  SmallServer() : ServerSide(of_size(1024)) {}
};

TEST_F(SmallServer, SaysWhatItsReceivesReallyAre) {
  EXPECT_EQ(side.engine.characteristics().own().receive_size, 4096U);
}

}  // namespace
}  // namespace rpcrdma::engine
