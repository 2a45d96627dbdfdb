#include "posix/shared_object.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <system_error>

namespace rpcrdma::posix {
namespace {

// Returns the path of the shared library that contains this code. For an executable, dladdr returns
// argv[0], which may be relative: no library is searched for from the working directory.
std::filesystem::path own_file() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&load_shared_object), &info) == 0 ||
      info.dli_fname == nullptr) {
    return {};
  }
  return info.dli_fname;
}

std::vector<std::string> candidates(const ObjectPlaces& places) {
  std::vector<std::string> paths;
  if (const char* folder = secure_getenv("RPCRDMA_PROVIDER_DIR")) {
    paths.push_back(std::string(folder) + "/" + places.file);
  }
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) std::ranges::move(places_of_program(program, places.file), std::back_inserter(paths));
  std::ranges::move(places_beside(own_file(), places.file), std::back_inserter(paths));
  paths.push_back(std::string(places.installed) + "/" + places.file);
  return paths;
}

std::vector<std::string> places_at(const std::filesystem::path& folder, const char* file,
                                   std::initializer_list<const char*> steps) {
  std::vector<std::string> places;
  for (const auto* at : steps) {
    places.push_back((folder / at / file).lexically_normal().string());
  }
  return places;
}

}  // namespace

Expected<SharedObject, NoSharedObject> load_shared_object(const ObjectPlaces& places) {
  std::error_code error;
  for (const std::string& path : candidates(places)) {
    if (!std::filesystem::exists(path, error)) continue;
    if (void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      return SharedObject{handle, path};
    }
    const char* const why = dlerror();
    return Unexpected<NoSharedObject>(NoSharedObject{true, why != nullptr ? why : path});
  }
  if (void* const handle = dlopen(places.file, RTLD_NOW | RTLD_LOCAL)) {
    return SharedObject{handle, places.file};
  }
  return Unexpected<NoSharedObject>(NoSharedObject{
      false, std::string(places.file) + " is neither beside this program nor in " +
                 places.installed + "; install it, or name its folder in RPCRDMA_PROVIDER_DIR"});
}

std::vector<std::string> places_of_program(const std::filesystem::path& program, const char* file) {
  return places_at(program.parent_path(), file,
                   {".", "../lib", "../lib/rpcrdma", "../../lib", "../../lib/rpcrdma"});
}

std::vector<std::string> places_beside(const std::filesystem::path& library, const char* file) {
  if (!library.is_absolute()) return {};
  return places_at(library.parent_path(), file, {".", "rpcrdma"});
}

}  // namespace rpcrdma::posix
