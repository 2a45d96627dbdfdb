#include "rpc/serve/call_name.h"

#include <algorithm>
#include <array>
#include <optional>

#include "gss/message.h"
#include "oncrpc/message.h"
#include "rpc/serve/reply_cache.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::rpc {
namespace {

constexpr std::size_t kPartMax = 512;  // bytes of the inline part, or of the arguments

// Returns the part of wrapped arguments that is the same in each transmission.
Bytes lasting_part(std::uint32_t service, Bytes arguments) noexcept {
  if (service == static_cast<std::uint32_t>(gss::Service::kPrivacy)) return {};
  if (service != static_cast<std::uint32_t>(gss::Service::kIntegrity)) return arguments;
  const auto wrapped = gss::decode_integrity(arguments);
  if (!wrapped || wrapped->body.size() < xdr::kWordSize) return {};
  return wrapped->body.subspan(xdr::kWordSize);  // behind the sequence number
}

// Returns a checksum of all that a further transmission of a Call under RPCSEC_GSS has as well;
// nullopt if its header makes no sense.
[[gnu::noinline]] std::optional<std::uint64_t> sum_of_protected(std::uint64_t seed,
                                                                Bytes message) noexcept {
  xdr::Reader reader(message);
  const auto header = oncrpc::decode_call(reader);
  if (!header) return std::nullopt;
  const auto context = gss::decode_credential(header->credential.body);
  if (!context) return std::nullopt;
  const Procedure& of = header->procedure;
  for (const std::uint32_t word : {of.program, of.version, of.number}) {
    std::array<std::byte, xdr::kWordSize> bytes{};
    xdr::store_word(bytes.data(), word);
    seed = ReplyCache::checksum(bytes, seed);
  }
  seed = ReplyCache::checksum(context->handle, seed);
  const Bytes arguments = lasting_part(context->service, message.subspan(reader.position()));
  return ReplyCache::checksum(arguments.first(std::min(arguments.size(), kPartMax)), seed);
}

}  // namespace

std::uint64_t name_of_call(std::uint64_t host, std::uint64_t chunks, Xid xid,
                           Bytes inline_part) noexcept {
  const std::uint64_t seed = (host ^ chunks) + static_cast<std::uint32_t>(xid);
  // Each Call with chunks comes here, and few are protected.
  constexpr std::size_t kFlavorAt = 6 * xdr::kWordSize;
  const bool is_protected = inline_part.size() >= kFlavorAt + xdr::kWordSize &&
                            xdr::load_word(inline_part.data() + kFlavorAt) ==
                                static_cast<std::uint32_t>(AuthFlavor::kRpcsecGss);
  if (is_protected) [[unlikely]] {
    if (const auto sum = sum_of_protected(seed, inline_part)) return *sum | 1U;
  }
  return ReplyCache::checksum(inline_part.first(std::min(inline_part.size(), kPartMax)), seed) | 1U;
}

}  // namespace rpcrdma::rpc
