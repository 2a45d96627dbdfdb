#include "rpc/terms.h"

#include <fmt/core.h>

namespace rpcrdma {
namespace rpc {

ConnectionTerms terms_of(const transport::Connection& connection, std::string_view provider,
                         std::uint32_t version, std::uint32_t credits) noexcept {
  const engine::LinkParameters& link = connection.engine().link();
  const rdma::Capabilities& capabilities = connection.capabilities();
  return {.provider = provider,
          .protocol_version = version,
          .credits = credits,
          .inline_sent = link.inline_send,
          .inline_received = link.inline_receive,
          .remote_invalidation = link.remote_invalidation,
          .crc = capabilities.crc,
          .reads_in_flight_max = link.reads_in_flight_max,
          .reads_served_max = capabilities.reads_served_max};
}

}  // namespace rpc

std::string to_string(const ConnectionTerms& terms) {
  std::string text(terms.provider);
  if (terms.protocol_version > 0) {
    text += fmt::format(", RPC-over-RDMA version {}", terms.protocol_version);
  }
  text += fmt::format(", {} credit{}, inline up to {} bytes out and {} in", terms.credits,
                      terms.credits == 1 ? "" : "s", terms.inline_sent, terms.inline_received);
  text += terms.remote_invalidation ? ", remote invalidation" : ", no remote invalidation";
  if (terms.crc) text += *terms.crc ? ", MPA CRC" : ", no MPA CRC";
  text += fmt::format(", RDMA Reads at a time: {} of the peer (IRD), {} of this side (ORD)",
                      terms.reads_served_max, terms.reads_in_flight_max);
  return text;
}

}  // namespace rpcrdma
