#include "places.h"

#include <fmt/core.h>

#include <memory>
#include <utility>
#include <vector>

#include "rpcbind/lookup.h"
#include "rpcbind/registration.h"
#include "rpcrdma/options.h"
#include "settings.h"

namespace rpcrdma::tirpc {

namespace {

constexpr std::uint32_t kNfsProgram = 100003;

}  // namespace

Expected<std::string, Error> url_of_program(const std::string& server, std::uint32_t program,
                                            std::uint32_t version,
                                            std::chrono::milliseconds timeout) {
  if (server.find("://") != std::string::npos) return server;
  rpcbinding::LookupOptions options;
  options.daemon.timeout = timeout;
  auto url = rpcbinding::lookup(server, program, version, options);
  if (!url && program == kNfsProgram && url.error().code != Errc::kUnknownHost) {
    return rpcbinding::to_url(server, kDefaultPort);
  }
  return url;
}

bool register_program(std::uint32_t program, std::uint32_t version, std::string_view address) {
  auto made = rpcbinding::Registration::make({program, version}, rpcbinding::endpoints_of(address),
                                             settings().rpcbind);
  if (!made) {
    report(fmt::format("program {} version {} is served on rdma://{}, and is not registered: {}",
                       program, version, address, made.error().message()));
    return false;
  }
  // Kept until the process has ended, as libtirpc keeps registrations: a daemon registers before it
  // forks, and its parent must not take the registration back.
  static auto& kept = *new std::vector<std::unique_ptr<rpcbinding::Registration>>;
  kept.push_back(std::make_unique<rpcbinding::Registration>(std::move(*made)));
  return true;
}

}  // namespace rpcrdma::tirpc
