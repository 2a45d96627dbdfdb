#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "rpcrdma/message.h"

namespace rpcrdma {
namespace {

std::vector<std::byte> bytes(std::size_t size, unsigned value = 7) {
  return std::vector<std::byte>(size, static_cast<std::byte>(value));
}

// A message of a number, a bulk item and a number, as its writer leaves it.
struct Written {
  explicit Written(std::size_t size) : data(bytes(size)) {
    MessageWriter writer(memory);
    writer.xdr().u32(1);
    writer.bulk(data);
    writer.xdr().u32(2);
    EXPECT_TRUE(writer.ok());
    EXPECT_EQ(writer.items().size(), 1U);
    at = writer.items()[0].at;
    written = writer.size();
  }
  // The stream as it is when the item stays inline.
  std::vector<std::byte> whole() const {
    std::vector<std::byte> stream(memory.begin(), memory.begin() + static_cast<long>(at));
    stream.insert(stream.end(), data.begin(), data.end());
    stream.insert(stream.end(), memory.begin() + static_cast<long>(at),
                  memory.begin() + static_cast<long>(written));
    return stream;
  }
  // The stream as it is when the item travels in a chunk: without its padding too.
  std::vector<std::byte> reduced() const {
    const std::size_t behind = at + xdr::pad_size(data.size());
    std::vector<std::byte> stream(memory.begin(), memory.begin() + static_cast<long>(at));
    stream.insert(stream.end(), memory.begin() + static_cast<long>(behind),
                  memory.begin() + static_cast<long>(written));
    return stream;
  }
  std::array<std::byte, 64> memory{};
  std::vector<std::byte> data;
  std::size_t at = 0, written = 0;
};

void expect_good(MessageReader reader, std::size_t size, bool placed) {
  EXPECT_EQ(reader.xdr().u32("first"), 1U);
  const Bytes data = reader.bulk(100, "data");
  EXPECT_EQ(data.size(), size);
  EXPECT_TRUE(std::ranges::all_of(data, [](std::byte b) { return b == std::byte{7}; }));
  EXPECT_EQ(reader.last_was_placed(), placed);
  EXPECT_EQ(reader.xdr().u32("last"), 2U);
  EXPECT_TRUE(reader.finish());
}

TEST(Message, ItemOfAnySizeIsFoundInlineOrWhereItWasPlaced) {
  for (std::size_t size = 1; size < 10; ++size) {
    const Written message(size);
    const auto whole = message.whole();
    const auto reduced = message.reduced();
    expect_good(MessageReader(whole, 0, {}), size, false);
    const MessageReader::Placed by_position{8, message.data};
    expect_good(MessageReader(reduced, 0, {&by_position, 1}), size, true);
    const MessageReader::Placed in_order{MessageReader::kInOrder, message.data};
    expect_good(MessageReader(reduced, 0, {&in_order, 1}), size, true);
  }
}

TEST(Message, ChunkMayCarryThePaddingOfItsItem) {
  const Written message(5);
  const auto padded = bytes(8);
  const auto reduced = message.reduced();
  const MessageReader::Placed placed{8, padded};
  expect_good(MessageReader(reduced, 0, {&placed, 1}), 5, true);
}

TEST(Message, PositionsCountFromTheStartOfTheWholeMessage) {
  const Written message(5);
  const auto reduced = message.reduced();
  const MessageReader::Placed placed{40 + 8, message.data};
  expect_good(MessageReader(reduced, 40, {&placed, 1}), 5, true);
}

TEST(Message, ResultThatThePeerLeftInlineIsTakenFromThere) {
  const Written message(5);
  const auto whole = message.whole();
  const MessageReader::Placed empty{MessageReader::kInOrder, {}};
  expect_good(MessageReader(whole, 0, {&empty, 1}), 5, false);
}

TEST(Message, PlacedItemOfAnotherSizeThanItsCountIsRefused) {
  const Written message(8);
  const auto reduced = message.reduced();
  for (const std::size_t size : {0U, 7U, 9U, 12U}) {
    const auto wrong = bytes(size);
    const MessageReader::Placed placed{8, wrong};
    MessageReader reader(reduced, 0, {&placed, 1});
    reader.xdr().u32("first");
    reader.bulk(100, "data");
    EXPECT_FALSE(reader.ok()) << size;
  }
}

TEST(Message, CountOverTheLimitIsRefusedBeforeItIsUsed) {
  const Written message(20);
  const auto reduced = message.reduced();
  const MessageReader::Placed placed{8, message.data};
  MessageReader reader(reduced, 0, {&placed, 1});
  reader.xdr().u32("first");
  EXPECT_TRUE(reader.bulk(19, "data").empty());
  EXPECT_FALSE(reader.ok());
}

TEST(Message, ChunkThatNobodyAsksForIsAnError) {
  const Written message(5);
  const auto whole = message.whole();
  const MessageReader::Placed elsewhere{12, message.data};
  MessageReader reader(whole, 0, {&elsewhere, 1});
  reader.xdr().u32("first");
  reader.bulk(100, "data");
  reader.xdr().u32("last");
  EXPECT_FALSE(reader.finish());
}

TEST(Message, TrailingBytesAreAnError) {
  const auto stream = bytes(8, 0);
  MessageReader reader(stream, 0, {});
  reader.xdr().u32("only");
  EXPECT_FALSE(reader.finish());
}

TEST(Message, ItemsAfterTheFirstEightAreWrittenInPlace) {
  std::array<std::byte, 256> memory{};
  MessageWriter writer(memory);
  const auto data = bytes(5);
  for (std::size_t i = 0; i < kBulkItemsMax; ++i) writer.bulk(data);
  const std::size_t before = writer.size();
  writer.bulk(data);
  EXPECT_TRUE(writer.ok());
  EXPECT_EQ(writer.items().size(), kBulkItemsMax);
  EXPECT_EQ(writer.size() - before, 4 + 8U);
  MessageReader reader(Bytes(memory).subspan(before, 12), 0, {});
  EXPECT_TRUE(std::ranges::equal(reader.bulk(5, "data"), data));
  EXPECT_TRUE(reader.finish());
}

TEST(Message, CanBeRefusedByItsWriter) {
  std::array<std::byte, 8> memory{};
  MessageWriter writer(memory);
  writer.fail();
  EXPECT_FALSE(writer.ok());
}

TEST(Message, ItemsThatContainThemselvesHaveADepthLimit) {
  const auto stream = bytes(4);
  MessageReader reader(stream, 0, {});
  for (std::uint32_t i = 0; i < MessageReader::kDepthMax; ++i) ASSERT_TRUE(reader.enter("tree"));
  reader.leave();
  EXPECT_TRUE(reader.enter("tree"));
  EXPECT_FALSE(reader.enter("tree"));
  EXPECT_EQ(reader.xdr().error().code, xdr::Errc::kOverLimit);
}

TEST(Message, WriterThatRunsOutOfRoomFails) {
  std::array<std::byte, 8> memory{};
  MessageWriter writer(memory);
  writer.xdr().u64(1);
  EXPECT_TRUE(writer.ok());
  writer.bulk(bytes(4));
  EXPECT_FALSE(writer.ok());
}

// --- RDMA_MSGP (RFC 5666 §3.9)

// A stream of one number and an item, with `pad` bytes behind the item's count.
std::vector<std::byte> padded_stream(std::uint32_t size, std::size_t pad) {
  std::vector<std::byte> stream(2 * xdr::kWordSize);
  xdr::Writer writer(stream);
  writer.u32(1);
  writer.u32(size);
  stream.resize(stream.size() + pad);
  const auto data = bytes(size, 9);
  stream.insert(stream.end(), data.begin(), data.end());
  stream.resize(stream.size() + xdr::pad_size(size));
  return stream;
}

TEST(Padding, IsSkippedByBothBases) {
  constexpr std::size_t kOffset = 40;  // of the stream in its message
  for (const std::uint32_t start : {36U, 0U}) {
    for (const std::uint32_t alignment : {0U, 1U, 3U, 64U, 1000U}) {
      for (const std::uint32_t size : {99U, 100U, 101U}) {
        const std::size_t at = start + kOffset + 8;
        const bool is_padded = alignment > 1 && size > 100;
        const std::size_t pad = is_padded ? (alignment - at % alignment) % alignment : 0;
        const auto stream = padded_stream(size, pad);
        const std::array<std::uint32_t, 3> padding{alignment, 100, start};
        MessageReader reader(stream, kOffset, {});
        reader.set_alignment(padding[0], padding[1], padding[2]);
        (void)reader.xdr().u32("number");
        const Bytes item = reader.bulk(1000, "item");
        EXPECT_TRUE(reader.finish()) << alignment << " " << size;
        EXPECT_EQ(std::vector(item.begin(), item.end()), bytes(size, 9));
        EXPECT_EQ(item.data(), stream.data() + 8 + pad);
      }
    }
  }
}

TEST(Padding, IsSkippedAlsoWhereAResultCouldHaveComeByWriteChunk) {
  const auto stream = padded_stream(101, 8);
  const std::array<std::uint32_t, 3> padding{16, 100, 0};
  const MessageReader::Placed empty{MessageReader::kInOrder, {}};
  MessageReader reader(stream, 0, {&empty, 1});
  reader.set_alignment(padding[0], padding[1], padding[2]);
  (void)reader.xdr().u32("number");
  const Bytes item = reader.bulk(1000, "item");
  EXPECT_TRUE(reader.finish());
  EXPECT_EQ(std::vector(item.begin(), item.end()), bytes(101, 9));
}

TEST(Padding, NeverLeavesTheMessage) {
  const auto stream = padded_stream(20, 0);
  for (const std::uint32_t alignment : {1024U, 0x80000000U, 0xffffffffU}) {
    const std::array<std::uint32_t, 3> padding{alignment, 0, 0xffffffff};
    MessageReader reader(stream, 40, {});
    reader.set_alignment(padding[0], padding[1], padding[2]);
    (void)reader.xdr().u32("number");
    EXPECT_TRUE(reader.bulk(1000, "item").empty());
    EXPECT_FALSE(reader.finish());
  }
  const std::array<std::uint32_t, 3> padding{64, 0, 0};
  MessageReader reader(stream, 40, {});
  reader.set_alignment(padding[0], padding[1], padding[2]);
  (void)reader.xdr().u32("number");
  EXPECT_TRUE(reader.bulk(19, "item").empty()) << "more than the item may have";
  EXPECT_FALSE(reader.ok());
}

// RFC 5666 §3.9: every opaque and string above the threshold.
TEST(Padding, IsSkippedInFrontOfEveryCountedItem) {
  constexpr std::uint32_t kAlignment = 64, kThreshold = 10;
  std::vector<std::byte> stream(1000);
  xdr::Writer writer(stream);
  const auto add = [&](std::uint32_t size, std::uint8_t seed) {
    writer.u32(size);
    const std::size_t past = writer.position() % kAlignment;
    if (size > kThreshold && past > 0) {
      const std::vector<std::byte> pad(kAlignment - past);
      for (std::size_t i = 0; i < pad.size(); i += 4) writer.u32(0);
    }
    writer.opaque_fixed(bytes(size, seed));
  };
  add(20, 1);
  add(10, 2);  // not above the threshold
  add(30, 3);
  add(40, 4);
  MessageReader reader(Bytes(stream).first(writer.position()), 0, {});
  reader.set_alignment(kAlignment, kThreshold, 0);
  const auto text = reader.xdr().string(100, "string");
  EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(text)), bytes(20, 1)));
  EXPECT_TRUE(std::ranges::equal(reader.xdr().opaque(100, "short"), bytes(10, 2)));
  EXPECT_TRUE(std::ranges::equal(reader.xdr().opaque(100, "opaque"), bytes(30, 3)));
  EXPECT_TRUE(std::ranges::equal(reader.bulk(100, "bulk"), bytes(40, 4)));
  EXPECT_TRUE(reader.finish());
}

// --- Places of the application

TEST(Places, ItemThatIsLargerThanItsPlaceFailsWhereverItCame) {
  const Written message(20);
  const auto whole = message.whole();
  for (const std::size_t size : {19U, 20U}) {
    for (const bool lands : {false, true}) {
      std::vector<std::byte> place(size);
      const std::array<MutableBytes, 1> places{MutableBytes(place)};
      MessageReader reader(whole, 0, {});
      reader.set_places(places);
      if (!lands) reader.view();
      (void)reader.xdr().u32("first");
      const Bytes item = reader.bulk(100, "data");
      EXPECT_EQ(reader.ok(), size == 20) << size;
      EXPECT_EQ(item.size(), size == 20 ? 20U : 0U);
      if (lands && size == 20) {
        EXPECT_EQ(item.data(), place.data());
        EXPECT_TRUE(std::ranges::equal(place, message.data));
      }
    }
  }
}

// Two results of which the first came inline: the chunk of the second was put into the first place.
class MisplacedChunk : public testing::TestWithParam<bool> {
 protected:
  static constexpr std::uint32_t kFirst = 12, kSecond = 40;
  MisplacedChunk() {
    xdr::Writer writer(stream_);
    writer.opaque(bytes(kFirst, 1));
    writer.u32(kSecond);
    std::ranges::copy(bytes(kSecond, 2), first_.begin());
  }
  MessageReader reader(std::size_t spare) {
    const MessageReader::Placed chunk{4 + kFirst + 4, Bytes(first_).first(kSecond)};
    MessageReader reader(stream_, 0, {&chunk, 1});
    reader.set_places(places_);
    reader.set_spare(MutableBytes(spare_).first(spare));
    if (!GetParam()) reader.view();
    return reader;
  }
  std::array<std::byte, 4 + kFirst + 4> stream_{};
  std::array<std::byte, 64> first_{}, second_{}, spare_{};
  std::array<MutableBytes, 2> places_{MutableBytes(first_), MutableBytes(second_)};
};

TEST_P(MisplacedChunk, IsMovedBeforeItsPlaceIsNeeded) {
  MessageReader reader = this->reader(kSecond);
  const Bytes first = reader.bulk(100, "first");
  EXPECT_FALSE(reader.last_was_placed());
  EXPECT_TRUE(std::ranges::equal(first, bytes(kFirst, 1)));
  EXPECT_EQ(first.data() == first_.data(), GetParam());
  std::ranges::fill(first_, std::byte{0xee});  // its owner's
  const Bytes second = reader.bulk(100, "second");
  EXPECT_FALSE(reader.last_was_placed()) << "it is to be copied";
  EXPECT_TRUE(std::ranges::equal(second, bytes(kSecond, 2)));
  EXPECT_EQ(second.data() == second_.data(), GetParam());
  EXPECT_TRUE(reader.finish());
}

TEST_P(MisplacedChunk, FailsWhereThereIsNoRoomToMoveIt) {
  MessageReader reader = this->reader(kSecond - 1);
  EXPECT_TRUE(reader.bulk(100, "first").empty());
  EXPECT_FALSE(reader.ok());
}

INSTANTIATE_TEST_SUITE_P(Message, MisplacedChunk, testing::Bool(),
                         [](const auto& given) { return given.param ? "Landing" : "Views"; });

}  // namespace
}  // namespace rpcrdma
