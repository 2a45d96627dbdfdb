// Kerberos 5 by MIT's library: contexts for RPCSEC_GSS, without sequencing of their own and without
// channel bindings (RFC 2203 §5.2.1).
#ifndef RPCRDMA_GSS_KRB5_MECHANISM_H_
#define RPCRDMA_GSS_KRB5_MECHANISM_H_

#include <memory>

#include "rpcrdma/gss.h"

namespace rpcrdma::gss::krb5 {

using Settings = Kerberos;

// Makes the mechanism. A missing ticket or key shows only when a context is made.
std::unique_ptr<Mechanism> make(Settings settings);

}  // namespace rpcrdma::gss::krb5

#endif  // RPCRDMA_GSS_KRB5_MECHANISM_H_
