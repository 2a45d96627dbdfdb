// The parts that requester and responder are made of.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <vector>

#include "base/random.h"
#include "engine/endpoint_for_test.h"
#include "engine/exposure_set.h"
#include "engine/offered_chunks.h"
#include "engine/peer_watch.h"
#include "engine/puller.h"
#include "engine/read_slots.h"
#include "engine/receive_ledger.h"
#include "engine/recent_writes.h"
#include "engine/slot_table.h"
#include "engine/xid_index.h"

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
    return size_of(connection.requester().chunks_);
  }
  static std::size_t of_responder(const Connection& connection) {
    return size_of(connection.responder().chunked_);
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

TEST(SlotTable, TheSlotThatWasFreedLastIsTakenFirst) {
  Table table(3);
  Slot& first = table.take();
  EXPECT_EQ(&first, &table[0]);
  Slot& second = table.take();
  table.free(second);
  table.free(first);
  EXPECT_EQ(&table.next(), &first);
  EXPECT_EQ(&table.take(), &first);
  EXPECT_EQ(&table.take(), &second);
  EXPECT_EQ(&table.take(), &table[2]);
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
  slots.stop_waiting(reader, 2);
  EXPECT_TRUE(reader.resumed.empty()) << "no slot is free";
  slots.give_back();
  slots.stop_waiting(reader, 1);  // it was resumed and takes none
  EXPECT_EQ(reader.resumed, (std::vector{1, 3}));
}

TEST(ReadSlots, PeerThatServesNoneIsReadFromOneByOne) {
  ReadSlots slots(1);
  slots.set_max(0);
  EXPECT_TRUE(slots.free());
}

Completion handle(std::uint32_t tag, Status status = Status::kOk) {
  return {.id = 1, .status = status, .tag = SteeringTag{tag}, .address = 0x1000U * tag};
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
  EXPECT_FALSE(set.take_handle(0, handle(5, Status::kLocalError), true));
  EXPECT_TRUE(set.all_dead());
}

// --- Chunks that a Call offers ------------------------------------------------------------------

wire::ReadSegment read_segment(std::uint32_t position, std::uint32_t length,
                               std::uint32_t handle = 1) {
  return {position, {SteeringTag{handle}, length, 0x1000}};
}
wire::ChunkLists reads(std::initializer_list<wire::ReadSegment> segments) {
  wire::ChunkLists lists;
  for (const wire::ReadSegment& segment : segments) EXPECT_TRUE(lists.reads.push_back(segment));
  return lists;
}

TEST(OfferedChunks, AreCutByPositionInTheOrderOfTheList) {
  OfferedChunks offered;
  ASSERT_TRUE(offered.take(reads({read_segment(80, 100, 1), read_segment(40, 8, 2),
                                  read_segment(80, 50, 3), read_segment(40, 4, 4)}),
                           {}));
  ASSERT_EQ(offered.chunks().size(), 2U);
  EXPECT_EQ(offered.chunks()[0].position, 40U);
  EXPECT_EQ(offered.chunks()[0].size, 12U);
  EXPECT_EQ(offered.chunks()[1].size, 150U);
  EXPECT_EQ(offered.read(0).handle, SteeringTag{2});
  EXPECT_EQ(offered.read(1).handle, SteeringTag{4});
  EXPECT_EQ(offered.read(2).handle, SteeringTag{1});
  EXPECT_EQ(offered.read(3).handle, SteeringTag{3});
  EXPECT_FALSE(offered.has_position_zero());
}

TEST(OfferedChunks, PositionsAreWholeWords) {
  OfferedChunks offered;
  EXPECT_FALSE(offered.take(reads({read_segment(42, 8)}), {}));
}

TEST(OfferedChunks, SizesAreBoundedForTheCallAndForItsItems) {
  Options options;
  options.long_call_size_max = 1000;
  options.read_chunk_size_max = 500;
  const auto takes = [&](std::uint32_t position, std::uint32_t size) {
    OfferedChunks offered;
    return offered.take(reads({read_segment(position, size / 2), read_segment(position, size / 2)}),
                        options);
  };
  EXPECT_TRUE(takes(0, 1000));
  EXPECT_FALSE(takes(0, 1002));
  EXPECT_TRUE(takes(40, 500));
  EXPECT_FALSE(takes(40, 502));
}

TEST(OfferedChunks, PositionsFitTheStreamWithTheChunksBeforePutIn) {
  const auto fits = [](std::uint32_t first, std::uint32_t second, std::uint64_t inline_size) {
    OfferedChunks offered;
    EXPECT_TRUE(offered.take(reads({read_segment(first, 10), read_segment(second, 10)}), {}));
    return offered.positions_fit(inline_size);
  };
  EXPECT_TRUE(fits(40, 52, 40)) << "right behind the first, which is padded to 12";
  EXPECT_FALSE(fits(40, 48, 44)) << "inside the first";
  EXPECT_TRUE(fits(40, 56, 44));
  EXPECT_FALSE(fits(40, 60, 44)) << "behind the end of the stream";
}

// With its padding it has 33 bits, of which a size of 32 would keep none.
TEST(OfferedChunks, ChunkOfTheLargestSizeLeavesNoPositionBehindIt) {
  Options options;
  options.read_chunk_size_max = options.long_call_size_max = 0xffffffffU;
  OfferedChunks offered;
  ASSERT_TRUE(offered.take(reads({read_segment(40, 0xffffffffU), read_segment(44, 10)}), options));
  EXPECT_FALSE(offered.positions_fit(44)) << "inside the first";
}

TEST(OfferedChunks, OneHandleIsWhatAllSegmentsHave) {
  wire::ChunkLists lists = reads({read_segment(40, 8, 5)});
  const wire::Segment same{SteeringTag{5}, 100, 0};
  const wire::Segment other{SteeringTag{6}, 100, 0};
  ASSERT_TRUE(lists.writes.push_back({&same, 1}));
  OfferedChunks offered;
  ASSERT_TRUE(offered.take(lists, {}));
  EXPECT_EQ(offered.only_handle(), SteeringTag{5});
  lists.has_reply = true;
  ASSERT_TRUE(lists.reply.push_back(other));
  offered.clear();
  EXPECT_FALSE(offered.only_handle()) << "there is none at all";
  ASSERT_TRUE(offered.take(lists, {}));
  EXPECT_FALSE(offered.only_handle());
}

TEST(OfferedChunks, OneHandleIsWhatAllWriteChunksHave) {
  const auto only_handle = [](std::uint32_t first, std::uint32_t second) {
    wire::ChunkLists lists;
    for (const std::uint32_t handle : {first, second}) {
      const wire::Segment segment{SteeringTag{handle}, 100, 0};
      EXPECT_TRUE(lists.writes.push_back({&segment, 1}));
    }
    OfferedChunks offered;
    EXPECT_TRUE(offered.take(lists, {}));
    return offered.only_handle();
  };
  EXPECT_EQ(only_handle(5, 5), SteeringTag{5});
  EXPECT_FALSE(only_handle(5, 6));
}

TEST(OfferedChunks, DigestIsOfPositionsAndLengthsOnly) {
  const auto digest = [](std::uint32_t position, std::uint32_t length, std::uint32_t handle) {
    OfferedChunks offered;
    EXPECT_TRUE(offered.take(reads({read_segment(position, length, handle)}), {}));
    return offered.digest();
  };
  EXPECT_EQ(digest(40, 8, 1), digest(40, 8, 2));
  EXPECT_NE(digest(40, 8, 1), digest(44, 8, 1));
  EXPECT_NE(digest(40, 8, 1), digest(40, 9, 1));
}

// --- Pulling them -------------------------------------------------------------------------------

class Pulls : public testing::Test {
 protected:
  explicit Pulls(std::uint32_t reads_max = 8) : slots_(1) { slots_.set_max(reads_max); }
  void offer(std::initializer_list<wire::ReadSegment> segments) {
    ASSERT_TRUE(offered_.take(reads(segments), {}));
  }
  Puller::Emitted emit(std::size_t room_size = 8) {
    std::vector<work::Request> requests(room_size);
    std::vector<Slices> slices(room_size);
    WorkRoom room(requests, slices);
    const auto emitted = puller_.emit(offered_, WorkId{1}, slots_, room, posted_);
    for (std::size_t i = 0; i < room.used(); ++i)
      reads_.push_back(std::get<RdmaRead>(kept(requests[i])));
    return emitted;
  }

  OfferedChunks offered_;
  Puller puller_;
  ReadSlots slots_;
  std::uint32_t posted_ = 0;
  std::vector<RdmaRead> reads_;
};
struct PullsOneByOne : Pulls {
  PullsOneByOne() : Pulls(1) {}
};

TEST_F(Pulls, LandBehindEachOtherInTheMemoryThatWasLent) {
  offer({read_segment(40, 100, 1), read_segment(40, 0, 2), read_segment(40, 50, 3)});
  ASSERT_NE(puller_.wanted(offered_), nullptr);
  puller_.lend(offered_, Lease{9}, 16);
  EXPECT_EQ(emit(), Puller::Emitted::kAll);
  ASSERT_EQ(reads_.size(), 2U) << "nothing is read from an empty segment";
  EXPECT_EQ(reads_[0].to_offset, 16U);
  EXPECT_EQ(reads_[1].to_offset, 116U);
  EXPECT_EQ(posted_, 2U);
  EXPECT_EQ(offered_.chunks()[0].data, (Fragment{Lease{9}, 150, 16, 0}));
  EXPECT_TRUE(puller_.finish_chunk(offered_));
  EXPECT_EQ(puller_.wanted(offered_), nullptr);
}

TEST_F(Pulls, EmptyChunksNeedNoMemory) {
  offer({read_segment(40, 0), read_segment(80, 4)});
  const ReadChunk* wanted = puller_.wanted(offered_);
  ASSERT_NE(wanted, nullptr);
  EXPECT_EQ(wanted->position, 80U);
}

TEST_F(Pulls, GoOnWhereTheRoomWasFull) {
  offer({read_segment(40, 10), read_segment(40, 20)});
  ASSERT_NE(puller_.wanted(offered_), nullptr);
  puller_.lend(offered_, Lease{9}, 0);
  EXPECT_EQ(emit(1), Puller::Emitted::kRoomIsFull);
  EXPECT_FALSE(puller_.finish_chunk(offered_));
  EXPECT_EQ(emit(1), Puller::Emitted::kAll);
  EXPECT_EQ(reads_.back().to_offset, 10U);
}

TEST_F(PullsOneByOne, WaitForAReadSlot) {
  offer({read_segment(40, 10), read_segment(40, 20)});
  ASSERT_NE(puller_.wanted(offered_), nullptr);
  puller_.lend(offered_, Lease{9}, 0);
  EXPECT_EQ(emit(), Puller::Emitted::kNoReadSlot);
  slots_.give_back();
  EXPECT_EQ(emit(), Puller::Emitted::kAll);
  EXPECT_EQ(reads_.size(), 2U);
}

TEST_F(Pulls, CallItselfMayBeReadAgain) {
  offer({read_segment(0, 60), read_segment(40, 20)});
  ASSERT_NE(puller_.wanted(offered_), nullptr);
  EXPECT_FALSE(puller_.long_part(offered_));
  EXPECT_FALSE(puller_.may_restart(offered_));
  puller_.lend(offered_, Lease{9}, 0);
  emit();
  ASSERT_TRUE(puller_.finish_chunk(offered_));
  EXPECT_EQ(puller_.long_part(offered_), (Fragment{Lease{9}, 60, 0, 0}));
  ASSERT_TRUE(puller_.may_restart(offered_));
  puller_.restart();
  EXPECT_EQ(puller_.wanted(offered_)->position, 0U);
}

class LatestWrites : public testing::Test {
 protected:
  void note(std::uint32_t handle, std::uint64_t offset, std::uint16_t slot) {
    SlotBase base;
    base.index = slot;
    base.generation = kGeneration;
    writes_.note({SteeringTag{handle}, 100, offset}, base);
  }
  std::optional<std::uint16_t> find(std::uint32_t handle, std::uint64_t offset) const {
    const auto call = writes_.find({SteeringTag{handle}, 0, offset});
    if (!call) return std::nullopt;
    EXPECT_EQ(generation_of(*call), kGeneration);
    return slot_of(*call);
  }
  static constexpr std::uint32_t kGeneration = 7;
  RecentWrites writes_{2};
};

TEST_F(LatestWrites, AreKnownByHandleAndPlace) {
  EXPECT_FALSE(find(5, 0x1000));
  note(5, 0x1000, 1);
  EXPECT_EQ(find(5, 0x1000), 1);
  EXPECT_EQ(find(5, 0x1063), 1);
  EXPECT_FALSE(find(5, 0x1065));
  EXPECT_FALSE(find(5, 0xfff));
  EXPECT_FALSE(find(6, 0x1000));
}

TEST_F(LatestWrites, NewestCounts) {
  note(5, 0x1000, 1);
  note(5, 0x1000, 2);
  EXPECT_EQ(find(5, 0x1000), 2);
}

TEST_F(LatestWrites, OldestIsForgotten) {
  const auto max = static_cast<std::uint32_t>(2 * RecentWrites::kPerCredit);
  for (std::uint32_t i = 0; i <= max; ++i) note(i, 0, static_cast<std::uint16_t>(i));
  EXPECT_FALSE(find(0, 0));
  EXPECT_EQ(find(1, 0), 1);
  EXPECT_EQ(find(max, 0), max);
}

TEST(PeerWatch, EachCompletionGivesThePeerItsTimeAnew) {
  using std::chrono::seconds;
  PeerWatch watch(seconds(10));
  const Instant start{seconds(100)};
  EXPECT_FALSE(watch.deadline());
  watch.posted(start);
  watch.posted(start + seconds(4));
  EXPECT_EQ(watch.deadline(), start + seconds(10)) << "more work gives no more time";
  watch.done(start + seconds(6), true);
  EXPECT_EQ(watch.deadline(), start + seconds(16));
  EXPECT_FALSE(watch.expired(start + seconds(15)));
  EXPECT_TRUE(watch.expired(start + seconds(16)));
  EXPECT_FALSE(watch.expired(start + seconds(17))) << "once";
  watch.done(start + seconds(17), true);
  EXPECT_FALSE(watch.deadline()) << "nothing is under way";
}

TEST(PeerWatch, PeerHasALittleMoreTimeWhenThisSideWasAway) {
  using std::chrono::seconds;
  PeerWatch watch(seconds(10));
  const Instant start{seconds(100)};
  watch.posted(start);
  EXPECT_FALSE(watch.expired(start + seconds(30))) << "what it has done is still to be looked at";
  EXPECT_EQ(watch.deadline(), start + seconds(31));
  EXPECT_TRUE(watch.expired(start + seconds(31)));
}

TEST(PeerWatch, PeerHasMoreTimeOnceHoweverOftenThisSideIsAway) {
  using std::chrono::seconds;
  PeerWatch watch(seconds(10));
  const Instant start{seconds(100)};
  watch.posted(start);
  EXPECT_FALSE(watch.expired(start + seconds(12)));
  EXPECT_TRUE(watch.expired(start + seconds(15)));
}

TEST(PeerWatch, WaitsForNothingWhenTheConnectionHasEnded) {
  PeerWatch watch(std::chrono::seconds(10));
  watch.posted(Instant{});
  watch.posted(Instant{});
  watch.done(Instant{}, false);
  EXPECT_FALSE(watch.deadline());
}

TEST(XidIndex, FindsTheSlotThatMatches) {
  XidIndex index(4);
  for (std::size_t slot = 0; slot < 4; ++slot) index.set(slot, Xid{7});
  index.set(2, Xid{9});
  const auto any = [](std::size_t) { return true; };
  EXPECT_EQ(index.find(Xid{9}, any), 2U);
  EXPECT_TRUE(index.find(Xid{7}, any));
  EXPECT_EQ(index.find(Xid{7}, [](std::size_t slot) { return slot == 1; }), 1U);
  EXPECT_FALSE(index.find(Xid{8}, any));
  EXPECT_FALSE(index.find(Xid{7}, [](std::size_t) { return false; }));
}

// As slots are used: each has one XID at a time, and is found by that and by no older one.
TEST(XidIndex, KnowsTheNewestXidOfEachSlot) {
  constexpr std::size_t kSlots = 37;
  SeededRandom random(1);
  XidIndex index(kSlots);
  std::map<std::size_t, Xid> xids;
  const auto any = [](std::size_t) { return true; };
  for (int i = 0; i < 5000; ++i) {
    const auto slot = static_cast<std::size_t>(random.next() % kSlots);
    const Xid before = xids.contains(slot) ? xids[slot] : Xid{0};
    const Xid xid{static_cast<std::uint32_t>(i + 1) << (i % 3 == 0 ? 16U : 0U)};
    index.set(slot, xid);
    xids[slot] = xid;
    EXPECT_FALSE(index.find(before, [&](std::size_t found) { return found == slot; }));
    for (const auto& [each, has] : xids) {
      EXPECT_EQ(index.find(has, [&, id = each](std::size_t found) { return found == id; }), each);
    }
    EXPECT_FALSE(index.find(Xid{0xffffffff}, any));
  }
}

// State besides the slot exists only for calls that need it.
TEST(NullCall, TakesNothingButItsSlots) {
  Options options;
  Endpoint client(Role::kClient, options);
  const Fragment call{Lease{1}, 40, 0, 0};
  Outgoing outgoing;
  outgoing.stream = {&call, 1};
  outgoing.reply_size_max = 24;
  ASSERT_TRUE(
      client.engine.requester().start_call(client.now, Xid{7}, outgoing, std::chrono::seconds(1)));
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
  server.engine.responder().start_reply(received->call, reply);
  server.drain();
  const auto answer = server.take_action<PostSend>();
  ASSERT_TRUE(answer);
  server.done(answer->id);
  EXPECT_TRUE(server.take_event<CallDone>());
  EXPECT_EQ(SlotProbe::of_responder(server.engine), 0U);
}

}  // namespace
}  // namespace rpcrdma::engine
