// A client whose server says whatever it likes, in bytes on a real connection: the rows of
// docs/invariants.md that concern a client (P10 to P20) have their outcome, and what the calls lent
// comes back.
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <deque>
#include <functional>

#include "rdma/siwarp/provider.h"
#include "rpc/call/connecting_client.h"
#include "support/raw_rpc.h"
#include "support/rpc_fixture.h"
#include "wire/v1/header.h"

namespace rpcrdma::test {
namespace {

using iwarp::Fault;
using wire::ChunkLists;

constexpr std::size_t kPlaceSize = 10'000;  // of the one Write chunk

// Holds what a Call on the wire says.
struct SeenCall {
  std::uint32_t xid = 0;
  ChunkLists lists;

  wire::Segment read() const { return lists.reads[0].target; }
  wire::Segment write() const { return lists.writes.chunk(0)[0]; }
  static std::uint32_t tag(const wire::Segment& segment) {
    return static_cast<std::uint32_t>(segment.handle);
  }
  // A Write list with this one segment, as the reply returns it.
  Message returned(std::uint32_t length) const {
    const wire::Segment segment = write();
    return words({1, 1, tag(segment), length, static_cast<std::uint32_t>(segment.offset >> 32U),
                  static_cast<std::uint32_t>(segment.offset), 0});
  }
};

// The reply that the call of this file wants: MSG, no chunks, no results.
Message good_reply(std::uint32_t xid, std::uint32_t credits = 32) {
  return join({words({xid, 1, credits, 0, 0, 0, 0}), raw_reply(xid)});
}

class HostileToClient : public ::testing::TestWithParam<bool> {  // with CRC
 protected:
  // One call: it lends a bulk argument and a place for a bulk result.
  struct Called {
    std::vector<std::byte> argument = test::pattern(5000, 7);
    std::vector<std::byte> place = std::vector<std::byte>(kPlaceSize);
    int ended = 0;
    std::optional<Error> error;
  };

  HostileToClient() {
    rdma::siwarp::Options options;
    options.crc = GetParam();
    options.spin = std::chrono::microseconds(0);
    provider_ = std::move(rdma::siwarp::make_provider(options).value());
    connect({});
  }
  ~HostileToClient() override {
    talk_.reset();
    client_.reset();
    for (const Called& called : calls_) EXPECT_EQ(called.ended, 1);
  }

  void connect(const ClientOptions& options) {
    talk_.reset();
    client_.reset();
    auto connecting = ConnectingClient::connect_on(*provider_, listener_.address(),
                                                   test::with_small_messages(options));
    ASSERT_TRUE(connecting) << connecting.error().message();
    client_ = std::move(*connecting);
    auto peer = listener_.accept();
    ASSERT_NE(peer, nullptr);
    ASSERT_FALSE(peer->respond(RawTalk::mpa(GetParam())).empty());
    talk_ = std::make_unique<RawTalk>(std::move(peer), GetParam());
    ASSERT_TRUE(wait([&] { return client_->connected(); }));
  }
  bool wait(const std::function<bool()>& condition) { return talk_->peer().pump_until(condition); }
  Called& start(std::chrono::nanoseconds timeout = std::chrono::seconds(20)) {
    Called& called = calls_.emplace_back();
    auto call = client_->prepare({TestService::kProgram, TestService::kVersion, 1});
    EXPECT_TRUE(call);
    call->arguments().bulk(called.argument);
    call->place_result(called.place);
    call->time_out_after(timeout);
    EXPECT_TRUE(client_->start(std::move(*call), [&called](Expected<Reply, Error> reply) {
      ++called.ended;
      if (!reply) called.error = reply.error();
    }));
    return called;
  }
  SeenCall seen() {
    const auto message = talk_->next_message();
    EXPECT_TRUE(message);
    SeenCall call;
    if (!message) return call;
    const auto decoded = wire::v1::decode(*message, {}, call.lists);
    EXPECT_TRUE(decoded);
    if (decoded) call.xid = static_cast<std::uint32_t>(decoded->header.xid);
    return call;
  }
  // The connection lives: a call is made, answered and ended.
  void expect_alive() {
    Called& called = start();
    ASSERT_TRUE(talk_->send(good_reply(seen().xid)));
    ASSERT_TRUE(wait([&] { return called.ended == 1; }));
    EXPECT_FALSE(called.error) << called.error->message();
    EXPECT_EQ(client_->calls_in_flight(), 0U);
  }

  // The server answers other calls, so that the connection goes on.
  SeenCall let_a_call_give_up() {
    expect_alive();
    Called& slow = start(std::chrono::milliseconds(100));
    const SeenCall call = seen();
    Called& quick = start();
    EXPECT_TRUE(talk_->send(good_reply(seen().xid)));
    EXPECT_TRUE(wait([&] { return quick.ended == 1 && slow.ended == 1; }));
    EXPECT_TRUE(slow.error && slow.error->code == Errc::kTimedOut);
    EXPECT_TRUE(client_->connected());
    return call;
  }

  struct Row {
    const char* what;
    std::function<Message(const SeenCall&)> reply;
  };
  // Each reply is dropped: the good one behind it still ends the call.
  void expect_dropped(const std::vector<Row>& rows) {
    for (const Row& row : rows) {
      SCOPED_TRACE(row.what);
      const std::uint64_t before = client_->counters().messages_dropped;
      Called& called = start();
      const SeenCall call = seen();
      ASSERT_TRUE(talk_->send(row.reply(call)));
      ASSERT_TRUE(wait([&] { return client_->counters().messages_dropped == before + 1; }));
      EXPECT_EQ(called.ended, 0);
      ASSERT_TRUE(talk_->send(good_reply(call.xid)));
      ASSERT_TRUE(wait([&] { return called.ended == 1; }));
      EXPECT_FALSE(called.error) << called.error->message();
    }
  }
  void expect_failure(Errc code, const std::vector<Row>& rows) {
    for (const Row& row : rows) {
      SCOPED_TRACE(row.what);
      Called& called = start();
      ASSERT_TRUE(talk_->send(row.reply(seen())));
      ASSERT_TRUE(wait([&] { return called.ended == 1; }));
      ASSERT_TRUE(called.error);
      EXPECT_EQ(called.error->code, code) << called.error->message();
      expect_alive();
    }
  }
  // Expects that what the peer does with a call under way ends the connection, with a Terminate
  // that tells the fault (kNone: without one), and the call.
  void expect_end(const char* what, Fault fault, const std::function<void(const SeenCall&)>& act) {
    SCOPED_TRACE(what);
    connect({});
    Called& called = start();
    act(seen());
    const auto told = talk_->fault_at_end();
    ASSERT_TRUE(told) << "the connection lives";
    EXPECT_EQ(*told, fault) << to_string(*told);
    ASSERT_TRUE(wait([&] { return called.ended == 1; }));
    ASSERT_TRUE(called.error);
    EXPECT_EQ(called.error->code, Errc::kConnectionLost) << called.error->message();
    EXPECT_EQ(client_->calls_in_flight(), 0U);
    EXPECT_EQ(called.argument, test::pattern(5000, 7));
  }

  std::unique_ptr<rdma::Provider> provider_;
  std::deque<Called> calls_;
  std::optional<Client> client_;
  test::RawListener listener_{[this] {
    if (client_) client_->progress();
  }};
  std::unique_ptr<RawTalk> talk_;
};

TEST_P(HostileToClient, DropsWhatCannotBeAReply) {  // P10
  const auto start = [](const SeenCall& call, std::uint32_t type, std::uint32_t version = 1) {
    return raw_header(call.xid, type, version);
  };
  expect_dropped({
      {"nothing", [](const auto&) { return Message{}; }},
      {"15 bytes", [&](const auto& call) { return first(start(call, 0), 15); }},
      {"lists cut off",
       [&](const auto& call) {
         return join({start(call, 0), words({0, 1})});
       }},
      {"list word 2",
       [&](const auto& call) {
         return join({start(call, 0), words({2, 0, 0}), raw_reply(call.xid)});
       }},
      {"version 2",
       [&](const auto& call) {
         return join({start(call, 0, 2), words({0, 0, 0}), raw_reply(call.xid)});
       }},
      {"type 5", [&](const auto& call) { return start(call, 5); }},
      {"MSGP",
       [&](const auto& call) {
         return join({start(call, 2), words({4, 4, 0, 0, 0}), raw_reply(call.xid)});
       }},
      {"DONE", [&](const auto& call) { return start(call, 3); }},
      {"a Call (RFC 8167)",
       [&](const auto& call) {
         return join({start(call, 0), words({0, 0, 0}), test::raw_call(call.xid, 0)});
       }},
      {"an error without a code", [&](const auto& call) { return start(call, 4); }},
      {"error code 9",
       [&](const auto& call) {
         return join({start(call, 4), words({9})});
       }},
  });
}

TEST_P(HostileToClient, FailsACallWhoseReplyDoesNotFitIt) {  // P11
  const auto msg = [](const SeenCall& call, const Message& lists, const Message& payload) {
    return join({raw_header(call.xid, 0), lists, payload});
  };
  const Message none = words({0, 0, 0});
  expect_failure(
      Errc::kBadReply,
      {
          {"a Write chunk longer than offered",
           [&](const auto& call) {
             return msg(call, join({words({0}), call.returned(kPlaceSize + 1), words({0})}),
                        raw_reply(call.xid));
           }},
          {"two Write chunks",
           [&](const auto& call) {
             return msg(call, words({0, 1, 0, 1, 0, 0, 0}), raw_reply(call.xid));
           }},
          {"a Read list",
           [&](const auto& call) {
             return msg(call, words({1, 4, 1, 4, 0, 0, 0, 0, 0}), raw_reply(call.xid));
           }},
          {"a used Reply chunk in a MSG",
           [&](const auto& call) {
             return msg(call, words({0, 0, 1, 1, 7, 24, 0, 0}), raw_reply(call.xid));
           }},
          {"NOMSG without a Reply chunk",
           [&](const auto& call) {
             return join({raw_header(call.xid, 1), none});
           }},
          {"NOMSG with a Reply chunk that was not offered",
           [&](const auto& call) {
             return join({raw_header(call.xid, 1), words({0, 0, 1, 1, 7, 24, 0, 0})});
           }},
          {"no payload", [&](const auto& call) { return msg(call, none, {}); }},
          {"half an RPC header",
           [&](const auto& call) { return msg(call, none, first(raw_reply(call.xid), 20)); }},
          {"another XID in the payload",
           [&](const auto& call) { return msg(call, none, raw_reply(call.xid + 1)); }},
          {"an unknown accept_stat",
           [&](const auto& call) {
             return msg(call, none, words({call.xid, 1, 0, 0, 0, 9}));
           }},
          {"a verifier of 2^32-1 bytes",
           [&](const auto& call) {
             return msg(call, none, words({call.xid, 1, 0, 0, ~0U, 0}));
           }},
      });
}

TEST_P(HostileToClient, TakesADenialOfTwentyBytes) {
  expect_failure(
      Errc::kDenied,
      {{"AUTH_ERROR, AUTH_TOOWEAK",
        [](const auto& call) {
          return join({raw_header(call.xid, 0), words({0, 0, 0}), words({call.xid, 1, 1, 1, 5})});
        }},
       {"RPC_MISMATCH", [](const auto& call) {
          return join(
              {raw_header(call.xid, 0), words({0, 0, 0}), words({call.xid, 1, 1, 0, 2, 2})});
        }}});
}

TEST_P(HostileToClient, DropsRepliesToNoCall) {  // P12
  expect_dropped({{"an unknown XID", [](const auto& call) { return good_reply(call.xid + 1); }}});
  Called& called = start();
  const std::uint32_t xid = seen().xid;
  const std::uint64_t before = client_->counters().messages_dropped;
  ASSERT_TRUE(talk_->send(good_reply(xid)));
  ASSERT_TRUE(talk_->send(good_reply(xid)));
  ASSERT_TRUE(wait([&] { return client_->counters().messages_dropped == before + 1; }));
  EXPECT_EQ(called.ended, 1);
  expect_alive();
  // Many more than there are Receives: each is posted again.
  for (std::uint32_t i = 0; i < 300; ++i) {
    const std::uint64_t count = client_->counters().messages_dropped;
    ASSERT_TRUE(talk_->send(good_reply(xid + 1000 + i)));
    ASSERT_TRUE(wait([&] { return client_->counters().messages_dropped == count + 1; })) << i;
  }
  expect_alive();
}

TEST_P(HostileToClient, FailsACallThatThePeerCouldNotUse) {  // P13
  expect_failure(Errc::kVersion, {{"ERR_VERS", [](const auto& call) {
                                     return join({raw_header(call.xid, 4, 2), words({1, 2, 3})});
                                   }}});
  expect_failure(Errc::kChunk,
                 {{"ERR_CHUNK",
                   [](const auto& call) {
                     return join({raw_header(call.xid, 4), words({2})});
                   }},
                  {"ERR_CHUNK with words behind it", [](const auto& call) {
                     return join({raw_header(call.xid, 4), words({2, 0, 0, 0, 0, 0, 0, 0, 0})});
                   }}});
}

TEST_P(HostileToClient, EndsTheConnectionWhenAForeignTagIsInvalidated) {  // P14
  expect_end(
      "a tag that nobody has", Fault::kProtectionCannotInvalidate, [&](const SeenCall& call) {
        talk_->send_invalidating(SeenCall::tag(call.read()) ^ 0x10000U, good_reply(call.xid));
      });
  expect_end("a tag of this call, in a reply to none", Fault::kNone, [&](const SeenCall& call) {
    talk_->send_invalidating(SeenCall::tag(call.read()), good_reply(call.xid + 1));
  });
  // The reply to one of two calls under way invalidates what the other has lent.
  connect({});
  expect_alive();
  const Called& one = start();
  const Called& two = start();
  const SeenCall seen_one = seen();
  const SeenCall seen_two = seen();
  ASSERT_TRUE(talk_->send_invalidating(SeenCall::tag(seen_one.write()), good_reply(seen_two.xid)));
  ASSERT_TRUE(wait([&] { return one.ended + two.ended == 2; }));
  ASSERT_TRUE(one.error && two.error);
  EXPECT_EQ(two.error->code, Errc::kConnectionLost);
}

TEST_P(HostileToClient, TakesEveryTagOfTheCallThatIsInvalidatedOnce) {  // P14
  Called& called = start();
  const SeenCall call = seen();
  ASSERT_TRUE(talk_->send_invalidating(SeenCall::tag(call.read()), good_reply(call.xid)));
  ASSERT_TRUE(wait([&] { return called.ended == 1; }));
  EXPECT_FALSE(called.error);
  EXPECT_EQ(client_->counters().handles_invalidated_remotely, 1U);
  expect_alive();
}

TEST_P(HostileToClient, EndsTheConnectionWhenMemoryIsUsedBeyondItsBounds) {  // P15
  const auto write = [&](const wire::Segment& to, std::uint64_t offset, std::size_t size) {
    talk_->write(SeenCall::tag(to), to.offset + offset, Message(size, std::byte{0xbb}));
  };
  const auto read = [&](const wire::Segment& from, std::uint64_t offset, std::uint32_t size) {
    talk_->read_request(1, {SteeringTag{1}, 0, size, from.handle, from.offset + offset});
  };
  expect_end("Write beyond the chunk", Fault::kTaggedBounds,
             [&](const SeenCall& call) { write(call.write(), 1, kPlaceSize); });
  EXPECT_EQ(calls_.back().place, Message(kPlaceSize)) << "not a byte of it was written";
  expect_end("Write before the chunk", Fault::kTaggedBounds,
             [&](const SeenCall& call) { write(call.write(), ~std::uint64_t{0}, 10); });
  expect_end("Write to a Read chunk", Fault::kProtectionAccess,
             [&](const SeenCall& call) { write(call.read(), 0, 10); });
  expect_end("Write to a guessed tag", Fault::kTaggedInvalidStag, [&](const SeenCall& call) {
    talk_->write(SeenCall::tag(call.write()) + 1, call.write().offset, Message(10));
  });
  expect_end("Read beyond the chunk", Fault::kProtectionBounds,
             [&](const SeenCall& call) { read(call.read(), 1, 5000); });
  expect_end("Read of a Write chunk", Fault::kProtectionAccess,
             [&](const SeenCall& call) { read(call.write(), 0, 10); });
  expect_end("Read Response to nothing", Fault::kOperationOpcode,
             [&](const SeenCall&) { talk_->read_response(1, 0, Message(10)); });
}

TEST_P(HostileToClient, RefusesMemoryOfACallThatHasEnded) {  // P15
  expect_alive();
  Called& called = start();
  const SeenCall call = seen();
  ASSERT_TRUE(talk_->send(good_reply(call.xid)));
  ASSERT_TRUE(wait([&] { return called.ended == 1; }));
  ASSERT_TRUE(talk_->write(SeenCall::tag(call.write()), call.write().offset, Message(10)));
  EXPECT_EQ(talk_->fault_at_end(), Fault::kTaggedInvalidStag);
  EXPECT_EQ(called.place, Message(kPlaceSize));
}

TEST_P(HostileToClient, EndsTheConnectionWithMessagesThatItDidNotAskFor) {  // P16
  expect_end("4097 bytes", Fault::kUntaggedTooLong, [&](const SeenCall& call) {
    Message reply = good_reply(call.xid);
    reply.resize(4097);
    talk_->send(reply);
  });
  expect_end("200 messages at once", Fault::kUntaggedNoBuffer, [&](const SeenCall& call) {
    Message flood;
    for (std::uint32_t i = 1; i <= 200; ++i) {
      flood = join({flood, talk_->send_fpdu(good_reply(call.xid + i))});
    }
    talk_->peer().send(flood);
  });
}

TEST_P(HostileToClient, EndsTheConnectionWithBrokenFraming) {  // P17
  expect_end("opcode 15", Fault::kOperationOpcode, [&](const SeenCall& call) {
    Message ulpdu = test::raw_send(1, good_reply(call.xid));
    ulpdu[1] = std::byte{0x4f};
    talk_->send_ulpdu(ulpdu);
  });
  if (!GetParam()) return;
  expect_end("a bad CRC", Fault::kLlpCrc, [&](const SeenCall& call) {
    Message fpdu = talk_->send_fpdu(good_reply(call.xid));
    fpdu.back() ^= std::byte{1};
    talk_->peer().send(fpdu);
  });
}

TEST_P(HostileToClient, EndsEveryCallWhenThePeerEndsAtAnyByteOfItsReply) {  // P19
  const std::size_t whole = iwarp::fpdu_size(iwarp::kUntaggedSize + good_reply(0).size());
  for (std::size_t size = 0; size < whole; ++size) {
    SCOPED_TRACE(size);
    connect({});
    Called& called = start();
    const Message fpdu = talk_->send_fpdu(good_reply(seen().xid));
    ASSERT_TRUE(talk_->peer().send(first(fpdu, size)));
    size % 2 == 0 ? talk_->peer().finish() : talk_->peer().reset();
    ASSERT_TRUE(wait([&] { return called.ended == 1; }));
    ASSERT_TRUE(called.error);
    EXPECT_EQ(called.error->code, Errc::kConnectionLost);
  }
  expect_end("Terminate", Fault::kNone,
             [&](const SeenCall&) { talk_->terminate(Fault::kRdmapCatastrophic); });
}

TEST_P(HostileToClient, EndsWhenThePeerEndsAtAnyByteOfTheSetUp) {  // P19
  const Message reply = test::raw_mpa_frame(true, RawTalk::mpa(GetParam()));
  for (std::size_t size = 0; size < reply.size(); ++size) {
    SCOPED_TRACE(size);
    auto connecting = ConnectingClient::connect_on(*provider_, listener_.address(), {});
    ASSERT_TRUE(connecting);
    talk_.reset();
    client_ = std::move(*connecting);
    const auto peer = listener_.accept();
    ASSERT_NE(peer, nullptr);
    ASSERT_FALSE(peer->receive_mpa_frame().empty());
    ASSERT_TRUE(peer->send(first(reply, size)));
    size % 2 == 0 ? peer->finish() : peer->reset();
    client_->progress();
    EXPECT_FALSE(client_->connected());
    EXPECT_FALSE(client_->prepare({1, 1, 1}));
  }
}

TEST_P(HostileToClient, GivesUpWhenThePeerDoesNotFinishTheSetUp) {  // P18
  const Message reply = test::raw_mpa_frame(true, RawTalk::mpa(GetParam()));
  rdma::siwarp::Options options;
  options.crc = GetParam();
  options.setup_timeout_initiator = std::chrono::milliseconds(50);
  const auto provider = std::move(rdma::siwarp::make_provider(options).value());
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, reply.size() - 1}) {
    SCOPED_TRACE(size);
    auto connecting = ConnectingClient::connect_on(*provider, listener_.address(), {});
    ASSERT_TRUE(connecting);
    talk_.reset();
    client_ = std::move(*connecting);
    const auto peer = listener_.accept();
    ASSERT_NE(peer, nullptr);
    ASSERT_FALSE(peer->receive_mpa_frame().empty());
    ASSERT_TRUE(peer->send(first(reply, size)));
    ASSERT_TRUE(peer->pump_until([&] { return client_->ended(); }));
    EXPECT_FALSE(client_->connected());
    EXPECT_FALSE(client_->prepare({1, 1, 1}));
  }
  client_.reset();
}

TEST_P(HostileToClient, TimesOutWhenThePeerNeverAnswers) {  // P10, P20
  Called& called = start(std::chrono::milliseconds(20));
  const SeenCall call = seen();
  ASSERT_TRUE(wait([&] { return called.ended == 1; }));
  ASSERT_TRUE(called.error);
  EXPECT_EQ(called.error->code, Errc::kTimedOut);
  // ADR 17: a peer that says nothing at all is of no use. Its memory is out of reach with it.
  EXPECT_FALSE(client_->connected());
  (void)talk_->write(SeenCall::tag(call.write()), call.write().offset, Message(10));
  EXPECT_TRUE(talk_->fault_at_end());
}

// It is slow with one call and answers others: memory that was advertised for the call is out of
// reach before its owner hears of the end.
TEST_P(HostileToClient, TakesMemoryBackFromAPeerThatAnswersTooLate) {  // P15, P20
  const SeenCall call = let_a_call_give_up();
  ASSERT_TRUE(talk_->write(SeenCall::tag(call.write()), call.write().offset, Message(10)));
  EXPECT_EQ(talk_->fault_at_end(), Fault::kTaggedInvalidStag);
}

// An honest server that is late answers so. The handle is dead, and no device takes that.
TEST_P(HostileToClient, LateAnswerThatInvalidatesItsHandleEndsTheConnection) {  // P15
  const SeenCall call = let_a_call_give_up();
  ASSERT_TRUE(talk_->send_invalidating(SeenCall::tag(call.read()), good_reply(call.xid)));
  EXPECT_EQ(talk_->fault_at_end(), Fault::kProtectionCannotInvalidate);
}

TEST_P(HostileToClient, TimesOutWhenOnlyNonsenseComes) {  // P10
  Called& called = start(std::chrono::milliseconds(200));
  const std::uint32_t xid = seen().xid;
  ASSERT_TRUE(talk_->send(raw_header(xid, 3)));
  ASSERT_TRUE(talk_->send(join({raw_header(xid, 0), words({2, 0, 0}), raw_reply(xid)})));
  ASSERT_TRUE(talk_->send(join({raw_header(xid, 0), words({0, 0, 0}), test::raw_call(xid, 0)})));
  ASSERT_TRUE(wait([&] { return called.ended == 1; }));
  ASSERT_TRUE(called.error);
  EXPECT_EQ(called.error->code, Errc::kTimedOut);
  EXPECT_EQ(client_->counters().messages_dropped, 3U);
  EXPECT_FALSE(client_->connected()) << "the call held the only credit (ADR 17)";
}

// It asks for memory and does not read the answer: the memory cannot be made safe.
TEST_P(HostileToClient, EndsTheConnectionWhenThePeerDoesNotReadWhatItAskedFor) {  // P20
  Called& called = calls_.emplace_back();
  called.argument.resize(32U << 20U);
  auto call = client_->prepare({TestService::kProgram, TestService::kVersion, 1});
  ASSERT_TRUE(call);
  call->arguments().bulk(called.argument);
  call->time_out_after(std::chrono::milliseconds(20));
  ASSERT_TRUE(client_->start(std::move(*call), [&called](Expected<Reply, Error> reply) {
    ++called.ended;
    if (!reply) called.error = reply.error();
  }));
  const SeenCall seen = this->seen();
  ASSERT_TRUE(talk_->read_request(
      1, {SteeringTag{1}, 0, seen.read().length, seen.read().handle, seen.read().offset}));
  ASSERT_TRUE(wait([&] { return called.ended == 1; }));
  ASSERT_TRUE(called.error);
  EXPECT_EQ(called.error->code, Errc::kTimedOut);
  EXPECT_FALSE(client_->connected());
}

TEST_P(HostileToClient, IsWokenByItsOwnCloseWhileThePeerIsSilent) {
  Called& called = start();
  seen();
  pollfd fd{client_->wait_fd(), POLLIN, 0};
  while (::poll(&fd, 1, 100) > 0) client_->progress();  // until all is quiet
  client_->close();
  EXPECT_GT(::poll(&fd, 1, 0), 0) << "close() itself wakes the loop, not some timer";
  while (called.ended == 0) {
    ASSERT_GT(::poll(&fd, 1, 1000), 0) << "a wake-up was lost";
    client_->progress();
  }
  ASSERT_TRUE(called.error);
  EXPECT_EQ(called.error->code, Errc::kCanceled);
}

TEST_P(HostileToClient, KeepsMakingCallsWhenThePeerGrantsNothing) {
  for (int i = 0; i < 3; ++i) {
    Called& one = start();
    Called& two = start();
    for (int k = 0; k < 2; ++k) ASSERT_TRUE(talk_->send(good_reply(seen().xid, 0)));
    ASSERT_TRUE(wait([&] { return one.ended + two.ended == 2; }));
    EXPECT_FALSE(one.error || two.error);
  }
}

TEST_P(HostileToClient, HasNoMoreCallsUnansweredThanItAskedCreditsFor) {
  Called& opener = start();
  ASSERT_TRUE(talk_->send(good_reply(seen().xid, 0xffffffffU)));
  ASSERT_TRUE(wait([&] { return opener.ended == 1; }));
  const std::size_t before = calls_.size();
  for (int i = 0; i < 100; ++i) start();
  std::deque<std::uint32_t> xids;
  for (int i = 0; i < 64; ++i) xids.push_back(seen().xid);
  talk_->peer().pump_until([&] { return talk_->peer().waiting() > 0; },
                           std::chrono::milliseconds(20));
  EXPECT_EQ(talk_->peer().waiting(), 0U) << "the 65th call waits for a credit";
  for (std::size_t done = 0; done < 100; ++done) {
    ASSERT_FALSE(xids.empty());
    ASSERT_TRUE(talk_->send(good_reply(xids.front(), 0xffffffffU)));
    xids.pop_front();
    if (done < 36) xids.push_back(seen().xid);
  }
  ASSERT_TRUE(wait([&] { return client_->calls_in_flight() == 0; }));
  for (std::size_t i = before; i < calls_.size(); ++i) EXPECT_FALSE(calls_[i].error);
}

INSTANTIATE_TEST_SUITE_P(Wire, HostileToClient, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "WithCrc" : "WithoutCrc"; });

}  // namespace
}  // namespace rpcrdma::test
