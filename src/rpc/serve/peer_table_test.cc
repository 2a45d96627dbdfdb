// Connections have a turn when they have news, and no others.
#include "rpc/serve/peer_table.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rpc/serve/serving_for_test.h"

namespace rpcrdma::rpc {
namespace {

using State = Peer::State;

constexpr Instant kStart{std::chrono::seconds(1000)};

class OnceService final : public Service {
  const ProcedureTraits* traits(std::uint32_t /*procedure*/) const noexcept override {
    static constexpr ProcedureTraits kTraits{.number = 1, .is_idempotent = false};
    return &kTraits;
  }
  void call(CallContext& context) override { context.succeed(); }
};

ReplyCache::Key key_of(std::uint32_t xid) {
  return {
      "10.0.0.1", {4711, 1, 1}, Xid{xid}, ReplyCache::checksum({}, 0), ReplyCache::checksum({}, 0)};
}
const ReplyCache::Key kSlow = key_of(5);

class PeerTableTest : public ::testing::Test {
 protected:
  // Writes its name down in each turn.
  class NamedPeer final : public Peer {
   public:
    static constexpr auto kTransport = Transport::kTcp;

    NamedPeer(PeerTableTest& test, char name, bool reports_news)
        : Peer(test.table_, kTransport, test.carrier_.serving), test_(test), name_(name) {
      reports_news_ = reports_news;
    }
    ~NamedPeer() override { handle_news(); }  // as the end of a connection is
    bool take_turn(RoundTime& /*time*/) override {
      test_.turns_ += name_;
      EXPECT_TRUE(test_.table_.is_turn_of(test_.carrier_));
      if (has_news_in_turn) handle_news();
      return left == 0 || --left == 0;
    }
    State settle(const RoundTime& /*time*/) override { return state; }
    Deadline next_deadline() const override { return deadline; }

    int left = 0;  // turns that it needs in a row
    bool has_news_in_turn = false;
    State state = State::kOpen;
    std::optional<Instant> deadline;

   private:
    PeerTableTest& test_;
    const char name_;
  };

  NamedPeer& add(char name, bool reports_news = true) {
    auto peer = std::make_unique<NamedPeer>(*this, name, reports_news);
    NamedPeer& added = *peer;
    table_.add(std::move(peer));
    return added;
  }
  RoundTime& at(Instant now) {
    now_ = now;
    time_.begin();
    return time_;
  }
  // The turns of one round, in their order.
  std::string round(Instant now = kStart) {
    turns_.clear();
    table_.serve(at(now));
    EXPECT_FALSE(table_.is_turn_of(carrier_));
    return turns_;
  }

  // All peers have a duplicate of a call that is under way elsewhere.
  void receive_duplicate(std::uint32_t xid = 5) {
    cache_.begin(key_of(xid));
    (void)registry_.add(4711, 1, service_);  // the second time it is there
    carrier_.receive(encode_for_test({Xid{xid}, {4711, 1, 1}, {}, {}}));
    ASSERT_TRUE(carrier_.serving.waits_for_a_duplicate());
  }

  OnceService service_;
  oncrpc::ServiceRegistry registry_;
  ReplyCache cache_{16, 1U << 16U};
  MailboxForTest mailbox_;
  CarrierForTest carrier_{registry_, cache_, mailbox_};
  std::string turns_;
  Instant now_ = kStart;
  RoundTime time_{{[](const void* of) { return *static_cast<const Instant*>(of); }, &now_}};
  PeerTable table_;
};

TEST_F(PeerTableTest, NewPeersHaveATurn) {
  add('a');
  add('b');
  EXPECT_EQ(round(), "ab");
  EXPECT_EQ(round(), "");
}

TEST_F(PeerTableTest, OnlyPeersWithNewsHaveATurnInTheOrderOfTheirNews) {
  NamedPeer& a = add('a');
  add('b');
  NamedPeer& c = add('c');
  round();
  c.handle_news();
  a.handle_news();
  c.handle_news();
  EXPECT_TRUE(table_.anybody_wants_turn());
  EXPECT_EQ(round(), "ca");
  EXPECT_FALSE(table_.anybody_wants_turn());
}

TEST_F(PeerTableTest, PeerWithMoreThanATurnIsForHasAnotherInTheNextRound) {
  NamedPeer& a = add('a');
  add('b');
  a.left = 3;
  EXPECT_EQ(round(), "ab");
  EXPECT_EQ(round(), "a");
  EXPECT_EQ(round(), "a");
  EXPECT_EQ(round(), "");
}

TEST_F(PeerTableTest, NewsInATurnBelongToIt) {
  add('a').has_news_in_turn = true;
  EXPECT_EQ(round(), "a");
  EXPECT_EQ(round(), "");
}

TEST_F(PeerTableTest, DeadlineGivesATurnOnce) {
  NamedPeer& a = add('a');
  add('b');
  a.deadline = kStart + std::chrono::seconds(2);
  round();
  EXPECT_EQ(table_.next_deadline(), a.deadline);
  EXPECT_EQ(round(kStart + std::chrono::seconds(1)), "");
  a.deadline.reset();
  EXPECT_EQ(round(kStart + std::chrono::seconds(2)), "a");
  EXPECT_EQ(table_.next_deadline(), std::nullopt);
  EXPECT_EQ(round(kStart + std::chrono::seconds(9)), "");
}

TEST_F(PeerTableTest, PeerWhoseNewsNobodyReportsHasATurnInEachRound) {
  NamedPeer& a = add('a', false);
  add('b');
  EXPECT_EQ(round(), "ab");
  EXPECT_EQ(round(), "a");
  a.state = State::kFinished;
  EXPECT_EQ(round(), "a");
  EXPECT_EQ(round(), "");
}

// A peer can have many duplicates of a call that takes long: nobody looks them up, or has a turn
// for them, whenever another call ends.
TEST_F(PeerTableTest, PeerThatWaitsForACallHasATurnWhenThatOneEnds) {
  const ReplyCache::Key other = key_of(6);
  cache_.begin(other);
  add('a');
  receive_duplicate();
  round();
  EXPECT_TRUE(table_.anybody_waits_for_a_call());
  cache_.begin(other);
  cache_.finish(other, {});
  table_.handle_call_end();
  EXPECT_EQ(round(), "");
  EXPECT_TRUE(table_.anybody_waits_for_a_call());
  cache_.finish(kSlow, {});
  table_.handle_call_end();
  EXPECT_EQ(round(), "a");
}

TEST_F(PeerTableTest, PeerThatHasWaitedForACallMayWaitForAnother) {
  NamedPeer& a = add('a');
  receive_duplicate();
  round();
  cache_.finish(kSlow, {});
  table_.handle_call_end();
  EXPECT_TRUE(carrier_.retry_duplicates());
  EXPECT_EQ(round(), "a");
  EXPECT_FALSE(table_.anybody_waits_for_a_call());
  receive_duplicate(6);
  a.handle_news();
  EXPECT_EQ(round(), "a");
  EXPECT_TRUE(table_.anybody_waits_for_a_call());
  cache_.finish(key_of(6), {});
  table_.handle_call_end();
  EXPECT_EQ(round(), "a");
}

TEST_F(PeerTableTest, FinishedPeerGoesAndWaitsForNothing) {
  NamedPeer& a = add('a');
  receive_duplicate();
  a.deadline = kStart + std::chrono::seconds(1);
  round();
  EXPECT_EQ(table_.next_deadline(), a.deadline);
  EXPECT_TRUE(table_.anybody_waits_for_a_call());
  a.handle_news();
  a.state = State::kFinished;
  table_.settle(a, at(kStart));
  EXPECT_EQ(table_.count<NamedPeer>(), 0U);
  EXPECT_FALSE(table_.anybody_waits_for_a_call());
  EXPECT_FALSE(table_.anybody_wants_turn());
  EXPECT_EQ(table_.next_deadline(), std::nullopt);
  EXPECT_EQ(round(), "");
}

TEST_F(PeerTableTest, PeersThatAreLeftKeepTheirPlacesWhenOthersGo) {
  NamedPeer& a = add('a');
  add('b');
  NamedPeer& c = add('c');
  round();
  a.state = State::kFinished;
  a.handle_news();
  EXPECT_EQ(round(), "a");
  c.state = State::kFinished;
  c.handle_news();
  EXPECT_EQ(round(), "c");
  EXPECT_EQ(table_.count<NamedPeer>(), 1U);
  table_.for_each<NamedPeer>([](NamedPeer& b) { b.handle_news(); });
  EXPECT_EQ(round(), "b");
}

TEST_F(PeerTableTest, StatesAreCounted) {
  EXPECT_TRUE(table_.are_all_closing());
  NamedPeer& a = add('a');
  NamedPeer& b = add('b');
  EXPECT_FALSE(table_.are_all_closing());
  a.state = b.state = State::kClosing;
  round();
  EXPECT_TRUE(table_.are_all_closing());
  EXPECT_FALSE(table_.have_all_ended());
  a.state = b.state = State::kEnded;
  table_.settle(a, at(kStart));
  EXPECT_FALSE(table_.are_all_closing());
  EXPECT_FALSE(table_.have_all_ended());
  table_.settle(b, at(kStart));
  EXPECT_TRUE(table_.have_all_ended());
  b.state = State::kFinished;
  table_.settle(b, at(kStart));
  EXPECT_TRUE(table_.have_all_ended());
}

}  // namespace
}  // namespace rpcrdma::rpc
