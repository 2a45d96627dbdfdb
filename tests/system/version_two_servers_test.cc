// Servers of version two that share no code with the library: how they may answer a client's offer,
// and each message that they may send while a call is under way. Each call ends exactly once.
// Credits, Receives and sizes are in version_two_server_credits_test.cc.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "system/version_two_server_for_test.h"

namespace rpcrdma::test {
namespace {

// --- The offer (A4)

using Seen = draft::Seen;

constexpr std::uint32_t kOtherBit = 0x40000000;  // turns an XID into that of no call

// Says how a server answers messages of version two, and what follows. It always replies to those
// of version one.
struct OfferMode {
  const char* name;
  // Null: no answer.
  std::function<draft::Words(const Seen& offer)> answer;
  // The version that each kind of client speaks afterwards; 0: it has ended.
  std::uint32_t spoken_by_any, spoken_by_two;
  std::size_t connections = 1;   // that a client of any version makes
  bool at_once = true;           // nothing waits for a time-out
  bool ends_connection = false;  // the server closes behind its answer
};
void PrintTo(const OfferMode& mode, std::ostream* out) {
  *out << mode.name;
}

draft::Words null_reply(const Seen& offer, std::uint32_t direction = draft::kReply) {
  return draft::msg(offer.xid, 16, direction, draft::rpc_reply(offer.xid));
}
std::function<draft::Words(const Seen&)> refusal(std::uint32_t low, std::uint32_t high,
                                                 std::uint32_t vers) {
  return [=](const Seen& offer) { return draft::error_vers(offer.xid, 16, low, high, vers); };
}
draft::Words old_reply(const Seen& call) {
  return draft::join(
      {draft::prefix(call.xid, 16, draft::kMsg, 1), draft::kNoLists, draft::rpc_reply(call.xid)});
}
std::vector<OfferMode> offer_modes() {
  return {
      {"Reply", [](const Seen& offer) { return null_reply(offer); }, 2, 2},
      {"ReplyOfAnotherProgram",
       [](const Seen& offer) {
         return draft::msg(offer.xid, 16, draft::kReply, {offer.xid, 1, 0, 0, 0, 1});
       },
       2, 2},
      {"RpcDenial",
       [](const Seen& offer) {
         return draft::msg(offer.xid, 16, draft::kReply, {offer.xid, 1, 1, 1, 1});
       },
       2, 2},
      {"BadHeader",
       [](const Seen& offer) { return draft::error(offer.xid, 16, draft::kErrBadHeader); }, 2, 2},
      {"InvalOption",
       [](const Seen& offer) { return draft::error(offer.xid, 16, draft::kErrInvalOption); }, 2, 2},
      {"RefusalByVersionOne", refusal(1, 1, 1), 1, 0},
      {"RefusalThatEchoesTheVersion", refusal(1, 1, 2), 1, 0},
      {"RefusalThatNamesBoth", refusal(1, 2, 1), 1, 0},
      {"RefusalThatNamesVersionThree", refusal(3, 3, 2), 0, 0},
      {"RefusalThatNamesVersionZero", refusal(0, 0, 2), 0, 0},
      {"RefusalBackwards", refusal(3, 1, 2), 0, 0},
      {"RefusalAndTheEnd", refusal(1, 1, 2), 1, 0, 2, true, true},
      {"End", nullptr, 1, 0, 2, true, true},
      {"Silence", nullptr, 1, 0, 2, false},
      {"ReplyInVersionOne", &old_reply, 1, 0, 2, false},
      {"ReplyOfAnotherXid",
       [](const Seen& offer) {
         return draft::msg(offer.xid ^ kOtherBit, 16, draft::kReply,
                           draft::rpc_reply(offer.xid ^ kOtherBit));
       },
       1, 0, 2, false},
      {"ReplyInTheOtherDirection",
       [](const Seen& offer) { return null_reply(offer, draft::kCall); }, 1, 0, 2, false},
      {"EchoOfTheOffer",
       [](const Seen& offer) { return draft::msg(offer.xid, 16, draft::kCall, offer.payload); }, 1,
       0, 2, false},
      {"ErrorOfAnotherXid",
       [](const Seen& offer) {
         return draft::error(offer.xid ^ kOtherBit, 16, draft::kErrBadHeader);
       },
       1, 0, 2, false},
      {"ErrorOfNoKnownCode", [](const Seen& offer) { return draft::error(offer.xid, 16, 77); }, 1,
       0, 2, false},
      {"HalfAHeader",
       [](const Seen& offer) {
         return draft::join({draft::prefix(offer.xid, 16, draft::kMsg), {draft::kReply, 0}});
       },
       1, 0, 2, false},
  };
}

class OfferToVersionTwo : public VersionTwoServer, public ::testing::WithParamInterface<OfferMode> {
 protected:
  void answer(VersionTwoPeer& peer, const Seen& seen) {
    if (seen.vers == 1) {
      if (!first_old_) first_old_ = seen.xid;
      peer.send(old_reply(seen));
      return;
    }
    if (is_offered_) {  // version two has been agreed on, if it has
      serve(peer, seen);
      return;
    }
    offers_.push_back(seen);
    is_offered_ = GetParam().spoken_by_any == 2;
    if (GetParam().answer) peer.send(GetParam().answer(seen));
    if (GetParam().ends_connection) peer.disconnect();
  }
  void run(ProtocolVersion version, std::uint32_t spoken) {
    handle_ = [this](VersionTwoPeer& peer, const Seen& seen) { answer(peer, seen); };
    const Instant before = time_.now();
    begin(options(version));
    wait_for_setup();
    if (GetParam().at_once) {
      EXPECT_LT(time_.now() - before, std::chrono::seconds(1)) << "the client waited in vain";
    }
    EXPECT_LT(time_.now() - before, std::chrono::seconds(6)) << "ADR 23: five seconds";
    EXPECT_EQ(client_->connected(), spoken != 0);
    EXPECT_EQ(offers_.size(), 1U) << "there is one offer, ever";
    expect_good_offers();
    if (spoken == 0) {
      EXPECT_TRUE(client_->ended());
      EXPECT_FALSE(client_->prepare({kProgram, 1, 1}));
      return;
    }
    ASSERT_TRUE(client_->connected());
    EXPECT_EQ(client_->connection().protocol_version, spoken);
    expect_served();
    expect_served();
    expect_ends();
    EXPECT_EQ(offers_.size(), 1U) << "nothing of version two follows a refusal";
    if (spoken == 1 && peers_.size() == 1) {
      EXPECT_EQ(first_old_, offers_[0].xid) << "V2-8: it is the same Call";
    }
  }
  // A4: in version 2, for a reader of version 1, and with a wish for credits.
  void expect_good_offers() {
    for (const Seen& offer : offers_) {
      EXPECT_TRUE(offer.is_msg(draft::kCall)) << draft::to_string(offer);
      EXPECT_EQ(offer.vers, 2U);
      EXPECT_GE(offer.credit, 1U);
    }
    EXPECT_LE(peers_.front()->received_size_max(), 1024U);
  }
  bool is_offered_ = false;
  std::optional<std::uint32_t> first_old_;  // XID of the first message of version one
  std::vector<Seen> offers_;
};
INSTANTIATE_TEST_SUITE_P(Modes, OfferToVersionTwo, ::testing::ValuesIn(offer_modes()),
                         [](const ::testing::TestParamInfo<OfferMode>& mode) {
                           return mode.param.name;
                         });

TEST_P(OfferToVersionTwo, LeadsAClientOfAnyVersionToWhatBothHave) {
  run(ProtocolVersion::kAny, GetParam().spoken_by_any);
  EXPECT_EQ(peers_.size(), GetParam().connections);
}

TEST_P(OfferToVersionTwo, LeadsAClientOfVersionTwoToItOrNowhere) {
  run(ProtocolVersion::kTwo, GetParam().spoken_by_two);
  EXPECT_EQ(peers_.size(), 1U) << "without another version there is nothing to try again";
}

// --- Messages to an open call (A1, A2, A5)

// A message with the XID of a call. It ends the call, or is dropped: then the reply behind it ends
// the call.
struct ServerMessage {
  const char* name;
  std::function<draft::Words(std::uint32_t xid)> make;
  std::optional<Errc> ends_it;  // nullopt: it is dropped
};
void PrintTo(const ServerMessage& row, std::ostream* out) {
  *out << row.name;
}

draft::Words as_reply(std::uint32_t xid, const draft::Words& lists) {
  return draft::msg(xid, 16, draft::kReply, draft::rpc_reply(xid), lists);
}
draft::Words raw(std::uint32_t xid, std::uint32_t proc, const draft::Words& rest,
                 std::uint32_t vers = 2) {
  return draft::join({draft::prefix(xid, 16, proc, vers), rest});
}
std::vector<ServerMessage> dropped_messages() {
  return {
      {"ReplyInCallDirection",
       [](auto xid) { return draft::msg(xid, 16, draft::kCall, draft::rpc_reply(xid)); },
       {}},
      {"CallOfItsXid",
       [](auto xid) {
         return draft::msg(xid, 16, draft::kCall, draft::rpc_call(xid, 0x40000000, 1, 0));
       },
       {}},
      {"CallOfAnotherXid",
       [](auto xid) {
         return draft::msg(xid ^ kOtherBit, 16, draft::kCall,
                           draft::rpc_call(xid ^ kOtherBit, 0x40000000, 1, 0));
       },
       {}},
      {"LongCallOfItsXid",
       [](auto xid) {
         return draft::nomsg(xid, 16, draft::kCall, {0, 0, 0});
       },
       {}},
      {"ReplyOfAnotherXid",
       [](auto xid) {
         return draft::msg(xid ^ kOtherBit, 16, draft::kReply, draft::rpc_reply(xid ^ kOtherBit));
       },
       {}},
      {"ReplyOfVersion1",
       [](auto xid) {
         return raw(xid, draft::kMsg, draft::join({{0, 0, 0}, draft::rpc_reply(xid)}), 1);
       },
       {}},
      {"ReplyOfVersion3",
       [](auto xid) {
         return raw(xid, draft::kMsg, draft::join({{1, 0, 0, 0}, draft::rpc_reply(xid)}), 3);
       },
       {}},
      {"Direction2", [](auto xid) { return draft::msg(xid, 16, 2, draft::rpc_reply(xid)); }, {}},
      {"Type2",
       [](auto xid) {
         return raw(xid, 2, draft::join({{1, 0, 0, 0}, draft::rpc_reply(xid)}));
       },
       {}},
      {"Type3", [](auto xid) { return raw(xid, 3, {}); }, {}},
      {"TypeOfAllOnes",
       [](auto xid) {
         return raw(xid, 0xffffffff, {1, 0, 0, 0});
       },
       {}},
      {"ReadListWord2",
       [](auto xid) {
         return as_reply(xid, {2, 0, 0});
       },
       {}},
      {"WriteListWord2",
       [](auto xid) {
         return as_reply(xid, {0, 2, 0});
       },
       {}},
      {"ReplyChunkWord2",
       [](auto xid) {
         return as_reply(xid, {0, 0, 2});
       },
       {}},
      {"ListsThatEndEarly",
       [](auto xid) {
         return raw(xid, draft::kMsg, {1, 0, 1, 4});
       },
       {}},
  };
}
std::vector<ServerMessage> dropped_errors_and_options() {
  return {
      {"ErrorOfNoKnownCode", [](auto xid) { return draft::error(xid, 16, 99); }, {}},
      {"ErrorWithoutCode", [](auto xid) { return draft::prefix(xid, 16, draft::kError); }, {}},
      {"ErrVersWithoutRange", [](auto xid) { return draft::error(xid, 16, draft::kErrVers); }, {}},
      {"ErrorOfAnotherXid",
       [](auto xid) { return draft::error(xid ^ kOtherBit, 16, draft::kErrBadHeader); },
       {}},
      {"TwelveBytes",
       [](auto xid) {
         return draft::Words{xid, 2, 16};
       },
       {}},
      {"UpdateOfAnUnknownValue",
       [](auto xid) {
         return draft::option(xid, 16, draft::kCall, draft::kUpdxch,
                              draft::updxch(draft::value(0x4321, 1), false));
       },
       {}},
      {"AnswerToNoRequest",
       [](auto xid) {
         return draft::option(xid, 16, draft::kReply, draft::kRespxch, draft::respxch(1, 0, 0));
       },
       {}},
  };
}
// V1-E7, P11 and P13 of docs/invariants.md.
std::vector<ServerMessage> ending_messages() {
  return {
      {"BadHeader", [](auto xid) { return draft::error(xid, 16, draft::kErrBadHeader); },
       Errc::kChunk},
      {"ErrVers", [](auto xid) { return draft::error_vers(xid, 16, 1, 1); }, Errc::kVersion},
      {"ErrVersOfVersionOne", [](auto xid) { return draft::error_vers(xid, 16, 1, 1, 1); },
       Errc::kVersion},
      {"ReplyWithAReadList",
       [](auto xid) {
         return as_reply(xid, draft::join({draft::read_entry(0, {9, 4, 0}), {0, 0, 0}}));
       },
       Errc::kBadReply},
      {"ReplyWithAWriteListThatWasNotOffered",
       [](auto xid) {
         return as_reply(xid, draft::join({{0, 1}, draft::chunk_of({9, 4, 0}), {0, 0}}));
       },
       Errc::kBadReply},
      {"ReplyWithAReplyChunkThatWasNotOffered",
       [](auto xid) {
         return as_reply(xid, draft::join({{0, 0, 1}, draft::chunk_of({9, 4, 0})}));
       },
       Errc::kBadReply},
      {"NomsgWithoutAReplyChunk",
       [](auto xid) {
         return draft::nomsg(xid, 16, draft::kReply, {0, 0, 0});
       },
       Errc::kBadReply},
      {"ReplyThatIsCutInItsRpcHeader",
       [](auto xid) {
         return draft::msg(xid, 16, draft::kReply, {xid, 1, 0});
       },
       Errc::kBadReply},
      {"RpcThatDenies",
       [](auto xid) {
         return draft::msg(xid, 16, draft::kReply, {xid, 1, 1, 1, 1});
       },
       Errc::kDenied},
      {"RpcWithoutTheProgram",
       [](auto xid) {
         return draft::msg(xid, 16, draft::kReply, {xid, 1, 0, 0, 0, 1});
       },
       Errc::kNotAvailable},
  };
}

class MessageOfTheServer : public VersionTwoServer,
                           public ::testing::WithParamInterface<ServerMessage> {};
constexpr auto kServerMessageName = [](const ::testing::TestParamInfo<ServerMessage>& row) {
  return row.param.name;
};
INSTANTIATE_TEST_SUITE_P(Dropped, MessageOfTheServer, ::testing::ValuesIn(dropped_messages()),
                         kServerMessageName);
INSTANTIATE_TEST_SUITE_P(DroppedErrors, MessageOfTheServer,
                         ::testing::ValuesIn(dropped_errors_and_options()), kServerMessageName);
INSTANTIATE_TEST_SUITE_P(Ending, MessageOfTheServer, ::testing::ValuesIn(ending_messages()),
                         kServerMessageName);

TEST_P(MessageOfTheServer, EndsItsCallOnceOrNotAtAll) {
  connect();
  const Seen call = started();
  const std::size_t index = ends_.size() - 1;
  send(GetParam().make(call.xid));
  if (GetParam().ends_it) {
    EXPECT_EQ(end_of(index), std::vector<CallEnd>{GetParam().ends_it});
  } else {
    EXPECT_EQ(end_of(index), std::vector<CallEnd>()) << "it is dropped";
  }
  send(reply_to(call));
  EXPECT_EQ(end_of(index), std::vector<CallEnd>{GetParam().ends_it});
  EXPECT_TRUE(client_->connected());
  handle_ = &serve;
  expect_served();
  expect_ends();
}

// Another call that is under way at the same time ends by its own reply.
TEST_P(MessageOfTheServer, LeavesOtherCallsAlone) {
  connect();
  handle_ = keep();
  start();
  start();
  time_.settle();
  ASSERT_EQ(calls_.size(), 2U);
  send(GetParam().make(calls_[0].xid));
  send(reply_to(calls_[1]));
  EXPECT_EQ(end_of(1), std::vector<CallEnd>{std::nullopt});
  send(reply_to(calls_[0]));
  expect_ends();
}

// P10 and P11 of docs/invariants.md: half a header says nothing; half an RPC header is a bad reply.
TEST_F(VersionTwoServer, MayCutItsReplyAnywhere) {
  connect();
  const Seen first = started();
  const auto whole = draft::bytes_of(reply_to(first));
  ASSERT_EQ(whole.size(), 56U);
  for (std::size_t size = 0; size < 32; ++size) {
    peer().send_bytes(Bytes(whole).first(size));
    time_.settle();
    ASSERT_TRUE(ends_.back().empty()) << size;
  }
  send(reply_to(first));
  EXPECT_EQ(ends_.back(), std::vector<CallEnd>{std::nullopt});
  for (std::size_t size = 36; size < whole.size(); size += 4) {
    const Seen call = started();
    const auto reply = draft::bytes_of(reply_to(call));
    peer().send_bytes(Bytes(reply).first(size));
    time_.settle();
    EXPECT_EQ(ends_.back(), std::vector<CallEnd>{Errc::kBadReply}) << size;
  }
  handle_ = &serve;
  expect_served();
}

// Each part has one answer at most, which is BAD_HEADER, and ends no call.
TEST_F(VersionTwoServer, MayCutItsOptionAnywhere) {
  connect();
  const Seen call = started();
  const auto whole =
      draft::bytes_of(draft::option(call.xid, 16, draft::kCall, draft::kInitxch,
                                    draft::initxch({draft::value(draft::kRbsiz, 8192)}, {1})));
  ASSERT_EQ(whole.size(), 52U);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    SCOPED_TRACE(size);
    others_.clear();
    peer().send_bytes(Bytes(whole).first(size));
    time_.settle();
    ASSERT_LE(others_.size(), size < 16 ? 0U : 1U);
    for (const Seen& seen : others_) {
      EXPECT_TRUE(seen.is_error(draft::kErrBadHeader)) << draft::to_string(seen);
      EXPECT_EQ(seen.xid, call.xid);
    }
    ASSERT_TRUE(ends_.back().empty());
  }
  send(reply_to(call));
  EXPECT_EQ(ends_.back(), std::vector<CallEnd>{std::nullopt});
}

// --- Options of the server (B3 to B6)

struct ServerOption {
  const char* name;
  draft::Words message;
  std::string answer;  // empty: none
};
void PrintTo(const ServerOption& row, std::ostream* out) {
  *out << row.name;
}
std::vector<ServerOption> server_options() {
  using draft::initxch, draft::value, draft::updxch, draft::spec;
  constexpr std::uint32_t kXid = 0x33000001;
  const auto option = [](std::uint32_t type, const draft::Words& info,
                         std::uint32_t direction = draft::kCall) {
    return draft::option(kXid, 16, direction, type, info);
  };
  return {
      {"Type0", option(0, {}), "INVAL_OPTION"},
      {"Type5", option(5, {1, 2}), "INVAL_OPTION"},
      {"Type5OfAReply", option(5, {1, 2}, draft::kReply), "INVAL_OPTION"},
      {"Type5WithPayload", draft::join({option(5, {}), draft::rpc_reply(kXid)}), "INVAL_OPTION"},
      {"AllValues",
       option(draft::kInitxch, initxch({value(draft::kRbsiz, 8192), value(draft::kReqreminv, 0),
                                        value(draft::kBrs, draft::kBrsGeneral)},
                                       {6})),
       ""},
      {"UnknownValues", option(draft::kInitxch, initxch({{0x777, 8, 1, 2}})), ""},
      {"NoValues", option(draft::kInitxch, initxch({})), ""},
      {"UpdateOfASize", option(draft::kUpdxch, updxch(value(draft::kRbsiz, 8192), false)), ""},
      {"ValueOfNoBytes", option(draft::kInitxch, initxch({{draft::kRbsiz, 0}})), "BAD_HEADER"},
      {"BoolOf7", option(draft::kInitxch, initxch({value(draft::kReqreminv, 7)})), "BAD_HEADER"},
      {"FewerValuesThanCounted", option(draft::kInitxch, {3, 1, 4, 4096}), "BAD_HEADER"},
      {"UpdateThatClears2", option(draft::kUpdxch, {draft::kRbsiz, 4, 4096, 2}), "BAD_HEADER"},
      {"WishForALargerReceive", option(draft::kReqxch, spec({value(draft::kRbsiz, 65'536)})),
       "RESPXCH"},
      {"WishForAnUnknownValue", option(draft::kReqxch, spec({value(0x777, 1)})), "RESPXCH"},
      {"WishForNothing", option(draft::kReqxch, {0}), "RESPXCH"},
  };
}

class OptionOfTheServer : public VersionTwoServer,
                          public ::testing::WithParamInterface<ServerOption> {
 protected:
  static std::string name_of(const Seen& seen) {
    if (seen.is_error(draft::kErrInvalOption)) return "INVAL_OPTION";
    if (seen.is_error(draft::kErrBadHeader)) return "BAD_HEADER";
    if (seen.is_option(draft::kRespxch)) return "RESPXCH";
    return draft::to_string(seen);
  }
};
INSTANTIATE_TEST_SUITE_P(Options, OptionOfTheServer, ::testing::ValuesIn(server_options()),
                         [](const ::testing::TestParamInfo<ServerOption>& row) {
                           return row.param.name;
                         });

TEST_P(OptionOfTheServer, HasItsAnswerBetweenCallsAndDuringOne) {
  connect();
  for (const bool is_busy : {false, true}) {
    SCOPED_TRACE(is_busy);
    handle_ = keep();
    if (is_busy) start();
    time_.settle();
    others_.clear();
    send(GetParam().message);
    if (GetParam().answer.empty()) {
      EXPECT_EQ(others_.size(), 0U);
    } else {
      ASSERT_EQ(others_.size(), 1U);
      EXPECT_EQ(name_of(others_[0]), GetParam().answer);
      EXPECT_EQ(others_[0].xid, GetParam().message[0]);
    }
    for (const Seen& call : calls_) send(reply_to(call));
    calls_.clear();
    handle_ = &serve;
    expect_served();
  }
  expect_ends();
}

// bis-02 §7.2.1: the rows that have an answer.
std::vector<ServerOption> answered_options() {
  std::vector<ServerOption> rows = server_options();
  std::erase_if(rows, [](const ServerOption& row) { return row.answer.empty(); });
  return rows;
}
class AnsweredOptionOfTheServer : public OptionOfTheServer {};
INSTANTIATE_TEST_SUITE_P(Options, AnsweredOptionOfTheServer,
                         ::testing::ValuesIn(answered_options()),
                         [](const ::testing::TestParamInfo<ServerOption>& row) {
                           return row.param.name;
                         });

TEST_P(AnsweredOptionOfTheServer, SeesNoCreditWordOfZero) {
  connect();
  handle_ = keep();
  send(GetParam().message);
  ASSERT_FALSE(others_.empty());
  EXPECT_GE(others_.back().credit, 1U);
}

}  // namespace
}  // namespace rpcrdma::test
