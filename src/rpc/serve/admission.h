// What a server says to a Call after reading its RPC header, whatever transport it came by.
#ifndef RPCRDMA_RPC_SERVE_ADMISSION_H_
#define RPCRDMA_RPC_SERVE_ADMISSION_H_

#include <cstddef>
#include <cstdint>

#include "oncrpc/message.h"
#include "oncrpc/registry.h"
#include "rpcrdma/service.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rpc {

struct Admission {
  enum class Verdict : std::uint8_t {
    kAccepted,  // `service` is to execute it
    kRefused,   // there is a reply that says why (RFC 5531 §9)
    kNoCall,    // msg_type does not say CALL: no reply may be sent
    kCutOff,    // the message ends inside of its header: there is no reply to it
  };
  Verdict verdict = Verdict::kAccepted;
  Service* service = nullptr;               // borrowed from the registry; also serves NULL
  const ProcedureTraits* traits = nullptr;  // of the procedure, the service's; null: NULL
  std::size_t header_size = 0;              // bytes of the message before the arguments
  bool is_whole = false;  // `service` is a MessageService: the header is a part of the arguments
};

// Reads the header of `message` into `header`, whose views are into the message, and judges the
// program, the procedure and the credential. `refusal` is set with kRefused only, since most Calls
// need none.
Admission admit(const oncrpc::ServiceRegistry& registry, Bytes message, oncrpc::CallHeader& header,
                oncrpc::ReplyHeader& refusal);

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_ADMISSION_H_
