#include <fmt/core.h>

#include "base/assert.h"
#include "rpcrdma/generated/codec.h"
#include "rpcrdma/generated/text.h"

namespace rpcrdma::codec {
namespace {

constexpr std::size_t kBytesShownMax = 16;
constexpr std::size_t kTextShownMax = 256;

}  // namespace

std::uint32_t read_count(MessageReader& reader, std::uint32_t count_max,
                         std::uint64_t element_size_min, std::string_view field) noexcept {
  const std::uint32_t count = reader.xdr().u32(field);
  if (count > count_max) {
    reader.xdr().fail(xdr::Errc::kOverLimit, field);
  } else if (count > reader.xdr().rest().size() / element_size_min) {
    reader.xdr().fail(xdr::Errc::kTruncated, field);
  }
  return reader.ok() ? count : 0;
}

void read_opaque(MessageReader& reader, std::vector<std::byte>& value, std::uint32_t size_max,
                 std::string_view field) {
  const Bytes bytes = reader.xdr().opaque(size_max, field);
  value.assign(bytes.begin(), bytes.end());
}

void read_string(MessageReader& reader, std::string& value, std::uint32_t size_max,
                 std::string_view field) {
  value = reader.xdr().string(size_max, field);
}

void append_bytes(std::string& out, Bytes value) {
  out += fmt::format("<{} bytes", value.size());
  const Bytes shown = value.first(std::min(value.size(), kBytesShownMax));
  if (!shown.empty()) out += ':';
  for (const std::byte each : shown) {
    out += fmt::format(" {:02x}", std::to_integer<unsigned>(each));
  }
  out += shown.size() < value.size() ? " …>" : ">";
}

void append_quoted(std::string& out, std::string_view value) {
  out += '"';
  for (const char c : value.substr(0, kTextShownMax)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", byte);
    }
  }
  out += value.size() > kTextShownMax ? "…\"" : "\"";
}

void append_number(std::string& out, std::int64_t value) {
  out += fmt::format("{}", value);
}

void append_number(std::string& out, std::uint64_t value) {
  out += fmt::format("{}", value);
}

void append_number(std::string& out, double value) {
  out += fmt::format("{}", value);
}

void bad_discriminant(std::string_view type) noexcept {
  const std::string name(type);
  assertion_failed(name.c_str(), 0, "the discriminant is of the arm that is set",
                   "a union was given a discriminant of another arm");
}

}  // namespace rpcrdma::codec
