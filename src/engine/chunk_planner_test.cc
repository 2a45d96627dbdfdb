#include "engine/chunk_planner.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::engine {
namespace {

constexpr Lease kHead{1};    // where inline runs are
constexpr Lease kBulk{100};  // items have leases from here on

LinkParameters thresholds(std::uint32_t call, std::uint32_t reply) {
  LinkParameters result;
  result.inline_send = call;
  result.inline_receive = reply;
  return result;
}

// A stream of a head, then items each followed by its padding and a word.
std::vector<Fragment> stream_of(std::uint32_t head, const std::vector<std::uint32_t>& items) {
  std::vector<Fragment> stream{{kHead, head, 0, 0}};
  std::uint64_t at = head;
  std::uint16_t number = 0;
  for (const std::uint32_t size : items) {
    ++number;
    stream.push_back({Lease{100U + number}, size, 0, number});
    const auto tail = static_cast<std::uint32_t>(xdr::pad_size(size)) + 4;
    stream.push_back({kHead, tail, at, 0});
    at += tail;
  }
  return stream;
}

CallPlan plan(const std::vector<Fragment>& stream, const LinkParameters& link,
              std::uint32_t reply_max = 100, const Options& options = {},
              std::span<const ResultRoom> rooms = {},
              std::optional<ResultRoom> reply_room = std::nullopt) {
  CallPlan result;
  const Outgoing call{stream, rooms, reply_max, reply_room};
  const auto planned = plan_call(call, options, link, AnswerBy::kWrites, result);
  EXPECT_TRUE(planned) << to_string(planned.error());
  return result;
}

std::uint64_t inline_size(const CallPlan& plan) {
  std::uint64_t size = 0;
  for (const Fragment& run : plan.inline_runs) size += run.size;
  return size;
}

TEST(PlanCall, ShortMessageHasNoChunks) {
  const CallPlan result = plan(stream_of(40, {}), thresholds(1024, 1024));
  EXPECT_FALSE(result.is_long);
  EXPECT_TRUE(result.segments.empty());
  EXPECT_EQ(result.header_size, 28U);
}

TEST(PlanCall, MessageOfExactlyTheThresholdStaysShortAndOneWordMoreIsLong) {
  EXPECT_FALSE(plan(stream_of(1024 - 28, {}), thresholds(1024, 1024)).is_long);
  const CallPlan longer = plan(stream_of(1024 - 24, {}), thresholds(1024, 1024));
  EXPECT_TRUE(longer.is_long);
  ASSERT_EQ(longer.segments.size(), 1U);
  EXPECT_EQ(longer.segments[0].chunk, 0U);
  EXPECT_EQ(longer.segments[0].size, 1000U);
  EXPECT_TRUE(longer.inline_runs.empty());
}

// Specs' example B: WRITE of 6000 bytes in two runs at position 96.
TEST(PlanCall, ItemOfTwoRunsBecomesOneReadChunkOfTwoSegments) {
  const std::vector<Fragment> stream{
      {kHead, 96, 0, 0}, {kBulk, 4096, 0, 1}, {Lease{101}, 1904, 64, 1}};
  const CallPlan result = plan(stream, thresholds(4096, 4096));
  ASSERT_EQ(result.segments.size(), 2U);
  EXPECT_EQ(result.segments[0], (PlannedSegment{kBulk, 4096, 0, ChunkKind::kRead, 96}));
  EXPECT_EQ(result.segments[1], (PlannedSegment{Lease{101}, 1904, 64, ChunkKind::kRead, 96}));
  EXPECT_EQ(result.header_size, 76U);
  EXPECT_EQ(inline_size(result), 96U);
}

TEST(PlanCall, PaddingLeavesTheStreamWithItsItem) {
  for (std::uint32_t size = 2000; size < 2008; ++size) {
    const CallPlan result = plan(stream_of(40, {size}), thresholds(4096, 4096));
    ASSERT_EQ(result.segments.size(), 1U);
    EXPECT_EQ(result.segments[0].size, size) << "a Read chunk carries no padding";
    EXPECT_EQ(inline_size(result), 44U) << "head and the word behind the padding";
  }
}

TEST(PlanCall, PositionsCountInTheUnreducedStream) {
  const CallPlan result = plan(stream_of(40, {2001, 3000, 1999}), thresholds(4096, 4096));
  ASSERT_EQ(result.segments.size(), 3U);
  EXPECT_EQ(result.segments[0].chunk, 40U);
  EXPECT_EQ(result.segments[1].chunk, 40U + 2004 + 4);
  EXPECT_EQ(result.segments[2].chunk, 40U + 2004 + 4 + 3000 + 4);
}

TEST(PlanCall, SmallItemsStayInlineUntilTheMessageIsTooLong) {
  Options options;
  options.reduce_size_min = 1000;
  const CallPlan fits = plan(stream_of(40, {300, 999}), thresholds(4096, 4096), 100, options);
  EXPECT_TRUE(fits.segments.empty());
  const CallPlan tight = plan(stream_of(40, {300, 999}), thresholds(1024, 4096), 100, options);
  EXPECT_EQ(tight.segments.size(), 2U) << "first all items leave, before the message gets long";
  EXPECT_FALSE(tight.is_long);
}

class PlanLongMessages : public testing::Test {
 protected:
  PlanLongMessages() {
    options_.reduce_size_min = 1000;
    options_.inline_arguments_max = 65'536;
  }
  std::size_t read_chunks(const std::vector<std::uint32_t>& items, std::uint32_t receive_size) {
    const CallPlan result =
        plan(stream_of(40, items), thresholds(receive_size, 4096), 100, options_);
    EXPECT_FALSE(result.is_long);
    return result.segments.size();
  }
  Options options_;
};

TEST_F(PlanLongMessages, ArgumentsStayInlineWhereThePeersReceivesHoldTheLargest) {
  EXPECT_EQ(read_chunks({65'536}, 69'632), 0U);
  EXPECT_EQ(read_chunks({65'537}, 69'632), 1U);
  EXPECT_EQ(read_chunks({2000}, 65'537), 0U);
  EXPECT_EQ(read_chunks({2000}, 65'536), 1U) << "these are not made for them";
}

TEST_F(PlanLongMessages, ArgumentsThatTogetherAreTooLongLeaveByTheirSize) {
  EXPECT_EQ(read_chunks({34'000, 34'000}, 69'632), 0U);
  EXPECT_EQ(read_chunks({35'000, 35'000}, 69'632), 2U);
  EXPECT_EQ(read_chunks({65'000, 8000, 999}, 69'632), 2U) << "the small one stays";
}

TEST_F(PlanLongMessages, ResultsKeepTheirSmallerBound) {
  const ResultRoom room{Lease{7}, 2000, 0, 0};
  const CallPlan result =
      plan(stream_of(40, {20'000}), thresholds(69'632, 69'632), 2100, options_, {&room, 1});
  ASSERT_EQ(result.segments.size(), 1U);
  EXPECT_EQ(result.segments[0].kind, ChunkKind::kWrite);
}

TEST_F(PlanLongMessages, ArgumentsLeaveByTheirSizeWhereNoneMayBeLong) {
  options_.inline_arguments_max = 0;
  EXPECT_EQ(read_chunks({1000}, 69'632), 1U);
  EXPECT_EQ(read_chunks({999}, 69'632), 0U);
}

TEST(PlanCall, LongCallKeepsItsOtherReadChunks) {
  const CallPlan result = plan(stream_of(2000, {5000}), thresholds(1024, 1024));
  EXPECT_TRUE(result.is_long);
  ASSERT_EQ(result.segments.size(), 2U);
  EXPECT_EQ(result.segments[0].chunk, 0U);
  EXPECT_EQ(result.segments[0].size, 2004U) << "head and the word behind the item, as one run";
  EXPECT_EQ(result.segments[1].chunk, 2000U) << "still counted in the unreduced stream";
}

TEST(PlanCall, WithoutReductionEverythingGoesIntoOneLongCall) {
  Options options;
  options.reduce = false;
  const CallPlan result = plan(stream_of(40, {5001}), thresholds(4096, 4096), 100, options);
  EXPECT_TRUE(result.is_long);
  std::uint64_t size = 0;
  for (const PlannedSegment& segment : result.segments) {
    EXPECT_EQ(segment.chunk, 0U);
    size += segment.size;
  }
  EXPECT_EQ(size, 40 + 4 + xdr::padded(5001)) << "exactly the message";
}

TEST(PlanCall, ReplyChunkOnlyWhenTheLargestReplyExceedsTheThreshold) {
  const ResultRoom room{Lease{7}, 8192, 0, 0};
  const auto stream = stream_of(40, {});
  EXPECT_TRUE(plan(stream, thresholds(1024, 4096), 4096 - 28, {}, {}, room).segments.empty());
  const CallPlan result = plan(stream, thresholds(1024, 4096), 4096 - 27, {}, {}, room);
  ASSERT_EQ(result.segments.size(), 1U);
  EXPECT_EQ(result.segments[0].kind, ChunkKind::kReply);
  EXPECT_EQ(result.header_size, 28U + 4 + 16);
}

TEST(PlanCall, MissingRoomForALongReplyIsAnError) {
  CallPlan result;
  const auto stream = stream_of(40, {});
  const Outgoing call{stream, {}, 5000, std::nullopt};
  EXPECT_EQ(plan_call(call, {}, thresholds(4096, 4096), AnswerBy::kWrites, result).error(),
            StartError::kReplyRoomNeeded);
}

TEST(PlanCall, ResultsBecomeWriteChunksInOrderWithTheirSegments) {
  const ResultRoom rooms[] = {
      {Lease{1}, 8192, 0, 1}, {Lease{2}, 4096, 0, 2}, {Lease{3}, 4096, 0, 2}};
  const CallPlan result = plan(stream_of(40, {}), thresholds(4096, 4096), 16384 + 100, {}, rooms);
  ASSERT_EQ(result.segments.size(), 3U);
  EXPECT_EQ(result.segments[0].chunk, 0U);
  EXPECT_EQ(result.segments[1].chunk, 1U);
  EXPECT_EQ(result.segments[2].chunk, 1U);
  EXPECT_EQ(result.header_size, 28U + 8 + 16 + 8 + 32);
  // All of each place, and no room for padding.
  EXPECT_EQ(result.segments[0].size, 8192U);
  EXPECT_EQ(result.segments[1].size, 4096U);
  EXPECT_EQ(result.segments[2].size, 4096U);
}

TEST(PlanCall, WriteChunkIsAsLongAsThePlaceAlsoWhereThatIsNoWholeWord) {
  const ResultRoom room{Lease{1}, 5001, 7, 1};
  const CallPlan result =
      plan(stream_of(40, {}), thresholds(4096, 4096), 5004 + 100, {}, {&room, 1});
  ASSERT_EQ(result.segments.size(), 1U);
  EXPECT_EQ(result.segments[0], (PlannedSegment{Lease{1}, 5001, 7, ChunkKind::kWrite, 0}));
}

TEST(PlanCall, MoreRunsThanAHeaderNamesAreRefused) {
  std::vector<Fragment> stream{{kHead, 40, 0, 0}};
  for (std::uint32_t i = 0; i < 2 * kExposuresMax; ++i) {
    stream.push_back({Lease{i + 10}, 4096, 0, 1});
  }
  CallPlan result;
  EXPECT_EQ(plan_call({stream, {}, 100, std::nullopt}, {}, thresholds(4096, 4096),
                      AnswerBy::kWrites, result)
                .error(),
            StartError::kTooLarge);
}

TEST(PlanCall, MoreInlineRunsThanAMessageHasAreRefused) {
  std::vector<Fragment> stream;
  for (std::uint32_t i = 0; i < kFragmentsMax; ++i) stream.push_back({Lease{i + 10}, 4, 0, 0});
  EXPECT_EQ(plan(stream, thresholds(1024, 1024)).inline_runs.size(), kFragmentsMax);
  stream.push_back({Lease{100}, 4, 0, 0});
  CallPlan result;
  EXPECT_EQ(plan_call({stream, {}, 100, std::nullopt}, {}, thresholds(1024, 1024),
                      AnswerBy::kWrites, result)
                .error(),
            StartError::kTooLarge);
}

// --- Replies -----------------------------------------------------------------------------------

wire::WriteList offer(const std::vector<std::vector<std::uint32_t>>& chunks) {
  wire::WriteList list;
  std::uint32_t handle = 1;
  for (const auto& chunk : chunks) {
    std::vector<wire::Segment> segments;
    for (const std::uint32_t length : chunk) {
      segments.push_back({SteeringTag{handle}, length, 1000ULL * handle});
      ++handle;
    }
    EXPECT_TRUE(list.push_back(segments));
  }
  return list;
}

struct Planned {
  ReplyPlan plan;
  wire::ChunkLists lists;
};
Planned reply(const std::vector<Fragment>& stream, const wire::WriteList& writes,
              const std::vector<wire::Segment>& reply_chunk = {}, bool has_reply = false,
              ReturnForm form = ReturnForm::kShortened) {
  Planned result;
  Options options;
  options.return_form = form;
  plan_reply(stream, writes, has_reply, reply_chunk, options, thresholds(1024, 1024), result.plan,
             result.lists);
  return result;
}

TEST(PlanReply, ShortReplyHasNoLists) {
  const Planned result = reply(stream_of(24, {}), {});
  EXPECT_EQ(result.plan.form, ReplyForm::kMsg);
  EXPECT_TRUE(result.lists.empty());
}

// The two chunks of the specs' example C, answered with 5000 bytes: its examples G and H.
TEST(PlanReply, UnusedSegmentsAreLeftOutOrReturnedEmptyByForm) {
  const auto writes = offer({{8192}, {4096, 4096}});
  const auto stream = stream_of(24, {5000});
  const Planned shortened = reply(stream, writes);
  EXPECT_EQ(shortened.plan.form, ReplyForm::kMsg);
  ASSERT_EQ(shortened.lists.writes.size(), 2U);
  ASSERT_EQ(shortened.lists.writes.chunk(0).size(), 1U);
  EXPECT_EQ(shortened.lists.writes.chunk(0)[0].length, 5000U);
  EXPECT_TRUE(shortened.lists.writes.chunk(1).empty());
  const Planned full = reply(stream, writes, {}, false, ReturnForm::kFull);
  ASSERT_EQ(full.lists.writes.chunk(1).size(), 2U);
  EXPECT_EQ(full.lists.writes.chunk(1)[0].length, 0U);
}

TEST(PlanReply, FullFormHasTheLengthThatWasWrittenToEachSegment) {
  const auto lengths = [](auto&& segments) {
    std::vector<std::uint32_t> found;
    for (const wire::Segment& each : segments) found.push_back(each.length);
    return found;
  };
  const auto writes = offer({{4096, 4096, 4096}});
  const Planned item = reply(stream_of(24, {6000}), writes, {}, false, ReturnForm::kFull);
  EXPECT_EQ(lengths(item.lists.writes.chunk(0)), (std::vector{4096U, 1904U, 0U}));
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(item.lists.writes.chunk(0)[i].handle, writes.chunk(0)[i].handle);
    EXPECT_EQ(item.lists.writes.chunk(0)[i].offset, writes.chunk(0)[i].offset);
  }
  const std::vector<wire::Segment> chunk{
      {SteeringTag{9}, 3000, 0}, {SteeringTag{10}, 3000, 0}, {SteeringTag{11}, 3000, 0}};
  const Planned large = reply(stream_of(5000, {}), {}, chunk, true, ReturnForm::kFull);
  EXPECT_EQ(lengths(large.lists.reply.view()), (std::vector{3000U, 2000U, 0U}));
}

TEST(PlanReply, EvenASmallItemUsesItsWriteChunk) {
  const Planned result = reply(stream_of(24, {3}), offer({{8192}}));
  EXPECT_EQ(result.lists.writes.chunk(0)[0].length, 3U);
  EXPECT_EQ(result.plan.items.size(), 1U);
}

TEST(PlanReply, EmptyItemUsesUpItsWriteChunk) {
  const Planned result = reply(stream_of(24, {0, 100}), offer({{8192}, {200}}));
  EXPECT_TRUE(result.lists.writes.chunk(0).empty());
  EXPECT_EQ(result.lists.writes.chunk(1)[0].length, 100U);
}

TEST(PlanReply, ItemsWithoutAChunkStayInTheStream) {
  const Planned result = reply(stream_of(24, {100, 200}), offer({{8192}}));
  EXPECT_EQ(result.plan.form, ReplyForm::kMsg);
  EXPECT_EQ(result.plan.items.size(), 1U);
}

TEST(PlanReply, ReplyChunkIsUsedOnlyWhenTheReplyDoesNotFitInline) {
  const std::vector<wire::Segment> chunk{{SteeringTag{9}, 3000, 0}, {SteeringTag{10}, 3000, 0}};
  const Planned small = reply(stream_of(100, {}), {}, chunk, true);
  EXPECT_EQ(small.plan.form, ReplyForm::kMsg);
  EXPECT_TRUE(small.lists.has_reply);
  EXPECT_TRUE(small.lists.reply.empty());
  const Planned large = reply(stream_of(5000, {}), {}, chunk, true);
  EXPECT_EQ(large.plan.form, ReplyForm::kNoMsg);
  ASSERT_EQ(large.lists.reply.size(), 2U);
  EXPECT_EQ(large.lists.reply[0].length, 3000U);
  EXPECT_EQ(large.lists.reply[1].length, 2000U);
}

// The header counts, with the lists that it returns.
TEST(PlanReply, MessageOfExactlyTheThresholdStaysInlineAndOneWordMoreDoesNot) {
  constexpr std::uint32_t kThreshold = 1024;
  const std::vector<wire::Segment> chunk{{SteeringTag{9}, 8000, 0}};
  const auto writes = offer({{8192}});
  constexpr std::uint32_t kHeader = 28 + 8 + 16 + 4;    // a Write chunk, an unused Reply chunk
  const std::uint32_t fits = kThreshold - kHeader - 4;  // a word stands behind the item
  EXPECT_EQ(reply(stream_of(fits, {100}), writes, chunk, true).plan.form, ReplyForm::kMsg);
  EXPECT_EQ(reply(stream_of(fits + 4, {100}), writes, chunk, true).plan.form, ReplyForm::kNoMsg);
  EXPECT_EQ(reply(stream_of(kThreshold - 28, {}), {}).plan.form, ReplyForm::kMsg);
  EXPECT_EQ(reply(stream_of(kThreshold - 24, {}), {}).plan.form, ReplyForm::kErrChunk);
}

TEST(PlanReply, ReplyThatFitsNowhereIsAnErrorHeader) {
  EXPECT_EQ(reply(stream_of(5000, {}), {}).plan.form, ReplyForm::kErrChunk);
  EXPECT_EQ(reply(stream_of(24, {300}), offer({{200}})).plan.form, ReplyForm::kErrChunk);
  const std::vector<wire::Segment> tiny{{SteeringTag{9}, 4999, 0}};
  EXPECT_EQ(reply(stream_of(5000, {}), {}, tiny, true).plan.form, ReplyForm::kErrChunk);
}

// --- SegmentFiller -----------------------------------------------------------------------------

TEST(SegmentFiller, FillsTargetsContiguouslyFromAnySplitOfTheSource) {
  SeededRandom random(11);
  for (int round = 0; round < 2000; ++round) {
    std::vector<Fragment> source;
    std::vector<wire::Segment> target;
    std::uint32_t total = 0;
    for (std::uint64_t i = random.below(5); i-- > 0;) {
      const auto size = static_cast<std::uint32_t>(random.below(50));
      source.push_back({Lease{static_cast<std::uint32_t>(source.size())}, size, 500, 0});
      total += size;
    }
    std::uint32_t room = 0;
    while (room < total) {
      const auto size = static_cast<std::uint32_t>(random.below(40));
      target.push_back({SteeringTag{static_cast<std::uint32_t>(target.size())}, size, 9000});
      room += size;
    }
    SegmentFiller filler;
    SegmentFiller::Piece piece{};
    std::uint32_t moved = 0;
    std::vector<std::uint32_t> filled(target.size());
    while (filler.next(source, target, piece)) {
      ASSERT_GT(piece.to.length, 0U);
      auto& done = filled[static_cast<std::uint32_t>(piece.to.handle)];
      EXPECT_EQ(piece.to.offset, 9000U + done) << "no gap in a segment";
      done += piece.to.length;
      EXPECT_LE(done, target[static_cast<std::uint32_t>(piece.to.handle)].length);
      moved += piece.to.length;
    }
    EXPECT_EQ(moved, total);
  }
}

}  // namespace
}  // namespace rpcrdma::engine
