// What every type of a .x file is put to: rpcgen's C code and ours agree on each byte, and hostile
// bytes are refused within bounds.
#ifndef RPCRDMA_TESTS_GEN_CROSS_TEST_H_
#define RPCRDMA_TESTS_GEN_CROSS_TEST_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "rpcrdma/generated/codec.h"
#include "tests/gen/c_codec.h"
#include "tests/gen/live_memory.h"

namespace rpcrdma::gen_test {

inline constexpr std::uint64_t kSeed = 20261121;
inline constexpr int kValues = 500;  // of each type

template <class Traits>
std::vector<std::byte> encoded(const typename Traits::Type& value) {
  std::vector<std::byte> room(Traits::encoded_size(value) + 4);
  MessageWriter writer(room);
  Traits::encode(value, writer);
  EXPECT_TRUE(writer.ok()) << Traits::to_string(value);
  std::vector<std::byte> whole;
  std::size_t at = 0;
  for (const BulkItem& item : writer.items()) {
    whole.insert(whole.end(), room.data() + at, room.data() + item.at);
    whole.insert(whole.end(), item.data.begin(), item.data.end());
    at = item.at;
  }
  whole.insert(whole.end(), room.data() + at, room.data() + writer.size());
  return whole;
}

template <class Traits>
bool decodes(Bytes bytes, typename Traits::Type& value) {
  MessageReader reader(bytes, 0, {});
  Traits::decode(reader, value);
  return reader.finish();
}

template <class Traits>
typename Traits::Type random_value(std::mt19937_64& random, int depth) {
  typename Traits::Type value{};
  Traits::randomize(value, random, depth);
  return value;
}

// Ours → C → ours, over random values.
template <class Traits>
void agree_with_rpcgen(const CCodecs& codecs) {
  SCOPED_TRACE(std::string(Traits::kName));
  const CCodecs::Codec* codec = codecs.find(Traits::kName);
  ASSERT_NE(codec, nullptr) << "rpcgen made no xdr_" << Traits::kName;
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < kValues; ++i) {
    const auto value = random_value<Traits>(random, i % 5);
    const std::vector<std::byte> bytes = encoded<Traits>(value);
    ASSERT_EQ(bytes.size(), Traits::encoded_size(value)) << Traits::to_string(value);
    const auto again = codecs.decode_and_encode(codec, bytes);
    ASSERT_TRUE(again) << "C does not decode " << Traits::to_string(value);
    ASSERT_EQ(*again, bytes) << Traits::to_string(value);
    typename Traits::Type back{};
    ASSERT_TRUE(decodes<Traits>(*again, back)) << Traits::to_string(value);
    ASSERT_TRUE(back == value) << Traits::to_string(back) << " and " << Traits::to_string(value);
  }
}

// No part of an encoding is one, nor is one with something behind it.
template <class Traits>
void refuse_other_sizes() {
  SCOPED_TRACE(std::string(Traits::kName));
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 20; ++i) {
    const auto value = random_value<Traits>(random, i % 4);
    std::vector<std::byte> bytes = encoded<Traits>(value);
    typename Traits::Type other{};
    for (std::size_t size = 0; size < std::min<std::size_t>(bytes.size(), 4096); ++size) {
      ASSERT_FALSE(decodes<Traits>(Bytes(bytes).first(size), other)) << size;
    }
    bytes.resize(bytes.size() + 4);
    ASSERT_FALSE(decodes<Traits>(bytes, other));
  }
}

// Each word in turn becomes a length that nothing backs: decoding takes at most a small multiple of
// what came in (docs/idl.md).
template <class Traits>
void take_little_memory() {
  constexpr std::size_t kTimes = 32, kAlways = 4096;
  SCOPED_TRACE(std::string(Traits::kName));
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 12; ++i) {
    const std::vector<std::byte> good = encoded<Traits>(random_value<Traits>(random, i % 4));
    const std::size_t words = std::min<std::size_t>(good.size() / 4, 256);
    for (std::size_t word = 0; word < words; ++word) {
      for (const std::uint32_t length : {0xffffffffU, 0x7fffffffU, 0x10000U, 1U, 0U}) {
        std::vector<std::byte> bytes = good;
        for (unsigned j = 0; j < 4; ++j) {
          bytes[4 * word + j] = static_cast<std::byte>(length >> (24 - 8 * j));
        }
        const LiveMemory memory;
        {
          typename Traits::Type value{};
          decodes<Traits>(bytes, value);
        }
        ASSERT_LE(memory.peak(), kTimes * bytes.size() + kAlways) << "word " << word;
      }
    }
  }
}

}  // namespace rpcrdma::gen_test

#endif  // RPCRDMA_TESTS_GEN_CROSS_TEST_H_
