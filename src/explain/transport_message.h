// The Transport header of RPC-over-RDMA, version 1 or 2, as a fact.
#ifndef RPCRDMA_EXPLAIN_TRANSPORT_MESSAGE_H_
#define RPCRDMA_EXPLAIN_TRANSPORT_MESSAGE_H_

#include "explain/facts.h"
#include "rpcrdma/types.h"
#include "wire/chunk_lists.h"

namespace rpcrdma::explain {

// Decodes headers of both versions into facts. Holds the decoder's storage for chunk lists.
class HeaderDecoder {
 public:
  // Fills in the fields of `fact` that the header has. `message` are the first bytes of the Send,
  // of which the whole header is wanted. Returns the bytes behind the header, or the
  // information of an OPTIONAL; empty if it cannot be decoded, and then `fact.error` says why.
  Bytes decode(Bytes message, MessageFact& fact);

 private:
  Bytes decode_v1(Bytes message, MessageFact& fact);
  Bytes decode_v2(Bytes message, MessageFact& fact);
  void take_lists(MessageFact& fact) const;

  wire::ChunkLists lists_;
};

}  // namespace rpcrdma::explain

#endif  // RPCRDMA_EXPLAIN_TRANSPORT_MESSAGE_H_
