// From the errors of the layers below to the public ones.
#ifndef RPCRDMA_RPC_ERRORS_H_
#define RPCRDMA_RPC_ERRORS_H_

#include <optional>
#include <string>
#include <string_view>

#include "engine/types.h"
#include "oncrpc/message.h"
#include "rpcrdma/error.h"
#include "rpcrdma/provider.h"

namespace rpcrdma::rpc {

// The cause of an error of bind() or listen(), `operation`, whose address has a listener already.
std::string address_in_use(std::string_view operation);

// `remedy` is what the user can do, if anything is known (rdma::Provider::remedy()).
Error to_error(const rdma::Error& error, std::string_view operation, std::string_view peer,
               std::string_view remedy = {});
// A connection is not accepted, since the server is stopping.
Error is_stopping(std::string_view peer);
// No connection was accepted: the process has no descriptor left, or the system; or the listening
// socket gives none.
Error not_accepted(const rdma::Error& error, std::string_view address);
// A provider of the application's is null.
Error no_provider(std::string_view operation, std::string_view address);
// `reason` becomes part of the cause when the connection ended (then that is why), or when memory
// could not be exposed. `remedy` as above.
Error to_error(engine::CallError error, const rdma::Error& reason, std::string_view peer,
               std::string_view remedy = {});
Error to_error(engine::StartError error, std::string_view peer);

// Says what the header of a reply to a call of `procedure` reports; nullopt: results follow. Null:
// the message is no reply to it.
std::optional<Error> to_error(const oncrpc::ReplyHeader* header, const Procedure& procedure,
                              std::string_view peer);

// These are for messages that the application has written.
Error no_call(std::string_view peer);
Error xid_in_use(std::string_view peer);

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_ERRORS_H_
