#include "tools/plug_in.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "nfs/plug_in.h"
#include "rpcrdma/gss.h"
#include "rpcrdma/providers.h"

namespace rpcrdma::tools {
namespace {

std::string remedy_in(const std::string& problem, const char* package) {
  return is_absent(problem) ? fmt::format("not installed; install the package {}", package)
                            : problem;
}

}  // namespace

bool is_absent(std::string_view problem) {
  return problem.find(" is neither beside this program nor in ") != std::string_view::npos;
}

std::string remedy_for_verbs() {
  for (const ProviderFacts& each : providers()) {
    if (!each.is_installed) return remedy_in(each.problem, "rpcrdma-verbs");
  }
  return {};
}

std::string remedy_for_kerberos() {
  const auto made = gss::make_kerberos({});
  // Another error is of keys and names, which a plug-in that was loaded has looked for.
  if (made || made.error().code != Errc::kUnsupported) return {};
  return remedy_in(made.error().cause, "rpcrdma-krb5");
}

std::string remedy_for_cephfs() {
  const auto loaded = ::nfs::load_back_end("ceph");
  return loaded ? std::string() : remedy_in(loaded.error(), "rpcrdma-cephfs");
}

std::string remedy_for_tirpc() {
  return tirpc_adapter().empty() ? "not installed; install the package librpcrdma-tirpc" : "";
}

std::string tirpc_adapter() {
#ifdef RPCRDMA_TIRPC_ADAPTER
  std::error_code error;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  // The place in an installation is relative to the command's directory; a build has it in lib.
  for (const char* place : {RPCRDMA_TIRPC_ADAPTER, "../lib/librpcrdma-tirpc.so.0"}) {
    std::string path = (own.parent_path() / place).lexically_normal();
    if (std::filesystem::exists(path, error)) return path;
  }
#endif
  return {};
}

}  // namespace rpcrdma::tools
