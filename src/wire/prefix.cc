#include "wire/prefix.h"

namespace rpcrdma::wire {

Expected<Prefix, xdr::DecodeError> peek(Bytes message) {
  xdr::Reader reader(message);
  Prefix prefix{};
  prefix.xid = Xid{reader.u32("rdma_xid")};
  prefix.version = reader.u32("rdma_vers");
  prefix.credits = reader.u32("rdma_credit");
  prefix.type = reader.u32("rdma_proc");
  return reader.finish(prefix);
}

}  // namespace rpcrdma::wire
