// Tests what the provider makes of a peer that withholds messages or breaks rules, and then stays
// silent; run in the lab, see docs/interop.md.
#include <array>
#include <chrono>
#include <map>

#include "conformance/fixture.h"
#include "conformance/raw_verbs_peer.h"

namespace rpcrdma::test {
namespace {

using rdma::Completion;
using rdma::Errc;
using rdma::LinkEvent;
using rdma::Status;
using work::Receive;
using work::Remote;
using work::RemoteAccess;
using work::Request;
using work::Send;
using work::Slice;

constexpr std::uint64_t kReceives = 4;  // posted by accept(), ids 1 to 4
constexpr std::uint32_t kRoom = 64;     // bytes, of each
constexpr std::uint64_t kSendId = 1000;

// The provider's side is `server`.
class VerbsPeer : public ProviderTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(ProviderTest::SetUp());
    peer = RawVerbsPeer::make(std::string(listener->address()),
                              [this](const auto& condition) { return pump_until(condition); });
    ASSERT_NE(peer, nullptr) << "no way to the listener, or no queue pair";
  }
  void TearDown() override {
    peer.reset();
    ProviderTest::TearDown();
  }

  std::unique_ptr<rdma::Incoming> next_request() {
    std::unique_ptr<rdma::Incoming> incoming;
    EXPECT_TRUE(peer->request());
    EXPECT_TRUE(pump_until([&] { return (incoming = listener->poll_incoming()) != nullptr; }));
    return incoming;
  }
  // Accepts; the peer has the answer, and has not confirmed it.
  void answer(std::uint64_t receives = kReceives) {
    auto incoming = next_request();
    ASSERT_NE(incoming, nullptr);
    auto accepted = fabric->server().accept(std::move(incoming), {});
    ASSERT_TRUE(accepted.has_value()) << accepted.error().operation;
    server.start(std::move(*accepted));
    for (std::uint64_t id = 1; id <= receives; ++id) ASSERT_TRUE(post_receive(id));
    ASSERT_TRUE(peer->await_answer());
  }
  // A whole set-up, after which nobody has said anything.
  void connect_peer(std::uint64_t receives = kReceives) {
    ASSERT_NO_FATAL_FAILURE(answer(receives));
    ASSERT_TRUE(peer->confirm());
    ASSERT_EQ(next_link_event(server), LinkEvent::kConnected);
  }
  bool post_receive(std::uint64_t id) {
    const Slice into = server.slice(kRoom * id, kRoom);
    return server.post(id, Receive{{&into, 1}}).has_value();
  }
  // A Send of which nothing but the provider's own copy is needed: of more slices than it gives to
  // any device.
  void post_copied_send() {
    const std::vector<Slice> slices(work::kSlicesMax, server.slice(0, 1));
    work::Request request{.id = kSendId, .work = Send{slices, {}}, .may_copy = true};
    ASSERT_TRUE(server.queue_pair().post({&request, 1}).has_value());
    ASSERT_TRUE(request.copied);
  }
  // Time for what must not happen.
  void let_pass(std::chrono::milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    pump_until([&] { return std::chrono::steady_clock::now() >= end; });
  }
  // The peer hears that its work failed; on iWARP it may be done once it is on its way.
  void expect_refused() {
    const auto ended = peer->next_completion();
    ASSERT_TRUE(ended.has_value());
    EXPECT_TRUE(peer->is_iwarp() || *ended != IBV_WC_SUCCESS);
  }
  // The connection is over and stays so: one event, and each Receive has completed once.
  void expect_the_end(std::map<std::uint64_t, Status> receives) {
    EXPECT_EQ(next_link_event(server), LinkEvent::kDisconnected);
    expect_nothing_more(std::move(receives));
  }
  // The same of one that was never there: providers differ in how they call that.
  void expect_no_connection(std::map<std::uint64_t, Status> receives) {
    const auto event = next_link_event(server);
    EXPECT_TRUE(event == LinkEvent::kRefused || event == LinkEvent::kDisconnected);
    expect_nothing_more(std::move(receives));
  }
  void expect_nothing_more(std::map<std::uint64_t, Status> receives) {
    let_pass(std::chrono::milliseconds(300));
    EXPECT_EQ(server.queue_pair().poll_link(), std::nullopt);
    while (const auto completion = server.poll()) {
      const auto found = receives.find(completion->id);
      ASSERT_NE(found, receives.end()) << "work " << completion->id << " once more";
      EXPECT_EQ(completion->status, found->second) << "work " << completion->id;
      receives.erase(found);
    }
    EXPECT_EQ(receives.size(), 0U) << "not completed";
    const auto posted = server.post(kSendId, Send{});
    ASSERT_FALSE(posted.has_value());
    EXPECT_EQ(posted.error().code, Errc::kClosed);
  }

  std::unique_ptr<RawVerbsPeer> peer;
};

// The others differ in how Sends leave, which does not matter here.
std::vector<FabricKind> some_fabrics() {
  auto all = verbs_fabrics();
  std::erase_if(all, [](const FabricKind& kind) {
    return kind.name != "verbs" && kind.name != "verbs_per_call";
  });
  return all;
}
INSTANTIATE_TEST_SUITE_P(Provider, VerbsPeer, testing::ValuesIn(some_fabrics()), fabric_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(VerbsPeer);

constexpr const char* kNothingToWithhold =
    "on iWARP the peer's kernel has nothing to confirm: the connection is there with the answer";
constexpr const char* kCannotVanish =
    "siw gives up an identifier that waits for an answer only after 10 s, and we wait with it";

// --- Set-up ------------------------------------------------------------------------------------

// P3: it has offered no RDMA Read (IRD 0), so that none may be in flight.
TEST_P(VerbsPeer, GetsNoReadsIfItServesNone) {
  ASSERT_NO_FATAL_FAILURE(connect_peer());
  EXPECT_EQ(server.queue_pair().capabilities().reads_in_flight_max, 0U);
}

TEST_P(VerbsPeer, ItsFirstMessageOpensTheConnectionAndItsConfirmationTellsNothingNew) {
  if (peer->is_iwarp()) GTEST_SKIP() << kNothingToWithhold;
  ASSERT_NO_FATAL_FAILURE(answer());
  ASSERT_TRUE(peer->send(8));
  ASSERT_EQ(next_link_event(server), LinkEvent::kConnected);
  EXPECT_EQ(next(server).id, 1U);
  ASSERT_TRUE(peer->confirm());
  let_pass(std::chrono::milliseconds(300));
  EXPECT_EQ(server.queue_pair().poll_link(), std::nullopt);
  EXPECT_EQ(peer->next_completion(), IBV_WC_SUCCESS);  // its Send
  ASSERT_TRUE(peer->receive(8));
  ASSERT_TRUE(server.post(kSendId, Send{}).has_value());
  EXPECT_EQ(next(server).status, Status::kOk);
  server.queue_pair().disconnect();
  expect_the_end({{2, Status::kFlushed}, {3, Status::kFlushed}, {4, Status::kFlushed}});
}

TEST_P(VerbsPeer, AConfirmationDoesNotReopenAConnectionThatDrains) {
  if (peer->is_iwarp()) GTEST_SKIP() << kNothingToWithhold;
  ASSERT_NO_FATAL_FAILURE(answer());
  ASSERT_TRUE(peer->send(8));
  ASSERT_EQ(next_link_event(server), LinkEvent::kConnected);
  // For want of a Receive the Send stays under way. That the connection is there, which is
  // concluded from the message and from the confirmation, arrives as an event in a later
  // progress().
  ASSERT_NO_FATAL_FAILURE(post_copied_send());
  server.queue_pair().disconnect();
  EXPECT_EQ(server.queue_pair().poll_link(), std::nullopt) << "nothing was under way";
  ASSERT_TRUE(peer->confirm());
  expect_the_end(
      {{1, Status::kOk}, {2, Status::kFlushed}, {3, Status::kFlushed}, {4, Status::kFlushed}});
  EXPECT_EQ(server.queue_pair().cause().operation, "closed by this side");
}

TEST_P(VerbsPeer, AConfirmationDoesNotReopenAConnectionThatIsOver) {
  if (peer->is_iwarp()) GTEST_SKIP() << kNothingToWithhold;
  ASSERT_NO_FATAL_FAILURE(answer());
  ASSERT_TRUE(peer->send(8));
  ASSERT_EQ(next_link_event(server), LinkEvent::kConnected);
  server.queue_pair().disconnect();
  EXPECT_EQ(server.queue_pair().poll_link(), LinkEvent::kDisconnected);
  ASSERT_TRUE(peer->confirm());
  expect_nothing_more(
      {{1, Status::kOk}, {2, Status::kFlushed}, {3, Status::kFlushed}, {4, Status::kFlushed}});
}

TEST_P(VerbsPeer, IsGivenUpIfItNeitherConfirmsNorSpeaks) {
  if (peer->is_iwarp()) GTEST_SKIP() << kNothingToWithhold;
  ASSERT_NO_FATAL_FAILURE(answer());
  expect_the_end(
      {{1, Status::kFlushed}, {2, Status::kFlushed}, {3, Status::kFlushed}, {4, Status::kFlushed}});
  EXPECT_EQ(server.queue_pair().cause().code, Errc::kTimedOut);
}

// The kernel tells nothing about a request that was taken back, but refuses what comes next.
TEST_P(VerbsPeer, IsNotAcceptedIfItVanishesBefore) {
  if (peer->is_iwarp()) GTEST_SKIP() << kCannotVanish;
  auto incoming = next_request();
  ASSERT_NE(incoming, nullptr);
  peer.reset();
  let_pass(std::chrono::milliseconds(300));
  EXPECT_FALSE(fabric->server().accept(std::move(incoming), {}).has_value());
}

TEST_P(VerbsPeer, IsGoneIfItVanishesBeforeItIsAnswered) {
  if (peer->is_iwarp()) GTEST_SKIP() << kCannotVanish;
  auto incoming = next_request();
  ASSERT_NE(incoming, nullptr);
  auto accepted = fabric->server().accept(std::move(incoming), {});
  ASSERT_TRUE(accepted.has_value()) << accepted.error().operation;
  server.start(std::move(*accepted));
  ASSERT_TRUE(post_receive(1));
  peer.reset();
  expect_no_connection({{1, Status::kFlushed}});
}

TEST_P(VerbsPeer, IsGoneIfItVanishesBeforeItConfirms) {
  if (peer->is_iwarp()) GTEST_SKIP() << kNothingToWithhold;
  ASSERT_NO_FATAL_FAILURE(answer());
  peer.reset();
  expect_no_connection(
      {{1, Status::kFlushed}, {2, Status::kFlushed}, {3, Status::kFlushed}, {4, Status::kFlushed}});
}

// --- Work --------------------------------------------------------------------------------------

// rxe gives up what is posted on the side that was written to, and has no event for it; what ends
// the connection is that nobody says why for a while.
TEST_P(VerbsPeer, IsGivenUpIfItWritesWhereItMayNotAndStaysSilent) {
  ASSERT_NO_FATAL_FAILURE(connect_peer());
  ASSERT_TRUE(peer->receive(8));
  ASSERT_TRUE(peer->send(8));
  EXPECT_EQ(next(server).id, 1U);
  const work::Request work{kSendId, true, work::Expose{server.slice(0, 64), RemoteAccess::kWrite}};
  std::array<work::Request, 2> batch{work, {kSendId, true, Send{}}};
  ASSERT_TRUE(server.queue_pair().post(batch).has_value());
  const Completion exposed = next(server);
  EXPECT_EQ(next(server).status, Status::kOk);
  EXPECT_EQ(peer->next_completion(), IBV_WC_SUCCESS);
  EXPECT_EQ(peer->next_completion(), IBV_WC_SUCCESS);
  const Remote beyond{*exposed.tag, 64, exposed.address + kMemorySize};
  ASSERT_TRUE(peer->write(64, beyond));
  expect_the_end({{2, Status::kFlushed}, {3, Status::kFlushed}, {4, Status::kFlushed}});
  EXPECT_NE(server.queue_pair().cause().operation, "");
  expect_refused();
}

TEST_P(VerbsPeer, IsGivenUpIfItSaysMoreThanTheReceiveTakes) {
  ASSERT_NO_FATAL_FAILURE(connect_peer());
  ASSERT_TRUE(peer->send(kRoom + 1));
  EXPECT_EQ(next_link_event(server), LinkEvent::kDisconnected);
  EXPECT_EQ(server.queue_pair().poll_link(), std::nullopt);
  for (const Completion& completion : next(server, kReceives)) {
    EXPECT_NE(completion.status, Status::kOk);
  }
  EXPECT_EQ(server.poll(), std::nullopt);
}

TEST_P(VerbsPeer, EndsByItselfIfItFindsNoReceive) {
  ASSERT_NO_FATAL_FAILURE(connect_peer(1));
  ASSERT_TRUE(peer->send(8));
  EXPECT_EQ(next(server).id, 1U);
  EXPECT_EQ(peer->next_completion(), IBV_WC_SUCCESS);
  ASSERT_TRUE(peer->send(8));
  expect_refused();
  // Where the device tells nothing, the connection is as it was on this side.
  (void)post_receive(2);
  server.queue_pair().disconnect();
  EXPECT_EQ(next_link_event(server), LinkEvent::kDisconnected);
  EXPECT_EQ(server.queue_pair().poll_link(), std::nullopt);
}

}  // namespace
}  // namespace rpcrdma::test
