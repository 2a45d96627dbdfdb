#include "rpc/serve/call_name.h"

#include <algorithm>
#include <array>

#include "gss/message.h"
#include "oncrpc/message.h"
#include "rpc/serve/reply_cache.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::rpc {
namespace {

// What of wrapped arguments a further transmission has as well.
Bytes lasting_part(std::uint32_t service, Bytes arguments) noexcept {
  if (service == static_cast<std::uint32_t>(gss::Service::kPrivacy)) return {};
  if (service != static_cast<std::uint32_t>(gss::Service::kIntegrity)) return arguments;
  const auto wrapped = gss::decode_integrity(arguments);
  if (!wrapped || wrapped->body.size() < xdr::kWordSize) return {};
  return wrapped->body.subspan(xdr::kWordSize);  // behind the sequence number
}

}  // namespace

std::uint64_t name_of_call(std::uint64_t host, std::uint64_t chunks, Xid xid,
                           Bytes inline_part) noexcept {
  constexpr std::size_t kPartMax = 512;  // bytes of the arguments
  std::uint64_t name = (host ^ chunks) + static_cast<std::uint32_t>(xid);
  const auto add = [&name](Bytes bytes) { name = ReplyCache::checksum(bytes, name); };
  xdr::Reader reader(inline_part);
  const auto header = oncrpc::decode_call(reader);
  if (!header) {
    add(inline_part.first(std::min(inline_part.size(), kPartMax)));
    return name | 1U;
  }
  std::array<std::byte, 3 * xdr::kWordSize> procedure{};
  const Procedure& of = header->procedure;
  for (std::size_t i = 0; const std::uint32_t word : {of.program, of.version, of.number}) {
    xdr::store_word(&procedure[xdr::kWordSize * i++], word);
  }
  add(procedure);
  Bytes arguments = inline_part.subspan(reader.position());
  const Credential& credential = header->credential;
  const auto context = credential.flavor == AuthFlavor::kRpcsecGss
                           ? gss::decode_credential(credential.body)
                           : std::nullopt;
  add(context ? context->handle : credential.body);
  if (context) arguments = lasting_part(context->service, arguments);
  add(arguments.first(std::min(arguments.size(), kPartMax)));
  return name | 1U;
}

}  // namespace rpcrdma::rpc
