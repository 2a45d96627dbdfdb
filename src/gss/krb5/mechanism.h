// Kerberos 5 by MIT's library: contexts for RPCSEC_GSS, without sequencing of their own and without
// channel bindings (RFC 2203 §5.2.1).
#ifndef RPCRDMA_GSS_KRB5_MECHANISM_H_
#define RPCRDMA_GSS_KRB5_MECHANISM_H_

#include <memory>
#include <string>

#include "rpcrdma/gss.h"

namespace rpcrdma::gss::krb5 {

struct Settings {
  // An acceptor's: the file with the keys of the service, and which of them to take, "nfs@HOST";
  // empty: the system's (KRB5_KTNAME, else /etc/krb5.keytab), and any of them.
  std::string keytab{};
  std::string service{};
  // An initiator's: where its tickets are, and a file with its key by which tickets are fetched;
  // empty: the system's (KRB5CCNAME, KRB5_CLIENT_KTNAME).
  std::string tickets{};
  std::string client_keytab{};
};

// Whether there is a ticket, or a key, shows only when a context is made.
std::unique_ptr<Mechanism> make(Settings settings);

}  // namespace rpcrdma::gss::krb5

#endif  // RPCRDMA_GSS_KRB5_MECHANISM_H_
