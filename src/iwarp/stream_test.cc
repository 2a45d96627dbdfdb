#include "iwarp/stream.h"

#include <gtest/gtest.h>

#include "iwarp/stream_pair_for_test.h"

namespace rpcrdma::iwarp::test {
namespace {

TEST(Stream, SendArrivesInThePostedReceive) {
  StreamPair pair;
  const Buffer sent = text("a message");
  Buffer got(100);
  ASSERT_TRUE(test::post_receive(pair.responder, 7, got));
  ASSERT_TRUE(test::post_send(pair.initiator, 8, sent));
  pair.run();
  const auto receive_done = one(pair.responder);
  ASSERT_TRUE(receive_done);
  EXPECT_EQ(receive_done->id, 7U);
  EXPECT_EQ(receive_done->size, sent.size());
  EXPECT_EQ(receive_done->tag, std::nullopt);
  got.resize(sent.size());
  EXPECT_EQ(got, sent);
  const auto send_done = one(pair.initiator);
  ASSERT_TRUE(send_done);
  EXPECT_EQ(send_done->id, 8U);
  EXPECT_EQ(send_done->kind, WorkKind::kSend);
}

TEST(Stream, ResponderHoldsItsFirstFpduBack) {
  StreamPair pair;
  Buffer got(16);
  const Buffer sent = text("early");
  ASSERT_TRUE(test::post_receive(pair.initiator, 1, got));
  ASSERT_TRUE(test::post_send(pair.responder, 2, sent));
  EXPECT_TRUE(sent_by(pair.responder).empty());
  pair.open();
  EXPECT_EQ(one(pair.initiator)->id, 1U);
}

TEST(Stream, LargeMessageGoesThroughScatteredMemory) {
  SeededRandom random(9);
  for (const bool crc : {true, false}) {
    StreamPair pair(crc);
    const Buffer data = random_bytes(random, 300'000);
    std::vector<Bytes> from;
    Bytes left = data;
    for (std::size_t size = 1; !left.empty(); size = size * 2 + 3) {
      from.push_back(left.first(std::min(size, left.size())));
      left = left.subspan(from.back().size());
    }
    Buffer got(400'000);
    std::vector<MutableBytes> into;
    MutableBytes room = got;
    for (std::size_t i = 0; i < 7; ++i) into.push_back(room.subspan(i * 50'000, 50'000));
    ASSERT_TRUE(pair.responder.post_receive(1, into));
    ASSERT_TRUE(pair.initiator.post_send(2, from));
    pair.run();
    ASSERT_EQ(one(pair.responder)->size, data.size());
    EXPECT_TRUE(std::equal(data.begin(), data.end(), got.begin()));
  }
}

TEST(Stream, WritePlacesAndTheSendBehindItTells) {
  StreamPair pair;
  Buffer memory(200'000);
  Buffer inbox(16);
  SeededRandom random(10);
  const Buffer data = random_bytes(random, 150'000);
  const RemoteMemory remote = exposed(pair.responder, memory);
  ASSERT_TRUE(test::post_receive(pair.responder, 1, inbox));
  ASSERT_TRUE(test::post_write(pair.initiator, 2, data, {remote.tag, remote.address + 1000}));
  ASSERT_TRUE(test::post_send(pair.initiator, 3, literal("done")));
  pair.run();
  EXPECT_EQ(one(pair.responder)->id, 1U);
  EXPECT_TRUE(std::equal(data.begin(), data.end(), memory.begin() + 1000));
  EXPECT_EQ(memory[999], std::byte{0});
  EXPECT_EQ(memory[151'000], std::byte{0});
  const auto done = completions(pair.initiator);
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].id, 2U);
  EXPECT_EQ(done[1].id, 3U);
}

TEST(Stream, ReadFetchesAndNeedsNoHelpFromThePeer) {
  StreamPair pair;
  SeededRandom random(11);
  Buffer source = random_bytes(random, 100'000);
  Buffer sink(70'000);
  const RemoteMemory remote = exposed_source(pair.responder, source);
  ASSERT_TRUE(pair.initiator.post_read(5, sink, {remote.tag, remote.address + 17}));
  pair.run();
  EXPECT_EQ(one(pair.initiator)->id, 5U);
  EXPECT_TRUE(std::equal(sink.begin(), sink.end(), source.begin() + 17));
  EXPECT_TRUE(completions(pair.responder).empty());
}

TEST(Stream, EmptyWritesAndReadsNameNoMemory) {
  StreamPair pair;
  ASSERT_TRUE(pair.initiator.post_write(1, {}, {SteeringTag{99}, 1}));
  ASSERT_TRUE(pair.initiator.post_read(2, {}, {SteeringTag{98}, 2}));
  pair.run();
  EXPECT_EQ(completions(pair.initiator).size(), 2U);
  EXPECT_EQ(pair.responder.phase(), Phase::kOpen);
}

TEST(Stream, ReadsInFlightStayWithinWhatThePeerServes) {
  StreamPair pair(true, kFpduSizeMax, 2);
  const Buffer source(64, std::byte{7});
  const RemoteMemory remote = exposed_source(pair.responder, source);
  std::vector<Buffer> sinks(5, Buffer(64));
  for (std::uint64_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(pair.initiator.post_read(i, sinks[i], remote));
  }
  const Buffer note = text("behind the Reads");
  ASSERT_TRUE(test::post_send(pair.initiator, 9, note));
  Buffer inbox(64);
  ASSERT_TRUE(test::post_receive(pair.responder, 0, inbox));
  EXPECT_EQ(sent_by(pair.initiator).size(), 2 * fpdu_size(46));
  pair.initiator.close();
  EXPECT_EQ(completions(pair.initiator).size(), 6U);

  StreamPair other(true, kFpduSizeMax, 2);
  const RemoteMemory again = exposed_source(other.responder, source);
  ASSERT_TRUE(test::post_receive(other.responder, 0, inbox));
  for (std::uint64_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(other.initiator.post_read(i, sinks[i], again));
  }
  ASSERT_TRUE(test::post_send(other.initiator, 9, note));
  other.run();
  const auto done = completions(other.initiator);
  ASSERT_EQ(done.size(), 6U);
  for (const Completion& one_of : done) EXPECT_EQ(one_of.status, Status::kOk);
  EXPECT_EQ(sinks[4], source);
}

TEST(Stream, ReadFailsLocallyWhenThePeerServesNone) {
  SeededRandom random(1);
  Stream stream({8, 8, 4, 4}, random);
  stream.start({true, true, 2, 4, 0, Rtr::kNone}, kFpduSizeMax, 0);
  Buffer sink(8);
  for (std::uint64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(stream.post_read(i, sink, {SteeringTag{1}, 0}));
    EXPECT_TRUE(sent_by(stream).empty());
    EXPECT_EQ(one(stream)->status, Status::kLocalError);
  }
}

TEST(Stream, SendWithInvalidateTakesTheTagBeforeItIsSeen) {
  for (const bool solicited : {false, true}) {
    StreamPair pair;
    Buffer memory(100);
    Buffer inbox(100);
    const RemoteMemory remote = exposed(pair.responder, memory);
    ASSERT_TRUE(test::post_receive(pair.responder, 1, inbox));
    SendOptions how;
    how.invalidate = remote.tag;
    how.solicited = solicited;
    ASSERT_TRUE(test::post_send(pair.initiator, 2, literal("take it"), how));
    const std::uint32_t before = pair.responder.free().tags;
    pair.run();
    EXPECT_EQ(one(pair.responder)->tag, remote.tag);
    EXPECT_EQ(pair.responder.free().tags, before + 1);
    // The tag is dead: the next Write to it ends the stream.
    ASSERT_TRUE(test::post_write(pair.initiator, 3, literal("x"), remote));
    pair.run();
    EXPECT_EQ(pair.responder.cause().fault, Fault::kTaggedInvalidStag);
    EXPECT_EQ(memory[0], std::byte{0});
    // Revoking it once more is no error.
    EXPECT_EQ(pair.initiator.cause().by, Cause::By::kTerminate);
  }
}

TEST(Stream, UnsignaledWorkCompletesOnlyWhenItFails) {
  StreamPair pair;
  Buffer inbox(100);
  ASSERT_TRUE(test::post_receive(pair.responder, 1, inbox));
  SendOptions quiet;
  quiet.signaled = false;
  const Buffer note = text("quiet");
  ASSERT_TRUE(test::post_send(pair.initiator, 2, note, quiet));
  ASSERT_TRUE(pair.initiator.expose_for_reading(3, note, false));
  pair.run();
  EXPECT_TRUE(completions(pair.initiator).empty());
  EXPECT_EQ(pair.initiator.free().sends, 64U);
  EXPECT_EQ(pair.initiator.free().controls, 64U);
  ASSERT_TRUE(test::post_send(pair.initiator, 4, note, quiet));
  pair.initiator.close();
  EXPECT_EQ(one(pair.initiator)->status, Status::kFlushed);
}

TEST(Stream, TakesAsManyExposuresOfEachKindAsItHasRoomFor) {
  constexpr std::uint32_t kRoom = 4;  // of exposures and revocations that are not polled
  SeededRandom random{42};
  StreamOptions options;
  options.queue_depth = kRoom;
  Buffer memory(8);
  for (const bool for_writing : {false, true}) {
    Stream stream(options, random);
    stream.start({true, true, 2, 4, 4, Rtr::kNone}, kFpduSizeMax, 0);
    const auto expose = [&](std::uint64_t id) {
      return for_writing ? stream.expose_for_writing(id, memory)
                         : stream.expose_for_reading(id, memory);
    };
    std::uint64_t exposed = 0;
    while (exposed < 99 && expose(exposed)) ++exposed;
    EXPECT_EQ(exposed, kRoom);
    EXPECT_EQ(completions(stream).size(), kRoom);
    EXPECT_TRUE(expose(exposed)) << "the others were polled";
  }
}

TEST(Stream, QueuesAreBoundedByWhatWasNotPolled) {
  StreamPair pair;
  Buffer memory(8);
  for (std::uint64_t i = 0; i < 64; ++i) {
    ASSERT_TRUE(test::post_receive(pair.initiator, i, memory));
    ASSERT_TRUE(test::post_write(pair.initiator, i, {}, {}));
    ASSERT_TRUE(pair.initiator.expose_for_reading(i, memory));
  }
  EXPECT_FALSE(test::post_receive(pair.initiator, 99, memory));
  EXPECT_FALSE(test::post_write(pair.initiator, 99, {}, {}));
  EXPECT_FALSE(test::post_send(pair.initiator, 99, {}));
  EXPECT_FALSE(pair.initiator.post_read(99, memory, {}));
  EXPECT_FALSE(pair.initiator.expose_for_reading(99, memory));
  EXPECT_FALSE(pair.initiator.revoke(99, SteeringTag{5}));
  pair.run();  // done, but not polled
  EXPECT_FALSE(test::post_write(pair.initiator, 99, {}, {}));
  EXPECT_EQ(completions(pair.initiator).size(), 128U);
  EXPECT_TRUE(test::post_write(pair.initiator, 99, {}, {}));
  EXPECT_FALSE(pair.initiator.expose_for_reading(99, memory));  // 64 tags live
}

TEST(Stream, TooManyOrTooLongSpansAreRefused) {
  StreamPair pair;
  const Buffer byte(1);
  const std::vector<Bytes> many(kSpansMax + 1, byte);
  EXPECT_FALSE(pair.initiator.post_send(1, many));
  EXPECT_TRUE(pair.initiator.post_send(1, std::span(many).first(kSpansMax)));
  const Bytes huge(byte.data(), std::size_t{1} << 31U);  // never touched
  EXPECT_FALSE(pair.initiator.post_send(1, std::array{huge, huge}));
}

TEST(Stream, CloseFlushesEverythingOnce) {
  StreamPair pair;
  Buffer memory(100);
  const RemoteMemory remote = exposed(pair.responder, memory);
  ASSERT_TRUE(test::post_receive(pair.initiator, 1, memory));
  ASSERT_TRUE(pair.initiator.post_read(2, memory, remote));
  sent_by(pair.initiator);  // the Read is in flight
  ASSERT_TRUE(test::post_send(pair.initiator, 3, memory));
  pair.initiator.close();
  pair.initiator.close();
  const auto done = completions(pair.initiator);
  ASSERT_EQ(done.size(), 3U);
  for (const Completion& one_of : done) EXPECT_EQ(one_of.status, Status::kFlushed);
  EXPECT_FALSE(test::post_send(pair.initiator, 4, memory));
  EXPECT_TRUE(sent_by(pair.initiator).empty());
  std::array<MutableBytes, 4> room;
  EXPECT_EQ(pair.initiator.receive_room(room), 0U);
}

TEST(Stream, RefusedReadSaysSo) {
  StreamPair pair;
  Buffer sink(10);
  Buffer source(5);
  const RemoteMemory remote = exposed_source(pair.responder, source);
  ASSERT_TRUE(pair.initiator.post_read(1, sink, remote));
  pair.run();
  EXPECT_EQ(pair.responder.cause().fault, Fault::kProtectionBounds);
  EXPECT_EQ(pair.responder.phase(), Phase::kClosed);
  EXPECT_EQ(pair.initiator.cause().fault, Fault::kProtectionBounds);
  EXPECT_EQ(one(pair.initiator)->status, Status::kRemoteAccess);
}

TEST(Stream, LargePayloadIsNotCopied) {
  StreamPair pair;
  SeededRandom random(12);
  const Buffer data = random_bytes(random, 64 * kTaggedPayloadMax);
  Buffer memory(data.size());
  const RemoteMemory remote = exposed(pair.responder, memory);
  ASSERT_TRUE(test::post_write(pair.initiator, 1, data, remote));
  pair.run();
  EXPECT_EQ(memory, data);
  EXPECT_EQ(pair.initiator.counters().bytes_copied, 0U);
  // 64 FPDUs: the first one came while small ones were expected, the others leave the tail room.
  EXPECT_LE(pair.responder.counters().bytes_copied, 65'536U + 64 * 256);
  EXPECT_EQ(pair.responder.counters().payload_received, data.size());
  EXPECT_EQ(pair.responder.counters().fpdus_received, 64U);
  EXPECT_EQ(pair.initiator.counters().fpdus_sent, 64U);
}

TEST(Stream, SmallFpdusOfABatchAreOnePiece) {
  StreamPair pair;
  const Buffer note(100);
  for (std::uint64_t i = 0; i < 64; ++i) ASSERT_TRUE(test::post_send(pair.initiator, i, note));
  std::array<Bytes, 128> room;
  ASSERT_EQ(pair.initiator.transmit(room), 1U);
  EXPECT_EQ(room[0].size(), 64 * fpdu_size(118));
}

TEST(Stream, TrailerAndNextHeaderAreOnePiece) {
  StreamPair pair;
  const Buffer data(3 * kTaggedPayloadMax);
  ASSERT_TRUE(test::post_write(pair.initiator, 1, data, {}));
  std::array<Bytes, 128> room;
  ASSERT_EQ(pair.initiator.transmit(room), 7U);  // header, 3 x payload, 2 joints, trailer
  EXPECT_EQ(room[0].size(), 16U);
  EXPECT_EQ(room[2].size(), 20U);
  EXPECT_EQ(room[6].size(), 4U);
}

// The size of an FPDU is a multiple of four: segments whose size is one as well never cut a CRC.
TEST(Stream, SegmentAlignmentKeepsCrcsWhole) {
  for (const std::size_t segment : {1445U, 1446U, 1447U, 1448U}) {
    SCOPED_TRACE(segment);
    SeededRandom random(13);
    Stream stream({64, 64, 4, 4}, random);
    stream.start({true, true, 2, 4, 4, Rtr::kNone}, segment, segment);
    std::vector<Buffer> keep;
    for (std::uint64_t i = 0; i < 50; ++i) {
      keep.push_back(random_bytes(random, random.below(6000)));
      ASSERT_TRUE(test::post_send(stream, i, keep.back()));
    }
    std::array<Bytes, 128> room;
    while (const std::size_t count = stream.transmit(room)) {
      Buffer batch;
      for (std::size_t i = 0; i < count; ++i)
        batch.insert(batch.end(), room[i].begin(), room[i].end());
      for (std::size_t at = 0; at < batch.size();) {
        const std::size_t size = fpdu_size(load16(&batch[at]));
        ASSERT_LE(size, segment);
        at += size;
        EXPECT_EQ((at - 1) / segment, (at - 4) / segment);
      }
      stream.handle_sent(batch.size());
    }
    EXPECT_EQ(completions(stream).size(), 50U);
  }
}

// Sends everything that a stream has, and returns where the FPDUs of each batch end in it.
std::vector<std::vector<std::size_t>> send_all(Stream& stream) {
  std::vector<std::vector<std::size_t>> batches;
  std::array<Bytes, 128> room;
  while (const std::size_t count = stream.transmit(room)) {
    Buffer batch;
    for (const Bytes part : std::span(room).first(count)) {
      batch.insert(batch.end(), part.begin(), part.end());
    }
    batches.emplace_back();
    for (std::size_t at = 0; at + 2 <= batch.size();) {
      at += fpdu_size(load16(&batch[at]));
      batches.back().push_back(at);
    }
    EXPECT_EQ(batches.back().back(), batch.size()) << "an FPDU is cut";
    stream.handle_sent(batch.size());
  }
  return batches;
}

// Whatever comes before it, a long message is cut where no CRC is.
TEST(Stream, SegmentAlignmentKeepsCrcsWholeBehindAnyMessage) {
  constexpr std::size_t kSegment = 1447;
  for (std::size_t before = 4; before < kSegment; before += 4) {
    SCOPED_TRACE(before);
    SeededRandom random(13);
    Stream stream({64, 64, 4, 4}, random);
    stream.start({true, true, 2, 4, 4, Rtr::kNone}, kSegment, kSegment);
    const Buffer first = random_bytes(random, before), second = random_bytes(random, 60'000);
    ASSERT_TRUE(test::post_send(stream, 1, first));
    ASSERT_TRUE(test::post_send(stream, 2, second));
    for (const auto& ends : send_all(stream)) {
      for (const std::size_t end : ends) EXPECT_EQ((end - 1) / kSegment, (end - 4) / kSegment);
    }
    EXPECT_EQ(completions(stream).size(), 2U) << "both were sent";
  }
}

// A batch has room for the pieces of whole FPDUs, also where each has as many as a message may
// have.
TEST(Stream, MessagesOfManyPiecesFillABatchAndNoMore) {
  constexpr std::size_t kPiece = kTaggedPayloadMax / kSpansMax - 8, kMessages = 6;
  for (std::size_t first = 1; first <= kSpansMax; ++first) {
    SCOPED_TRACE(first);
    SeededRandom random(13);
    Stream stream({64, 64, 4, 4}, random);
    stream.start({true, true, 2, 4, 4, Rtr::kNone}, kFpduSizeMax, 0);
    const Buffer memory = random_bytes(random, 2 * kPiece * kSpansMax);
    std::vector<Bytes> spans;  // with gaps, so that none continues the one before
    for (std::size_t i = 0; i < kSpansMax; ++i) {
      spans.push_back(Bytes(memory).subspan(2 * i * kPiece, kPiece));
    }
    ASSERT_TRUE(stream.post_send(0, std::span(spans).first(first), {}));
    for (std::uint64_t i = 1; i < kMessages; ++i) ASSERT_TRUE(stream.post_send(i, spans, {}));
    const auto batches = send_all(stream);
    std::size_t fpdus = 0;
    for (const auto& ends : batches) fpdus += ends.size();
    EXPECT_EQ(fpdus, kMessages);
    EXPECT_GT(batches.front().size(), 1U) << "a batch holds several";
  }
}

// A Read Request cannot be made shorter: where its CRC would be cut, it waits for the next batch.
TEST(Stream, SegmentAlignmentKeepsCrcsOfReadRequestsWhole) {
  constexpr std::size_t kSegment = 1447;
  for (std::size_t size = 1340; size < 1400; size += 4) {
    SCOPED_TRACE(size);
    SeededRandom random(13);
    Stream stream({64, 64, 4, 4}, random);
    stream.start({true, true, 2, 4, 4, Rtr::kNone}, kSegment, kSegment);
    const Buffer message = random_bytes(random, size);
    Buffer sink(16);
    ASSERT_TRUE(test::post_send(stream, 1, message));
    ASSERT_TRUE(stream.post_read(2, sink, {SteeringTag{7}, 0}));
    std::array<Bytes, 128> room;
    std::size_t fpdus = 0;
    while (const std::size_t count = stream.transmit(room)) {
      Buffer batch;
      for (const Bytes part : std::span(room).first(count)) {
        batch.insert(batch.end(), part.begin(), part.end());
      }
      for (std::size_t at = 0; at < batch.size(); ++fpdus) {
        at += fpdu_size(load16(&batch[at]));
        EXPECT_EQ((at - 1) / kSegment, (at - 4) / kSegment);
      }
      stream.handle_sent(batch.size());
    }
    EXPECT_EQ(fpdus, 2U);
  }
}

// Nor can the last part of a Read Response.
TEST(Stream, SegmentAlignmentKeepsCrcsOfReadResponsesWhole) {
  constexpr std::size_t kSegment = 1447;
  for (std::size_t size = 1340; size < 1428; size += 4) {
    SCOPED_TRACE(size);
    StreamPair pair(true, kSegment, 4, Rtr::kNone, kSegment);
    pair.open();
    SeededRandom random(13);
    const Buffer source = random_bytes(random, size);
    Buffer sink(size), second(16);
    const RemoteMemory remote = exposed_source(pair.responder, source);
    ASSERT_TRUE(pair.initiator.post_read(1, sink, remote));
    ASSERT_TRUE(pair.initiator.post_read(2, second, remote));
    ASSERT_TRUE(receive(pair.responder, sent_by(pair.initiator)));
    std::array<Bytes, 128> room;
    std::size_t fpdus = 0;
    while (const std::size_t count = pair.responder.transmit(room)) {
      Buffer batch;
      for (const Bytes part : std::span(room).first(count)) {
        batch.insert(batch.end(), part.begin(), part.end());
      }
      for (std::size_t at = 0; at < batch.size(); ++fpdus) {
        at += fpdu_size(load16(&batch[at]));
        EXPECT_EQ((at - 1) / kSegment, (at - 4) / kSegment);
      }
      ASSERT_TRUE(receive(pair.initiator, batch));
      pair.responder.handle_sent(batch.size());
    }
    EXPECT_EQ(fpdus, 2U);
    EXPECT_EQ(sink, source);
  }
}

TEST(Stream, PeerToPeerOpenersTakeNoReceive) {
  for (const Rtr rtr : {Rtr::kWrite, Rtr::kRead, Rtr::kSend}) {
    StreamPair pair(true, kFpduSizeMax, 4, rtr);
    Buffer inbox(16);
    ASSERT_TRUE(test::post_receive(pair.initiator, 1, inbox));
    ASSERT_TRUE(test::post_send(pair.responder, 2, literal("first")));
    pair.run();
    EXPECT_EQ(pair.responder.phase(), Phase::kOpen);
    EXPECT_EQ(one(pair.initiator)->id, 1U);
    ASSERT_TRUE(test::post_receive(pair.responder, 3, inbox));
    ASSERT_TRUE(test::post_send(pair.initiator, 4, literal("second")));
    pair.run();
    EXPECT_EQ(completions(pair.responder).size(), 2U);
    EXPECT_EQ(completions(pair.initiator).size(), 1U);
  }
}

TEST(Stream, EmptyFpduOpensAPeerToPeerStream) {
  StreamPair pair(true, kFpduSizeMax, 4, Rtr::kWrite);
  Buffer opener(8);
  fix_crc(opener);
  receive(pair.responder, opener, 1);
  EXPECT_EQ(pair.responder.phase(), Phase::kOpen);
  ASSERT_TRUE(test::post_send(pair.responder, 2, literal("first")));
  EXPECT_FALSE(sent_by(pair.responder).empty());
}

TEST(Stream, ReadResponsesComeBetweenMessagesOnly) {
  StreamPair pair;
  pair.open();
  SeededRandom random(14);
  const Buffer source = random_bytes(random, 200'000);
  const Buffer message = random_bytes(random, 200'000);
  Buffer sink(source.size());
  Buffer inbox(message.size());
  const RemoteMemory remote = exposed_source(pair.responder, source);
  ASSERT_TRUE(test::post_receive(pair.initiator, 1, inbox));
  ASSERT_TRUE(test::post_send(pair.responder, 2, message));
  // One FPDU of the message is on its way when the Read arrives.
  std::array<Bytes, 3> little;
  Buffer wire;
  ASSERT_GT(pair.responder.transmit(little), 0U);
  ASSERT_TRUE(pair.initiator.post_read(3, sink, remote));
  receive(pair.responder, sent_by(pair.initiator));
  pair.run();
  EXPECT_EQ(completions(pair.initiator).size(), 2U);
  EXPECT_EQ(sink, source);
  EXPECT_EQ(inbox, message);
}

TEST(Stream, RevocationWaitsForTheResponseThatIsBeingSent) {
  StreamPair pair;
  const Buffer source(3'000'000, std::byte{1});
  Buffer sink(source.size());
  const RemoteMemory remote = exposed_source(pair.responder, source);
  ASSERT_TRUE(pair.initiator.post_read(1, sink, remote));
  receive(pair.responder, sent_by(pair.initiator));
  std::array<Bytes, 128> room;
  const std::size_t count = pair.responder.transmit(room);
  std::size_t batch = 0;
  for (std::size_t i = 0; i < count; ++i) batch += room[i].size();
  ASSERT_LT(batch, source.size());
  pair.responder.handle_sent(100);
  ASSERT_TRUE(pair.responder.revoke(2, remote.tag));
  EXPECT_TRUE(completions(pair.responder).empty());  // the kernel still has to read it
  pair.responder.handle_sent(batch - 101);
  EXPECT_TRUE(completions(pair.responder).empty());
  pair.responder.handle_sent(1);
  EXPECT_EQ(one(pair.responder)->id, 2U);
  sent_by(pair.responder);  // the rest cannot be read: Terminate
  EXPECT_EQ(pair.responder.cause().fault, Fault::kProtectionInvalidStag);
  EXPECT_EQ(pair.responder.phase(), Phase::kClosed);
}

TEST(Stream, RevocationDivertsTheWriteThatIsBeingPlaced) {
  StreamPair pair;
  SeededRandom random(15);
  Buffer memory(60'000);
  const RemoteMemory remote = exposed(pair.responder, memory);
  const Buffer data(memory.size(), std::byte{0xff});
  const Buffer wire = fpdu(tagged_header(Opcode::kWrite, remote.tag, remote.address), data);
  receive(pair.responder, Bytes(wire).first(20'000), 1000);
  EXPECT_EQ(memory[10'000], std::byte{0xff});
  ASSERT_TRUE(pair.responder.revoke(2, remote.tag));
  EXPECT_EQ(one(pair.responder)->id, 2U);
  memory.assign(memory.size(), std::byte{0x11});  // ours again
  receive(pair.responder, Bytes(wire).subspan(20'000), 1000);
  EXPECT_EQ(memory, Buffer(memory.size(), std::byte{0x11}));
  EXPECT_EQ(pair.responder.cause().fault, Fault::kTaggedInvalidStag);
}

TEST(Stream, NothingIsPlacedBehindAFault) {
  StreamPair pair;
  Buffer memory(60'000);
  const RemoteMemory remote = exposed(pair.responder, memory);
  const Buffer data(memory.size(), std::byte{0xff});
  Buffer wire = fpdu(tagged_header(Opcode::kWrite, remote.tag, remote.address), data);
  wire.back() ^= std::byte{1};
  const Buffer again = wire;
  receive(pair.responder, wire);
  EXPECT_EQ(pair.responder.cause().fault, Fault::kLlpCrc);
  memory.assign(memory.size(), std::byte{0x11});
  receive(pair.responder, again);
  EXPECT_EQ(memory, Buffer(memory.size(), std::byte{0x11}));
  EXPECT_FALSE(sent_by(pair.responder).empty());
  EXPECT_EQ(pair.responder.phase(), Phase::kClosed);
}

// Found by fuzz_iwarp_stream: the batch that was built still pointed into memory of the work.
TEST(Stream, NothingIsSentBehindTheEnd) {
  StreamPair pair;
  const Buffer large(20'000);
  ASSERT_TRUE(test::post_send(pair.initiator, 1, large));
  std::array<Bytes, 8> room;
  ASSERT_GT(pair.initiator.transmit(room), 0U);
  pair.initiator.handle_sent(room[0].size());
  pair.initiator.close();
  EXPECT_EQ(one(pair.initiator)->status, Status::kFlushed);  // the memory is ours again
  EXPECT_EQ(pair.initiator.transmit(room), 0U);
}

// Found by fuzz_iwarp_stream: the Read was polled, but its entry waited for the rest of its
// Request.
TEST(Stream, ReadThatIsAnsweredTooEarlyKeepsItsPlaceUntilItIsSent) {
  SeededRandom random(1);
  Stream stream({2, 8, 1, 1}, random);
  stream.start({true, true, 2, 1, 1, Rtr::kNone}, kFpduSizeMax, 0);
  Buffer sink(16);
  ASSERT_TRUE(stream.post_read(1, sink, {}));
  std::array<Bytes, 4> room;
  ASSERT_EQ(stream.transmit(room), 1U);
  const ReadRequest request = decode_read_request(room[0].subspan(20));
  stream.handle_sent(room[0].size() - 1);
  const Header answer =
      tagged_header(Opcode::kReadResponse, request.sink_tag, request.sink_address);
  receive(stream, fpdu(answer, Buffer(sink.size())));
  EXPECT_EQ(one(stream)->status, Status::kOk);
  EXPECT_EQ(stream.free().sends, 1U);
  EXPECT_TRUE(test::post_send(stream, 2, literal("a")));
  EXPECT_FALSE(test::post_send(stream, 3, literal("b")));
  stream.handle_sent(1);
  EXPECT_TRUE(test::post_send(stream, 3, literal("b")));
}

}  // namespace
}  // namespace rpcrdma::iwarp::test
