#include "rpcbind/daemon.h"

#include <unistd.h>

#include <optional>
#include <utility>
#include <vector>

#include "rpcrdma/generated/codec.h"

namespace rpcrdma::rpcbinding {
namespace {

constexpr const char* kOperation = "asking";

std::string url_of(std::string_view host, std::uint16_t port) {
  const bool six = host.find(':') != std::string_view::npos;
  return (six ? "tcp://[" : "tcp://") + std::string(host) + (six ? "]:" : ":") +
         std::to_string(port);
}

std::string peer_of(std::string_view where) {
  return "rpcbind at " + std::string(where);
}

}  // namespace

Expected<Daemon, Error> Daemon::connect_url(const std::string& url, std::string peer,
                                            const DaemonOptions& options) {
  ClientOptions client_options;
  client_options.provider.setup_timeout_client = options.timeout;
  client_options.call_timeout = options.timeout;
  client_options.tcp.record_size_max = options.reply_size_max;
  client_options.calls_max = 1;
  auto client = Client::connect(url, client_options);
  if (client) return Daemon(std::move(*client), std::move(peer));
  Error error = std::move(client.error());
  error.operation = kOperation;
  error.peer = std::move(peer);
  // For those who ask rpcbind it comes to the same.
  if (error.code == Errc::kRefused) error.code = Errc::kUnreachable;
  return Unexpected<Error>(std::move(error));
}

Expected<Daemon, Error> Daemon::connect(const std::string& host, std::uint16_t port,
                                        const DaemonOptions& options) {
  const std::string url = url_of(host, port);
  return connect_url(url, peer_of(std::string_view(url).substr(6)), options);
}

Expected<Daemon, Error> Daemon::connect_one(const std::string& where,
                                            const DaemonOptions& options) {
  if (where.starts_with('/')) return connect_url("unix://" + where, peer_of(where), options);
  if (from_socket_text(where)) return connect_url("tcp://" + where, peer_of(where), options);
  return Unexpected<Error>(Error{Errc::kBadUrl, kOperation, peer_of(where),
                                 "a daemon is named by a socket's path or ADDR:PORT, as in "
                                 "/run/rpcbind.sock or 127.0.0.1:111"});
}

Expected<Daemon, Error> Daemon::connect_local(const std::string& where,
                                              const DaemonOptions& options) {
  if (!where.empty()) return connect_one(where, options);
  std::string causes;
  for (const std::string_view each : kLocalDaemon) {
    auto daemon = connect_one(std::string(each), options);
    if (daemon) return daemon;
    causes += (causes.empty() ? "" : "; ") + std::string(each) + ": " + daemon.error().cause;
  }
  return Unexpected<Error>(Error{Errc::kUnreachable, kOperation, "rpcbind of this machine",
                                 causes + "; start rpcbind, or go without it"});
}

Expected<bool, Error> Daemon::set(const rpcbind::rpcb& entry) {
  return ask_boolean(rpcbind::RPCBPROC_SET, entry);
}

Expected<bool, Error> Daemon::unset(const rpcbind::rpcb& entry) {
  return ask_boolean(rpcbind::RPCBPROC_UNSET, entry);
}

Expected<rpcbind::rpcblist_ptr, Error> Daemon::list() {
  auto reply = call(rpcbind::RPCBPROC_DUMP, nullptr);
  if (!reply) return Unexpected<Error>(std::move(reply.error()));
  rpcbind::rpcblist_ptr entries;
  rpcbind::decode_rpcblist_ptr(reply->results(), entries);
  if (!reply->finish()) return entries;
  return Unexpected<Error>(unusable("its list cannot be decoded"));
}

Expected<bool, Error> Daemon::ask_boolean(std::uint32_t procedure, const rpcbind::rpcb& argument) {
  auto reply = call(procedure, &argument);
  if (!reply) return Unexpected<Error>(std::move(reply.error()));
  const bool done = reply->results().xdr().boolean("result");
  if (!reply->finish()) return done;
  return Unexpected<Error>(unusable("its answer cannot be decoded as TRUE or FALSE"));
}

// The procedures that are called here have the same numbers, arguments and results in both
// versions.
Expected<Reply, Error> Daemon::call(std::uint32_t procedure, const rpcbind::rpcb* argument) {
  const auto arguments = argument != nullptr ? to_bytes(*argument) : std::vector<std::byte>();
  const auto failed = [this](Error error) {
    error.operation = kOperation;
    error.peer = peer_;
    return Unexpected<Error>(std::move(error));
  };
  for (;; --version_) {
    auto call = client_.prepare({rpcbind::RPCBPROG, version_, procedure},
                                static_cast<std::uint32_t>(arguments.size()));
    if (!call) return failed(std::move(call.error()));
    call->arguments().xdr().opaque_fixed(arguments);
    auto reply = client_.call(std::move(*call));
    if (reply) return reply;
    if (reply.error().code != Errc::kNotAvailable) return failed(std::move(reply.error()));
    if (version_ == rpcbind::RPCBVERS) {
      version_ = rpcbind::RPCBVERS4;
      reply.error().cause += "; versions 3 and 4 of rpcbind know of RDMA, a port mapper does not";
      return failed(std::move(reply.error()));
    }
  }
}

Error Daemon::unusable(std::string_view cause) const {
  return {Errc::kBadReply, kOperation, peer_, std::string(cause)};
}

std::string owner_of_process() {
  const auto uid = ::geteuid();
  return uid == 0 ? "superuser" : std::to_string(uid);
}

}  // namespace rpcrdma::rpcbinding
