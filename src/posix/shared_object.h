// Parts of the library that are shared objects of their own, so that nothing else needs what they
// stand on.
#ifndef RPCRDMA_POSIX_SHARED_OBJECT_H_
#define RPCRDMA_POSIX_SHARED_OBJECT_H_

#include <filesystem>
#include <string>
#include <vector>

#include "rpcrdma/types.h"

namespace rpcrdma::posix {

struct ObjectPlaces {
  const char* file;       // "librpcrdma_verbs.so"
  const char* installed;  // the library folder of the installation
};

// An object that is loaded, and never unloaded.
struct SharedObject {
  void* handle;  // of dlopen()
  std::string path;
};
// The reason why a shared object is missing. `was_found`: it does not load, which the text
// explains.
struct NoSharedObject {
  bool was_found;
  std::string why;
};

// Loads it from the first of these places that has it: the folder RPCRDMA_PROVIDER_DIR of the
// environment (not for programs that run with raised rights), places_of_program() of this program,
// places_beside() a shared librpcrdma, the installation, the system's search path.
Expected<SharedObject, NoSharedObject> load_shared_object(const ObjectPlaces& places);

// Returns the places where a program looks beside itself: next to its file, and in lib and
// lib/rpcrdma of the tree that it is in as bin/PROGRAM or libexec/rpcrdma/PROGRAM.
std::vector<std::string> places_of_program(const std::filesystem::path& program, const char* file);

// Next to a shared library, and in its folder rpcrdma, so that an installation may be moved. None
// unless the path is absolute.
std::vector<std::string> places_beside(const std::filesystem::path& library, const char* file);

}  // namespace rpcrdma::posix

#endif  // RPCRDMA_POSIX_SHARED_OBJECT_H_
