#include "gss/message.h"

#include <algorithm>

#include "base/assert.h"

namespace rpcrdma::gss {
namespace {

constexpr std::uint32_t kNoLimit = 0xffffffff;  // but the message's own

}  // namespace

bool CredentialBody::operator==(const CredentialBody& other) const noexcept {
  return version == other.version && control == other.control && sequence == other.sequence &&
         service == other.service && std::ranges::equal(handle, other.handle);
}

std::optional<CredentialBody> decode_credential(Bytes body) noexcept {
  xdr::Reader reader(body);
  CredentialBody value;
  value.version = reader.u32("the version of RPCSEC_GSS");
  if (reader.ok() && value.version != kVersion) return CredentialBody{.version = value.version};
  value.control = reader.u32("gss_proc");
  value.sequence = reader.u32("seq_num");
  value.service = reader.u32("service");
  value.handle = reader.opaque(kHandleSizeMax, "the handle of the context");
  const auto decoded = reader.finish_all(value);
  return decoded ? std::optional(*decoded) : std::nullopt;
}

std::size_t encode_credential(const CredentialBody& value, MutableBytes into) noexcept {
  RPCRDMA_ASSERT(value.handle.size() <= kHandleSizeMax, "a handle over its limit");
  xdr::Writer writer(into);
  writer.words({value.version, value.control, value.sequence, value.service});
  writer.opaque(value.handle);
  RPCRDMA_ASSERT(writer.ok(), "no room for a credential of RPCSEC_GSS");
  return writer.position();
}

bool InitResults::operator==(const InitResults& other) const noexcept {
  return std::ranges::equal(handle, other.handle) && major == other.major && minor == other.minor &&
         window == other.window && std::ranges::equal(token, other.token);
}

std::optional<InitResults> decode_init_results(Bytes results) noexcept {
  xdr::Reader reader(results);
  InitResults value;
  value.handle = reader.opaque(kHandleSizeMax, "the handle of the context");
  value.major = reader.u32("gss_major");
  value.minor = reader.u32("gss_minor");
  value.window = reader.u32("seq_window");
  value.token = reader.opaque(kNoLimit, "gss_token");
  const auto decoded = reader.finish_all(value);
  return decoded ? std::optional(*decoded) : std::nullopt;
}

std::size_t init_results_size(const InitResults& value) noexcept {
  return 5 * xdr::kWordSize + xdr::padded_memory(value.handle.size()) +
         xdr::padded_memory(value.token.size());
}

void encode_init_results(const InitResults& value, xdr::Writer& writer) noexcept {
  writer.opaque(value.handle);
  writer.words({value.major, value.minor, value.window});
  writer.opaque(value.token);
}

std::optional<IntegrityBody> decode_integrity(Bytes wrapped) noexcept {
  xdr::Reader reader(wrapped);
  IntegrityBody value;
  value.body = reader.opaque(kNoLimit, "databody_integ");
  value.checksum = reader.opaque(kNoLimit, "checksum");
  const auto decoded = reader.finish_all(value);
  const bool is_xdr = value.body.size() % xdr::kWordSize == 0;
  if (!decoded || !is_xdr || value.body.size() < xdr::kWordSize) return std::nullopt;
  return value;
}

MutableBytes decode_privacy(MutableBytes wrapped) noexcept {
  xdr::Reader reader{Bytes(wrapped)};
  const Bytes token = reader.opaque(kNoLimit, "databody_priv");
  const auto decoded = reader.finish_all(token.size());
  return decoded ? wrapped.subspan(xdr::kWordSize, token.size()) : MutableBytes{};
}

}  // namespace rpcrdma::gss
