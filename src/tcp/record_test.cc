#include "tcp/record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::tcp {
namespace {

using Stream = std::vector<std::byte>;

// Memory with a bound, which counts what is out.
class Purse final : public Memory {
 public:
  explicit Purse(std::size_t bytes_max = 1U << 30U) : bytes_max_(bytes_max) {}
  ~Purse() { EXPECT_EQ(in_use, 0U); }
  MutableBytes take(std::size_t size, std::size_t whole) override {
    if (in_use + size > bytes_max_) return {};
    in_use += size;
    most = std::max(most, in_use);
    return heap_.take(size, whole);
  }
  void give_back(MutableBytes buffer) override {
    in_use -= buffer.size();
    heap_.give_back(buffer);
  }
  void set_bound(std::size_t bytes_max) { bytes_max_ = bytes_max; }

  std::size_t in_use = 0, most = 0;

 private:
  HeapMemory heap_;
  std::size_t bytes_max_;
};

void add_mark(Stream& stream, std::uint32_t mark) {
  std::byte word[kMarkSize];
  xdr::store_word(word, mark);
  stream.insert(stream.end(), word, word + kMarkSize);
}
void add_fragment(Stream& stream, Bytes data, bool last) {
  add_mark(stream, static_cast<std::uint32_t>(data.size()) | (last ? kLastFragment : 0));
  stream.insert(stream.end(), data.begin(), data.end());
}
Stream pattern(std::size_t size) {
  Stream bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}
Stream copy_of(const Message& message) {
  const Bytes bytes = message.bytes();
  return {bytes.begin(), bytes.end()};
}

TEST(RecordMark, SaysTheSizeAndThatItIsTheLast) {
  EXPECT_EQ(xdr::load_word(mark_of(300'000).data()), 0x80000000U | 300'000U);
}

TEST(RecordReader, TakesOneRecordAndLeavesTheNextAlone) {
  Purse memory;
  RecordReader reader(memory, {});
  const Stream data = pattern(100);
  Stream stream;
  add_fragment(stream, data, true);
  const std::size_t size = stream.size();
  add_fragment(stream, pattern(5), true);
  EXPECT_TRUE(reader.at_start());
  EXPECT_EQ(reader.take(stream), size);
  ASSERT_TRUE(reader.done());
  EXPECT_EQ(reader.wanted(), 0U);
  EXPECT_EQ(copy_of(reader.release()), data);
  EXPECT_TRUE(reader.at_start());
  EXPECT_EQ(reader.take(Bytes(stream).subspan(size)), 9U);
  EXPECT_EQ(copy_of(reader.release()), pattern(5));
}

TEST(RecordReader, PutsFragmentsOfOneByteTogether) {
  Purse memory;
  RecordReader reader(memory, {.size_max = 5000, .fragments_max = 5000});
  const Stream data = pattern(5000);
  Stream stream;
  for (std::size_t i = 0; i < data.size(); ++i) {
    add_fragment(stream, Bytes(data).subspan(i, 1), i + 1 == data.size());
  }
  EXPECT_EQ(reader.take(stream), stream.size());
  ASSERT_TRUE(reader.done());
  EXPECT_EQ(copy_of(reader.release()), data);
}

TEST(RecordReader, AnyWayToCutTheStreamYieldsTheSameRecords) {
  SeededRandom random(5);
  for (int round = 0; round < 2'000; ++round) {
    Purse memory;
    RecordReader reader(memory, {.size_max = 20'000, .fragments_max = 64});
    std::vector<Stream> sent, received;
    Stream stream;
    for (int i = 0; i < 3; ++i) {
      sent.push_back(pattern(random.below(20'001)));
      Bytes rest(sent.back());
      while (random.one_in(2)) {
        const std::size_t size = random.below(rest.size() + 1);
        add_fragment(stream, rest.first(size), false);
        rest = rest.subspan(size);
      }
      add_fragment(stream, rest, true);
    }
    Bytes left(stream);
    while (!left.empty()) {
      const std::size_t wanted = reader.wanted();
      const MutableBytes place = reader.place();
      const Bytes piece = left.first(std::min<std::size_t>(left.size(), 1 + random.below(3'000)));
      std::size_t taken = 0;
      if (!place.empty() && random.one_in(2)) {  // as a socket does that reads into place
        taken = std::min(place.size(), piece.size());
        std::ranges::copy(piece.first(taken), place.begin());
        reader.handle_placed(taken);
      } else {
        taken = reader.take(piece);
      }
      ASSERT_GT(taken, 0U);
      ASSERT_GT(wanted, 0U);
      left = left.subspan(taken);
      if (reader.done()) received.push_back(copy_of(reader.release()));
    }
    ASSERT_EQ(received, sent);
  }
}

TEST(RecordReader, NothingPlacedInsideOfAMarkChangesNothing) {
  Purse memory;
  RecordReader reader(memory, {});
  Stream stream;
  add_fragment(stream, pattern(5), true);
  reader.take(Bytes(stream).first(2));
  EXPECT_TRUE(reader.place().empty());
  reader.handle_placed(0);
  reader.take(Bytes(stream).subspan(2));
  ASSERT_TRUE(reader.done());
  EXPECT_EQ(copy_of(reader.release()), pattern(5));
}

TEST(RecordReader, WantedNeverGoesBehindTheRecord) {
  Purse memory;
  RecordReader reader(memory, {});
  Stream stream;
  add_fragment(stream, pattern(10'000), false);
  add_fragment(stream, {}, false);
  add_fragment(stream, pattern(3), true);
  const std::size_t size = stream.size();
  add_mark(stream, 0x12345678);
  std::size_t done = 0;
  while (reader.wanted() > 0) {
    ASSERT_LE(done + reader.wanted(), size);
    done += reader.take(Bytes(stream).subspan(done, reader.wanted()));
  }
  EXPECT_TRUE(reader.done());
  EXPECT_EQ(done, size);
}

TEST(RecordReader, RecordOfExactlyTheCapIsTakenAndOneByteMoreIsRefused) {
  for (const bool in_two : {false, true}) {
    for (const std::uint32_t more : {0U, 1U}) {
      Purse memory;
      RecordReader reader(memory, {.size_max = 1000, .fragments_max = 4096});
      Stream stream;
      if (in_two) add_fragment(stream, pattern(600), false);
      add_fragment(stream, pattern((in_two ? 400 : 1000) + more), true);
      reader.take(stream);
      EXPECT_EQ(reader.done(), more == 0);
      EXPECT_EQ(reader.error(), more == 0 ? RecordError::kNone : RecordError::kTooLarge);
      EXPECT_EQ(reader.wanted(), 0U);
    }
  }
}

TEST(RecordReader, MarksOfTheLargestFragmentsAreRefusedWhateverCameBefore) {
  for (const std::uint32_t mark : {0x7fffffffU, 0xffffffffU, kLastFragment | 401U}) {
    Purse memory;
    RecordReader reader(memory, {.size_max = 1000, .fragments_max = 4096});
    Stream stream;
    add_fragment(stream, pattern(600), false);
    add_mark(stream, mark);
    EXPECT_EQ(reader.take(stream), stream.size());
    EXPECT_EQ(reader.error(), RecordError::kTooLarge);
    EXPECT_EQ(reader.wanted(), 0U);
  }
}

// A message that begins as a Call of XID 5 does.
Stream call_pattern(std::size_t size) {
  Stream message = pattern(size);
  for (std::size_t i = 0; i < 8; ++i) message[i] = i == 3 ? std::byte{5} : std::byte{0};
  return message;
}

TEST(RecordReader, HeadOfACallOverTheCapIsKeptAndTheRestIsReadForNothing) {
  constexpr std::size_t kHead = RecordReader::kHeadSize;
  for (const std::size_t at_once : {1U, 7U, 1U << 20U}) {
    for (const std::size_t first : {0U, 500U, 3000U, 6000U}) {
      Purse memory;
      RecordReader reader(memory,
                          {.size_max = 5000, .fragments_max = 3, .excess = Excess::kCutCalls});
      const Stream call = call_pattern(9000);
      Stream stream;
      if (first > 0)
        add_fragment(stream, Stream(call.begin(), call.begin() + std::ptrdiff_t(first)), false);
      add_fragment(stream, Stream(call.begin() + std::ptrdiff_t(first), call.end()), true);
      add_fragment(stream, call_pattern(100), true);
      Bytes rest(stream);
      while (!reader.done() && !rest.empty()) {
        const std::size_t taken = reader.take(rest.first(std::min(at_once, rest.size())));
        ASSERT_GT(taken, 0U);
        rest = rest.subspan(taken);
      }
      ASSERT_TRUE(reader.done()) << first;
      const Message cut = reader.release();
      EXPECT_TRUE(cut.is_cut());
      // In a small buffer, what came before the record went over its cap may be there, too.
      EXPECT_EQ(cut.bytes().size(), first == 3000 ? 3000 : kHead);
      EXPECT_TRUE(std::ranges::equal(cut.bytes(), Bytes(call).first(cut.bytes().size())));
      EXPECT_LE(memory.most, 16384U) << "bytes that were taken at a time";
      reader.take(rest);
      ASSERT_TRUE(reader.done()) << "the next record";
      const Message next = reader.release();
      EXPECT_FALSE(next.is_cut());
      EXPECT_EQ(next.bytes().size(), 100U);
    }
  }
}

// Its peer may take its time for the rest.
TEST(RecordReader, LargeBufferIsGivenBackWhenTheRecordIsCut) {
  for (const bool is_scarce : {false, true}) {
    Purse memory;
    const tcp::RecordLimits limits{
        .size_max = 100'000, .fragments_max = 9, .excess = Excess::kCutCalls};
    RecordReader reader(memory, limits);
    const Stream call = call_pattern(90'000);
    Stream stream;
    add_fragment(stream, call, false);
    reader.take(stream);
    EXPECT_GE(memory.in_use, 90'000U);
    if (is_scarce) memory.set_bound(memory.in_use);
    stream.clear();
    add_mark(stream, kLastFragment | 50'000U);
    stream.resize(stream.size() + 100);
    reader.take(stream);
    if (is_scarce) {
      EXPECT_GE(memory.in_use, 90'000U) << "there is no memory for a smaller one";
      memory.set_bound(1U << 20U);
      const Stream more(100);
      EXPECT_EQ(reader.take(more), more.size());
    }
    EXPECT_EQ(memory.in_use, RecordReader::kHeadSize);
    const Stream rest(50'000 - (is_scarce ? 200 : 100));
    reader.take(rest);
    ASSERT_TRUE(reader.done());
    EXPECT_TRUE(
        std::ranges::equal(reader.release().bytes(), Bytes(call).first(RecordReader::kHeadSize)));
  }
}

TEST(RecordReader, CapBelowAHeadHolds) {
  Purse memory;
  RecordReader reader(memory, {.size_max = 64, .fragments_max = 1, .excess = Excess::kCutCalls});
  Stream stream;
  add_fragment(stream, call_pattern(2000), true);
  EXPECT_EQ(reader.take(stream), stream.size());
  ASSERT_TRUE(reader.done());
  EXPECT_EQ(reader.release().bytes().size(), 64U);
}

TEST(RecordReader, ClientsCutRepliesAndRefuseCalls) {
  for (const bool is_reply : {true, false}) {
    Purse memory;
    RecordReader reader(memory, {.size_max = 1000, .excess = Excess::kCutReplies});
    Stream message = call_pattern(2000);
    if (is_reply) message[7] = std::byte{1};
    Stream stream;
    add_fragment(stream, message, true);
    reader.take(stream);
    EXPECT_EQ(reader.done(), is_reply);
    EXPECT_EQ(reader.error(), is_reply ? RecordError::kNone : RecordError::kTooLarge);
  }
}

TEST(RecordReader, BytesThatAreNoLongerKeptCountForTheLargestRecord) {
  constexpr std::uint32_t kFirst = 90'000, kSecond = 50'000;
  for (const std::uint32_t too_many : {0U, 1U}) {
    Purse memory;
    RecordReader reader(memory,
                        {.size_max = 100'000, .fragments_max = 9, .excess = Excess::kCutCalls});
    Stream stream;
    add_fragment(stream, call_pattern(kFirst), false);
    add_fragment(stream, Stream(kSecond), false);
    reader.take(stream);
    stream.clear();
    add_mark(stream, kLastFragment | (0x7fffffffU - kFirst - kSecond + too_many));
    reader.take(stream);
    EXPECT_EQ(reader.error(), too_many > 0 ? RecordError::kTooLarge : RecordError::kNone);
  }
}

TEST(RecordReader, OnlyACallIsCutAndNoneAboveTheLargestFragment) {
  const auto error_of = [](const Stream& stream) {
    Purse memory;
    RecordReader reader(memory,
                        {.size_max = 1000, .fragments_max = 9, .excess = Excess::kCutCalls});
    reader.take(stream);
    EXPECT_EQ(reader.wanted() == 0, reader.error() != RecordError::kNone);
    return reader.error();
  };
  const auto announced = [](const Stream& first, std::uint32_t second) {
    Stream stream;
    if (!first.empty()) add_fragment(stream, first, false);
    add_mark(stream, second);
    return stream;
  };
  EXPECT_EQ(error_of(announced({}, kLastFragment | 0x7fffffffU)), RecordError::kNone);
  EXPECT_EQ(error_of(announced(call_pattern(8), kLastFragment | 0x7ffffff7U)), RecordError::kNone);
  EXPECT_EQ(error_of(announced(call_pattern(8), kLastFragment | 0x7ffffff8U)),
            RecordError::kTooLarge);
  Stream reply = call_pattern(8);
  reply[7] = std::byte{1};
  EXPECT_EQ(error_of(announced(reply, 2000)), RecordError::kTooLarge) << "known at the mark";
  Stream later = announced({}, 2000);
  later.insert(later.end(), reply.begin(), reply.end() - 1);
  EXPECT_EQ(error_of(later), RecordError::kNone);
  later.push_back(reply.back());
  EXPECT_EQ(error_of(later), RecordError::kTooLarge) << "known at the eighth byte";
}

TEST(RecordReader, EmptyLastFragmentEndsARecordAlsoAtTheCap) {
  Purse memory;
  RecordReader reader(memory, {.size_max = 8, .fragments_max = 4});
  Stream stream;
  add_fragment(stream, pattern(8), false);
  add_mark(stream, kLastFragment);
  for (const std::byte byte : stream) EXPECT_EQ(reader.take({&byte, 1}), 1U);
  ASSERT_TRUE(reader.done());
  EXPECT_EQ(copy_of(reader.release()), pattern(8));
}

TEST(RecordReader, FragmentsAreCountedAlsoWhenTheyAreEmpty) {
  Purse memory;
  RecordReader reader(memory, {.size_max = 1000, .fragments_max = 3});
  Stream stream;
  for (int i = 0; i < 3; ++i) add_fragment(stream, {}, false);
  EXPECT_EQ(reader.take(stream), stream.size());
  EXPECT_EQ(reader.error(), RecordError::kNone);
  EXPECT_FALSE(reader.at_start());
  reader.take(Bytes(stream).first(kMarkSize));
  EXPECT_EQ(reader.error(), RecordError::kTooManyFragments);
  EXPECT_EQ(reader.take(stream), 0U);
}

TEST(RecordReader, CountsAnewForEachRecord) {
  Purse memory;
  RecordReader reader(memory, {.size_max = 10, .fragments_max = 1});
  for (int i = 0; i < 5; ++i) {
    Stream stream;
    add_fragment(stream, pattern(10), true);
    reader.take(stream);
    ASSERT_TRUE(reader.done());
    reader.release();
  }
}

TEST(RecordReader, EmptyRecordIsARecord) {
  Purse memory;
  RecordReader reader(memory, {});
  Stream stream;
  add_mark(stream, kLastFragment);
  reader.take(stream);
  ASSERT_TRUE(reader.done());
  EXPECT_TRUE(reader.release().bytes().empty());
}

TEST(RecordReader, AnnouncedBytesTakeNoMemoryBeforeTheyCome) {
  Purse memory;
  RecordReader reader(memory, {.size_max = 1U << 30U, .fragments_max = 10});
  Stream stream;
  add_mark(stream, 1U << 30U);
  reader.take(stream);
  EXPECT_EQ(memory.in_use, 0U);
  reader.take(pattern(1));
  EXPECT_LE(memory.in_use, RecordReader::kFirstSize);
  reader.take(pattern(100'000));
  EXPECT_LE(memory.most, 5 * 100'001U);
}

TEST(RecordReader, GoesOnWhenThereIsMemoryAgain) {
  Purse memory(0);
  RecordReader reader(memory, {});
  const Stream data = pattern(9000);
  Stream stream;
  add_fragment(stream, data, true);
  std::size_t taken = reader.take(stream);
  EXPECT_EQ(taken, kMarkSize);
  EXPECT_TRUE(reader.starved());
  memory.set_bound(4096);
  taken += reader.take(Bytes(stream).subspan(taken));
  EXPECT_EQ(taken, kMarkSize + 4096);
  EXPECT_TRUE(reader.starved());
  memory.set_bound(20'000);
  taken += reader.take(Bytes(stream).subspan(taken));
  EXPECT_FALSE(reader.starved());
  ASSERT_TRUE(reader.done());
  EXPECT_EQ(copy_of(reader.release()), data);
}

TEST(RecordReader, RandomBytesNeverTakeMoreThanTheCapAllows) {
  SeededRandom random(11);
  for (int round = 0; round < 5'000; ++round) {
    Purse memory;
    RecordReader reader(memory, {.size_max = 5000, .fragments_max = 20});
    for (int piece = 0; piece < 20; ++piece) {
      Stream stream = pattern(random.below(700));
      if (stream.size() >= 4) {
        xdr::store_word(stream.data(), static_cast<std::uint32_t>(random.below(600)) |
                                           (random.one_in(2) ? kLastFragment : 0));
      }
      reader.take(stream);
      if (!reader.done()) continue;
      ASSERT_LE(reader.release().bytes().size(), 5000U);
    }
    ASSERT_LE(memory.most, 10'000U);
  }
}

}  // namespace
}  // namespace rpcrdma::tcp
