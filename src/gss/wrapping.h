// Protects arguments and results with a context (RFC 2203 §5.3.2), alike in both directions.
#ifndef RPCRDMA_GSS_WRAPPING_H_
#define RPCRDMA_GSS_WRAPPING_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rpcrdma/auth.h"
#include "rpcrdma/gss.h"
#include "rpcrdma/types.h"

namespace rpcrdma::gss {

// The memory of one protected body. Reusing it avoids allocations.
struct WrapRoom {
  std::vector<std::byte> bytes;     // sent around the pieces, or in place of them
  std::vector<std::byte> checksum;  // scratch
  std::vector<Bytes> pieces;        // scratch
};

std::size_t size_of(std::span<const Bytes> pieces) noexcept;  // bytes, together

// `pieces` follow each other and together are XDR, so that the sum of their sizes is a multiple of
// four.

// Integrity: returns views of `room` between which the pieces are sent from where they are. They
// must not change until they have been sent. nullopt: the mechanism has failed.
std::optional<Enclosure> enclose(Context& context, std::uint32_t sequence,
                                 std::span<const Bytes> pieces, WrapRoom& room);
// Privacy: copies the pieces into `room`, since mechanisms encipher in place, and returns what is
// sent instead of them. nullopt: the mechanism has failed.
std::optional<Bytes> encipher(Context& context, std::uint32_t sequence,
                              std::span<const Bytes> pieces, WrapRoom& room);

// Protects the pieces as `service` has it, and sets the one of `wrapped` and `enclosure` that
// replaces them. False: the mechanism has failed. Precondition: not Service::kNone.
bool wrap(Context& context, Service service, std::uint32_t sequence, std::span<const Bytes> pieces,
          WrapRoom& room, std::optional<Bytes>& wrapped, std::optional<Enclosure>& enclosure);

// Returns the XDR behind the sequence number, a view into `wrapped`, where privacy is deciphered in
// place. nullopt: it is not what the other side wrapped for this number.
std::optional<MutableBytes> unwrap(Context& context, Service service, std::uint32_t sequence,
                                   MutableBytes wrapped);

}  // namespace rpcrdma::gss

#endif  // RPCRDMA_GSS_WRAPPING_H_
