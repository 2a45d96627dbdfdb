#include "rpcbind/daemon.h"

#include <unistd.h>

#include <utility>
#include <vector>

#include "rpcrdma/generated/codec.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::rpcbinding {
namespace {

Expected<stream::StreamClient, Error> connect_one(const std::string& where,
                                                  const stream::StreamOptions& options) {
  if (where.starts_with('/')) return stream::StreamClient::connect_unix("rpcbind", where, options);
  const auto endpoint = from_socket_text(where);
  if (!endpoint) {
    return Unexpected<Error>(Error{Errc::kBadUrl, "asking", "rpcbind at " + where,
                                   "a daemon is named by a socket's path or ADDR:PORT, as in "
                                   "/run/rpcbind.sock or 127.0.0.1:111"});
  }
  return stream::StreamClient::connect_tcp("rpcbind", endpoint->host(), endpoint->port, options);
}

}  // namespace

Expected<Daemon, Error> Daemon::connect_local(const std::string& where,
                                              const stream::StreamOptions& options) {
  if (!where.empty()) {
    auto client = connect_one(where, options);
    if (!client) return Unexpected<Error>(std::move(client.error()));
    return Daemon(std::move(*client));
  }
  std::string causes;
  for (const std::string_view each : kLocalDaemon) {
    auto client = connect_one(std::string(each), options);
    if (client) return Daemon(std::move(*client));
    causes += (causes.empty() ? "" : "; ") + std::string(each) + ": " + client.error().cause;
  }
  return Unexpected<Error>(Error{Errc::kUnreachable, "asking", "rpcbind of this machine",
                                 causes + "; start rpcbind, or go without it"});
}

Expected<bool, Error> Daemon::set(const rpcbind::rpcb& entry) {
  return ask_boolean(rpcbind::RPCBPROC_SET, entry);
}

Expected<bool, Error> Daemon::unset(const rpcbind::rpcb& entry) {
  return ask_boolean(rpcbind::RPCBPROC_UNSET, entry);
}

Expected<rpcbind::rpcblist_ptr, Error> Daemon::list() {
  const auto results = call(rpcbind::RPCBPROC_DUMP, {});
  if (!results) return Unexpected<Error>(results.error());
  MessageReader reader(*results, 0, {});
  rpcbind::rpcblist_ptr entries;
  rpcbind::decode_rpcblist_ptr(reader, entries);
  if (reader.finish()) return entries;
  return client_.give_up(Errc::kBadReply, "what should be its list cannot be decoded");
}

Expected<bool, Error> Daemon::ask_boolean(std::uint32_t procedure, const rpcbind::rpcb& argument) {
  const auto results = call(procedure, to_bytes(argument));
  if (!results) return Unexpected<Error>(results.error());
  xdr::Reader reader(*results);
  const bool done = reader.boolean("result");
  if (auto read = reader.finish_all(done); read) return *read;
  return client_.give_up(Errc::kBadReply, "what should be TRUE or FALSE cannot be decoded");
}

// The procedures that are called here have the same numbers, arguments and results in both
// versions.
Expected<std::vector<std::byte>, Error> Daemon::call(std::uint32_t procedure, Bytes arguments) {
  for (;; --version_) {
    auto results = client_.call({rpcbind::RPCBPROG, version_, procedure}, arguments);
    if (results || results.error().code != Errc::kNotAvailable) return results;
    if (version_ == rpcbind::RPCBVERS) {
      version_ = rpcbind::RPCBVERS4;
      results.error().cause += "; versions 3 and 4 of rpcbind know of RDMA, a port mapper does not";
      return results;
    }
  }
}

std::string owner_of_process() {
  const auto uid = ::geteuid();
  return uid == 0 ? "superuser" : std::to_string(uid);
}

}  // namespace rpcrdma::rpcbinding
