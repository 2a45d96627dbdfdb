// Clients of version two that share no code with the library, and serve calls of the server's: the
// header says the direction of each message, and each direction has its XIDs and credits.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "rpcrdma/backward.h"
#include "rpcrdma/client.h"
#include "system/version_two_client_for_test.h"

namespace rpcrdma::test {
namespace {

// Makes a client for backward calls of each procedure 1, and keeps Calls of procedure 2.
class CallsBack final : public Service {
 public:
  const ProcedureTraits* traits(std::uint32_t /*procedure*/) const noexcept override {
    static constexpr ProcedureTraits kAny{};
    return &kAny;
  }
  void call(CallContext& context) override {
    if (context.procedure().number == 2) return held.push_back(&context);
    auto made = Backward::client_of(context);
    if (made) client.emplace(std::move(*made));
    context.succeed();
  }
  std::optional<Client> client;
  std::vector<CallContext*> held;
};

class DirectionsOfTwo : public VersionTwoClient {
 protected:
  static constexpr std::uint32_t kProgram = 0x20010077;
  static constexpr std::uint32_t kBackward = 2;  // calls of the server's at a time

  DirectionsOfTwo() : VersionTwoClient(calling()) {
    EXPECT_TRUE(server_->add(kProgram, 1, caller_));
    connect();
  }
  ~DirectionsOfTwo() override {
    for (CallContext* context : caller_.held) context->succeed();
    caller_.held.clear();
    caller_.client.reset();
  }
  static ServerOptions calling() {
    ServerOptions some = options();
    some.backward_calls = kBackward;
    return some;
  }
  draft::Words own_call(std::uint32_t xid, std::uint32_t procedure) const {
    return draft::msg(xid, kWanted, draft::kCall, draft::rpc_call(xid, kProgram, 1, procedure));
  }
  void begin() {
    EXPECT_EQ(answers_to(own_call(kXid, 1)), std::vector<std::string>{"reply"});
    ASSERT_TRUE(caller_.client);
    for (int i = 0; i < 2; ++i) expect_served();  // so that no option of the server's counts
  }
  // Starts a call of the server's; how it ended goes to `ends_`.
  bool start(std::uint32_t argument_words = 0) {
    auto call = caller_.client->prepare({77, 1, 5}, 4 * argument_words + 4);
    if (!call) return false;
    for (std::uint32_t i = 0; i < argument_words; ++i) call->arguments().xdr().u32(i);
    return caller_.client
        ->start(std::move(*call),
                [this](Expected<Reply, Error> reply) {
                  ends_.push_back(reply ? std::nullopt : std::optional(reply.error().code));
                })
        .has_value();
  }
  // Starts one, and takes its Call, which is as the drafts have it.
  draft::Seen started() {
    EXPECT_TRUE(start());
    const auto messages = heard();
    EXPECT_EQ(messages.size(), 1U);
    if (messages.empty()) return {};
    const draft::Seen& call = messages.front();
    EXPECT_TRUE(call.is_msg(draft::kCall)) << draft::to_string(call);
    EXPECT_GE(call.credit, 1U);
    EXPECT_TRUE(call.reads.empty() && call.writes.empty() && !call.has_reply_chunk);
    EXPECT_EQ(call.payload.at(0), call.xid);
    EXPECT_EQ(call.payload.at(1), 0U) << "CALL";
    return call;
  }
  static draft::Words reply_to(const draft::Seen& call, std::uint32_t credit = 1) {
    return draft::msg(call.xid, credit, draft::kReply, draft::rpc_reply(call.xid));
  }
  std::vector<std::string> none() const { return {}; }

  CallsBack caller_;
  std::vector<std::optional<Errc>> ends_;
};

TEST_F(DirectionsOfTwo, LetTheClientReply) {
  begin();
  const draft::Seen call = started();
  EXPECT_EQ(answers_to(reply_to(call)), none());
  EXPECT_EQ(ends_, (std::vector<std::optional<Errc>>{std::nullopt}));
  EXPECT_EQ(answers_to(reply_to(call)), none()) << "a second reply is dropped";
  EXPECT_EQ(ends_.size(), 1U);
  expect_served();
}

// Part A1: XIDs are those of the direction.
TEST_F(DirectionsOfTwo, MayHaveTheSameXid) {
  begin();
  const draft::Seen call = started();
  EXPECT_EQ(answers_to(own_call(call.xid, 2)), none()) << "it is held";
  ASSERT_EQ(caller_.held.size(), 1U);
  EXPECT_EQ(answers_to(reply_to(call)), none());
  EXPECT_EQ(ends_.size(), 1U);
  caller_.held.front()->succeed();
  caller_.held.clear();
  const auto answers = heard();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(name_of(answers.front(), call.xid), "reply");
}

TEST_F(DirectionsOfTwo, KeepACallOfTheClientFromEndingOneOfTheServer) {
  begin();
  const draft::Seen call = started();
  EXPECT_EQ(answers_to(own_call(call.xid, 7)), std::vector<std::string>{"reply"});
  EXPECT_TRUE(ends_.empty());
  EXPECT_EQ(answers_to(draft::msg(call.xid, 1, draft::kCall, draft::rpc_reply(call.xid))),
            std::vector<std::string>{"BAD_HEADER"})
      << "a reply that says that it is a Call";
  EXPECT_TRUE(ends_.empty());
  EXPECT_EQ(
      answers_to(draft::msg(call.xid, 1, draft::kReply, draft::rpc_call(call.xid, kProgram, 1, 7)))
          .size(),
      0U)
      << "a Call that says that it is a reply";
  EXPECT_EQ(answers_to(reply_to(call)), none());
  EXPECT_EQ(ends_.size(), 1U) << "ended by one of the two messages with direction REPLY";
  expect_served();
}

TEST_F(DirectionsOfTwo, LetTheClientRefuseACall) {  // A5: errors go from responder to requester
  begin();
  const draft::Seen call = started();
  EXPECT_EQ(answers_to(draft::error(call.xid + 1, 1, draft::kErrBadHeader)), none());
  EXPECT_TRUE(ends_.empty()) << "another XID";
  EXPECT_EQ(answers_to(draft::error(call.xid, 1, draft::kErrBadHeader)), none());
  EXPECT_EQ(ends_, std::vector<std::optional<Errc>>{Errc::kChunk});
  expect_served();
}

TEST_F(DirectionsOfTwo, LetTheClientRefuseTheVersion) {
  begin();
  const draft::Seen call = started();
  EXPECT_EQ(answers_to(draft::error_vers(call.xid, 1, 1, 1)), none());
  EXPECT_EQ(ends_, std::vector<std::optional<Errc>>{Errc::kVersion});
  expect_served();
}

// bidirection.md §1: one Call until the first reply has a grant, then as many as that.
TEST_F(DirectionsOfTwo, BeginWithOneCreditForTheServer) {
  begin();
  ASSERT_TRUE(start());
  ASSERT_TRUE(start());
  auto calls = heard();
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(answers_to(reply_to(calls[0], 1)).size(), 1U) << "the second Call";
  EXPECT_EQ(ends_.size(), 1U);
}

TEST_F(DirectionsOfTwo, LetTheClientGrantMore) {
  begin();
  EXPECT_EQ(answers_to(reply_to(started(), 8)), none());
  ASSERT_TRUE(start());
  ASSERT_TRUE(start());
  EXPECT_EQ(heard().size(), kBackward);
  EXPECT_EQ(peer_->zero_credits(), none());
}

// A grant of zero counts as one (V1-C3).
TEST_F(DirectionsOfTwo, TakeAGrantOfZeroForOne) {
  begin();
  EXPECT_EQ(answers_to(reply_to(started(), 0)), none());
  EXPECT_EQ(answers_to(reply_to(started(), 0)), none());
  EXPECT_EQ(ends_.size(), 2U);
}

// B-8: the credits of one direction say nothing about the other one.
TEST_F(DirectionsOfTwo, HaveCreditsOfTheirOwn) {
  begin();
  for (std::uint32_t i = 0; i < kGrant; ++i) peer_->send(own_call(kXid + 1 + i, 2));
  EXPECT_TRUE(heard().empty());
  ASSERT_EQ(caller_.held.size(), kGrant);
  EXPECT_EQ(answers_to(reply_to(started())), none());
  EXPECT_EQ(ends_.size(), 1U);
  EXPECT_FALSE(peer_->ended());
  expect_no_faults();
}

// B2: with NONE there are no backward requests, whenever it is said.
const draft::Words kNoBackwardCalls =
    draft::option(0x55000001, 1, draft::kCall, draft::kInitxch,
                  draft::initxch({draft::value(draft::kBrs, draft::kBrsNone)}));

TEST_F(DirectionsOfTwo, HaveNoCallsOfTheServerWhereTheClientSaidNone) {
  EXPECT_EQ(answers_to(kNoBackwardCalls), none());
  EXPECT_EQ(answers_to(own_call(kXid, 1)), std::vector<std::string>{"reply"});
  if (caller_.client) start();
  EXPECT_TRUE(heard().empty());
  expect_served();
}

TEST_F(DirectionsOfTwo, HaveNoMoreCallsOfTheServerOnceTheClientSaysNone) {
  begin();
  EXPECT_EQ(answers_to(reply_to(started(), 8)), none());
  EXPECT_EQ(answers_to(kNoBackwardCalls), none());
  start();
  EXPECT_TRUE(heard().empty());
  expect_served();
}

// B2: without chunks a call has to fit a message; with GENL it may be a Long Call.
TEST_F(DirectionsOfTwo, HaveLongCallsOfTheServerWhereTheClientTakesThem) {
  begin();
  EXPECT_EQ(answers_to(reply_to(started(), 8)), none());
  EXPECT_FALSE(start(1500)) << "INLINE";
  EXPECT_TRUE(heard().empty());
  EXPECT_EQ(
      answers_to(draft::option(kXid, 1, draft::kCall, draft::kInitxch,
                               draft::initxch({draft::value(draft::kBrs, draft::kBrsGeneral)}))),
      none());
  ASSERT_TRUE(start(1500));
  const auto calls = heard();
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_TRUE(calls[0].is(draft::kNomsg)) << draft::to_string(calls[0]);
  EXPECT_EQ(calls[0].direction, draft::kCall);
  ASSERT_FALSE(calls[0].reads.empty());
  EXPECT_EQ(calls[0].reads[0].first, 0U) << "a Position-Zero chunk";
  EXPECT_EQ(answers_to(reply_to(calls[0], 8)), none());
  EXPECT_EQ(ends_, std::vector<std::optional<Errc>>(2));
}

// V2-12: who speaks version 1 now is called in version 1.
TEST_F(DirectionsOfTwo, HaveTheVersionOfTheNewestCall) {
  begin();
  EXPECT_EQ(answers_to(draft::join({draft::prefix(kXid, kWanted, draft::kMsg, 1), draft::kNoLists,
                                    draft::rpc_call(kXid, kProgram, 1, 7)})),
            std::vector<std::string>{"reply of version 1"});
  ASSERT_TRUE(start());
  const auto calls = heard();
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0].vers, 1U);
  EXPECT_GE(calls[0].credit, 1U);
  peer_->send(draft::join({draft::prefix(calls[0].xid, 1, draft::kMsg, 1), draft::kNoLists,
                           draft::rpc_reply(calls[0].xid)}));
  EXPECT_TRUE(heard().empty());
  EXPECT_EQ(ends_, std::vector<std::optional<Errc>>(1));
}

// An error to an option that this side has not sent ends no call of it.
TEST_F(DirectionsOfTwo, TakeNoErrorForAnOptionForTheEndOfACall) {
  begin();
  const draft::Seen call = started();
  EXPECT_EQ(answers_to(draft::error(kXid + 9, 1, draft::kErrInvalOption)), none());
  ASSERT_LE(announcements_.size(), 1U);
  for (const draft::Seen& seen : announcements_) {
    EXPECT_EQ(answers_to(draft::error(seen.xid, 1, draft::kErrInvalOption)), none());
  }
  EXPECT_TRUE(ends_.empty());
  EXPECT_EQ(answers_to(reply_to(call)), none());
  EXPECT_EQ(ends_, (std::vector<std::optional<Errc>>{std::nullopt}));
}

// A2, bis-02 §7.2.1: in direction CALL the credit word is the server's wish, as in its Calls.
TEST_F(DirectionsOfTwo, HaveTheSameWishInOptionsAndCalls) {
  begin();
  EXPECT_EQ(answers_to(draft::option(kXid, 1, draft::kCall, draft::kInitxch, draft::initxch({}))),
            none());
  const draft::Seen call = started();
  EXPECT_EQ(call.credit, kBackward);
  ASSERT_EQ(announcements_.size(), 1U);
  EXPECT_EQ(announcements_.front().credit, call.credit);
}

// An option of the server's never has the XID of one of its calls that is under way.
TEST_F(DirectionsOfTwo, HaveOneXidForEachMessageOfTheServer) {
  begin();
  const draft::Seen call = started();
  for (const draft::Seen& seen : announcements_) EXPECT_NE(seen.xid, call.xid);
}

}  // namespace
}  // namespace rpcrdma::test
