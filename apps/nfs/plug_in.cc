#include "nfs/plug_in.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace nfs {
namespace {

using rpcrdma::Unexpected;

std::vector<std::filesystem::path> places_of(const std::string& file) {
  std::vector<std::filesystem::path> places;
  if (const char* const folder = ::secure_getenv("RPCRDMA_BACK_END_DIR")) {
    places.push_back(std::filesystem::path(folder) / file);
  }
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  for (const char* const at : {"../lib", "../lib/rpcrdma"}) {
    if (!error) places.push_back(program.parent_path() / at / file);
  }
  places.push_back(std::filesystem::path(RPCRDMA_BACK_END_DIR) / file);
  return places;
}

}  // namespace

std::string back_end_of(const std::string& directory, std::string& path) {
  constexpr std::string_view kCeph = "ceph:";
  if (!directory.starts_with(kCeph)) return {};
  path = directory.substr(kCeph.size());
  return "ceph";
}

rpcrdma::Expected<BackEnd*, std::string> load_back_end(const std::string& name) {
  const std::string file = "librpcrdma_nfs_" + name + ".so";
  std::error_code error;
  for (const auto& place : places_of(file)) {
    if (!std::filesystem::exists(place, error)) continue;
    void* const object = ::dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (object == nullptr) {
      const char* const why = ::dlerror();
      return Unexpected<std::string>(
          fmt::format("its back end does not load: {}; install Debian's package libcephfs2 if that "
                      "is what is missing",
                      why != nullptr ? why : place.c_str()));
    }
    const auto entry = reinterpret_cast<BackEndEntry>(::dlsym(object, kBackEndSymbol));
    BackEnd* const back_end = entry != nullptr ? entry(back_end_build().c_str()) : nullptr;
    if (back_end != nullptr) return back_end;
    return Unexpected<std::string>(fmt::format("{} belongs to another build of rpcrdma; this is {}",
                                               place.c_str(), back_end_build()));
  }
  return Unexpected<std::string>(fmt::format(
      "{} is neither beside this program nor in {}; install the package rpcrdma-{}fs, or name its "
      "folder in RPCRDMA_BACK_END_DIR (a build has it where lib{}fs-dev was there)",
      file, RPCRDMA_BACK_END_DIR, name, name));
}

}  // namespace nfs
