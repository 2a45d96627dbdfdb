// Explains errors of GSS-API and Kerberos to a person.
#ifndef RPCRDMA_GSS_KRB5_ERRORS_H_
#define RPCRDMA_GSS_KRB5_ERRORS_H_

#include <cstdint>
#include <string_view>

#include "rpcrdma/gss.h"

namespace rpcrdma::gss::krb5 {

// `what` was tried. The text ends with what to do, where that is known.
Status status_of(std::string_view what, std::uint32_t major, std::uint32_t minor);

}  // namespace rpcrdma::gss::krb5

#endif  // RPCRDMA_GSS_KRB5_ERRORS_H_
