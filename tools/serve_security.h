// How the calls of `rpcrdma serve` are protected.
#ifndef RPCRDMA_TOOLS_SERVE_SECURITY_H_
#define RPCRDMA_TOOLS_SERVE_SECURITY_H_

#include <memory>

#include "rpcrdma/gss.h"
#include "rpcrdma/server.h"
#include "tools/log.h"
#include "tools/serve_options.h"

namespace rpcrdma::tools {

// Loads Kerberos if --sec or an export takes it; null: neither does. Ends the command if the keytab
// cannot be read or has no use, or if Kerberos is not installed.
std::unique_ptr<gss::Mechanism> kerberos_for(const ServeOptions& options,
                                             bool exports_want_kerberos);

// Has the server take calls with Kerberos. Exports have their own rules; everything else is for
// those of --sec. `kerberos` and `log` outlive the server.
void secure(const ServeOptions& options, gss::Mechanism& kerberos, StderrLog& log, Server& server);

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_SERVE_SECURITY_H_
