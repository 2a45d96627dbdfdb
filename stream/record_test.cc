#include "stream/record.h"

#include <gtest/gtest.h>

#include <initializer_list>

#include "rpcrdma/xdr.h"

namespace rpcrdma::stream {
namespace {

std::vector<std::byte> words(std::initializer_list<std::uint32_t> values) {
  std::vector<std::byte> bytes(values.size() * xdr::kWordSize);
  xdr::Writer writer(bytes);
  for (const std::uint32_t value : values) writer.u32(value);
  return bytes;
}

// What the reader takes of a stream, given in pieces of at most `step`.
std::size_t feed(RecordReader& reader, Bytes stream, std::size_t step) {
  std::size_t taken = 0;
  while (reader.wanted() > 0 && taken < stream.size()) {
    const std::size_t size = std::min({step, reader.wanted(), stream.size() - taken});
    reader.take(stream.subspan(taken, size));
    taken += size;
  }
  return taken;
}

TEST(RecordReader, PutsFragmentsTogetherAndStopsAtTheEndOfTheRecord) {
  const auto stream = words({8, 1, 2, 4, 3, kLastFragment | 4, 4, 0xdead, 0xdead});
  for (std::size_t step = 1; step < stream.size(); ++step) {
    RecordReader reader(100);
    EXPECT_EQ(feed(reader, stream, step), 28U);
    ASSERT_TRUE(reader.done());
    EXPECT_EQ(reader.failure(), "");
    const auto expected = words({1, 2, 3, 4});
    EXPECT_TRUE(std::ranges::equal(reader.record(), expected));
  }
}

TEST(RecordReader, TakesAnEmptyLastFragment) {
  RecordReader reader(100);
  feed(reader, words({4, 7, kLastFragment}), 3);
  EXPECT_TRUE(reader.done());
  EXPECT_EQ(reader.record().size(), 4U);
}

TEST(RecordReader, RefusesWhatIsTooLongBeforeAByteOfItIsRead) {
  for (const auto& stream : {words({101}), words({kLastFragment | 0x7fffffff}), words({0x7fffffff}),
                             words({8, 1, 2, kLastFragment | 93}), words({0xffffffff})}) {
    RecordReader reader(100);
    EXPECT_EQ(feed(reader, stream, 5), stream.size());
    EXPECT_FALSE(reader.done());
    EXPECT_EQ(reader.wanted(), 0U);
    EXPECT_NE(reader.failure(), "");
  }
  RecordReader full(8);
  feed(full, words({8, 1, 2, kLastFragment}), 5);
  EXPECT_TRUE(full.done());
}

TEST(RecordReader, RefusesEmptyFragmentsSinceTheyNeverEnd) {
  RecordReader reader(100);
  feed(reader, words({0, 0, 0, 0}), 4);
  EXPECT_NE(reader.failure(), "");
}

// --- Replies

constexpr std::uint32_t kXid = 77;

Errc why(std::initializer_list<std::uint32_t> reply) {
  const auto record = words(reply);
  const auto results = open_reply(record, kXid);
  EXPECT_FALSE(results);
  if (results) return Errc::kCanceled;
  EXPECT_FALSE(results.error().cause.empty());
  return results.error().code;
}

TEST(Reply, ResultsStandBehindTheVerifier) {
  const auto plain = words({kXid, 1, 0, 0, 0, 0, 42});
  const auto results = open_reply(plain, kXid);
  ASSERT_TRUE(results);
  EXPECT_TRUE(std::ranges::equal(*results, words({42})));
  const auto with_verifier = words({kXid, 1, 0, 2, 8, 0xaaaa, 0xbbbb, 0, 43});
  const auto others = open_reply(with_verifier, kXid);
  ASSERT_TRUE(others);
  EXPECT_TRUE(std::ranges::equal(*others, words({43})));
}

TEST(Reply, ThatIsNoneOfThisCallIsRefused) {
  EXPECT_EQ(why({kXid + 1, 1, 0, 0, 0, 0}), Errc::kBadReply);
  EXPECT_EQ(why({kXid, 0, 2, 0, 0, 0}), Errc::kBadReply);  // a Call
  EXPECT_EQ(why({kXid, 1, 2, 0, 0, 0}), Errc::kBadReply);  // neither accepted nor denied
  EXPECT_EQ(why({kXid, 1, 0, 0, 0, 6}), Errc::kBadReply);  // no such accept_stat
  EXPECT_EQ(why({kXid, 1, 0, 0, 404, 6}), Errc::kBadReply);
  EXPECT_EQ(why({kXid, 1, 0, 0, 0xffffffff, 6}), Errc::kBadReply);
}

TEST(Reply, ThatIsCutOffIsRefused) {
  for (const auto& whole : {words({kXid, 1, 0, 2, 4, 9, 0}), words({kXid, 1, 0, 0, 0, 2, 3, 4}),
                            words({kXid, 1, 1, 1, 5}), words({kXid, 1, 1, 0, 2, 2})}) {
    const auto complete = open_reply(whole, kXid);
    EXPECT_TRUE(complete || complete.error().code != Errc::kBadReply);
  }
  const auto reply = words({kXid, 1, 0, 2, 4, 9, 0});
  for (std::size_t size = 0; size < reply.size(); ++size) {
    const auto results = open_reply(Bytes(reply).first(size), kXid);
    ASSERT_FALSE(results);
    EXPECT_EQ(results.error().code, Errc::kBadReply);
  }
  EXPECT_EQ(why({kXid, 1, 0, 0, 0, 2, 3}), Errc::kBadReply);
  EXPECT_EQ(why({kXid, 1, 1}), Errc::kBadReply);
}

TEST(Reply, SaysWhyThereAreNoResults) {
  EXPECT_EQ(why({kXid, 1, 0, 0, 0, 1}), Errc::kNotAvailable);
  EXPECT_EQ(why({kXid, 1, 0, 0, 0, 2, 2, 2}), Errc::kNotAvailable);
  EXPECT_EQ(why({kXid, 1, 0, 0, 0, 3}), Errc::kNotAvailable);
  EXPECT_EQ(why({kXid, 1, 0, 0, 0, 4}), Errc::kBadArguments);
  EXPECT_EQ(why({kXid, 1, 0, 0, 0, 5}), Errc::kServerFault);
  EXPECT_EQ(why({kXid, 1, 1, 0, 3, 3}), Errc::kDenied);
  EXPECT_EQ(why({kXid, 1, 1, 1, 5}), Errc::kDenied);
  EXPECT_EQ(why({kXid, 1, 1, 9, 5}), Errc::kBadReply);
}

}  // namespace
}  // namespace rpcrdma::stream
