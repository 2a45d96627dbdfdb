// Messages of the Connection Configuration Protocol (RFC 5666 §6; idl/ccp.x). By hand, since the
// library is built without the generator; a test compares them with what it makes.
#ifndef RPCRDMA_ONCRPC_CONFIGURATION_H_
#define RPCRDMA_ONCRPC_CONFIGURATION_H_

#include <cstdint>

#include "rpcrdma/oncrpc.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::oncrpc {

inline constexpr Procedure kConfigureConnection{100417, 1, 1};  // CONF_RDMA

struct ConfigurationRequest {
  std::uint32_t call_size_max;   // that the client wants to send inline, bytes
  std::uint32_t reply_size_max;  // that the client takes inline, bytes
  std::uint32_t reads_max;       // RDMA Reads that the server may have in progress; 0: none
  bool operator==(const ConfigurationRequest&) const = default;
};
struct ConfigurationReply {
  std::uint32_t call_size_max;  // that the server takes inline, bytes
  std::uint32_t alignment;      // for RDMA_MSGP, bytes; 0: no wish
  std::uint32_t reads_max;      // RDMA Reads that the client may have in progress; 0: none
  bool operator==(const ConfigurationReply&) const = default;
};

inline void encode(const ConfigurationRequest& value, xdr::Writer& writer) noexcept {
  writer.words({value.call_size_max, value.reply_size_max, value.reads_max});
}
inline void encode(const ConfigurationReply& value, xdr::Writer& writer) noexcept {
  writer.words({value.call_size_max, value.alignment, value.reads_max});
}
// The reader reports whether the message was complete.
inline ConfigurationRequest decode_configuration_request(xdr::Reader& reader) noexcept {
  ConfigurationRequest value{};
  value.call_size_max = reader.u32("maxcall_sendsize");
  value.reply_size_max = reader.u32("maxreply_sendsize");
  value.reads_max = reader.u32("maxrdmaread");
  return value;
}
inline ConfigurationReply decode_configuration_reply(xdr::Reader& reader) noexcept {
  ConfigurationReply value{};
  value.call_size_max = reader.u32("maxcall_sendsize");
  value.alignment = reader.u32("align");
  value.reads_max = reader.u32("maxrdmaread");
  return value;
}

}  // namespace rpcrdma::oncrpc

#endif  // RPCRDMA_ONCRPC_CONFIGURATION_H_
