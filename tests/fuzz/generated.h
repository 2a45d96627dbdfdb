// The decoders that rpcrdma-gen made for one file: the first byte says which type, the second how
// the rest is given to the reader, the rest is what a peer sent.
#ifndef RPCRDMA_TESTS_FUZZ_GENERATED_H_
#define RPCRDMA_TESTS_FUZZ_GENERATED_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/fuzz.h"
#include "rpcrdma/generated/codec.h"

namespace rpcrdma::fuzz {

// What was decoded is encoded to the same bytes, and is what those decode to.
template <class Traits>
void check_encoding(const typename Traits::Type& value, Bytes bytes) {
  std::vector<std::byte> room(Traits::encoded_size(value));
  FUZZ_CHECK(room.size() == bytes.size(), "another size");
  MessageWriter writer(room);
  Traits::encode(value, writer);
  FUZZ_CHECK(writer.ok(), "what was decoded breaks a bound");
  std::vector<std::byte> whole;
  std::size_t at = 0;
  for (const BulkItem& item : writer.items()) {
    whole.insert(whole.end(), room.data() + at, room.data() + item.at);
    whole.insert(whole.end(), item.data.begin(), item.data.end());
    at = item.at;
  }
  whole.insert(whole.end(), room.data() + at, room.data() + writer.size());
  FUZZ_CHECK(equal(whole, bytes), "other bytes");
  typename Traits::Type again{};
  MessageReader reader(whole, 0, {});
  Traits::decode(reader, again);
  FUZZ_CHECK(reader.finish(), "does not decode again");
  // NaN is not even itself.
  FUZZ_CHECK(again == value || !(value == value), "another value");
  FUZZ_CHECK(!Traits::to_string(value).empty(), "no text");
}

template <class Traits>
void decode_one(Bytes input, std::uint8_t how) {
  // Part of the input is what RDMA has placed: two items, at places that the input says.
  std::array<MessageReader::Placed, 2> placed{};
  std::size_t placed_count = 0;
  if (how % 4 != 0 && input.size() >= 4) {
    const std::size_t size =
        std::min<std::size_t>(std::to_integer<std::size_t>(input[0]), input.size() - 4);
    const std::uint32_t position = std::to_integer<std::uint32_t>(input[1]);
    placed[0] = {how % 2 != 0 ? MessageReader::kInOrder : position, input.subspan(4, size)};
    placed[1] = {how % 2 != 0 ? MessageReader::kInOrder : position + 64,
                 input.subspan(4, size / 2)};
    placed_count = how % 4 == 3 ? 2 : 1;
    input = input.subspan(4 + size);
  }
  typename Traits::Type value{};
  MessageReader reader(input, 0, std::span(placed).first(placed_count));
  Traits::decode(reader, value);
  if (!reader.finish()) return;
  if (placed_count == 0) return check_encoding<Traits>(value, input);
  FUZZ_CHECK(Traits::encoded_size(value) >= input.size(), "smaller than what was in the message");
  FUZZ_CHECK(!Traits::to_string(value).empty(), "no text");
}

// `visit_types` is the generated one of the file.
template <class VisitTypes>
int decode_input(const std::uint8_t* data, std::size_t size, VisitTypes visit_types) {
  if (size < 2) return 0;
  std::size_t types = 0, index = 0;
  visit_types([&types](auto) { ++types; });
  const std::size_t wanted = data[0] % types;
  visit_types([&](auto traits) {
    if (index++ == wanted) decode_one<decltype(traits)>(as_bytes(data + 2, size - 2), data[1]);
  });
  return 0;
}

}  // namespace rpcrdma::fuzz

#endif  // RPCRDMA_TESTS_FUZZ_GENERATED_H_
