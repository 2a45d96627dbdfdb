#include "fuzz/generated.h"

#include <algorithm>
#include <array>
#include <memory>
#include <span>

#include "fuzz/fuzz.h"

namespace rpcrdma::fuzz {
namespace {

using test::GeneratedValue;

// Returns whether a Writer makes `made` of what was read from `given`, a word. Fill bytes become
// zero, and a char from a machine whose C has no sign in them gets its sign.
bool is_same_word(Bytes made, Bytes given) {
  const std::uint32_t word = xdr::load_word(given.data());
  if (word >= 0x80 && word <= 0xff && xdr::load_word(made.data()) == (word | 0xffffff00U))
    return true;
  return std::ranges::equal(made, given, [](std::byte one, std::byte other) {
    return one == other || one == std::byte{0};
  });
}

bool is_same(Bytes made, Bytes given) {
  if (made.size() != given.size() || made.size() % xdr::kWordSize != 0) return false;
  for (std::size_t at = 0; at < made.size(); at += xdr::kWordSize) {
    if (!is_same_word(made.subspan(at, xdr::kWordSize), given.subspan(at, xdr::kWordSize)))
      return false;
  }
  return true;
}

// A value that was decoded is encoded to the same bytes, but for those two, and these decode to the
// same value.
void check_encoding(const GeneratedValue& value, Bytes bytes) {
  FUZZ_CHECK(value.encoded_size() == bytes.size(), "another size");
  const auto whole = test::encoded(value);
  FUZZ_CHECK(whole, "the decoded value breaks a bound");
  FUZZ_CHECK(is_same(*whole, bytes), "other bytes");
  const auto again = value.another();
  FUZZ_CHECK(test::decodes(*whole, *again), "does not decode again");
  // NaN is not even itself.
  FUZZ_CHECK(again->equals(value) || !value.equals(value), "another value");
  FUZZ_CHECK(!value.text().empty(), "no text");
}

}  // namespace

int decode_input(const test::GeneratedValues& types, const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::unique_ptr<GeneratedValue> value = types[data[0] % types.size()]->another();
  const std::uint8_t how = data[1];
  Bytes input = as_bytes(data + 2, size - 2);
  // Part of the input is what RDMA has placed: two items, at places that the input says.
  std::array<MessageReader::Placed, 2> placed{};
  std::size_t placed_count = 0;
  if (how % 4 != 0 && input.size() >= 4) {
    const std::size_t placed_size =
        std::min<std::size_t>(std::to_integer<std::size_t>(input[0]), input.size() - 4);
    const std::uint32_t position = std::to_integer<std::uint32_t>(input[1]);
    placed[0] = {how % 2 != 0 ? MessageReader::kInOrder : position, input.subspan(4, placed_size)};
    placed[1] = {how % 2 != 0 ? MessageReader::kInOrder : position + 64,
                 input.subspan(4, placed_size / 2)};
    placed_count = how % 4 == 3 ? 2 : 1;
    input = input.subspan(4 + placed_size);
  }
  MessageReader reader(input, 0, std::span(placed).first(placed_count));
  value->decode(reader);
  if (!reader.finish()) return 0;
  if (placed_count == 0) {
    check_encoding(*value, input);
    return 0;
  }
  FUZZ_CHECK(value->encoded_size() >= input.size(), "smaller than what was in the message");
  FUZZ_CHECK(!value->text().empty(), "no text");
  return 0;
}

}  // namespace rpcrdma::fuzz
