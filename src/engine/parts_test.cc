// The parts that requester and responder are made of.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "engine/endpoint_for_test.h"
#include "engine/exposure_set.h"
#include "engine/read_slots.h"
#include "engine/receive_ledger.h"
#include "engine/slot_table.h"

namespace rpcrdma::engine {

// Looks at what the calls of one half hold.
struct SlotProbe {
  template <class Pool>
  static std::size_t size_of(const Pool& pool) {
    std::size_t count = 0;
    pool.each([&](const auto&) { ++count; });
    return count;
  }
  static std::size_t of_requester(const Connection& connection) {
    return size_of(connection.requester_.chunks_);
  }
  static std::size_t of_responder(const Connection& connection) {
    return size_of(connection.responder_.chunked_);
  }
};

namespace {

struct Slot : SlotBase {};
using Table = SlotTable<Slot>;

TEST(SlotTable, IdsOfFreedSlotsNameNoCall) {
  Table table(1);
  Slot& slot = table.take();
  const CallId id = table.id(slot);
  EXPECT_EQ(table.find(id), &slot);
  EXPECT_TRUE(table.full());
  table.free(slot);
  EXPECT_EQ(table.find(id), nullptr);
  EXPECT_EQ(&table.take(), &slot);
  EXPECT_EQ(table.find(id), nullptr) << "it is another call's now";
  EXPECT_EQ(table.find(to_call_id(1, 0)), nullptr) << "there is no such slot";
}

TEST(SlotTable, SlotsAreUsedInTurn) {
  Table table(2);
  Slot& first = table.take();
  table.free(first);
  EXPECT_EQ(&table.next(), &table[1]);
  EXPECT_EQ(&table.take(), &table[1]);
  EXPECT_EQ(&table.take(), &first);
}

TEST(SlotTable, ReadySlotsEmitInTurnAndTheOneThatFindsNoRoomGoesFirst) {
  Table table(3);
  for (int i = 0; i < 3; ++i) table.take();
  table.make_ready(table[2]);
  table.make_ready(table[0]);
  table.make_ready(table[2]);
  std::vector<int> seen;
  int room = 1;
  const auto emit = [&](Slot& slot) {
    if (room-- == 0) return false;
    seen.push_back(slot.index);
    return true;
  };
  int behind = 0;
  table.emit_ready(emit, [&] { ++behind; });
  EXPECT_EQ(seen, (std::vector{2}));
  room = 5;
  table.make_ready(table[1]);
  table.emit_ready(emit, [&] { ++behind; });
  EXPECT_EQ(seen, (std::vector{2, 0, 1}));
  EXPECT_EQ(behind, 3);
}

TEST(PartPool, GrowsToWhatIsInUseAtATime) {
  PartPool<int> pool;
  int* first = pool.take();
  *first = 7;
  pool.give_back(first);
  EXPECT_EQ(pool.take(), first);
  int* second = pool.take();
  EXPECT_NE(second, first);
  pool.give_back(first);
  std::size_t count = 0;
  pool.each([&](int) { ++count; });
  EXPECT_EQ(count, 2U) << "also those that are not in use";
}

class Ledger : public testing::Test {
 protected:
  std::size_t post(ReceiveLedger& ledger) {
    std::array<ReceiveId, 16> room;
    const auto posted = ledger.poll_to_post(room);
    for (const ReceiveId id : posted) posted_.push_back(id);
    return posted.size();
  }
  ReceiveId call_arrives(ReceiveLedger& ledger) {
    const ReceiveId id = posted_.front();
    posted_.erase(posted_.begin());
    ledger.arrived();
    ledger.arrived_for_call();
    return id;
  }
  std::vector<ReceiveId> posted_;
};

TEST_F(Ledger, WithholdsWhatIsNotGranted) {
  ReceiveLedger ledger(4, 4, 1);
  EXPECT_EQ(post(ledger), 1U);
  EXPECT_EQ(ledger.granted(), 1U);
  std::array<ReceiveId, 16> room;
  EXPECT_EQ(ledger.poll_unused(room, false), 3U);
  EXPECT_EQ(ledger.poll_unused(room, false), 0U) << "each once";
  ledger.grant(3);
  EXPECT_FALSE(ledger.all_posted()) << "posted before they are granted";
  EXPECT_EQ(post(ledger), 2U);
  EXPECT_EQ(ledger.posted(), 3U);
}

TEST_F(Ledger, SmallerGrantTakesOneReceiveWithEachReply) {
  ReceiveLedger ledger(3, 3, 3);
  post(ledger);
  ledger.grant(1);
  for (const std::uint32_t left : {2U, 1U, 1U}) {
    ledger.answered(call_arrives(ledger));
    post(ledger);
    EXPECT_EQ(ledger.posted(), left);
  }
}

TEST_F(Ledger, CallsBeyondTheGrantTakeTheReceivesOfReplies) {
  ReceiveLedger ledger(3, 1, 1);  // one Call of the peer's, and two replies
  EXPECT_EQ(post(ledger), 3U);
  EXPECT_TRUE(ledger.has_one_for_reply(1));
  EXPECT_FALSE(ledger.has_one_for_reply(2));
  call_arrives(ledger);
  EXPECT_FALSE(ledger.is_overrun());
  EXPECT_TRUE(ledger.has_one_for_reply(1));
  call_arrives(ledger);
  EXPECT_TRUE(ledger.is_overrun());
  EXPECT_FALSE(ledger.has_one_for_reply(1));
}

TEST_F(Ledger, NothingIsToBePostedAfterTheEnd) {
  ReceiveLedger ledger(2, 2, 2);
  std::array<ReceiveId, 16> room;
  EXPECT_EQ(ledger.poll_unused(room, true), 2U);
  EXPECT_EQ(post(ledger), 0U);
}

struct Reader final : ReadSlots::Reader {
  void resume(std::uint16_t slot) override { resumed.push_back(slot); }
  std::vector<int> resumed;
};

TEST(ReadSlots, AreSharedByBothHalvesInTurn) {
  ReadSlots slots(4);
  slots.set_max(1);
  Reader requester;
  Reader responder;
  slots.take();
  EXPECT_FALSE(slots.free());
  slots.wait(requester, 1);
  slots.wait(responder, 1);
  slots.wait(requester, 2);
  slots.give_back();
  EXPECT_EQ(requester.resumed, (std::vector{1}));
  EXPECT_TRUE(responder.resumed.empty());
  slots.take();
  slots.give_back();
  EXPECT_EQ(responder.resumed, (std::vector{1}));
}

TEST(ReadSlots, TurnThatIsNotTakenIsTheNextOnes) {
  ReadSlots slots(4);
  slots.set_max(1);
  Reader reader;
  slots.take();
  slots.wait(reader, 1);
  slots.wait(reader, 2);
  slots.wait(reader, 3);
  slots.leave(reader, 2);
  EXPECT_TRUE(reader.resumed.empty()) << "no slot is free";
  slots.give_back();
  slots.leave(reader, 1);  // it was told and takes none
  EXPECT_EQ(reader.resumed, (std::vector{1, 3}));
}

TEST(ReadSlots, PeerThatServesNoneIsReadFromOneByOne) {
  ReadSlots slots(1);
  slots.set_max(0);
  EXPECT_TRUE(slots.free());
}

WorkDone handle(std::uint32_t tag, WorkStatus status = WorkStatus::kOk) {
  return {WorkId{1}, status, SteeringTag{tag}, 0x1000U * tag};
}

TEST(ExposureSet, HandleLivesFromItsCompletionToItsRevocation) {
  ExposureSet set;
  set.ask();
  EXPECT_FALSE(set.any_live());
  EXPECT_FALSE(set.all_dead());
  EXPECT_TRUE(set.take_handle(0, handle(5), true));
  EXPECT_EQ(set.segment(0, 100), (wire::Segment{SteeringTag{5}, 100, 0x5000}));
  EXPECT_TRUE(set.any_live());
  EXPECT_FALSE(set.revoke_live([](std::size_t, SteeringTag) { return false; })) << "no room";
  EXPECT_TRUE(set.any_live());
  EXPECT_TRUE(set.revoke_live(
      [](std::size_t part, SteeringTag tag) { return part == 0 && tag == SteeringTag{5}; }));
  EXPECT_FALSE(set.any_live());
  EXPECT_FALSE(set.all_dead()) << "the peer may still write";
  set.revoked(0);
  EXPECT_TRUE(set.all_dead());
}

TEST(ExposureSet, PeerInvalidatesALiveHandleOnce) {
  ExposureSet set;
  set.ask();
  set.ask();
  set.take_handle(0, handle(5), true);
  set.take_handle(1, handle(6), true);
  EXPECT_FALSE(set.invalidated(SteeringTag{7}));
  EXPECT_TRUE(set.invalidated(SteeringTag{6}));
  EXPECT_FALSE(set.invalidated(SteeringTag{6}));
  EXPECT_TRUE(set.any_live());
}

TEST(ExposureSet, HandleThatIsBeingRevokedMayBeInvalidatedMeanwhile) {
  ExposureSet set;
  set.ask();
  set.take_handle(0, handle(5), true);
  set.revoke_live([](std::size_t, SteeringTag) { return true; });
  EXPECT_TRUE(set.invalidated(SteeringTag{5}));
  EXPECT_FALSE(set.all_dead()) << "the Revoke still completes";
}

TEST(ExposureSet, NothingLivesLongerThanTheConnection) {
  ExposureSet set;
  set.ask();
  set.ask();
  set.skip();
  set.take_handle(0, handle(5), true);
  set.lose();
  EXPECT_FALSE(set.any_live());
  EXPECT_TRUE(set.take_handle(1, handle(6), false)) << "it came, but too late";
  EXPECT_TRUE(set.all_dead());
}

TEST(ExposureSet, RefusedExposeHasNoHandle) {
  ExposureSet set;
  set.ask();
  EXPECT_FALSE(set.take_handle(0, handle(5, WorkStatus::kFailed), true));
  EXPECT_TRUE(set.all_dead());
}

// What a call touches besides its slot is only there for calls that need it.
TEST(NullCall, TakesNothingButItsSlots) {
  Options options;
  Endpoint client(Role::kClient, options);
  const Fragment call{Lease{1}, 40, 0, 0};
  Outgoing outgoing;
  outgoing.stream = {&call, 1};
  outgoing.reply_size_max = 24;
  ASSERT_TRUE(client.engine.start_call(client.now, Xid{7}, outgoing, std::chrono::seconds(1)));
  client.drain();
  const auto send = client.take_action<PostSend>();
  ASSERT_TRUE(send);
  client.done(send->id);
  client.receive(message({Xid{7}, 1, 4, wire::v1::Msg{}}, {}, 24, RpcType::kReply));
  ASSERT_TRUE(client.take_event<ReplyReady>());
  EXPECT_EQ(SlotProbe::of_requester(client.engine), 0U);

  Endpoint server(Role::kServer, options);
  server.receive(message({Xid{7}, 1, 4, wire::v1::Msg{}}, {}, 40, RpcType::kCall));
  const auto received = server.take_event<CallReceived>();
  ASSERT_TRUE(received);
  Outgoing reply;
  reply.stream = {&call, 1};
  server.engine.start_reply(received->call, reply);
  server.drain();
  const auto answer = server.take_action<PostSend>();
  ASSERT_TRUE(answer);
  server.done(answer->id);
  EXPECT_TRUE(server.take_event<CallDone>());
  EXPECT_EQ(SlotProbe::of_responder(server.engine), 0U);
}

}  // namespace
}  // namespace rpcrdma::engine
