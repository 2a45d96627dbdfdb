// Headers that most files of apps include, which a build with RPCRDMA_PRECOMPILE reads once. No
// file includes this one: each has the includes that it needs, and make check-release finds the one
// that lacks some.
#ifndef RPCRDMA_CMAKE_APP_HEADERS_H_
#define RPCRDMA_CMAKE_APP_HEADERS_H_

#include "library_headers.h"
#include "rpcrdma/client.h"
#include "rpcrdma/server.h"

#endif  // RPCRDMA_CMAKE_APP_HEADERS_H_
