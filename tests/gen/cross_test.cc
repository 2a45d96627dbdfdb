#include "tests/gen/cross_test.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>

#include "tests/gen/live_memory.h"

namespace rpcrdma::gen_test {
namespace {

using test::GeneratedValue;

constexpr std::uint64_t kSeed = 20261121;
constexpr int kValues = 500;  // of each type

std::vector<std::byte> encoding_of(const GeneratedValue& value) {
  const auto bytes = test::encoded(value);
  EXPECT_TRUE(bytes) << value.text();
  return bytes.value_or(std::vector<std::byte>{});
}

void one_agrees_with_rpcgen(const CCodecs& codecs, GeneratedValue& value) {
  const CCodecs::Codec* codec = codecs.find(value.type());
  ASSERT_NE(codec, nullptr) << "rpcgen made no xdr_" << value.type();
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < kValues; ++i) {
    value.clear();
    value.randomize(random, i % 5);
    const std::vector<std::byte> bytes = encoding_of(value);
    ASSERT_EQ(bytes.size(), value.encoded_size()) << value.text();
    const auto again = codecs.decode_and_encode(codec, bytes);
    ASSERT_TRUE(again) << "C does not decode " << value.text();
    ASSERT_EQ(*again, bytes) << value.text();
    const auto back = value.another();
    ASSERT_TRUE(test::decodes(*again, *back)) << value.text();
    ASSERT_TRUE(back->equals(value)) << back->text() << " and " << value.text();
  }
}

void one_refuses_other_sizes(GeneratedValue& value) {
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 20; ++i) {
    value.clear();
    value.randomize(random, i % 4);
    std::vector<std::byte> bytes = encoding_of(value);
    const auto other = value.another();
    for (std::size_t size = 0; size < std::min<std::size_t>(bytes.size(), 4096); ++size) {
      ASSERT_FALSE(test::decodes(Bytes(bytes).first(size), *other)) << size;
    }
    bytes.resize(bytes.size() + 4);
    ASSERT_FALSE(test::decodes(bytes, *other));
  }
}

void one_takes_little_memory(GeneratedValue& value) {
  constexpr std::size_t kTimes = 32, kAlways = 4096;
  std::mt19937_64 random(kSeed);
  const auto decoded = value.another();
  for (int i = 0; i < 12; ++i) {
    value.clear();
    value.randomize(random, i % 4);
    const std::vector<std::byte> good = encoding_of(value);
    const std::size_t words = std::min<std::size_t>(good.size() / 4, 256);
    for (std::size_t word = 0; word < words; ++word) {
      for (const std::uint32_t length : {0xffffffffU, 0x7fffffffU, 0x10000U, 1U, 0U}) {
        std::vector<std::byte> bytes = good;
        for (unsigned j = 0; j < 4; ++j) {
          bytes[4 * word + j] = static_cast<std::byte>(length >> (24 - 8 * j));
        }
        const LiveMemory memory;
        test::decodes(bytes, *decoded);
        decoded->clear();
        ASSERT_LE(memory.peak(), kTimes * bytes.size() + kAlways) << "word " << word;
      }
    }
  }
}

}  // namespace

void agree_with_rpcgen(const CCodecs& codecs, const test::GeneratedValues& types) {
  for (const auto& value : types) {
    SCOPED_TRACE(std::string(value->type()));
    one_agrees_with_rpcgen(codecs, *value);
  }
}

void refuse_other_sizes(const test::GeneratedValues& types) {
  for (const auto& value : types) {
    SCOPED_TRACE(std::string(value->type()));
    one_refuses_other_sizes(*value);
  }
}

void take_little_memory(const test::GeneratedValues& types) {
  for (const auto& value : types) {
    SCOPED_TRACE(std::string(value->type()));
    one_takes_little_memory(*value);
  }
}

}  // namespace rpcrdma::gen_test
