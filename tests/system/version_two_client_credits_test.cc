// Clients of version two that share no code with the library: their credits, their Receives, how
// large messages get, and floods.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "system/version_two_client_for_test.h"

namespace rpcrdma::test {
namespace {

using Answers = std::vector<std::string>;

draft::Words own_option(std::uint32_t xid, std::uint32_t type, const draft::Words& info,
                        std::uint32_t direction = draft::kCall) {
  return draft::option(xid, 1, direction, type, info);
}
draft::Words wish_for(std::uint32_t size) {
  return draft::spec({draft::value(draft::kRbsiz, size)});
}

class CreditsOfTwo : public VersionTwoClient {
 protected:
  explicit CreditsOfTwo(const ServerOptions& options = VersionTwoClient::options())
      : VersionTwoClient(options) {}
  static ServerOptions with_credits(std::uint32_t credits) {
    ServerOptions some = options();
    some.connection.credits = credits;
    return some;
  }
  // Sends the message and takes all that comes, the server's INITXCH as well.
  std::vector<draft::Seen> all_answers_to(const draft::Words& message) {
    peer_->send(message);
    time_.settle();
    std::vector<draft::Seen> all;
    while (auto seen = peer_->take()) all.push_back(std::move(*seen));
    return all;
  }
};

// --- Receives

// B6: nothing of the server's own takes the Receive of a reply.
TEST_F(CreditsOfTwo, LetTheOnlyReceiveTakeTheReply) {
  connect(1);
  for (int i = 0; i < 3; ++i) {
    const std::uint32_t xid = ++next_xid_;
    const auto answers = all_answers_to(call(xid));
    ASSERT_FALSE(answers.empty());
    EXPECT_EQ(name_of(answers.front(), xid), "reply") << "call " << i;
  }
}

// A client has a Receive for each of its Calls, and one for the backward direction (A2).
TEST_F(CreditsOfTwo, LeaveOneMessageToTheServerBesidesTheReply) {
  connect(2, false);
  for (int i = 0; i < 6; ++i) {
    const std::size_t before = peer_->received();
    all_answers_to(call(++next_xid_));
    expect_no_faults();
    peer_->post(static_cast<std::uint32_t>(peer_->received() - before));
  }
}

TEST_F(CreditsOfTwo, LeaveOneMessageToTheServerAfterAnInitxch) {
  connect(1);
  const auto answers = all_answers_to(own_option(kXid, draft::kInitxch, draft::initxch({})));
  EXPECT_LE(answers.size(), 1U) << "its own INITXCH at most";
  for (const draft::Seen& seen : answers) EXPECT_TRUE(seen.is_option(draft::kInitxch));
  expect_served();
}

// An error is no reply: behind it the server says nothing of its own yet.
TEST_F(CreditsOfTwo, LeaveNoMessageToTheServerBeforeAnyReply) {
  connect(1, false);
  const auto answers = all_answers_to(own_option(kXid, 99, {}));
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_TRUE(answers.front().is_error(draft::kErrInvalOption));
}

// --- Credits

TEST_F(CreditsOfTwo, AreGrantedByRepliesAndErrorsAlike) {
  connect();
  for (const draft::Words& message :
       {call(kXid), call(kXid, 99), draft::join({draft::prefix(kXid, kWanted, 2), {0, 0, 0, 0}}),
        draft::join({draft::prefix(kXid, kWanted, draft::kMsg, 7), {0, 0, 0, 0}})}) {
    peer_->send(message);
    const auto answers = heard();
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_EQ(answers.front().credit, kGrant) << draft::to_string(answers.front());
  }
}

// bis-02 §7.2.1: never zero, in whatever message.
TEST_F(CreditsOfTwo, AreNeverZero) {
  connect();
  for (const draft::Words& message :
       {call(kXid), own_option(kXid, 99, {}), own_option(kXid, draft::kInitxch, {1}),
        own_option(kXid, draft::kReqxch, wish_for(16'384)),
        draft::join({draft::prefix(kXid, kWanted, 2), {0, 0, 0, 0}}),
        draft::join({draft::prefix(kXid, kWanted, draft::kMsg, 7), {0, 0, 0, 0}}), call(kXid)}) {
    peer_->send(message);
    heard();
  }
  EXPECT_EQ(peer_->zero_credits(), Answers());
}

class OneCredit : public CreditsOfTwo {
 protected:
  OneCredit() : CreditsOfTwo(with_credits(1)) {}
};

TEST_F(OneCredit, ServesOneCallAfterTheOther) {
  connect(2);
  for (std::uint32_t i = 0; i < 20; ++i) {
    peer_->send(call(++next_xid_));
    const auto answers = heard();
    ASSERT_EQ(answers.size(), 1U) << i;
    EXPECT_EQ(name_of(answers.front(), next_xid_), "reply");
    EXPECT_EQ(answers.front().credit, 1U);
  }
}

TEST_F(OneCredit, TakesOptionsBesideTheCall) {
  connect();
  expect_served();
  hold(1);
  EXPECT_EQ(answers_to(own_option(kXid, 99, {})), Answers{"INVAL_OPTION"});
  EXPECT_EQ(answers_to(own_option(kXid, draft::kReqxch, {0})), Answers{"RESPXCH"});
  EXPECT_EQ(answers_to(own_option(kXid, draft::kInitxch, draft::initxch({}))), Answers());
  EXPECT_FALSE(peer_->ended());
  release_held();
  EXPECT_EQ(heard().size(), 1U);
}

TEST_F(CreditsOfTwo, AllowCallsUpToTheGrantInAnyOrderOfAnswers) {
  connect();
  expect_served();
  hold(kGrant);
  std::ranges::reverse(service_.held);
  release_held();
  const auto answers = heard();
  ASSERT_EQ(answers.size(), kGrant);
  for (std::uint32_t i = 0; i < kGrant; ++i) {
    EXPECT_EQ(name_of(answers[i], next_xid_ - i), "reply");
  }
}

// --- Floods

TEST_F(CreditsOfTwo, EndTheConnectionOfAClientThatMakesMoreCalls) {
  connect();
  expect_served();
  breaks_rules_ = true;
  for (std::uint32_t i = 0; i < kGrant + 1; ++i) {
    peer_->send(call(++next_xid_, TestService::kHold));
  }
  time_.settle();
  EXPECT_TRUE(peer_->ended());
  EXPECT_LE(service_.held.size(), kGrant);
  expect_others_served();
}

TEST_F(CreditsOfTwo, EndNoConnectionForManyOptionsOneByOne) {
  connect();
  expect_served();
  hold(kGrant);
  for (std::uint32_t i = 0; i < 100; ++i) {
    ASSERT_EQ(answers_to(own_option(kXid + i, 5 + i, {i})), Answers{"INVAL_OPTION"}) << i;
  }
  release_held();
  EXPECT_EQ(heard().size(), kGrant);
}

// B6: at least two Receives stand beside the credits.
TEST_F(CreditsOfTwo, EndNoConnectionForTwoOptionsAtATime) {
  connect();
  expect_served();
  hold(kGrant);
  for (std::uint32_t i = 0; i < 20; ++i) {
    peer_->send(own_option(kXid, 99, {}));
    peer_->send(own_option(kXid, draft::kUpdxch,
                           draft::updxch(draft::value(draft::kReqreminv, i % 2), false)));
    ASSERT_EQ(heard().size(), 1U) << i;
  }
  release_held();
  EXPECT_EQ(heard().size(), kGrant);
}

TEST_F(CreditsOfTwo, AreNotUsedUpByManyBadOptions) {
  connect();
  for (std::uint32_t i = 0; i < 40; ++i) {
    ASSERT_EQ(answers_to(own_option(kXid + i, draft::kInitxch, {0xffffffff})),
              Answers{"BAD_HEADER"});
    ASSERT_EQ(answers_to(own_option(kXid + i, 99, {}, 2)), Answers{"BAD_HEADER"});
  }
  hold(kGrant);
  release_held();
  EXPECT_EQ(heard().size(), kGrant);
}

// Nobody else is harmed by a client that never waits.
TEST_F(CreditsOfTwo, KeepAFloodOfOptionsFromOthers) {
  connect(1000);
  expect_served();
  breaks_rules_ = true;
  for (std::uint32_t i = 0; i < 300; ++i) peer_->send(own_option(kXid + i, 99, {}));
  time_.settle();
  expect_others_served();
}

TEST_F(CreditsOfTwo, ComeBackWhenTheClientGoes) {
  connect();
  expect_served();
  hold(kGrant);
  peer_->disconnect();
  time_.settle();
  release_held();
  EXPECT_TRUE(time_.run_until([this] { return server_->connections() == 0; }));
  EXPECT_EQ(server_->memory_in_use(), 0U);
  expect_others_served();
}

// --- Sizes

// Returns an opaque argument that makes the whole message so many bytes.
draft::Words opaque_for(std::uint32_t message_size) {
  const std::uint32_t size = message_size - 32 - 40 - 4;
  return draft::join({{size}, draft::Words(size / 4)});
}

TEST_F(CreditsOfTwo, TakeMessagesOf4096BytesFromTheFirstOn) {  // A3
  connect();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(answers_to(call(kXid, TestService::kAbsorb, opaque_for(4096))), Answers{"reply"});
  }
}

TEST_F(CreditsOfTwo, EndTheConnectionForALongerMessage) {
  connect();
  expect_served();
  breaks_rules_ = true;
  peer_->send(call(kXid, TestService::kAbsorb, opaque_for(4100)));
  time_.settle();
  EXPECT_TRUE(peer_->ended());
  EXPECT_EQ(service_.calls, 0U);
  expect_others_served();
}

// Says which answer the peer gives to requests of the server's.
enum class Obliging : std::uint8_t { kRejects, kKnowsNothing };

class GrowingReceives : public CreditsOfTwo, public ::testing::WithParamInterface<Obliging> {
 protected:
  // Answers the server's requests, and keeps the size that the server last said of itself.
  void attend_to(const draft::Seen& seen) {
    if (seen.is_option(draft::kReqxch)) {
      const auto wishes = draft::decode_values(seen);
      ASSERT_TRUE(wishes);
      const std::uint32_t all = (1U << wishes->size()) - 1;
      peer_->send(
          GetParam() == Obliging::kRejects
              ? own_option(seen.xid, draft::kRespxch, draft::respxch(0, all, 0), draft::kReply)
              : draft::error(seen.xid, 1, draft::kErrInvalOption));
    } else if (const auto answer = draft::decode_respxch(seen)) {
      answered_ = true;
      pending_ = !answer->pending.empty() && answer->pending.front() == 1;
      if (!answer->done.empty() && answer->done.front() == 1) size_ = asked_;
    } else if (const auto update = draft::decode_updxch(seen)) {
      ASSERT_EQ(update->now.id, draft::kRbsiz);
      if (update->clears_pending) pending_ = false;
      size_ = update->now.data.at(0);
    } else if (seen.is_msg(draft::kReply)) {
      ++replies_;
    } else {
      ADD_FAILURE() << draft::to_string(seen);
    }
  }
  // Makes Calls all the time, as large as the server takes, until it has what was asked for.
  void ask_under_load(std::uint32_t size) {
    asked_ = size;
    answered_ = false;
    if (size < size_) size_ = size;  // the limit holds from the request on
    peer_->send(own_option(kXid, draft::kReqxch, wish_for(size)));
    for (int i = 0; i < 100 && (!answered_ || pending_); ++i) {
      const std::uint32_t before = replies_;
      for (std::uint32_t sent = 0; sent < kGrant; ++sent) {
        peer_->send(call(++next_xid_, TestService::kAbsorb, opaque_for(size_)));
      }
      for (const draft::Seen& seen : heard()) attend_to(seen);
      ASSERT_EQ(replies_, before + kGrant);
      ASSERT_FALSE(peer_->ended());
    }
    EXPECT_TRUE(answered_ && !pending_);
  }

  std::uint32_t size_ = 4096, asked_ = 0, replies_ = 0;
  bool answered_ = false, pending_ = false;
};
INSTANTIATE_TEST_SUITE_P(Peers, GrowingReceives,
                         ::testing::Values(Obliging::kRejects, Obliging::kKnowsNothing),
                         [](const ::testing::TestParamInfo<Obliging>& peer) {
                           return peer.param == Obliging::kRejects ? "ThatReject"
                                                                   : "WithoutRequests";
                         });

// up, down and up again, with all credits in use all the time.
TEST_P(GrowingReceives, ChangeWhileCallsAreUnderWay) {
  connect(64);
  expect_served();
  for (const std::uint32_t size : {16'384U, 8192U, 12'288U, 4096U}) {
    SCOPED_TRACE(size);
    ask_under_load(size);
    ASSERT_EQ(size_, size);
    EXPECT_EQ(answers_to(call(kXid, TestService::kAbsorb, opaque_for(size))), Answers{"reply"});
  }
}

TEST_P(GrowingReceives, StayAsTheyAreBeyondWhatTheServerHas) {
  connect(64);
  expect_served();
  ask_under_load(32'768);
  EXPECT_EQ(size_, 4096U);
  expect_served();
}

class LargeReplies : public CreditsOfTwo {
 protected:
  LargeReplies() : CreditsOfTwo(large()) {}
  static ServerOptions large() {
    ServerOptions some = options();
    some.connection.inline_size = 16'384;
    return some;
  }
  Answers answers_of(std::uint32_t size) {
    return answers_to(call(++next_xid_, TestService::kProduce, {size}));
  }
};

// V1-P6: a reply that fits nothing is an error; 4096 bytes are all that a client has at first.
TEST_F(LargeReplies, AreErrorsWhereTheClientHasNoReceivesForThem) {
  connect();
  EXPECT_EQ(answers_of(4000), Answers{"reply"});
  EXPECT_EQ(answers_of(4200), Answers{"BAD_HEADER"});
  EXPECT_EQ(answers_of(4000), Answers{"reply"});
}

// behind the client's word they come inline, and no earlier.
TEST_F(LargeReplies, ComeInlineBehindTheWordOfTheClient) {
  for (const draft::OptionType type : {draft::kInitxch, draft::kUpdxch}) {
    connect(1, true);
    EXPECT_EQ(answers_of(6000), Answers{"BAD_HEADER"});
    expect_no_faults();
    peer_ = make_peer();
    peer_->post(16, 16'384);
    peer_->repost(true);
    expect_served();
    const draft::Words size = draft::value(draft::kRbsiz, 16'384);
    EXPECT_EQ(answers_to(own_option(
                  kXid, type,
                  type == draft::kInitxch ? draft::initxch({size}) : draft::updxch(size, false))),
              Answers());
    EXPECT_EQ(answers_of(6000), Answers{"reply"});
    EXPECT_EQ(answers_of(16'000), Answers{"reply"});
    EXPECT_EQ(answers_of(17'000), Answers{"BAD_HEADER"});
    EXPECT_LE(peer_->received_size_max(), 16'384U);
  }
}

// a later word replaces the earlier one, also where it is a smaller size.
TEST_F(LargeReplies, AreErrorsAgainBehindASmallerSize) {
  connect();
  peer_->repost(false);
  const auto say = [this](std::uint32_t size) {
    EXPECT_EQ(answers_to(own_option(kXid, draft::kInitxch,
                                    draft::initxch({draft::value(draft::kRbsiz, size)}))),
              Answers());
  };
  while (peer_->posted() > 1) expect_served();
  peer_->post(2, 16'384);
  expect_served();  // it takes the last smaller Receive
  say(16'384);
  EXPECT_EQ(answers_of(6000), Answers{"reply"});
  peer_->post(8, 4096);
  expect_served();  // it takes the last larger one
  say(4096);
  EXPECT_EQ(answers_of(6000), Answers{"BAD_HEADER"});
  EXPECT_EQ(answers_of(4000), Answers{"reply"});
}

// V1-P3, V1-P4; REQREMINV is false by default: the peer MUST use Send, and MAY invalidate
// otherwise.
TEST_F(CreditsOfTwo, LetALongReplyBeWritten) {
  for (const bool takes_invalidation : {false, true}) {
    SCOPED_TRACE(takes_invalidation);
    connect();
    if (takes_invalidation) {
      EXPECT_EQ(answers_to(own_option(kXid, draft::kInitxch,
                                      draft::initxch({draft::value(draft::kReqreminv, 1)}))),
                Answers());
    }
    peer_->expose(draft::Words(3000), rdma::RemoteAccess::kWrite);
    ASSERT_TRUE(time_.run_until([this] { return peer_->exposed().has_value(); }));
    const draft::Segment room = *peer_->exposed();
    peer_->send(draft::msg(kXid, kWanted, draft::kCall,
                           rpc_call(kXid, TestService::kProduce, {8000}),
                           draft::join({{0, 0, 1}, draft::chunk_of(room)})));
    const auto answers = heard();
    ASSERT_EQ(answers.size(), 1U);
    ASSERT_TRUE(answers[0].is(draft::kNomsg)) << draft::to_string(answers[0]);
    EXPECT_EQ(answers[0].direction, draft::kReply);
    ASSERT_EQ(answers[0].reply_chunk.size(), 1U);
    EXPECT_EQ(answers[0].reply_chunk[0].handle, room.handle);
    EXPECT_EQ(answers[0].reply_chunk[0].size, 24U + 4 + 8000);
    const draft::Words reply = peer_->content_of_exposed();
    EXPECT_EQ((draft::Words{reply.begin(), reply.begin() + 7}),
              (draft::Words{kXid, 1, 0, 0, 0, 0, 8000}));
    if (takes_invalidation) {
      EXPECT_LE(peer_->invalidated().size(), 1U);
    } else {
      EXPECT_TRUE(peer_->invalidated().empty());
    }
    for (const std::uint32_t handle : peer_->invalidated()) EXPECT_EQ(handle, room.handle);
    expect_served();
  }
}

// each request has an answer of its own.
TEST_F(CreditsOfTwo, LetTwoRequestsBeAnsweredBySeparateAnswers) {
  connect(64);
  expect_served();
  peer_->send(own_option(kXid, draft::kReqxch, wish_for(16'384)));
  peer_->send(own_option(kXid + 1, draft::kReqxch, wish_for(8192)));
  std::vector<std::uint32_t> answered;
  for (const draft::Seen& seen : heard()) {
    if (seen.is_option(draft::kRespxch)) answered.push_back(seen.xid);
  }
  EXPECT_EQ(answered, (std::vector<std::uint32_t>{kXid, kXid + 1}));
  expect_no_faults();
}

// --- Versions

class OnlyTwo : public CreditsOfTwo {
 protected:
  OnlyTwo() : CreditsOfTwo(only()) {}
  static ServerOptions only() {
    ServerOptions some = options();
    some.version = ProtocolVersion::kTwo;
    return some;
  }
};

// V2-12: who has not begun with version two hears nothing of it.
TEST_F(CreditsOfTwo, GiveNoMessageOfVersionTwoToAClientOfVersionOne) {
  connect(1);
  for (std::uint32_t i = 0; i < 5; ++i) {
    const draft::Words old = draft::join({draft::prefix(kXid + i, kWanted, draft::kMsg, 1),
                                          draft::kNoLists, rpc_call(kXid + i, TestService::kNull)});
    EXPECT_EQ(answers_to(old), Answers{"reply of version 1"});
  }
  EXPECT_TRUE(announcements_.empty());
}

TEST_F(OnlyTwo, RefusesVersionOneAndServesTheSameClientInVersionTwo) {
  connect();
  const draft::Words old = draft::join({draft::prefix(kXid, kWanted, draft::kMsg, 1),
                                        draft::kNoLists, rpc_call(kXid, TestService::kNull)});
  EXPECT_EQ(answers_to(old), Answers{"ERR_VERS 2..2"});
  expect_served();
  EXPECT_EQ(answers_to(old), Answers{"ERR_VERS 2..2"});
}

}  // namespace
}  // namespace rpcrdma::test
