#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/random.h"
#include "wire/prefix.h"
#include "wire/v1/header.h"

namespace rpcrdma::wire::v1 {
namespace {

Segment random_segment(SeededRandom& random) {
  return {SteeringTag{static_cast<std::uint32_t>(random.next())},
          static_cast<std::uint32_t>(random.next()), random.next()};
}

std::vector<Segment> random_segments(SeededRandom& random, std::size_t count) {
  std::vector<Segment> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(random_segment(random));
  return out;
}

Body random_body(SeededRandom& random) {
  const auto a = static_cast<std::uint32_t>(random.next());
  const auto b = static_cast<std::uint32_t>(random.next());
  switch (random.below(6)) {
    case 0:
      return Msg{};
    case 1:
      return NoMsg{};
    case 2:
      return Msgp{a, b};
    case 3:
      return Done{};
    case 4:
      return ErrVers{a, b};
    default:
      return ErrChunk{};
  }
}

bool has_lists(const Body& body) {
  return std::holds_alternative<Msg>(body) || std::holds_alternative<NoMsg>(body) ||
         std::holds_alternative<Msgp>(body);
}

void random_lists(SeededRandom& random, ChunkLists& lists) {
  lists.clear();
  for (std::uint64_t n = random.below(kReadSegmentsMax + 1); n > 0; --n) {
    ASSERT_TRUE(
        lists.reads.push_back({static_cast<std::uint32_t>(random.next()), random_segment(random)}));
  }
  for (std::uint64_t n = random.below(kWriteChunksMax + 1); n > 0; --n) {
    ASSERT_TRUE(
        lists.writes.push_back(random_segments(random, random.below(kSegmentsPerChunkMax + 1))));
  }
  lists.has_reply = random.one_in(2);
  if (!lists.has_reply) return;
  ASSERT_TRUE(lists.reply.assign(random_segments(random, random.below(kSegmentsPerChunkMax + 1))));
}

// Encodes, decodes with the lowest limits that allow it, and tries every strict prefix.
void expect_round_trip(const Header& header, const ChunkLists& lists, bool try_prefixes) {
  std::vector<std::byte> message(encoded_size(header, lists));
  ASSERT_EQ(encode(header, lists, message).value(), message.size());
  Limits limits{static_cast<std::uint32_t>(lists.reads.size()),
                static_cast<std::uint32_t>(lists.writes.size()),
                static_cast<std::uint32_t>(lists.reply.size())};
  for (std::size_t i = 0; i < lists.writes.size(); ++i) {
    limits.segments_per_chunk = std::max(limits.segments_per_chunk,
                                         static_cast<std::uint32_t>(lists.writes.chunk(i).size()));
  }
  ChunkLists decoded_lists;
  const auto decoded = decode(message, limits, decoded_lists);
  ASSERT_TRUE(decoded.has_value()) << decoded.error().field;
  ASSERT_EQ(decoded->header, header);
  ASSERT_EQ(decoded_lists, has_lists(header.body) ? lists : ChunkLists{});
  ASSERT_TRUE(decoded->payload.empty());
  for (std::size_t cut = 0; try_prefixes && cut < message.size(); ++cut) {
    const auto refused = decode(Bytes(message).first(cut), limits, decoded_lists);
    ASSERT_FALSE(refused.has_value()) << cut << " of " << message.size();
    ASSERT_EQ(refused.error().code, xdr::Errc::kTruncated);
  }
}

TEST(HeaderV1Property, GeneratedHeadersComeBack) {
  SeededRandom random(22);
  for (int round = 0; round < 500; ++round) {
    Header header{Xid{static_cast<std::uint32_t>(random.next())}, kVersion,
                  static_cast<std::uint32_t>(random.next()), random_body(random)};
    const bool is_error = std::holds_alternative<ErrVers>(header.body) ||
                          std::holds_alternative<ErrChunk>(header.body);
    if (is_error) header.version = static_cast<std::uint32_t>(random.next());
    ChunkLists lists;
    random_lists(random, lists);
    expect_round_trip(header, lists, false);
  }
}

// A shape: how many segments each chunk has. All of up to three chunks of up to three segments.
std::vector<std::vector<std::size_t>> shapes() {
  std::vector<std::vector<std::size_t>> out{{}};
  for (std::size_t first = 0; first < out.size(); ++first) {
    if (out[first].size() == 3) continue;
    for (std::size_t segments = 0; segments <= 3; ++segments) {
      auto longer = out[first];
      longer.push_back(segments);
      out.push_back(longer);
    }
  }
  return out;
}

TEST(HeaderV1Property, EveryShapeOfListsUpToThreeByThreeComesBackAndNoStrictPrefixDoes) {
  SeededRandom random(23);
  std::size_t count = 0;
  for (const auto& shape : shapes()) {
    for (std::size_t reads = 0; reads <= 3; ++reads) {
      for (std::size_t reply = 0; reply <= 4; ++reply) {  // 0: none; n: n - 1 segments
        ChunkLists lists;
        for (std::size_t i = 0; i < reads; ++i) {
          ASSERT_TRUE(lists.reads.push_back({0, random_segment(random)}));
        }
        for (const std::size_t segments : shape) {
          ASSERT_TRUE(lists.writes.push_back(random_segments(random, segments)));
        }
        lists.has_reply = reply > 0;
        if (reply > 0) {
          ASSERT_TRUE(lists.reply.assign(random_segments(random, reply - 1)));
        }
        expect_round_trip({Xid{1}, kVersion, 1, Msg{}}, lists, count % 16 == 0);
        ++count;
      }
    }
  }
  EXPECT_EQ(count, 85U * 4 * 5);
}

std::vector<std::vector<std::byte>> seeds_for_mutation() {
  std::vector<std::vector<std::byte>> out;
  SeededRandom random(24);
  for (std::size_t n = 0; n < 8; ++n) {
    ChunkLists lists;
    for (std::size_t i = 0; i < n % 4; ++i) {
      EXPECT_TRUE(lists.reads.push_back({0, random_segment(random)}));
    }
    for (std::size_t i = 0; i < n % 3; ++i) {
      EXPECT_TRUE(lists.writes.push_back(random_segments(random, n % 4)));
    }
    lists.has_reply = n % 2 == 0;
    if (lists.has_reply) {
      EXPECT_TRUE(lists.reply.assign(random_segments(random, n % 3)));
    }
    const Header header{Xid{1}, kVersion, 32, n == 7 ? Body{NoMsg{}} : Body{Msg{}}};
    out.emplace_back(encoded_size(header, lists) + 8);
    EXPECT_TRUE(encode(header, lists, out.back()).has_value());
  }
  return out;
}

// Small words are the interesting ones: discriminators, counts, types.
void mutate(SeededRandom& random, MutableBytes message) {
  const std::uint64_t draw = random.next();
  const std::size_t words = message.size() / 4;
  for (std::uint64_t i = 0; i <= (draw & 3U); ++i) {
    const std::uint64_t bits = random.next();
    const std::size_t at = 4 * (bits % words);
    if ((bits >> 60U) < 10) {
      xdr::Writer(message.subspan(at, 4)).u32(static_cast<std::uint32_t>(bits >> 57U) & 7U);
    } else {
      message[at + ((bits >> 32U) & 3U)] ^= static_cast<std::byte>(bits >> 40U);
    }
  }
}

TEST(HeaderV1Property, AMillionMutatedHeadersDecodeOrAreRefusedWithinTheirBytes) {
  const auto seeds = seeds_for_mutation();
  SeededRandom random(25);
  ChunkLists lists;
  std::array<std::byte, 512> message{};
  std::size_t accepted = 0;
  for (int round = 0; round < 1'000'000; ++round) {
    const auto& seed = seeds[random.below(seeds.size())];
    std::copy(seed.begin(), seed.end(), message.begin());
    mutate(random, MutableBytes(message).first(seed.size()));
    const std::size_t size = random.one_in(4) ? random.below(seed.size() + 1) : seed.size();
    const auto decoded = decode(Bytes(message).first(size), Limits{}, lists);
    if (!decoded) {
      ASSERT_LE(decoded.error().offset, size);
      continue;
    }
    ++accepted;
    ASSERT_EQ(encoded_size(decoded->header, lists) + decoded->payload.size(), size);
  }
  EXPECT_GT(accepted, 100'000U);  // The mutations must not all die at the first word.
}

}  // namespace
}  // namespace rpcrdma::wire::v1
