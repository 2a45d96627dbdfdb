// RDMA Reads that are requested in pieces.
#include <gtest/gtest.h>

#include "iwarp/stream_pair_for_test.h"

namespace rpcrdma::iwarp::test {
namespace {

constexpr std::size_t kRequest = fpdu_size(kUntaggedSize + kReadRequestSize);
constexpr std::size_t kPiece = 300;

class SplitReads : public testing::Test {
 protected:
  SplitReads() {
    remote_ = exposed_source(pair_.responder, source_);
    EXPECT_FALSE(pair_.initiator.split_reads(kPiece));
  }
  void read(std::uint64_t id, std::size_t at, std::size_t size) {
    ASSERT_TRUE(pair_.initiator.post_read(id, MutableBytes(sink_).subspan(at, size),
                                          {remote_.tag, remote_.address + at}));
  }
  // Sends what the initiator has to send, which are Requests alone; returns how many.
  std::size_t request() {
    const Buffer out = sent_by(pair_.initiator);
    EXPECT_EQ(out.size() % kRequest, 0U);
    EXPECT_TRUE(receive(pair_.responder, out));
    return out.size() / kRequest;
  }
  // Brings the answers to all Requests that have come.
  void respond() { EXPECT_TRUE(receive(pair_.initiator, sent_by(pair_.responder))); }

  StreamPair pair_;
  SeededRandom random_{11};
  Buffer source_ = random_bytes(random_, 2000);
  Buffer sink_ = Buffer(2000);
  RemoteMemory remote_;
};

TEST_F(SplitReads, AreRequestedTwoPiecesAtATimeAndCompleteOnce) {
  read(7, 0, 1400);
  for (const std::size_t requests : {2U, 2U, 1U}) {
    EXPECT_TRUE(completions(pair_.initiator).empty());
    EXPECT_EQ(request(), requests);
    EXPECT_EQ(request(), 0U) << "before they are answered";
    respond();
  }
  const auto done = one(pair_.initiator);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->id, 7U);
  EXPECT_EQ(done->status, Status::kOk);
  EXPECT_TRUE(std::equal(sink_.begin(), sink_.begin() + 1400, source_.begin()));
  EXPECT_EQ(request(), 0U);
  EXPECT_EQ(pair_.initiator.counters().reads, 1U) << "it is one Read";
}

TEST_F(SplitReads, AreLongOnes) {
  for (std::uint64_t i = 0; i < 3; ++i) read(i, 600 * i, 600);
  EXPECT_EQ(request(), 3U);
  respond();
  EXPECT_EQ(completions(pair_.initiator).size(), 3U);
  EXPECT_TRUE(std::equal(sink_.begin(), sink_.begin() + 1800, source_.begin()));
}

TEST_F(SplitReads, KeepTheOrderOfReadsBehindThem) {
  read(1, 0, 1000);
  read(2, 1000, 100);
  EXPECT_EQ(request(), 2U);
  respond();
  EXPECT_EQ(request(), 2U) << "the rest of the first: pieces of 300 and 100";
  EXPECT_TRUE(completions(pair_.initiator).empty());
  respond();
  EXPECT_EQ(one(pair_.initiator)->id, 1U);
  EXPECT_EQ(request(), 1U);
  respond();
  EXPECT_EQ(one(pair_.initiator)->id, 2U);
  EXPECT_TRUE(std::equal(sink_.begin(), sink_.begin() + 1100, source_.begin()));
}

TEST_F(SplitReads, LetSendsPass) {
  Buffer inbox(64);
  ASSERT_TRUE(post_receive(pair_.responder, 3, inbox));
  read(1, 0, 2000);
  ASSERT_TRUE(post_send(pair_.initiator, 2, literal("a reply")));
  EXPECT_TRUE(receive(pair_.responder, sent_by(pair_.initiator)));
  EXPECT_EQ(one(pair_.responder)->id, 3U);
  const auto done = one(pair_.initiator);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->id, 2U);
  pair_.run();
  EXPECT_EQ(one(pair_.initiator)->id, 1U);
  EXPECT_EQ(sink_, source_);
}

TEST_F(SplitReads, AreRequestedToTheirEndWhenTheyAreNotToBeSplitAnyMore) {
  read(1, 0, 2000);
  EXPECT_EQ(request(), 2U);
  EXPECT_TRUE(pair_.initiator.split_reads(0)) << "one is left";
  read(2, 0, 2000);
  EXPECT_EQ(request(), 2U) << "the rest, and the next one";
  EXPECT_FALSE(pair_.initiator.split_reads(0));
  respond();
  const auto done = completions(pair_.initiator);
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].id, 1U);
  EXPECT_EQ(done[1].id, 2U);
  EXPECT_EQ(sink_, source_);
}

TEST_F(SplitReads, StayWithinWhatThePeerServes) {
  StreamPair pair(true, kFpduSizeMax, 1);
  const RemoteMemory remote = exposed_source(pair.responder, source_);
  pair.initiator.split_reads(kPiece);
  ASSERT_TRUE(pair.initiator.post_read(1, sink_, remote));
  EXPECT_EQ(sent_by(pair.initiator).size(), kRequest);
  pair.initiator.close();
  EXPECT_EQ(one(pair.initiator)->status, Status::kFlushed);
}

TEST_F(SplitReads, EndWithTheirCauseWhenAPieceIsRefused) {
  for (const std::size_t exposed_size : {100U, 500U, 800U, 1900U}) {
    StreamPair pair;
    Buffer source(exposed_size), sink(2000);
    const RemoteMemory remote = exposed_source(pair.responder, source);
    pair.initiator.split_reads(kPiece);
    ASSERT_TRUE(pair.initiator.post_read(1, sink, remote));
    ASSERT_TRUE(pair.initiator.post_read(2, sink, remote));
    pair.run();
    EXPECT_EQ(pair.responder.cause().fault, Fault::kProtectionBounds) << exposed_size;
    const auto done = completions(pair.initiator);
    ASSERT_EQ(done.size(), 2U) << exposed_size;
    EXPECT_EQ(done[0].id, 1U);
    EXPECT_EQ(done[0].status, Status::kRemoteAccess) << exposed_size;
    EXPECT_EQ(done[1].status, Status::kFlushed);
  }
}

TEST_F(SplitReads, AreFlushedOnceWhereverTheStreamEnds) {
  for (int rounds = 0; rounds <= 8; ++rounds) {
    StreamPair pair;
    Buffer sink(2000);
    const RemoteMemory remote = exposed_source(pair.responder, source_);
    pair.initiator.split_reads(kPiece);
    ASSERT_TRUE(pair.initiator.post_read(1, sink, remote));
    ASSERT_TRUE(pair.initiator.post_read(2, sink, remote));
    for (int i = 0; i < rounds; ++i) {
      if (i % 2 == 0) {
        EXPECT_TRUE(receive(pair.responder, sent_by(pair.initiator)));
      } else {
        EXPECT_TRUE(receive(pair.initiator, sent_by(pair.responder)));
      }
    }
    const std::size_t ended = completions(pair.initiator).size();
    pair.initiator.close();
    const auto done = completions(pair.initiator);
    ASSERT_EQ(ended + done.size(), 2U) << rounds;
    for (const Completion& each : done) EXPECT_EQ(each.status, Status::kFlushed);
  }
}

class HostileToSplitReads : public SplitReads {
 protected:
  HostileToSplitReads() {
    read(1, 0, 2000);
    asked_ =
        decode_read_request(Bytes(sent_by(pair_.initiator)).subspan(kLengthSize + kUntaggedSize));
  }
  void answer(std::size_t at, std::size_t size, bool last) {
    receive(pair_.initiator, fpdu(tagged_header(Opcode::kReadResponse, asked_.sink_tag,
                                                asked_.sink_address + at, last),
                                  Buffer(size, std::byte{1})));
  }
  Fault fault() const { return pair_.initiator.cause().fault; }

  ReadRequest asked_;
};

TEST_F(HostileToSplitReads, AnswersMayNotGoBeyondAPiece) {
  answer(0, kPiece + 4, false);
  EXPECT_EQ(fault(), Fault::kTaggedBounds);
  EXPECT_EQ(sink_, Buffer(2000));
}

TEST_F(HostileToSplitReads, AnswersMayNotEndBeforeAPieceDoes) {
  answer(0, kPiece - 4, true);
  EXPECT_EQ(fault(), Fault::kTaggedBounds);
}

TEST_F(HostileToSplitReads, PiecesThatWereNotRequestedAreNotAnswered) {
  answer(0, kPiece, true);
  answer(kPiece, kPiece, true);
  EXPECT_EQ(fault(), Fault::kNone);
  answer(2 * kPiece, kPiece, true);
  EXPECT_EQ(fault(), Fault::kOperationOpcode);
  EXPECT_TRUE(std::all_of(sink_.begin() + 2 * kPiece, sink_.end(),
                          [](std::byte each) { return each == std::byte{}; }));
}

TEST_F(HostileToSplitReads, ItsSinkIsNoTargetBetweenPieces) {
  answer(0, kPiece, true);
  answer(kPiece, kPiece, true);
  receive(pair_.initiator,
          fpdu(tagged_header(Opcode::kWrite, asked_.sink_tag, asked_.sink_address + 2 * kPiece),
               Buffer(4)));
  EXPECT_EQ(fault(), Fault::kProtectionAccess);
}

}  // namespace
}  // namespace rpcrdma::iwarp::test
