// Arguments and results as a context protects them (RFC 2203 §5.3.2): the same in both directions.
#ifndef RPCRDMA_GSS_WRAPPING_H_
#define RPCRDMA_GSS_WRAPPING_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rpcrdma/gss.h"
#include "rpcrdma/types.h"

namespace rpcrdma::gss {

// XDR that stands for the pieces, which lie one behind the other and are XDR together, so that
// their sizes make a multiple of four. `service` protects them. False: the mechanism has failed.
bool wrap(Context& context, Service service, std::uint32_t sequence, std::span<const Bytes> pieces,
          std::vector<std::byte>& wrapped);

// What was wrapped, behind its sequence number; nullopt: it is not what the other side wrapped for
// this number. The view is into `wrapped`, or into `room`, where privacy is deciphered.
std::optional<Bytes> unwrap(Context& context, Service service, std::uint32_t sequence,
                            Bytes wrapped, std::vector<std::byte>& room);

}  // namespace rpcrdma::gss

#endif  // RPCRDMA_GSS_WRAPPING_H_
