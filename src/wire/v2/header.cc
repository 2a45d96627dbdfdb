#include "wire/v2/header.h"

#include <algorithm>
#include <limits>

#include "wire/chunk_lists_codec.h"
#include "wire/prefix.h"

namespace rpcrdma::wire::v2 {
namespace {

// rdma_err.
constexpr std::uint32_t kErrVers = 1;         // RDMA2_ERR_VERS
constexpr std::uint32_t kErrBadHeader = 2;    // RDMA2_ERR_BAD_HEADER
constexpr std::uint32_t kErrInvalOption = 3;  // RDMA2_ERR_INVAL_OPTION

constexpr std::size_t kWord = xdr::kWordSize;

Direction read_direction(xdr::Reader& reader, std::string_view field) {
  const std::uint32_t value = reader.u32(field);
  if (value > static_cast<std::uint32_t>(Direction::kReply)) {
    reader.fail(xdr::Errc::kBadEnum, field);
  }
  return Direction{value};
}

Body read_error(xdr::Reader& reader) {
  switch (reader.u32("rdma_err")) {
    case kErrVers: {
      const std::uint32_t low = reader.u32("rdma_vers_low");
      return ErrVers{low, reader.u32("rdma_vers_high")};
    }
    case kErrBadHeader:
      return ErrBadHeader{};
    case kErrInvalOption:
      return ErrInvalOption{};
    default:
      reader.fail(xdr::Errc::kBadEnum, "rdma_err");
      return ErrBadHeader{};
  }
}

Body read_body(xdr::Reader& reader, std::uint32_t type, const Limits& limits, ChunkLists& lists) {
  switch (Type{type}) {
    case Type::kMsg: {
      const Msg body{read_direction(reader, "rdma_direction")};
      read_lists(reader, limits, lists);
      return body;
    }
    case Type::kNoMsg: {
      const NoMsg body{read_direction(reader, "rdma_direction")};
      read_lists(reader, limits, lists);
      return body;
    }
    case Type::kError:
      return read_error(reader);
    case Type::kOptional: {
      const Direction direction = read_direction(reader, "rdma_optdir");
      const std::uint32_t option = reader.u32("rdma_opttype");
      // Bounded by the message that it is in.
      return Optional{direction, option,
                      reader.opaque(std::numeric_limits<std::uint32_t>::max(), "rdma_optinfo")};
    }
  }
  reader.fail(xdr::Errc::kBadEnum, "rdma_proc");
  return ErrBadHeader{};
}

// Measures the body behind the prefix, one overload for each kind; BodyWriter below writes it.
struct BodySize {
  const ChunkLists& lists;
  std::size_t operator()(const Msg&) const noexcept { return kWord + lists_size(lists); }
  std::size_t operator()(const NoMsg&) const noexcept { return kWord + lists_size(lists); }
  std::size_t operator()(const ErrVers&) const noexcept { return 3 * kWord; }
  std::size_t operator()(const ErrBadHeader&) const noexcept { return kWord; }
  std::size_t operator()(const ErrInvalOption&) const noexcept { return kWord; }
  std::size_t operator()(const Optional& body) const noexcept {
    return 3 * kWord + xdr::padded_memory(body.info.size());
  }
};

struct BodyWriter {
  xdr::Writer& writer;
  const ChunkLists& lists;

  void operator()(const Msg& body) const noexcept {
    start(Type::kMsg, static_cast<std::uint32_t>(body.direction));
    write_lists(writer, lists);
  }
  void operator()(const NoMsg& body) const noexcept {
    start(Type::kNoMsg, static_cast<std::uint32_t>(body.direction));
    write_lists(writer, lists);
  }
  void operator()(const ErrVers& body) const noexcept {
    start(Type::kError, kErrVers);
    writer.u32(body.low);
    writer.u32(body.high);
  }
  void operator()(const ErrBadHeader&) const noexcept { start(Type::kError, kErrBadHeader); }
  void operator()(const ErrInvalOption&) const noexcept { start(Type::kError, kErrInvalOption); }
  void operator()(const Optional& body) const noexcept {
    start(Type::kOptional, static_cast<std::uint32_t>(body.direction));
    writer.u32(body.type);
    writer.opaque(body.info);
  }

 private:
  // The type, and the word behind it.
  void start(Type type, std::uint32_t word) const noexcept {
    writer.u32(static_cast<std::uint32_t>(type));
    writer.u32(word);
  }
};

}  // namespace

bool Optional::operator==(const Optional& other) const noexcept {
  return direction == other.direction && type == other.type && std::ranges::equal(info, other.info);
}

Expected<Decoded, xdr::DecodeError> decode(Bytes message, const Limits& limits, ChunkLists& lists) {
  lists.clear();
  const Expected<Prefix, xdr::DecodeError> prefix = peek(message);
  if (!prefix) return Unexpected<xdr::DecodeError>(prefix.error());
  xdr::Reader reader(message);
  reader.skip(kPrefixSize - kWord, "");
  const std::uint32_t type = reader.u32(kPrefixFields[3]);
  Decoded decoded{
      {prefix->xid, prefix->version, prefix->credits, read_body(reader, type, limits, lists)},
      reader.rest()};
  // An ERR_VERS repeats the version of the message that it answers, or names one that its sender
  // speaks (RFC 5666).
  const bool is_error = type == static_cast<std::uint32_t>(Type::kError);
  const bool may_be_err_vers =
      is_error && (!reader.ok() || std::holds_alternative<ErrVers>(decoded.header.body));
  if (prefix->version != kVersion && !may_be_err_vers) {
    lists.clear();
    return Unexpected<xdr::DecodeError>(
        xdr::DecodeError{xdr::Errc::kBadEnum, xdr::kWordSize, kPrefixFields[1]});
  }
  if (!reader.ok()) lists.clear();
  return reader.finish(decoded);
}

std::size_t encoded_size(const Header& header, const ChunkLists& lists) noexcept {
  return kPrefixSize + std::visit(BodySize{lists}, header.body);
}

Expected<std::size_t, xdr::Errc> encode(const Header& header, const ChunkLists& lists,
                                        MutableBytes output) noexcept {
  xdr::Writer writer(output);
  writer.words({static_cast<std::uint32_t>(header.xid), header.version, header.credits});
  std::visit(BodyWriter{writer, lists}, header.body);
  return writer.finish();
}

}  // namespace rpcrdma::wire::v2
