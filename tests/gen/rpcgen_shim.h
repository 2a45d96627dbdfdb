/* Instead of <rpc/rpc.h> for rpcgen's C code: codecs only. libtirpc's own header of rpcbind would
   clash with what is made from ours. */
#ifndef RPCRDMA_TESTS_GEN_RPCGEN_SHIM_H_
#define RPCRDMA_TESTS_GEN_RPCGEN_SHIM_H_

#define _TIRPC_RPC_H
#define netbuf netbuf_of_tirpc
#include <rpc/types.h>
#include <rpc/xdr.h>
#undef netbuf

typedef struct rpcrdma_no_client CLIENT;
typedef struct rpcrdma_no_transport SVCXPRT;
struct svc_req;

#endif /* RPCRDMA_TESTS_GEN_RPCGEN_SHIM_H_ */
