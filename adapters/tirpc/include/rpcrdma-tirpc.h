/* ONC RPC over RDMA for programs that use libtirpc, such as those of rpcgen.
 *
 *   CLIENT *client = clnt_rdma_create("rdma://storage", PROG, VERS, NULL);
 *   clnt_call(client, ...);                     as with any other CLIENT
 *
 *   SVCXPRT *transport = svc_rdma_create("rdma://0.0.0.0:20050");
 *   svc_reg(transport, PROG, VERS, dispatch, NULL);
 *   svc_run();
 *
 * Link with -lrpcrdma-tirpc in front of -ltirpc. A program that is started by `rpcrdma run` needs
 * none of this (docs/existing-programs.md); the variables of its environment that are named there
 * hold here as well. */
#ifndef RPCRDMA_TIRPC_H_
#define RPCRDMA_TIRPC_H_

#include <rpc/rpc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a client of one program version. `server` is rdma://HOST[:PORT] (20049 without a port), or
 * a HOST, whose rpcbind says where the program listens over RDMA. `timeout` bounds the set-up of
 * the connection; NULL: 10 s. Returns NULL on failure, and rpc_createerr says why, as for
 * clnt_create().
 *
 * The CLIENT is libtirpc's for everything else: clnt_call(), clnt_control(), clnt_destroy(), any
 * AUTH in cl_auth. Threads may share it; their calls are made one after the other. These differ
 * from TCP:
 * - A call with a time-out of zero, which would be sent without waiting for a reply, fails with
 *   RPC_CANTSEND: over RDMA only a reply gives the credit back that a call has taken.
 * - A reply for which the client has offered too little memory fails with RPC_CANTDECODERES. The
 *   server may have executed the call. See RPCRDMA_TIRPC_REPLY_MAX.
 * - CLGET_FD gives a descriptor that becomes readable when something has come; nobody may read from
 *   it or write to it. */
extern CLIENT* clnt_rdma_create(const char* server, rpcprog_t prog, rpcvers_t vers,
                                const struct timeval* timeout);

/* Listens on rdma://ADDR[:PORT]; NULL: where RPCRDMA_TIRPC_LISTEN says, else on any port of every
 * address. Port 0 takes a free one, which xp_port then has. Returns a transport that is registered
 * (xprt_register), or NULL after a line to stderr that says why. A process has one; a further call
 * adds an address to it.
 *
 * svc_run() and loops over svc_fdset or svc_pollfd serve it with all others. Each connection gets a
 * SVCXPRT when its first call comes, which goes with the connection. svc_reg() and svc_register()
 * with this transport make a program reachable over RDMA; with the netconfig entry of "rdma" they
 * also register it with rpcbind. */
extern SVCXPRT* svc_rdma_create(const char* address);

#ifdef __cplusplus
}
#endif

#endif /* RPCRDMA_TIRPC_H_ */
