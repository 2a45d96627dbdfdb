#include "places.h"

#include <fmt/core.h>

#include <map>
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

// Kept until the process has ended, as libtirpc keeps registrations: a daemon registers before it
// forks, and its parent must not take the registration back.
using Key = std::pair<std::uint32_t, std::uint32_t>;  // program and version
std::map<Key, std::unique_ptr<rpcbinding::Registration>>& registrations() {
  static auto& kept = *new std::map<Key, std::unique_ptr<rpcbinding::Registration>>;
  return kept;
}

}  // namespace

Expected<std::string, Error> url_of_program(const std::string& server, std::uint32_t program,
                                            std::uint32_t version,
                                            std::chrono::milliseconds timeout) {
  if (server.find("://") != std::string::npos) return server;
  rpcbinding::LookupOptions options;
  options.takes_other_versions = true;  // clnt_create_vers() asks for the highest first
  options.daemon.timeout = timeout;
  auto url = rpcbinding::lookup(server, program, version, options);
  if (!url && program == kNfsProgram && url.error().code != Errc::kUnknownHost) {
    return rpcbinding::to_url(server, kDefaultPort);
  }
  return url;
}

bool register_program(std::uint32_t program, std::uint32_t version,
                      const std::vector<std::string>& addresses) {
  std::vector<rpcbinding::Endpoint> endpoints;
  for (const std::string& each : addresses) {
    const auto of_each = rpcbinding::endpoints_of(each);
    endpoints.insert(endpoints.end(), of_each.begin(), of_each.end());
  }
  auto made =
      rpcbinding::Registration::make({program, version}, std::move(endpoints), settings().rpcbind);
  if (!made) {
    report(fmt::format("program {} version {} is served on rdma://{}, and is not registered: {}",
                       program, version, addresses.front(), made.error().message()));
    return false;
  }
  auto& kept = registrations()[{program, version}];
  // A program may register itself as often as it likes, for each of its transports.
  if (kept) kept->yield_to(*made);
  kept = std::make_unique<rpcbinding::Registration>(std::move(*made));
  return true;
}

void unregister_program(std::uint32_t program, std::uint32_t version) {
  const auto found = registrations().find({program, version});
  if (found == registrations().end()) return;
  (void)found->second->end();  // its destructor must not meet the exceptions of that
  registrations().erase(found);
}

}  // namespace rpcrdma::tirpc
