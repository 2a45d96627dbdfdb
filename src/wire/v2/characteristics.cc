#include "wire/v2/characteristics.h"

#include <algorithm>
#include <array>

#include "base/assert.h"

namespace rpcrdma::wire::v2 {

bool CharacteristicValue::operator==(const CharacteristicValue& other) const noexcept {
  return id == other.id && std::ranges::equal(data, other.data);
}
bool CharacteristicSpec::operator==(const CharacteristicSpec& other) const noexcept {
  return count_ == other.count_ && std::ranges::equal(bytes_, other.bytes_);
}
bool CharacteristicSubset::operator==(const CharacteristicSubset& other) const noexcept {
  return std::ranges::equal(bytes_, other.bytes_);
}

std::optional<std::uint32_t> as_number(const CharacteristicValue& value) noexcept {
  if (value.data.size() < xdr::kWordSize) return std::nullopt;
  return xdr::load_word(value.data.data());
}

std::optional<bool> as_boolean(const CharacteristicValue& value) noexcept {
  const auto number = as_number(value);
  if (!number || *number > 1) return std::nullopt;
  return *number == 1;
}

std::optional<BackwardSupport> as_backward_support(const CharacteristicValue& value) noexcept {
  const auto number = as_number(value);
  if (!number || *number > static_cast<std::uint32_t>(BackwardSupport::kGeneral)) {
    return std::nullopt;
  }
  return BackwardSupport{*number};
}

// --- Decoding ----------------------------------------------------------------------------------

CharacteristicSpec read_spec(xdr::Reader& reader) {
  CharacteristicSpec spec;
  const std::uint32_t count = reader.u32("xcharspec");
  // Each takes two words at least: a count that cannot be true costs nothing.
  if (count > reader.rest().size() / (2 * xdr::kWordSize)) {
    reader.fail(xdr::Errc::kTruncated, "xcharspec");
    return spec;
  }
  const Bytes rest = reader.rest();
  const std::size_t start = reader.position();
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
    (void)reader.u32("xchv_which");
    (void)reader.opaque(CharacteristicSpec::kValueSizeMax, "xchv_data");
  }
  if (!reader.ok()) return spec;
  spec.count_ = count;
  spec.bytes_ = rest.first(reader.position() - start);
  return spec;
}

CharacteristicSubset read_subset(xdr::Reader& reader) {
  CharacteristicSubset subset;
  const std::uint32_t words = reader.u32("xcharsubset");
  if (words > reader.rest().size() / xdr::kWordSize) {
    reader.fail(xdr::Errc::kTruncated, "xcharsubset");
    return subset;
  }
  subset.bytes_ = reader.rest().first(words * xdr::kWordSize);
  reader.skip(subset.bytes_.size(), "xcharsubset");
  return subset;
}

Expected<Option, xdr::DecodeError> decode_option(std::uint32_t type, Bytes info) {
  xdr::Reader reader(info);
  Option option;
  switch (Operation{type}) {
    case Operation::kInitXch: {
      const CharacteristicSpec start = read_spec(reader);
      option = InitXch{start, read_subset(reader)};
      break;
    }
    case Operation::kReqXch:
      option = ReqXch{read_spec(reader)};
      break;
    case Operation::kRespXch: {
      const CharacteristicSubset done = read_subset(reader);
      const CharacteristicSubset rejected = read_subset(reader);
      option = RespXch{done, rejected, read_subset(reader)};
      break;
    }
    case Operation::kUpdXch: {
      const std::uint32_t id = reader.u32("xchv_which");
      const CharacteristicValue now{id, reader.opaque(0xffffffff, "xchv_data")};
      option = UpdXch{now, reader.boolean("pendclr")};
      break;
    }
    default:
      return UnknownOption{};
  }
  if (reader.ok() && !reader.rest().empty()) reader.fail(xdr::Errc::kTrailing, "rdma_optinfo");
  return reader.finish(option);
}

// --- Encoding ----------------------------------------------------------------------------------

namespace {

void write_value(xdr::Writer& writer, const CharacteristicValue& value) noexcept {
  writer.u32(value.id);
  writer.opaque(value.data);
}

void write_spec(xdr::Writer& writer, std::span<const CharacteristicValue> values) noexcept {
  writer.u32(static_cast<std::uint32_t>(values.size()));
  for (const CharacteristicValue& value : values) write_value(writer, value);
}

// Writes only as many words as the highest index needs.
void write_subset(xdr::Writer& writer, std::span<const std::uint32_t> indices) noexcept {
  std::array<std::uint32_t, kSubsetMax / 32> words{};
  std::uint32_t used = 0;
  for (const std::uint32_t index : indices) {
    RPCRDMA_ASSERT(index < kSubsetMax, "an index over the bound of a subset");
    words[index / 32] |= 1U << (index % 32);
    used = std::max(used, index / 32 + 1);
  }
  writer.u32(used);
  for (std::uint32_t i = 0; i < used; ++i) writer.u32(words[i]);
}

}  // namespace

void write_init(xdr::Writer& writer, std::span<const CharacteristicValue> start,
                std::span<const std::uint32_t> no_change) noexcept {
  write_spec(writer, start);
  write_subset(writer, no_change);
}

void write_request(xdr::Writer& writer, std::span<const CharacteristicValue> want) noexcept {
  write_spec(writer, want);
}

void write_response(xdr::Writer& writer, std::span<const std::uint32_t> done,
                    std::span<const std::uint32_t> rejected,
                    std::span<const std::uint32_t> pending) noexcept {
  write_subset(writer, done);
  write_subset(writer, rejected);
  write_subset(writer, pending);
}

void write_update(xdr::Writer& writer, const CharacteristicValue& now,
                  bool clears_pending) noexcept {
  write_value(writer, now);
  writer.boolean(clears_pending);
}

}  // namespace rpcrdma::wire::v2
