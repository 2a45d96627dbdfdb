// Dynamic enabling (RFC 5666 §3): a connection that begins as plain TCP, and goes on as RPC over
// RDMA between two records, because both sides of the blob program agree by BLOB_STEP_UP. The
// server's side is in service.cc.
#ifndef RPCRDMA_BLOB_STEP_UP_H_
#define RPCRDMA_BLOB_STEP_UP_H_

#include <string_view>

#include "rpcrdma/client.h"
#include "rpcrdma/error.h"

namespace blob {

// Connects to tcp://HOST:PORT by TCP, asks by BLOB_STEP_UP, and goes on over RDMA on the same
// connection. Blocks, at each of the three no longer than ProviderOptions::setup_timeout_client.
// There is no reconnection: a client that comes back has to ask again.
//
// kBadUrl: not such a URL. kUnknownHost. kNotAvailable: the server does not step up.
rpcrdma::Expected<rpcrdma::Client, rpcrdma::Error> connect_and_step_up(
    std::string_view url, const rpcrdma::ClientOptions& options = {});

}  // namespace blob

#endif  // RPCRDMA_BLOB_STEP_UP_H_
