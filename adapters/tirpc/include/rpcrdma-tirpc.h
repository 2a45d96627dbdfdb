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

/* Direct placement. Without a table, data that is too long for a message moves with all of its call
 * or reply. With one, RDMA moves the data of these procedures by itself, as servers of NFS want it,
 * for example, and a reply needs room for the rest alone. `rpcrdma-gen --tirpc-table FILE.x` writes
 * tables from the comments ddp in a .x file; that of NFS version 3 is built in. */
struct rpcrdma_tirpc_procedure {
  rpcproc_t number;
  /* Calls of xdr_bytes() and xdr_string() for the arguments, and for the results, that are of such
   * data: bit i is that with i calls before it. A client sends such arguments, of 4 KiB or more,
   * from where its routine has them, which must leave them there until the call has ended. */
  u_int arguments;
  u_int results;
  /* The longest data in the results, bytes. */
  u_int result_size_max;
  /* The longest results without it, bytes; 0: not known. */
  u_int results_size_max;
};
struct rpcrdma_tirpc_table {
  rpcprog_t program;
  rpcvers_t version;
  const struct rpcrdma_tirpc_procedure* procedures;
  u_int count;
};

/* Adds a table, which stays in use until the process ends. One that was added later goes first. */
extern void rpcrdma_tirpc_add(const struct rpcrdma_tirpc_table* table);

#ifdef __cplusplus
}
#endif

#endif /* RPCRDMA_TIRPC_H_ */
