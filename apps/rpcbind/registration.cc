#include "rpcbind/registration.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "rpcrdma/client.h"

namespace rpcrdma::rpcbinding {
namespace {

rpcbind::rpcb entry_of(const Registration::Program& program, const Endpoint& endpoint) {
  return {program.program, program.version, std::string(endpoint.netid(program.over)),
          to_universal(endpoint), owner_of_process()};
}

bool is_same(const rpcbind::rpcb& a, const rpcbind::rpcb& b) {
  return a.r_prog == b.r_prog && a.r_vers == b.r_vers && a.r_netid == b.r_netid;
}

Error refused(const Daemon& daemon, const char* operation, const rpcbind::rpcb& entry,
              const char* who = "another user has registered; `rpcinfo` shows who") {
  return Error{Errc::kDenied, operation, daemon.peer(),
               "it refuses program " + std::to_string(entry.r_prog) + " version " +
                   std::to_string(entry.r_vers) + " with netid " + entry.r_netid + ", which " +
                   who};
}

// Returns whether another server listens at the registered address. RDMA servers cannot be asked
// cheaply.
bool is_in_use(Daemon& daemon, const rpcbind::rpcb& entry) {
  const auto known = daemon.list();
  if (!known) return false;
  const auto found = std::ranges::find_if(
      *known, [&](const rpcbind::rp__list& each) { return is_same(each.rpcb_map, entry); });
  if (found == known->end() || found->rpcb_map.r_addr == entry.r_addr) return false;
  const auto endpoint = from_universal(entry.r_netid, found->rpcb_map.r_addr);
  const auto own = from_universal(entry.r_netid, entry.r_addr);
  if (!endpoint) return false;
  // This server listens there itself, so that the registered one is gone.
  if (own && own->port == endpoint->port && (own->is_wildcard() || endpoint->is_wildcard())) {
    return false;
  }
  const std::string host = !endpoint->is_wildcard() ? endpoint->host()
                           : endpoint->six          ? "::1"
                                                    : "127.0.0.1";
  const std::string bracketed = endpoint->six ? "[" + host + "]" : host;
  ClientOptions options;
  options.provider.setup_timeout_client = std::chrono::seconds(2);
  return Client::connect("tcp://" + bracketed + ":" + std::to_string(endpoint->port), options)
      .has_value();
}

Expected<void, Error> set(Daemon& daemon, const rpcbind::rpcb& entry, Over over) {
  auto done = daemon.set(entry);
  if (done && !*done) {
    if (over == Over::kTcp && is_in_use(daemon, entry)) {
      return Unexpected<Error>(refused(daemon, "registering", entry,
                                       "another server has registered, which listens there; stop "
                                       "it, the system's own NFS server perhaps"));
    }
    // There is one at another address, such as that of a server that was killed.
    const auto removed = daemon.unset(entry);
    if (!removed) return Unexpected<Error>(removed.error());
    done = daemon.set(entry);
  }
  if (!done) return Unexpected<Error>(done.error());
  if (!*done) return Unexpected<Error>(refused(daemon, "registering", entry));
  return {};
}

// UNSET does not compare addresses, so that we do.
Expected<void, Error> unset(Daemon& daemon, const rpcbind::rpcblist_ptr& known,
                            const rpcbind::rpcb& entry) {
  const auto found = std::ranges::find_if(
      known, [&](const rpcbind::rp__list& each) { return is_same(each.rpcb_map, entry); });
  if (found == known.end() || found->rpcb_map.r_addr != entry.r_addr) return {};
  const auto done = daemon.unset(entry);
  if (!done) return Unexpected<Error>(done.error());
  if (!*done) return Unexpected<Error>(refused(daemon, "unregistering", entry));
  return {};
}

}  // namespace

std::vector<Endpoint> endpoints_of(std::string_view server_address) {
  const auto endpoint = from_socket_text(server_address);
  if (!endpoint) return {};
  std::vector<Endpoint> endpoints = {*endpoint};
  if (endpoint->six && endpoint->is_wildcard()) {
    endpoints.push_back(Endpoint{.six = false, .address = {}, .port = endpoint->port});
  }
  return endpoints;
}

Expected<Registration, Error> Registration::make(const Program& program,
                                                 std::vector<Endpoint> endpoints,
                                                 const std::string& where,
                                                 const DaemonOptions& options) {
  if (endpoints.empty()) {
    return Unexpected<Error>(Error{Errc::kUnsupported, "registering", "rpcbind of this machine",
                                   "the server's address has no universal form, such as a "
                                   "link-local one with a zone; listen on another"});
  }
  auto daemon = Daemon::connect_local(where, options);
  if (!daemon) return Unexpected<Error>(std::move(daemon.error()));
  Registration registration(program, where, options);
  for (const Endpoint& endpoint : endpoints) {
    auto done = set(*daemon, entry_of(program, endpoint), program.over);
    if (!done) return Unexpected<Error>(std::move(done.error()));
    registration.endpoints_.push_back(endpoint);
  }
  return registration;
}

Registration::Registration(Registration&& other) noexcept
    : program_(other.program_),
      endpoints_(std::exchange(other.endpoints_, {})),
      where_(std::move(other.where_)),
      options_(other.options_) {}

Registration::~Registration() {
  static_cast<void>(end());
}

Expected<void, Error> Registration::end() {
  const std::vector<Endpoint> endpoints = std::exchange(endpoints_, {});
  if (endpoints.empty()) return {};
  // Another connection: the first may have become too old for the daemon.
  auto daemon = Daemon::connect_local(where_, options_);
  if (!daemon) return Unexpected<Error>(std::move(daemon.error()));
  const auto known = daemon->list();
  if (!known) return Unexpected<Error>(known.error());
  Expected<void, Error> result;
  for (const Endpoint& endpoint : endpoints) {
    auto done = unset(*daemon, *known, entry_of(program_, endpoint));
    if (!done && result) result = std::move(done);
  }
  return result;
}

void Registration::yield_to(const Registration& next) {
  std::erase_if(endpoints_, [&](const Endpoint& each) {
    return std::ranges::find(next.endpoints_, each) != next.endpoints_.end();
  });
}

}  // namespace rpcrdma::rpcbinding
