#include "wire/v1/header.h"

#include "wire/chunk_lists_codec.h"
#include "wire/prefix.h"

namespace rpcrdma::wire::v1 {
namespace {

// rdma_err, RFC 8166 §4.5.
constexpr std::uint32_t kErrVers = 1;   // ERR_VERS
constexpr std::uint32_t kErrChunk = 2;  // ERR_CHUNK

constexpr std::size_t kWord = xdr::kWordSize;
Body read_error(xdr::Reader& reader) {
  switch (reader.u32("rdma_err")) {
    case kErrVers: {
      const std::uint32_t low = reader.u32("rdma_vers_low");
      return ErrVers{low, reader.u32("rdma_vers_high")};
    }
    case kErrChunk:
      return ErrChunk{};
    default:
      reader.fail(xdr::Errc::kBadEnum, "rdma_err");
      return ErrChunk{};
  }
}

Body read_body(xdr::Reader& reader, std::uint32_t type, const Limits& limits, ChunkLists& lists) {
  switch (Type{type}) {
    case Type::kMsg:
      read_lists(reader, limits, lists);
      return Msg{};
    case Type::kNoMsg:
      read_lists(reader, limits, lists);
      return NoMsg{};
    case Type::kMsgp: {
      const std::uint32_t align = reader.u32("rdma_align");
      const Msgp body{align, reader.u32("rdma_thresh")};
      read_lists(reader, limits, lists);
      return body;
    }
    case Type::kDone:
      return Done{};
    case Type::kError:
      return read_error(reader);
  }
  reader.fail(xdr::Errc::kBadEnum, "rdma_proc");
  return Done{};
}

// Measures the body behind the prefix, one overload for each kind; BodyWriter below writes it.
struct BodySize {
  const ChunkLists& lists;
  std::size_t operator()(const Msg&) const noexcept { return lists_size(lists); }
  std::size_t operator()(const NoMsg&) const noexcept { return lists_size(lists); }
  std::size_t operator()(const Msgp&) const noexcept { return 2 * kWord + lists_size(lists); }
  std::size_t operator()(const Done&) const noexcept { return 0; }
  std::size_t operator()(const ErrVers&) const noexcept { return 3 * kWord; }
  std::size_t operator()(const ErrChunk&) const noexcept { return kWord; }
};

struct BodyWriter {
  xdr::Writer& writer;
  const ChunkLists& lists;

  void operator()(const Msg&) const noexcept {
    type(Type::kMsg);
    write_lists(writer, lists);
  }
  void operator()(const NoMsg&) const noexcept {
    type(Type::kNoMsg);
    write_lists(writer, lists);
  }
  void operator()(const Msgp& body) const noexcept {
    type(Type::kMsgp);
    writer.u32(body.align);
    writer.u32(body.threshold);
    write_lists(writer, lists);
  }
  void operator()(const Done&) const noexcept { type(Type::kDone); }
  void operator()(const ErrVers& body) const noexcept {
    type(Type::kError);
    writer.u32(kErrVers);
    writer.u32(body.low);
    writer.u32(body.high);
  }
  void operator()(const ErrChunk&) const noexcept {
    type(Type::kError);
    writer.u32(kErrChunk);
  }

 private:
  void type(Type value) const noexcept { writer.u32(static_cast<std::uint32_t>(value)); }
};

}  // namespace

Expected<Decoded, xdr::DecodeError> decode(Bytes message, const Limits& limits, ChunkLists& lists) {
  lists.clear();
  const Expected<Prefix, xdr::DecodeError> prefix = peek(message);
  if (!prefix) return Unexpected<xdr::DecodeError>(prefix.error());

  // RFC 8166 §4.2.2, §4.5: an error repeats the version of the message that it answers, which is
  // just what was wrong with it.
  const bool is_error = prefix->type == static_cast<std::uint32_t>(Type::kError);
  if (prefix->version != kVersion && !is_error) {
    return Unexpected<xdr::DecodeError>(
        xdr::DecodeError{xdr::Errc::kBadEnum, xdr::kWordSize, kPrefixFields[1]});
  }
  xdr::Reader reader(message);
  reader.skip(kPrefixSize - kWord, "");
  const std::uint32_t type = reader.u32(kPrefixFields[3]);
  Decoded decoded{
      {prefix->xid, prefix->version, prefix->credits, read_body(reader, type, limits, lists)},
      reader.rest()};
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

}  // namespace rpcrdma::wire::v1
