// A server that reads the chunks of Calls: their turns, their time, and peers that do not serve
// them.
#include "engine/pulls.h"

#include <chrono>

#include "engine/responder.h"
#include "engine/server_for_test.h"

namespace rpcrdma::engine {
namespace {

using wire::ChunkLists;
using wire::Segment;

// docs/invariants.md, P21.
TEST_F(Server, PeerThatServesNoReadsIsGivenUp) {
  Options patient = small();
  patient.pull_timeout = std::chrono::hours(1);
  Endpoint side(Role::kServer, patient);
  ChunkLists lists;
  add_read(lists, 40, 100);
  add_read(lists, 40, 100);
  side.receive(message(call_header(), lists, 44));
  EXPECT_FALSE(side.engine.poll_timeout()) << "nothing is asked of the peer yet";
  side.engine.responder().lend(side.take_event<MemoryWanted>()->call, Lease{1}, 0);
  side.drain();
  const Instant start = side.now;
  EXPECT_EQ(side.engine.poll_timeout(), start + small().peer_timeout);
  side.now += small().peer_timeout / 2;
  side.drain();
  side.done(side.take_action<RdmaRead>()->id);
  EXPECT_EQ(side.engine.poll_timeout(), side.now + small().peer_timeout) << "it made progress";
  side.now += small().peer_timeout;
  side.engine.handle_timeout(side.now);
  side.drain();
  EXPECT_TRUE(side.take_action<Disconnect>());
  EXPECT_EQ(side.engine.given_up(), GivenUp::kUnserved);
  side.engine.handle_disconnected();
  side.complete_all(Status::kFlushed);
  EXPECT_FALSE(side.take_event<CallDone>()->replied);
  EXPECT_FALSE(side.engine.poll_timeout());
}

// A peer that completes a Read now and then makes progress, and would hold the memory for ever.
TEST_F(Server, ReadChunksOfACallHaveTheirTimeWhateverProgressThePeerMakes) {
  Options options = small();
  options.pull_timeout = std::chrono::seconds(10);
  options.pull_rate_min = 100;
  Endpoint side(Role::kServer, options);
  ChunkLists lists;
  for (int i = 0; i < 4; ++i) add_read(lists, 40, 100);
  side.receive(message(call_header(), lists, 44));
  side.now += std::chrono::hours(1);  // waits for memory
  side.engine.handle_time(side.now);
  side.engine.responder().lend(side.take_event<MemoryWanted>()->call, Lease{1}, 0);
  side.drain();
  const Instant end = side.now + std::chrono::seconds(10 + 4);
  for (int i = 0; i < 3; ++i) {
    side.now += std::chrono::milliseconds(4'600);
    side.drain();
    side.done(side.take_action<RdmaRead>()->id);
  }
  EXPECT_EQ(side.engine.poll_timeout(), end);
  EXPECT_FALSE(side.take_action<Disconnect>());
  side.now = end;
  side.engine.handle_timeout(side.now);
  side.drain();
  EXPECT_TRUE(side.take_action<Disconnect>());
  EXPECT_EQ(side.engine.given_up(), GivenUp::kSlowReads);
}

// A server with some replies under way at a time, of 3,000 bytes by RDMA Writes or of 100 that are
// in the message, whose peer takes one of them in `each`. Returns when it was given up, at the
// latest after `calls` of them.
std::optional<std::chrono::nanoseconds> given_up_after(std::uint32_t rate_min,
                                                       std::chrono::nanoseconds each, int calls,
                                                       bool is_inline = false) {
  Options options = small();
  options.pull_rate_min = rate_min;
  Endpoint side(Role::kServer, options);
  const Instant start = side.now;
  const auto answer_one = [&side, is_inline] {
    ChunkLists lists;
    const Segment chunk[] = {{SteeringTag{5}, 3000, 0x10}};
    if (!is_inline) EXPECT_TRUE(lists.writes.push_back(chunk));
    side.receive(message(call_header(), lists, 40));
    const std::uint32_t size = is_inline ? 100 : 3000;
    const Fragment stream[] = {{Lease{1}, 28, 0, 0}, {Lease{2}, size, 0, 1}};
    Outgoing outgoing;
    outgoing.stream = stream;
    side.engine.responder().start_reply(side.take_event<CallReceived>()->call, outgoing);
    side.drain();
  };
  for (int i = 0; i < 3; ++i) answer_one();
  for (int i = 0; i < calls; ++i) {
    side.now = std::min(side.now + each, *side.engine.poll_timeout());
    side.engine.handle_timeout(side.now);
    side.drain();
    if (side.take_action<Disconnect>()) {
      EXPECT_EQ(side.engine.given_up(), GivenUp::kSlowReplies);
      return side.now - start;
    }
    const auto send = side.take_action<PostSend>();
    EXPECT_TRUE(send);
    side.done(send->id);
    EXPECT_TRUE(side.take_event<CallDone>());
    answer_one();
  }
  while (const auto send = side.take_action<PostSend>()) side.done(send->id);
  EXPECT_FALSE(side.engine.poll_timeout()) << "nothing is under way";
  return std::nullopt;
}

// A peer that takes a reply now and then makes progress, and would hold the memory of results for
// ever.
TEST_F(Server, ResultsHaveTheirTimeWhateverProgressThePeerMakes) {
  const auto most = small().peer_timeout;
  constexpr std::uint32_t kRate = 100;  // 30 s for 3,000 bytes
  const auto drips = most - std::chrono::seconds(1);
  using std::chrono::seconds;
  EXPECT_FALSE(given_up_after(kRate, drips, 50)) << "its bytes come in their time";
  const auto end = given_up_after(3000, drips, 50);
  ASSERT_TRUE(end);
  EXPECT_LE(*end, 2 * (most + seconds(3)));
  EXPECT_FALSE(given_up_after(0, drips, 50)) << "rate 0 means any time";
}

// A short reply may be in memory that was borrowed for a long one.
TEST_F(Server, ResultsInTheMessageHaveTheirTimeToo) {
  const auto most = small().peer_timeout;
  const auto end = given_up_after(1000, most - std::chrono::seconds(1), 50, true);
  ASSERT_TRUE(end);
  EXPECT_LE(*end, 2 * most);
  EXPECT_FALSE(given_up_after(1000, most / 4, 50, true));
}

Options timed_pulls() {
  Options options = small();
  options.pull_timeout = std::chrono::seconds(10);
  options.pull_rate_min = 1000;
  return options;
}
void read_first_of_two_chunks(Endpoint& side) {
  ChunkLists lists;
  add_read(lists, 400, 400, 2);
  add_read(lists, 0, 600, 1);
  side.receive(message(call_header(wire::v1::NoMsg{}), lists, 0));
  side.engine.responder().lend(side.take_event<MemoryWanted>()->call, Lease{1}, 0);
  side.drain();
}

TEST_F(Server, TimeOfReadChunksRunsOnlyWhileTheyAreRead) {
  Endpoint side(Role::kServer, timed_pulls());
  read_first_of_two_chunks(side);
  EXPECT_EQ(side.engine.poll_timeout(), side.now + std::chrono::seconds(11));
  side.now += std::chrono::seconds(4);
  side.drain();
  side.done(side.take_action<RdmaRead>()->id);
  EXPECT_FALSE(side.engine.poll_timeout()) << "nothing is asked of the peer";
  side.now += std::chrono::hours(1);  // checking the caller takes a while
  side.engine.handle_time(side.now);
  side.engine.responder().lend(side.take_event<MemoryWanted>()->call, Lease{2}, 0);
  side.drain();
  EXPECT_EQ(side.engine.poll_timeout(), side.now + std::chrono::seconds(7));
  side.done(side.take_action<RdmaRead>()->id);
  EXPECT_TRUE(side.take_event<CallReceived>());
  EXPECT_FALSE(side.take_action<Disconnect>());
}

// It cannot be known how long the first chunk has been here.
TEST_F(Server, ReadChunkBehindOneThatThisSideTookLateHasALittleTime) {
  Endpoint side(Role::kServer, timed_pulls());
  read_first_of_two_chunks(side);
  side.now += std::chrono::seconds(30);
  side.engine.handle_time(side.now);
  side.done(side.take_action<RdmaRead>()->id);
  side.engine.responder().lend(side.take_event<MemoryWanted>()->call, Lease{2}, 0);
  side.drain();
  EXPECT_EQ(side.engine.poll_timeout(), side.now + std::chrono::seconds(1));
  side.engine.handle_timeout(side.now);
  side.drain();
  EXPECT_FALSE(side.take_action<Disconnect>());
  side.done(side.take_action<RdmaRead>()->id);
  EXPECT_TRUE(side.take_event<CallReceived>());
}

// Memory that waits for other Reads to complete is nobody's.
TEST_F(Server, CallsAskForMemoryWhenTheirReadsCanGoOut) {
  LinkParameters link = Endpoint::connected();
  link.reads_in_flight_max = 2;
  Endpoint side(Role::kServer, small(), link);
  ChunkLists lists;
  for (int i = 0; i < 3; ++i) add_read(lists, 40, 4000);
  for (int i = 0; i < 3; ++i) side.receive(message(call_header(), lists, 44));
  side.engine.responder().lend(side.take_event<MemoryWanted>()->call, Lease{1}, 0);
  side.drain();
  EXPECT_FALSE(side.take_event<MemoryWanted>()) << "three Reads of the first are to be done";
  side.done(side.take_action<RdmaRead>()->id);
  EXPECT_FALSE(side.take_event<MemoryWanted>()) << "two are";
  side.done(side.take_action<RdmaRead>()->id);
  const auto second = side.take_event<MemoryWanted>();
  ASSERT_TRUE(second);
  EXPECT_FALSE(side.take_event<MemoryWanted>());
  side.engine.responder().lend(second->call, Lease{2}, 0);
  side.drain();
  while (const auto read = side.take_action<RdmaRead>()) side.done(read->id);
  EXPECT_TRUE(side.take_event<MemoryWanted>());
  EXPECT_TRUE(side.take_event<CallReceived>());
  EXPECT_TRUE(side.take_event<CallReceived>());
}

TEST_F(Server, CallsAskForMemoryWithinTheWindow) {
  Options options = small();
  options.pull_window = 20'000;
  Endpoint side(Role::kServer, options);
  ChunkLists lists;
  add_read(lists, 40, 12'000);
  for (int i = 0; i < 4; ++i) side.receive(message(call_header(), lists, 44));
  EXPECT_TRUE(side.take_event<MemoryWanted>());
  const auto second = side.take_event<MemoryWanted>();
  ASSERT_TRUE(second) << "the window is not full yet";
  EXPECT_FALSE(side.take_event<MemoryWanted>());
  reply(side, second->call);  // it gets none, and is answered
  side.done(side.take_action<PostSend>()->id);
  EXPECT_TRUE(side.take_event<MemoryWanted>()) << "its place in the window is the third one's";
  EXPECT_FALSE(side.take_event<MemoryWanted>());
}

// The pool keeps memory for them that larger ones do not get.
TEST_F(Server, SmallCallsDoNotWaitForLargeOnes) {
  Options options = small();
  options.pull_window = 1;
  Endpoint side(Role::kServer, options);
  ChunkLists large, few;
  add_read(large, 40, 12'000);
  add_read(few, 40, 8192);
  for (int i = 0; i < 2; ++i) side.receive(message(call_header(), large, 44));
  EXPECT_TRUE(side.take_event<MemoryWanted>());
  EXPECT_FALSE(side.take_event<MemoryWanted>());
  side.receive(message(call_header(), few, 44));
  const auto wanted = side.take_event<MemoryWanted>();
  ASSERT_TRUE(wanted);
  EXPECT_EQ(wanted->size, 8192U);
}

// This side was away, and the peer has perhaps served everything.
TEST_F(Server, ReadChunksAreLookedAtOnceMoreWhenThisSideIsLate) {
  Options options = small();
  options.pull_timeout = std::chrono::seconds(10);
  options.pull_rate_min = 1'000'000;
  Endpoint side(Role::kServer, options);
  ChunkLists lists;
  add_read(lists, 40, 100);
  side.receive(message(call_header(), lists, 44));
  side.engine.responder().lend(side.take_event<MemoryWanted>()->call, Lease{1}, 0);
  side.drain();
  side.now += std::chrono::seconds(15);
  side.engine.handle_timeout(side.now);
  side.drain();
  EXPECT_FALSE(side.take_action<Disconnect>());
  ASSERT_EQ(side.engine.poll_timeout(), side.now + std::chrono::seconds(1));
  side.now += std::chrono::seconds(1);
  side.engine.handle_timeout(side.now);
  side.drain();
  EXPECT_TRUE(side.take_action<Disconnect>());
}

TEST_F(Server, ReadChunksMayTakeAnyTimeWithoutALowestRate) {
  Options options = small();
  options.pull_rate_min = 0;
  Endpoint side(Role::kServer, options);
  ChunkLists lists;
  add_read(lists, 40, 100);
  side.receive(message(call_header(), lists, 44));
  side.engine.responder().lend(side.take_event<MemoryWanted>()->call, Lease{1}, 0);
  side.drain();
  EXPECT_EQ(side.engine.poll_timeout(), side.now + options.peer_timeout);
  side.done(side.take_action<RdmaRead>()->id);
  EXPECT_TRUE(side.take_event<CallReceived>());
}

TEST_F(Server, CallsThatWaitForTheirTurnEndWithTheConnection) {
  Options options = small();
  options.pull_window = 1;
  Endpoint side(Role::kServer, options);
  ChunkLists lists;
  add_read(lists, 40, 12'000);
  for (int i = 0; i < 3; ++i) side.receive(message(call_header(), lists, 44));
  const auto first = side.take_event<MemoryWanted>();
  ASSERT_TRUE(first);
  side.engine.handle_disconnected();
  side.drain();
  EXPECT_EQ(side.engine.responder().calls_in_service(), 1U) << "the layer above has heard of one";
  side.engine.responder().reject(first->call);
  side.drain();
  EXPECT_EQ(side.engine.responder().calls_in_service(), 0U);
  EXPECT_TRUE(side.take_event<CallDone>());
  EXPECT_FALSE(side.take_event<CallDone>());
  EXPECT_FALSE(side.take_event<MemoryWanted>());
}

TEST_F(Server, CallThatWaitsForItsTurnDoesNotBeginWhenTheConnectionIsToEnd) {
  Options options = small();
  options.pull_window = 1;
  Endpoint side(Role::kServer, options);
  ChunkLists lists;
  add_read(lists, 40, 12'000);
  for (int i = 0; i < 2; ++i) side.receive(message(call_header(), lists, 44));
  side.engine.responder().lend(side.take_event<MemoryWanted>()->call, Lease{1}, 0);
  side.drain();
  side.done(side.take_action<RdmaRead>()->id, Status::kLocalError);
  EXPECT_TRUE(side.take_action<Disconnect>());
  EXPECT_TRUE(side.take_event<CallDone>()) << "the first one's place is free";
  EXPECT_FALSE(side.take_event<MemoryWanted>());
}

}  // namespace
}  // namespace rpcrdma::engine
