// Servers of version two that share no code with the library: how they may answer a request for
// another Receive size, and how they may call the client.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rpcrdma/backward.h"
#include "rpcrdma/service.h"
#include "rpcrdma/version_two.h"
#include "support/rpc_fixture.h"
#include "system/version_two_server_for_test.h"

namespace rpcrdma::test {
namespace {

using draft::Seen;

constexpr std::uint32_t kWish = 16'384;

draft::Words answer_with(std::uint32_t xid, std::uint32_t done, std::uint32_t rejected,
                         std::uint32_t pending) {
  return draft::option(xid, 16, draft::kReply, draft::kRespxch,
                       draft::respxch(done, rejected, pending));
}
draft::Words update_to(std::uint32_t size, bool clears) {
  return draft::option(0x33000099, 16, draft::kReply, draft::kUpdxch,
                       draft::updxch(draft::value(draft::kRbsiz, size), clears));
}

// Lists the messages that answer a request for Receives of 16384 bytes, and its end (B5).
struct ChangeMode {
  const char* name;
  std::function<std::vector<draft::Words>(std::uint32_t xid)> messages;
  ChangeResult result;
  std::uint32_t size;   // that the client then takes the server's Receives for
  bool at_once = true;  // nothing waits for a time-out
};
void PrintTo(const ChangeMode& mode, std::ostream* out) {
  *out << mode.name;
}
std::vector<ChangeMode> change_modes() {
  using enum ChangeResult;
  using List = std::vector<draft::Words>;
  return {
      {"Done", [](auto xid) { return List{answer_with(xid, 1, 0, 0)}; }, kGranted, kWish},
      {"Rejected", [](auto xid) { return List{answer_with(xid, 0, 1, 0)}; }, kRejected, 4096},
      {"PendingThenClear",
       [](auto xid) {
         return List{answer_with(xid, 0, 0, 1), update_to(kWish, true)};
       },
       kGranted, kWish},
      {"PendingThenHalfTheWay",
       [](auto xid) {
         return List{answer_with(xid, 0, 0, 1), update_to(8192, true)};
       },
       kOther, 8192},
      {"PendingThenNothing",
       [](auto xid) {
         return List{answer_with(xid, 0, 0, 1), update_to(4096, true)};
       },
       kOther, 4096},
      {"PendingInTwoSteps",
       [](auto xid) {
         return List{answer_with(xid, 0, 0, 1), update_to(8192, false), update_to(kWish, true)};
       },
       kGranted, kWish},
      {"UpdateInFrontOfTheAnswer",
       [](auto xid) {
         return List{update_to(kWish, true), answer_with(xid, 0, 0, 1)};
       },
       kGranted, kWish},
      {"InvalOption", [](auto xid) { return List{draft::error(xid, 16, draft::kErrInvalOption)}; },
       kRejected, 4096},
      {"BadHeader", [](auto xid) { return List{draft::error(xid, 16, draft::kErrBadHeader)}; },
       kRejected, 4096},
      {"NoElement", [](auto xid) { return List{answer_with(xid, 0, 0, 0)}; }, kRejected, 4096},
      {"DoneAndRejected", [](auto xid) { return List{answer_with(xid, 1, 1, 0)}; }, kRejected,
       4096},
      {"ElementsThatWereNotAskedFor", [](auto xid) { return List{answer_with(xid, 0xfe, 1, 0)}; },
       kRejected, 4096},
      {"AnswerOfAnotherXid",
       [](auto xid) {
         return List{answer_with(xid ^ 0x40000000, 0, 1, 0), answer_with(xid, 1, 0, 0)};
       },
       kGranted, kWish},
      {"TwoAnswers",
       [](auto xid) {
         return List{answer_with(xid, 1, 0, 0), answer_with(xid, 0, 1, 0)};
       },
       kGranted, kWish},
      {"Silence", [](auto) { return List{}; }, kRejected, 4096, false},
  };
}

class ChangeByTheServer : public VersionTwoServer,
                          public ::testing::WithParamInterface<ChangeMode> {
 protected:
  void run() {
    ClientOptions some = options();
    some.connection.inline_size = kWish;
    connect(some);
    for (int i = 0; i < 2; ++i) expect_served();
    handle_ = keep();
    int ended = 0;
    std::optional<ChangeResult> result;
    ASSERT_TRUE(client_->version_two().request_receive_size(kWish, [&](ChangeResult end) {
      ++ended;
      result = end;
    }));
    time_.settle();
    ASSERT_EQ(others_.size(), 1U);
    expect_good_request(others_[0]);
    const Instant before = time_.now();
    for (const draft::Words& message : GetParam().messages(others_[0].xid)) send(message);
    EXPECT_TRUE(time_.run_until([&] { return ended > 0; }));
    if (GetParam().at_once) {
      EXPECT_LT(time_.now() - before, std::chrono::seconds(1));
    }
    EXPECT_EQ(ended, 1);
    EXPECT_EQ(result, GetParam().result);
    EXPECT_EQ(client_->version_two().characteristics()->peer.receive_size, GetParam().size);
    handle_ = &serve;
    expect_served();
    EXPECT_EQ(ended, 1);
    expect_ends();
  }
  static void expect_good_request(const Seen& request) {
    EXPECT_TRUE(request.is_option(draft::kReqxch)) << draft::to_string(request);
    EXPECT_EQ(request.direction, draft::kCall);
    const auto wishes = draft::decode_values(request);
    ASSERT_TRUE(wishes && wishes->size() == 1);
    EXPECT_EQ(wishes->front().id, draft::kRbsiz);
    EXPECT_EQ(wishes->front().data, draft::Words{kWish});
  }
};
INSTANTIATE_TEST_SUITE_P(Modes, ChangeByTheServer, ::testing::ValuesIn(change_modes()),
                         [](const ::testing::TestParamInfo<ChangeMode>& mode) {
                           return mode.param.name;
                         });

TEST_P(ChangeByTheServer, EndsOnceAsTheServerSays) {
  run();
}

TEST_F(VersionTwoServer, LosesTheRequestsOfItsClientWhenItGoes) {
  connect();
  handle_ = keep();
  std::vector<ChangeResult> ends;
  ASSERT_TRUE(client_->version_two().request_receive_size(
      8192, [&](ChangeResult end) { ends.push_back(end); }));
  time_.settle();
  peer().disconnect();
  time_.settle();
  EXPECT_EQ(ends, std::vector<ChangeResult>{ChangeResult::kLost});
}

// --- Calls of the server's

class CallingServer : public VersionTwoServer {
 protected:
  static constexpr std::uint32_t kBackwardXid = 0x22000001;
  static constexpr std::uint32_t kTakes = 2;  // backward calls at a time

  void connect_serving(BackwardSupport support) {
    ClientOptions some = options();
    some.backward_calls = kTakes;
    some.backward_support = support;
    handle_ = [this](VersionTwoPeer& peer, const Seen& seen) {
      if (!is_call(seen)) others_.push_back(seen);
      serve(peer, seen);
    };
    connect(some);
    ASSERT_TRUE(Backward::serve(*client_, TestService::kProgram, TestService::kVersion, service_));
    for (int i = 0; i < 2; ++i) expect_served();
  }
  static draft::Words backward_call(std::uint32_t xid, std::uint32_t procedure,
                                    const draft::Words& lists = draft::kNoLists) {
    return draft::msg(xid, kTakes, draft::kCall,
                      draft::rpc_call(xid, TestService::kProgram, TestService::kVersion, procedure),
                      lists);
  }
  // Sends the message and returns the answers of the client.
  std::vector<Seen> answers_to(const draft::Words& message) {
    handle_ = [this](VersionTwoPeer&, const Seen& seen) {
      (is_call(seen) ? calls_ : others_).push_back(seen);
    };
    others_.clear();
    send(message);
    return others_;
  }
  void expect_reply_to(const draft::Words& message) {
    const auto answers = answers_to(message);
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_TRUE(answers[0].is_msg(draft::kReply)) << draft::to_string(answers[0]);
    EXPECT_EQ(answers[0].xid, message[0]);
    EXPECT_EQ(answers[0].credit, kTakes) << "its grant";
    EXPECT_TRUE(answers[0].writes.empty() && !answers[0].has_reply_chunk);
  }
  void expect_bad_header_to(const draft::Words& message) {
    const auto answers = answers_to(message);
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_TRUE(answers[0].is_error(draft::kErrBadHeader)) << draft::to_string(answers[0]);
    EXPECT_EQ(answers[0].xid, message[0]);
    EXPECT_GE(answers[0].credit, 1U);
  }
  ~CallingServer() override {
    for (CallContext* context : service_.held) context->succeed();
    service_.held.clear();
  }
  TestService service_;
};

TEST_F(CallingServer, HasItsCallsAnswered) {
  connect_serving(BackwardSupport::kInline);
  for (std::uint32_t i = 0; i < 10; ++i) {
    expect_reply_to(backward_call(kBackwardXid + i, TestService::kNull));
  }
  handle_ = &serve;
  expect_served();
}

TEST_F(CallingServer, HearsWhatTheClientTakes) {
  for (const auto& [support, brs] : {std::pair(BackwardSupport::kNone, draft::kBrsNone),
                                     std::pair(BackwardSupport::kInline, draft::kBrsInline),
                                     std::pair(BackwardSupport::kGeneral, draft::kBrsGeneral)}) {
    connect_serving(support);
    ASSERT_EQ(others_.size(), 1U);
    const auto values = draft::decode_values(others_[0]);
    ASSERT_TRUE(values);
    std::optional<std::uint32_t> said;
    for (const draft::Value& value : *values) {
      if (value.id == draft::kBrs) said = value.data.at(0);
    }
    // A server that hears nothing assumes INLINE.
    EXPECT_EQ(said.value_or(draft::kBrsInline), std::uint32_t{brs});
    others_.clear();
    client_.reset();
  }
}

// A1: one number in both directions names two calls.
TEST_F(CallingServer, MayUseTheXidOfACallOfTheClient) {
  connect_serving(BackwardSupport::kInline);
  const Seen call = started();
  expect_reply_to(backward_call(call.xid, TestService::kNull));
  EXPECT_TRUE(ends_.back().empty()) << "its own call goes on";
  send(reply_to(call));
  EXPECT_EQ(ends_.back(), std::vector<CallEnd>{std::nullopt});
}

// A2, and (as a responder) V2-2: it says CALL, so it is no reply, whatever it holds.
TEST_F(CallingServer, EndsNoCallByAReplyThatSaysCall) {
  connect_serving(BackwardSupport::kInline);
  const Seen call = started();
  expect_bad_header_to(draft::msg(call.xid, 1, draft::kCall, draft::rpc_reply(call.xid)));
  EXPECT_TRUE(ends_.back().empty());
  send(reply_to(call));
  EXPECT_EQ(ends_.back(), std::vector<CallEnd>{std::nullopt});
}

// A5: a client that serves is the responder of these, and says BAD_HEADER as a server does.
struct BadCall {
  const char* name;
  draft::Words message;
};
void PrintTo(const BadCall& bad, std::ostream* out) {
  *out << bad.name;
}
std::vector<BadCall> bad_calls() {
  constexpr std::uint32_t kBadXid = 0x22000001;
  const draft::Words rpc =
      draft::rpc_call(kBadXid, TestService::kProgram, TestService::kVersion, 0);
  return {
      {"ReplyChunkWord2", draft::msg(kBadXid, 1, draft::kCall, rpc, {0, 0, 2})},
      {"NomsgWithoutChunks", draft::nomsg(kBadXid, 1, draft::kCall, {0, 0, 0})},
      {"NomsgWithPayload", draft::join({draft::nomsg(kBadXid, 1, draft::kCall, {0, 0, 0}), rpc})},
      {"MsgWithoutPayload", draft::msg(kBadXid, 1, draft::kCall, {})},
      {"CallOfAnotherXid",
       draft::msg(kBadXid, 1, draft::kCall, draft::rpc_call(kBadXid + 1, 77, 1, 0))},
      {"CallThatHoldsAReply", draft::msg(kBadXid, 1, draft::kCall, draft::rpc_reply(kBadXid))},
  };
}
class BadCallOfTheServer : public CallingServer, public ::testing::WithParamInterface<BadCall> {};
INSTANTIATE_TEST_SUITE_P(Messages, BadCallOfTheServer, ::testing::ValuesIn(bad_calls()),
                         [](const ::testing::TestParamInfo<BadCall>& bad) {
                           return bad.param.name;
                         });

TEST_P(BadCallOfTheServer, IsAnsweredBadHeaderAndEndsNoCall) {
  connect_serving(BackwardSupport::kInline);
  const Seen call = started();
  expect_bad_header_to(GetParam().message);
  EXPECT_TRUE(ends_.back().empty());
  send(reply_to(call));
  EXPECT_EQ(ends_.back(), std::vector<CallEnd>{std::nullopt});
  expect_reply_to(backward_call(kBackwardXid, TestService::kNull));
}

// B2: INLINE takes no chunks.
TEST_F(CallingServer, MaySendNoChunksToAClientThatTakesThemInline) {
  connect_serving(BackwardSupport::kInline);
  const draft::Words with_chunk = draft::join({{0, 0, 1}, draft::chunk_of({0x4711, 400, 0x1000})});
  expect_bad_header_to(backward_call(kBackwardXid, TestService::kNull, with_chunk));
  expect_reply_to(backward_call(kBackwardXid, TestService::kNull));
}

TEST_F(CallingServer, HasItsLongCallReadByAClientThatTakesChunks) {
  connect_serving(BackwardSupport::kGeneral);
  peer().expose(draft::rpc_call(kBackwardXid, TestService::kProgram, TestService::kVersion,
                                TestService::kNull),
                rdma::RemoteAccess::kRead);
  ASSERT_TRUE(time_.run_until([this] { return peer().exposed().has_value(); }));
  const draft::Words lists = draft::join({draft::read_entry(0, *peer().exposed()), {0, 0, 0}});
  expect_reply_to(draft::nomsg(kBackwardXid, kTakes, draft::kCall, lists));
}

TEST_F(CallingServer, MayHaveAsManyCallsUnderWayAsItIsGranted) {
  connect_serving(BackwardSupport::kInline);
  for (std::uint32_t i = 0; i < kTakes; ++i) {
    EXPECT_TRUE(answers_to(backward_call(kBackwardXid + i, TestService::kHold)).empty());
  }
  EXPECT_EQ(service_.held.size(), kTakes);
  handle_ = &serve;
  expect_served();  // credits are those of each direction
  handle_ = keep();
  others_.clear();
  for (CallContext* context : std::exchange(service_.held, {})) context->succeed();
  time_.settle();
  EXPECT_EQ(others_.size(), kTakes);
}

TEST_F(CallingServer, EndsItsConnectionByMoreCallsThanGranted) {
  connect_serving(BackwardSupport::kInline);
  const Seen call = started();
  breaks_rules_ = true;
  for (std::uint32_t i = 0; i <= kTakes; ++i) {
    peer().send(backward_call(kBackwardXid + i, TestService::kHold));
  }
  time_.settle();
  EXPECT_LE(service_.held.size(), kTakes);
  EXPECT_EQ(ends_.back(), std::vector<CallEnd>{Errc::kConnectionLost});
}

// bis-02 §7.2.1, with all that a client can say.
TEST_F(CallingServer, SeesNoCreditWordOfZero) {
  connect_serving(BackwardSupport::kInline);
  answers_to(backward_call(kBackwardXid, TestService::kNull));
  answers_to(backward_call(kBackwardXid, 99));
  answers_to(draft::msg(kBackwardXid, 1, draft::kCall, {kBackwardXid, 0}));
  EXPECT_EQ(peer().zero_credits(), std::vector<std::string>());
}

}  // namespace
}  // namespace rpcrdma::test
