// What a server says to a Call after reading its RPC header, whatever transport it came by; see
// IncomingCall::admit().
#ifndef RPCRDMA_RPC_SERVE_ADMISSION_H_
#define RPCRDMA_RPC_SERVE_ADMISSION_H_

#include <cstddef>
#include <cstdint>

#include "rpcrdma/service.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rpc {

struct Admission {
  enum class Verdict : std::uint8_t {
    kAccepted,  // `service` is to execute it
    kRefused,   // there is a reply that says why (RFC 5531 §9)
    kNoCall,    // msg_type does not say CALL: no reply may be sent
    kCutOff,    // the message ends inside of its header, or is another one than it was: there is no
                // reply to it
    kEnds,      // there is no reply to it, and its connection ends: the authenticator says why
    kLater,  // a step of authentication goes on elsewhere: to be admitted again when it has ended
  };
  Verdict verdict = Verdict::kAccepted;
  Service* service = nullptr;               // borrowed from the registry; also serves NULL
  const ProcedureTraits* traits = nullptr;  // of the procedure, the service's; null: NULL
  std::size_t header_size = 0;              // bytes of the message before the arguments
  bool is_whole = false;  // `service` is a MessageService: the header is a part of the arguments
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_ADMISSION_H_
