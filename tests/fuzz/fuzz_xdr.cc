// xdr::Reader against a second, plainer reading of RFC 4506; what was read is written again.
//
// Input: the number of items, for each a kind and a bound, then the bytes to be read.
#include <array>
#include <optional>
#include <string_view>

#include "fuzz/fuzz.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::fuzz {
namespace {

using xdr::DecodeError;
using xdr::Errc;

enum class Kind : std::uint8_t { kU32, kU64, kBool, kOpaque, kFixed, kString, kI32, kI64, kFail };
constexpr std::size_t kKinds = 9;

struct Item {
  Kind kind;
  std::uint32_t size;  // bound or size of an opaque
};

// An item as this file reads it: its value, or why there is none, and how far it reaches.
struct Value {
  std::uint64_t number = 0;
  Bytes bytes;
  std::optional<Errc> error;
  std::size_t end = 0;
};

std::uint64_t number_at(Bytes input, std::size_t at, std::size_t size) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < size; ++i) {
    number = number * 256 + std::to_integer<std::uint64_t>(input[at + i]);
  }
  return number;
}

Value read_number(Bytes input, std::size_t at, std::size_t size) {
  if (input.size() - at < size) return {0, {}, Errc::kTruncated, at};
  return {number_at(input, at, size), {}, std::nullopt, at + size};
}

Value read_fixed(Bytes input, std::size_t at, std::uint64_t size) {
  const std::uint64_t whole = (size + 3) / 4 * 4;
  if (input.size() - at < whole) return {0, {}, Errc::kTruncated, at};
  return {0, input.subspan(at, size), std::nullopt, at + whole};
}

Value read_opaque(Bytes input, std::size_t at, std::uint32_t size_max) {
  const Value count = read_number(input, at, 4);
  if (count.error) return count;
  if (count.number > size_max) return {0, {}, Errc::kOverLimit, at};
  return read_fixed(input, at + 4, count.number);
}

Value read(Bytes input, std::size_t at, const Item& item) {
  switch (item.kind) {
    case Kind::kU32:
    case Kind::kI32:
      return read_number(input, at, 4);
    case Kind::kU64:
    case Kind::kI64:
      return read_number(input, at, 8);
    case Kind::kBool: {
      Value value = read_number(input, at, 4);
      if (value.number > 1) value = {0, {}, Errc::kBadBool, at};
      return value;
    }
    case Kind::kOpaque:
    case Kind::kString:
      return read_opaque(input, at, item.size);
    case Kind::kFixed:
      return read_fixed(input, at, item.size);
    case Kind::kFail:
      break;
  }
  return {0, {}, Errc::kBadEnum, at};
}

Value read(xdr::Reader& reader, const Item& item) {
  Value value;
  switch (item.kind) {
    case Kind::kU32:
      value.number = reader.u32("u32");
      break;
    case Kind::kI32:
      value.number = static_cast<std::uint32_t>(reader.i32("i32"));
      break;
    case Kind::kU64:
      value.number = reader.u64("u64");
      break;
    case Kind::kI64:
      value.number = static_cast<std::uint64_t>(reader.i64("i64"));
      break;
    case Kind::kBool:
      value.number = reader.boolean("boolean") ? 1 : 0;
      break;
    case Kind::kOpaque:
      value.bytes = reader.opaque(item.size, "opaque");
      break;
    case Kind::kString: {
      const std::string_view text = reader.string(item.size, "string");
      value.bytes = std::as_bytes(std::span(text.data(), text.size()));
      break;
    }
    case Kind::kFixed:
      value.bytes = reader.opaque_fixed(item.size, "fixed");
      break;
    case Kind::kFail:
      reader.fail(Errc::kBadEnum, "fail");
      break;
  }
  return value;
}

void write(xdr::Writer& writer, const Item& item, const Value& value) {
  switch (item.kind) {
    case Kind::kU32:
      return writer.u32(static_cast<std::uint32_t>(value.number));
    case Kind::kI32:
      return writer.i32(static_cast<std::int32_t>(value.number));
    case Kind::kU64:
      return writer.u64(value.number);
    case Kind::kI64:
      return writer.i64(static_cast<std::int64_t>(value.number));
    case Kind::kBool:
      return writer.boolean(value.number == 1);
    case Kind::kOpaque:
      return writer.opaque(value.bytes);
    case Kind::kString:
      return writer.string({reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size()});
    case Kind::kFixed:
      return writer.opaque_fixed(value.bytes);
    case Kind::kFail:
      return;
  }
}

// Reads all items with both, and returns how many bytes were read well.
std::size_t compare(Bytes input, std::span<const Item> items, std::span<Value> values) {
  xdr::Reader reader(input);
  std::size_t at = 0;
  std::optional<DecodeError> error;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Value expected = read(input, at, items[i]);
    const Value got = read(reader, items[i]);
    if (!error && !expected.error) {
      at = expected.end;
      FUZZ_CHECK(reader.ok() && reader.position() == at,
                 "a good item is refused or ends elsewhere");
      FUZZ_CHECK(got.number == expected.number && equal(got.bytes, expected.bytes),
                 "another value");
      FUZZ_CHECK(within(got.bytes, input), "a view leaves the input");
      FUZZ_CHECK(reader.rest().size() == input.size() - at, "the rest is not what is left");
    } else {
      FUZZ_CHECK(!reader.ok() && got.number == 0 && got.bytes.empty(), "a bad item has a value");
      FUZZ_CHECK(reader.rest().empty() && reader.position() <= input.size(),
                 "reads behind a failure");
      if (!error) {
        error = reader.error();
        // kFail blames the item before it.
        FUZZ_CHECK(error->code == expected.error, "another reason");
        FUZZ_CHECK(items[i].kind == Kind::kFail ? error->offset <= at : error->offset <= at + 4,
                   "the failure is reported for a place that was not reached");
      }
      FUZZ_CHECK(reader.error() == *error, "the first failure is not kept");
    }
    values[i] = got;
  }
  const bool all = !error && at == input.size();
  FUZZ_CHECK(reader.finish(1).has_value() == !error, "finish() does not tell");
  FUZZ_CHECK(reader.finish_all(1).has_value() == all, "finish_all() does not tell");
  return at;
}

// Returns what a Writer makes of these bytes: the same, but for fill bytes, which are zero.
Buffer with_zero_fill(Bytes good, std::span<const Item> items) {
  Buffer made(good.begin(), good.end());
  std::size_t at = 0;
  for (const Item& item : items) {
    const Value value = read(good, at, item);
    if (value.error) break;
    at = value.end;
    if (value.bytes.empty()) continue;
    const std::ptrdiff_t fill = value.bytes.data() + value.bytes.size() - good.data();
    std::fill(made.begin() + fill, made.begin() + static_cast<std::ptrdiff_t>(at), std::byte{0});
  }
  return made;
}

// A Writer gives the bytes that were read; in less room it stops before its end.
void write_again(Bytes read_bytes, std::span<const Item> items, std::span<const Value> values) {
  const Buffer made = with_zero_fill(read_bytes, items);
  const Bytes good(made);
  for (const std::size_t missing : {std::size_t{0}, std::size_t{1}, std::size_t{7}}) {
    if (missing > good.size()) return;
    Buffer output(good.size() - missing + 8, std::byte{0xa5});
    const std::size_t room = good.size() - missing;
    xdr::Writer writer(MutableBytes(output).first(room));
    for (std::size_t i = 0; i < items.size(); ++i) write(writer, items[i], values[i]);
    const std::size_t size = writer.position();
    FUZZ_CHECK(size <= room && equal(Bytes(output).first(size), good.first(size)), "other bytes");
    FUZZ_CHECK(writer.ok() == (missing == 0) && writer.finish().has_value() == (missing == 0),
               "a Writer does not know whether all fits");
    for (std::size_t i = size; i < output.size(); ++i) {
      FUZZ_CHECK(output[i] == std::byte{0xa5}, "a byte behind position() was written");
    }
  }
}

}  // namespace
}  // namespace rpcrdma::fuzz

FUZZ_TARGET(xdr) {
  using rpcrdma::fuzz::Item;
  constexpr std::size_t kItemsMax = 32;
  rpcrdma::fuzz::Choices choices(rpcrdma::fuzz::as_bytes(data, size));
  std::array<Item, kItemsMax> items{};
  std::array<rpcrdma::fuzz::Value, kItemsMax> values{};
  std::size_t count = 1 + choices.below(kItemsMax);
  for (std::size_t i = 0; i < count; ++i) {
    items[i].kind = static_cast<rpcrdma::fuzz::Kind>(choices.below(rpcrdma::fuzz::kKinds));
    const std::uint8_t bound = choices.u8();
    items[i].size = bound == 255 ? 0xffffffffU : bound == 254 ? 0xfffffffdU : bound;
  }
  const rpcrdma::Bytes input = choices.rest();
  const std::span used = std::span(items).first(count);
  const std::size_t good = rpcrdma::fuzz::compare(input, used, values);
  // The bytes behind a failure have no value to write.
  std::size_t end = 0;
  count = 0;
  for (const Item& item : used) {
    const auto value = rpcrdma::fuzz::read(input, end, item);
    if (value.error) break;
    end = value.end;
    ++count;
  }
  rpcrdma::fuzz::write_again(input.first(good), used.first(count), values);
  return 0;
}
