// The version of this library.
#ifndef RPCRDMA_VERSION_H_
#define RPCRDMA_VERSION_H_

namespace rpcrdma {

inline constexpr const char* kLibraryVersion = "0.1.0";

}  // namespace rpcrdma

#endif  // RPCRDMA_VERSION_H_
