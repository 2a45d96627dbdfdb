// The library's errors as libtirpc's programs know them: clnt_stat, and errno beside some.
#ifndef RPCRDMA_ADAPTERS_TIRPC_ERRORS_H_
#define RPCRDMA_ADAPTERS_TIRPC_ERRORS_H_

#include <rpc/rpc.h>

#include "rpcrdma/error.h"

namespace rpcrdma::tirpc {

// The error of a call that was sent.
rpc_err call_error(const Error& error) noexcept;
// The error of one that was not.
rpc_err unsent_error(const Error& error) noexcept;
// Makes it the error of the thread's last clnt_create(), for clnt_spcreateerror().
void set_create_error(Errc code) noexcept;

}  // namespace rpcrdma::tirpc

#endif  // RPCRDMA_ADAPTERS_TIRPC_ERRORS_H_
