// Which names a shared librpcrdma exports.
//
// The library is compiled with hidden visibility, and RPCRDMA_EXPORT marks what a program may use.
// A static library marks nothing: a shared object that contains it re-exports none of it.
// RPCRDMA_SHARED says which of the two it is; the package for CMake and rpcrdma.pc define it for
// programs that are linked with the shared one.
#ifndef RPCRDMA_EXPORT_H_
#define RPCRDMA_EXPORT_H_

#ifdef RPCRDMA_SHARED
#define RPCRDMA_EXPORT [[gnu::visibility("default")]]
#else
#define RPCRDMA_EXPORT
#endif

#endif  // RPCRDMA_EXPORT_H_
