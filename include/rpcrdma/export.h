// Which names a shared librpcrdma exports.
//
// The library is compiled with hidden visibility, and RPCRDMA_EXPORT marks what a program may use.
// In a static library it expands to nothing: a shared object that contains the library re-exports
// none of it. RPCRDMA_SHARED selects between the two; the CMake package and rpcrdma.pc define it
// for programs that link the shared library.
#ifndef RPCRDMA_EXPORT_H_
#define RPCRDMA_EXPORT_H_

#ifdef RPCRDMA_SHARED
#define RPCRDMA_EXPORT [[gnu::visibility("default")]]
#else
#define RPCRDMA_EXPORT
#endif

#endif  // RPCRDMA_EXPORT_H_
