#include "rdma/verbs/loader.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <system_error>

namespace rpcrdma::rdma::verbs {
namespace {

constexpr const char* kFile = "librpcrdma_verbs.so";

// The shared library that this code is in. Of a program the name by which it was called is told,
// which may be relative: nothing is looked for from the working directory.
std::filesystem::path own_file() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&load), &info) == 0 || info.dli_fname == nullptr) {
    return {};
  }
  return info.dli_fname;
}

std::vector<std::string> candidates() {
  std::vector<std::string> paths;
  if (const char* folder = secure_getenv("RPCRDMA_PROVIDER_DIR")) {
    paths.push_back(std::string(folder) + "/" + kFile);
  }
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) std::ranges::move(plugin_places(program), std::back_inserter(paths));
  std::ranges::move(places_beside(own_file()), std::back_inserter(paths));
  paths.push_back(std::string(RPCRDMA_PLUGIN_DIR) + "/" + kFile);
  return paths;
}

Expected<Plugin*, std::string> take(const std::string& path, void* object) {
  if (object == nullptr) {
    const char* const why = dlerror();
    return Unexpected<std::string>(
        fmt::format("the verbs provider does not load: {}; install Debian's packages librdmacm1, "
                    "libibverbs1 and ibverbs-providers if it is one of theirs that is missing",
                    why != nullptr ? why : path));
  }
  const auto entry = reinterpret_cast<PluginEntry>(dlsym(object, kPluginSymbol));
  Plugin* const plugin = entry != nullptr ? entry(plugin_build().c_str()) : nullptr;
  if (plugin == nullptr) {
    dlclose(object);
    return Unexpected<std::string>(
        fmt::format("{} belongs to another build of rpcrdma; this is {}", path, plugin_build()));
  }
  return plugin;
}

Expected<Plugin*, std::string> find() {
  std::error_code error;
  for (const std::string& path : candidates()) {
    if (std::filesystem::exists(path, error)) {
      return take(path, dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL));
    }
  }
  if (void* const object = dlopen(kFile, RTLD_NOW | RTLD_LOCAL)) return take(kFile, object);
  return Unexpected<std::string>(
      RPCRDMA_HAVE_VERBS != 0
          ? fmt::format("{} is neither beside this program nor in {}; install it, or name its "
                        "folder in RPCRDMA_PROVIDER_DIR",
                        kFile, RPCRDMA_PLUGIN_DIR)
          : std::string("this build has no verbs provider, since rdma-core was not there when it "
                        "was configured; install libibverbs-dev and librdmacm-dev and build "
                        "again"));
}

}  // namespace

std::vector<std::string> plugin_places(const std::filesystem::path& program) {
  std::vector<std::string> places;
  for (const auto* at : {".", "../lib", "../lib/rpcrdma", "../../lib", "../../lib/rpcrdma"}) {
    places.push_back((program.parent_path() / at / kFile).lexically_normal().string());
  }
  return places;
}

std::vector<std::string> places_beside(const std::filesystem::path& library) {
  if (!library.is_absolute()) return {};
  std::vector<std::string> places;
  for (const auto* at : {".", "rpcrdma"}) {
    places.push_back((library.parent_path() / at / kFile).lexically_normal().string());
  }
  return places;
}

Expected<Plugin*, std::string> load() {
  static const Expected<Plugin*, std::string> loaded = find();
  return loaded;
}

}  // namespace rpcrdma::rdma::verbs
