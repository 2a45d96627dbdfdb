// Bodies that RPCSEC_GSS protects as one run of bytes, for tests that say them byte by byte.
#ifndef RPCRDMA_TESTS_SUPPORT_GSS_BODY_H_
#define RPCRDMA_TESTS_SUPPORT_GSS_BODY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gss/wrapping.h"
#include "rpcrdma/auth.h"

namespace rpcrdma::test {

// Returns what goes out for `pieces`.
inline std::vector<std::byte> join_body(std::span<const Bytes> pieces,
                                        const std::optional<Bytes>& wrapped,
                                        const std::optional<Enclosure>& enclosure) {
  std::vector<std::byte> body;
  const auto add = [&body](Bytes run) { body.insert(body.end(), run.begin(), run.end()); };
  if (wrapped) {
    add(*wrapped);
    return body;
  }
  if (enclosure) add(enclosure->before);
  for (const Bytes piece : pieces) add(piece);
  if (enclosure) add(enclosure->after);
  return body;
}

// Empty: the mechanism has failed.
inline std::vector<std::byte> wrap_body(gss::Context& context, gss::Service service,
                                        std::uint32_t sequence, std::span<const Bytes> pieces) {
  gss::WrapRoom room;
  std::optional<Bytes> wrapped;
  std::optional<Enclosure> enclosure;
  if (!gss::wrap(context, service, sequence, pieces, room, wrapped, enclosure)) return {};
  return join_body(pieces, wrapped, enclosure);
}

// A copy, since privacy is deciphered in place.
inline std::optional<std::vector<std::byte>> unwrap_body(gss::Context& context,
                                                         gss::Service service,
                                                         std::uint32_t sequence, Bytes wrapped) {
  std::vector<std::byte> room(wrapped.begin(), wrapped.end());
  const auto found = gss::unwrap(context, service, sequence, room);
  if (!found) return std::nullopt;
  return std::vector<std::byte>(found->begin(), found->end());
}

}  // namespace rpcrdma::test

#endif  // RPCRDMA_TESTS_SUPPORT_GSS_BODY_H_
