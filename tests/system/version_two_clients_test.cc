// Clients of version two that share no code with the library: each message that such a client may
// send, right or wrong, has the answer that the drafts give it, and harms no other Call.
// Credits, Receives and sizes are in version_two_client_credits_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "system/version_two_client_for_test.h"

namespace rpcrdma::test {
namespace {

// Names a message and its answer; an empty answer: the message is dropped.
struct ClientMessage {
  const char* name;
  draft::Words message;
  std::string answer;
  // A Call takes one of the client's credits; anything else may be sent while all are in use.
  bool is_call = false;
};
void PrintTo(const ClientMessage& row, std::ostream* out) {
  *out << row.name;
}

constexpr std::uint32_t kMessageXid = 0x77000001;
constexpr std::uint32_t kAsked = 8;
const char* const kBadHeaderAnswer = "BAD_HEADER";
const char* const kInvalOptionAnswer = "INVAL_OPTION";
// A procedure that the service counts.
const draft::Words kCallRpc = draft::rpc_call(kMessageXid, TestService::kProgram,
                                              TestService::kVersion, TestService::kWhoAmI);

draft::Words of_type(std::uint32_t proc, const draft::Words& rest, std::uint32_t vers = 2) {
  return draft::join({draft::prefix(kMessageXid, kAsked, proc, vers), rest});
}
draft::Words call_with(std::uint32_t direction, const draft::Words& lists) {
  return draft::msg(kMessageXid, kAsked, direction, kCallRpc, lists);
}
draft::Words option_of(std::uint32_t type, const draft::Words& info,
                       std::uint32_t direction = draft::kCall) {
  return draft::option(kMessageXid, kAsked, direction, type, info);
}

// A1, A2, A4 of the spec sheet; V2-1 to V2-4, V2-13 and V2-14 of docs/conformance.md.
std::vector<ClientMessage> headers() {
  const draft::Words rest = draft::join({{draft::kCall}, draft::kNoLists, kCallRpc});
  return {
      {"HonestCall", call_with(draft::kCall, draft::kNoLists), "reply", true},
      {"CallOfVersionOne", of_type(draft::kMsg, draft::join({draft::kNoLists, kCallRpc}), 1),
       "reply of version 1", true},
      {"CallThatAsksForNoCredit", draft::msg(kMessageXid, 0, draft::kCall, kCallRpc), "reply",
       true},
      {"Msgp", of_type(2, rest), kBadHeaderAnswer, true},
      {"Done", of_type(3, {}), kBadHeaderAnswer, true},
      {"Type6", of_type(6, rest), kBadHeaderAnswer, true},
      {"TypeOfAllOnes", of_type(0xffffffff, rest), kBadHeaderAnswer, true},
      {"Version0", of_type(draft::kMsg, rest, 0), "ERR_VERS 1..2", true},
      {"Version3", of_type(draft::kMsg, rest, 3), "ERR_VERS 1..2", true},
      {"VersionOfAllOnes", of_type(99, rest, 0xffffffff), "ERR_VERS 1..2", true},
      {"Direction2", call_with(2, draft::kNoLists), kBadHeaderAnswer, true},
      {"DirectionOfAllOnes", call_with(0xffffffff, draft::kNoLists), kBadHeaderAnswer, true},
      {"ReadListWord2", call_with(draft::kCall, {2, 0, 0}), kBadHeaderAnswer, true},
      {"WriteListWord2", call_with(draft::kCall, {0, 2, 0}), kBadHeaderAnswer, true},
      {"ReplyChunkWordOfAllOnes", call_with(draft::kCall, {0, 0, 0xffffffff}), kBadHeaderAnswer,
       true},
      {"ReadListWithoutAnEnd", of_type(draft::kMsg, {draft::kCall, 1, 40, 9, 4, 0, 0}),
       kBadHeaderAnswer, true},
      {"WriteChunkOfTooManySegments", call_with(draft::kCall, {0, 1, 0x10000001, 0, 0}),
       kBadHeaderAnswer, true},
      {"MsgWithoutPayload", of_type(draft::kMsg, {draft::kCall, 0, 0, 0}), kBadHeaderAnswer, true},
      {"CallThatHoldsAReply",
       draft::msg(kMessageXid, kAsked, draft::kCall, draft::rpc_reply(kMessageXid)),
       kBadHeaderAnswer, true},
      {"CallOfAnotherXid",
       draft::msg(kMessageXid, kAsked, draft::kCall,
                  draft::rpc_call(kMessageXid + 1, TestService::kProgram, 3, 0)),
       kBadHeaderAnswer, true},
      {"ReplyToNoCall",
       draft::msg(kMessageXid, kAsked, draft::kReply, draft::rpc_reply(kMessageXid)), ""},
      {"ReplyThatHoldsACall", call_with(draft::kReply, draft::kNoLists), ""},
      {"ReplyWithoutPayload", of_type(draft::kMsg, {draft::kReply, 0, 0, 0}), ""},
      {"NomsgWithoutChunks", of_type(draft::kNomsg, {draft::kCall, 0, 0, 0}), kBadHeaderAnswer,
       true},
      {"NomsgWithPayload", of_type(draft::kNomsg, rest), kBadHeaderAnswer, true},
      {"NomsgReply", of_type(draft::kNomsg, {draft::kReply, 0, 0, 0}), ""},
  };
}

// A5: a responder discards errors, whatever they say, and never answers one.
std::vector<ClientMessage> errors() {
  return {
      {"BadHeader", draft::error(kMessageXid, kAsked, draft::kErrBadHeader), ""},
      {"InvalOption", draft::error(kMessageXid, kAsked, draft::kErrInvalOption), ""},
      {"ErrVers", draft::error_vers(kMessageXid, kAsked, 1, 2), ""},
      {"ErrVersOfVersionOne", draft::error_vers(kMessageXid, kAsked, 1, 1, 1), ""},
      {"ErrVersOfVersion9", draft::error_vers(kMessageXid, kAsked, 1, 1, 9), ""},
      {"ErrVersWithoutARange", draft::error(kMessageXid, kAsked, draft::kErrVers), ""},
      {"Code0", draft::error(kMessageXid, kAsked, 0), ""},
      {"CodeOfAllOnes", draft::error(kMessageXid, kAsked, 0xffffffff), ""},
      {"WithoutCode", draft::prefix(kMessageXid, kAsked, draft::kError), ""},
      {"WithPayload", draft::join({draft::error(kMessageXid, kAsked, 2), kCallRpc}), ""},
  };
}

// A5, V2-15: options that are not known, whatever they carry; and such as are none.
std::vector<ClientMessage> options() {
  const draft::Words bytes_and_pad{draft::kCall, 99, 5, 0x01020304, 0x05000000};
  return {
      {"Type0", option_of(0, {}), kInvalOptionAnswer},
      {"Type5", option_of(5, {1, 2, 3}), kInvalOptionAnswer},
      {"TypeOfAllOnes", option_of(0xffffffff, {}), kInvalOptionAnswer},
      {"TypeOfAReply", option_of(99, {}, draft::kReply), kInvalOptionAnswer},
      {"InfoOfFiveBytes", of_type(draft::kOptional, bytes_and_pad), kInvalOptionAnswer},
      {"UnknownWithACall", draft::join({option_of(99, {7}), kCallRpc}), kInvalOptionAnswer},
      {"UnknownWithPartOfACall", draft::join({option_of(99, {}), {kMessageXid}}),
       kInvalOptionAnswer},
      {"OptionOfDirection2", option_of(99, {}, 2), kBadHeaderAnswer},
      {"InfoBeyondItsMessage", of_type(draft::kOptional, {draft::kCall, 1, 8, 0}),
       kBadHeaderAnswer},
      {"InfoOf4GiB", of_type(draft::kOptional, {draft::kCall, 1, 0xffffffff, 0}), kBadHeaderAnswer},
      {"WithoutInfo", of_type(draft::kOptional, {draft::kCall, 1}), kBadHeaderAnswer},
      {"WithoutType", of_type(draft::kOptional, {draft::kCall}), kBadHeaderAnswer},
      {"WithoutDirection", of_type(draft::kOptional, {}), kBadHeaderAnswer},
  };
}

// B1 to B4, X-1 to X-13: the four operations on characteristics, with good and bad values.
std::vector<ClientMessage> characteristics() {
  using draft::initxch, draft::value, draft::updxch, draft::spec;
  const draft::Words all = initxch(
      {value(draft::kRbsiz, 4096), value(draft::kReqreminv, 1), value(draft::kBrs, 1)}, {6});
  draft::Words many{100};
  for (std::uint32_t i = 0; i < 100; ++i) many = draft::join({many, value(0x100 + i, i)});
  many.push_back(0);  // no subset
  const auto init = [](const draft::Words& info) { return option_of(draft::kInitxch, info); };
  const auto update = [](const draft::Words& info) { return option_of(draft::kUpdxch, info); };
  const auto request = [](const draft::Words& info) { return option_of(draft::kReqxch, info); };
  return {
      {"AllValues", init(all), ""},
      {"NoValues", init(initxch({})), ""},
      {"UnknownValue", init(initxch({{0x1234, 4, 1}, value(draft::kRbsiz, 4096)})), ""},
      {"ExperimentalValue", init(initxch({{0xffffff42, 8, 1, 2}})), ""},
      {"ValueTwice", init(initxch({value(draft::kBrs, 0), value(draft::kBrs, 1)})), ""},
      {"ValueOfTwoWords", init(initxch({{draft::kRbsiz, 8, 4096, 7}})), ""},
      {"SubsetBeyondTheValues", init(initxch({value(draft::kBrs, 1)}, {0xffffffff, 1})), ""},
      {"InReplyDirection", option_of(draft::kInitxch, all, draft::kReply), ""},
      {"ValueOfIdZero", init(initxch({value(0, 1)})), ""},
      {"ManyUnknownValues", init(many), ""},
      {"SubsetBeyondTheOption", init(draft::join({spec({value(draft::kBrs, 1)}), {5, 1}})),
       kBadHeaderAnswer},
      // None of the operations has a payload (their table says so). The drafts name no error for
      // one, so it may be ignored, but it is never executed.
      {"ValuesInFrontOfACall", draft::join({init(all), kCallRpc}), ""},
      {"ValueOfNoBytes", init(initxch({{draft::kRbsiz, 0}})), kBadHeaderAnswer},
      {"ValueOfTwoBytes", init(initxch({{draft::kRbsiz, 2, 0x10000000}})), kBadHeaderAnswer},
      {"BoolOf2", init(initxch({value(draft::kReqreminv, 2)})), kBadHeaderAnswer},
      {"BrsOf3", init(initxch({value(draft::kBrs, 3)})), kBadHeaderAnswer},
      {"ValueBeyondTheOption", init({1, draft::kRbsiz, 0xfffffffc, 4096, 0}), kBadHeaderAnswer},
      {"FewerValuesThanCounted", init({2, draft::kRbsiz, 4, 4096}), kBadHeaderAnswer},
      {"ValuesOf4Gi", init({0xffffffff}), kBadHeaderAnswer},
      {"NoSubset", init(spec({value(draft::kBrs, 1)})), kBadHeaderAnswer},
      {"BytesBehindTheOperation", init(draft::join({all, {0}})), kBadHeaderAnswer},
      {"UpdateOfASize", update(updxch(value(draft::kRbsiz, 4096), false)), ""},
      {"UpdateOfAnUnknownValue", update(updxch(value(0x4321, 1), false)), ""},
      {"UpdateThatClearsNothing", update(updxch(value(draft::kRbsiz, 4096), true)), ""},
      {"UpdateOfATooShortValue", update({draft::kRbsiz, 0, 0}), kBadHeaderAnswer},
      {"UpdateThatClears2", update({draft::kRbsiz, 4, 4096, 2}), kBadHeaderAnswer},
      {"AnswerToNoRequest", option_of(draft::kRespxch, draft::respxch(1, 0, 0), draft::kReply), ""},
      {"SolicitedUpdateOfNoRequest",
       option_of(draft::kUpdxch, updxch(value(draft::kRbsiz, 4096), true), draft::kReply), ""},
      {"AnswerInCallDirection", option_of(draft::kRespxch, draft::respxch(0, 1, 0)), ""},
      {"RequestOfNothing", request({0}), "RESPXCH"},
      {"RequestOfAnUnknownValue", request(spec({value(0x4321, 1)})), "RESPXCH"},
      {"RequestOfATooShortValue", request({1, draft::kRbsiz, 0}), kBadHeaderAnswer},
      {"RequestWithoutItsValues", request({1}), kBadHeaderAnswer},
  };
}

class VersionTwoMessages : public VersionTwoClient,
                           public ::testing::WithParamInterface<ClientMessage> {
 protected:
  std::vector<std::string> expected() const {
    if (GetParam().answer.empty()) return {};
    return {GetParam().answer};
  }
};
constexpr auto kMessageName = [](const ::testing::TestParamInfo<ClientMessage>& row) {
  return row.param.name;
};
INSTANTIATE_TEST_SUITE_P(Headers, VersionTwoMessages, ::testing::ValuesIn(headers()), kMessageName);
INSTANTIATE_TEST_SUITE_P(Errors, VersionTwoMessages, ::testing::ValuesIn(errors()), kMessageName);
INSTANTIATE_TEST_SUITE_P(Options, VersionTwoMessages, ::testing::ValuesIn(options()), kMessageName);
INSTANTIATE_TEST_SUITE_P(Characteristics, VersionTwoMessages,
                         ::testing::ValuesIn(characteristics()), kMessageName);

TEST_P(VersionTwoMessages, HaveTheSameAnswerFirstAndLater) {
  connect();
  EXPECT_EQ(answers_to(GetParam().message), expected()) << "as the first message";
  expect_served();
  EXPECT_EQ(answers_to(GetParam().message), expected()) << "behind a Call";
  expect_served();
  EXPECT_EQ(service_.calls, GetParam().answer.starts_with("reply") ? 2U : 0U)
      << "nothing else is executed";
}

// The rows that are no Calls.
std::vector<ClientMessage> other_messages() {
  std::vector<ClientMessage> rows;
  for (const auto& some : {headers(), errors(), options(), characteristics()}) {
    std::ranges::copy_if(some, std::back_inserter(rows),
                         [](const ClientMessage& row) { return !row.is_call; });
  }
  return rows;
}
class VersionTwoMessagesThatAreNoCalls : public VersionTwoMessages {};
INSTANTIATE_TEST_SUITE_P(All, VersionTwoMessagesThatAreNoCalls,
                         ::testing::ValuesIn(other_messages()), kMessageName);

// B6, credits of messages without reply: they take none of the client's.
TEST_P(VersionTwoMessagesThatAreNoCalls, TakeNoCredit) {
  connect();
  expect_served();
  hold(kGrant);
  EXPECT_EQ(answers_to(GetParam().message), expected());
  EXPECT_FALSE(peer_->ended()) << "the connection has ended";
  release_held();
  EXPECT_EQ(heard().size(), kGrant) << "the replies to the Calls that were under way";
  expect_served();
}

// V1-E2 and V1-E10: less than a prefix has no answer, more has one with its XID.
TEST_F(VersionTwoClient, HasAnAnswerToEveryPrefixOfACall) {
  connect();
  expect_served();
  const auto message = draft::bytes_of(call(kXid, TestService::kWhoAmI));
  ASSERT_EQ(message.size(), 72U);
  for (std::size_t size = 0; size < message.size(); ++size) {
    SCOPED_TRACE(size);
    std::vector<std::string> expected;
    if (size >= 16) expected.emplace_back("BAD_HEADER");
    ASSERT_EQ(answers_to_bytes(Bytes(message).first(size), kXid), expected);
  }
  expect_served();
  EXPECT_EQ(service_.calls, 0U) << "no part of a Call is executed";
}

TEST_F(VersionTwoClient, HasAnAnswerToEveryPrefixOfAnOption) {
  connect();
  expect_served();
  const auto message = draft::bytes_of(option_of(
      draft::kInitxch,
      draft::initxch({draft::value(draft::kRbsiz, 4096), draft::value(draft::kReqreminv, 1),
                      draft::value(draft::kBrs, draft::kBrsInline)},
                     {6})));
  ASSERT_EQ(message.size(), 76U);
  for (std::size_t size = 0; size < message.size(); ++size) {
    SCOPED_TRACE(size);
    std::vector<std::string> expected;
    if (size >= 16) expected.emplace_back("BAD_HEADER");
    ASSERT_EQ(answers_to_bytes(Bytes(message).first(size), kMessageXid), expected);
  }
  expect_served();
}

TEST_F(VersionTwoClient, HasItsLongCallAnswered) {
  connect();
  peer_->expose(rpc_call(kXid, TestService::kNull), rdma::RemoteAccess::kRead);
  ASSERT_TRUE(time_.run_until([this] { return peer_->exposed().has_value(); }));
  const draft::Words lists = draft::join({draft::read_entry(0, *peer_->exposed()), {0, 0, 0}});
  EXPECT_EQ(answers_to(draft::nomsg(kXid, kWanted, draft::kCall, lists)),
            std::vector<std::string>{"reply"});
  expect_served();
}

// A2: the direction of a NOMSG is that of the message in its chunk. The sender says that it calls,
// so the error cannot be taken for the end of a call of the server's.
TEST_F(VersionTwoClient, IsAnsweredBadHeaderToALongCallThatHoldsAReply) {
  connect();
  expect_served();
  peer_->expose(draft::rpc_reply(kXid), rdma::RemoteAccess::kRead);
  ASSERT_TRUE(time_.run_until([this] { return peer_->exposed().has_value(); }));
  const draft::Words lists = draft::join({draft::read_entry(0, *peer_->exposed()), {0, 0, 0}});
  EXPECT_EQ(answers_to(draft::nomsg(kXid, kWanted, draft::kCall, lists)),
            std::vector<std::string>{"BAD_HEADER"});
  expect_served();
}

TEST_F(VersionTwoClient, HasACallOfVersionOneAnsweredBetweenOthers) {
  connect();
  expect_served();
  EXPECT_EQ(answers_to(draft::join({draft::prefix(kXid, kWanted, draft::kMsg, 1), draft::kNoLists,
                                    rpc_call(kXid, TestService::kNull)})),
            std::vector<std::string>{"reply of version 1"});
  expect_served();
}

// B5: each element of a request is in exactly one of the three sets.
TEST_F(VersionTwoClient, HasEachOfItsWishesAnsweredOnce) {
  connect();
  expect_served();
  peer_->send(option_of(draft::kReqxch,
                        draft::spec({draft::value(0x4321, 1), draft::value(draft::kRbsiz, 4096),
                                     draft::value(draft::kBrs, draft::kBrsGeneral)})));
  std::uint32_t seen_bits = 0;
  for (const draft::Seen& seen : heard()) {
    if (!seen.is_option(draft::kRespxch)) continue;
    EXPECT_EQ(seen.xid, kMessageXid);
    EXPECT_EQ(seen.direction, draft::kReply);
    const auto answer = draft::decode_respxch(seen);
    ASSERT_TRUE(answer);
    for (const draft::Words* set : {&answer->done, &answer->rejected, &answer->pending}) {
      const std::uint32_t bits = set->empty() ? 0 : set->front();
      EXPECT_EQ(seen_bits & bits, 0U) << "the sets overlap";
      seen_bits |= bits;
    }
    ASSERT_FALSE(answer->rejected.empty());
    EXPECT_EQ(answer->rejected.front() & 1U, 1U) << "the unknown value";
  }
  EXPECT_EQ(seen_bits, 7U);
  expect_served();
}

// INITXCH is the server's to send at any time behind its first reply, once.
TEST_F(VersionTwoClient, HearsOfTheServersValuesOnceAndInOneMessage) {
  connect();
  for (int i = 0; i < 5; ++i) expect_served();
  ASSERT_LE(announcements_.size(), 1U);
  for (const draft::Seen& seen : announcements_) {
    EXPECT_EQ(seen.direction, draft::kCall) << "who begins an exchange sets CALL";
    EXPECT_TRUE(seen.payload.empty());
    const auto values = draft::decode_values(seen);
    ASSERT_TRUE(values);
    for (const draft::Value& value : *values) {
      ASSERT_EQ(value.data.size(), 1U);
      if (value.id == draft::kRbsiz) {
        EXPECT_GE(value.data[0], 4096U);
      }
    }
  }
}

}  // namespace
}  // namespace rpcrdma::test
