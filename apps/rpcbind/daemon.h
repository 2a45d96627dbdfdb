// Talks to an rpcbind daemon over TCP or its Unix socket: versions 4 and 3 of its program (RFC
// 1833), the newest that it has.
#ifndef RPCRDMA_RPCBIND_DAEMON_H_
#define RPCRDMA_RPCBIND_DAEMON_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "rpcbind.h"
#include "rpcbind/universal_address.h"
#include "rpcrdma/client.h"
#include "rpcrdma/error.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rpcbinding {

inline constexpr std::uint16_t kRpcbindPort = 111;
// The places of this machine's daemon: the first that answers.
inline constexpr std::array<std::string_view, 3> kLocalDaemon = {
    "/run/rpcbind.sock", "/var/run/rpcbind.sock", "127.0.0.1:111"};

struct DaemonOptions {
  std::chrono::milliseconds timeout{5'000};  // of connecting to an address, and of each call
  std::uint32_t reply_size_max = 1U << 20U;  // bytes
};

class Daemon {
 public:
  // Connects to the daemon of this machine. `where`: a socket's path, or ADDR:PORT; empty:
  // kLocalDaemon.
  static Expected<Daemon, Error> connect_local(const std::string& where,
                                               const DaemonOptions& options = {});
  // Connects to the daemon at a host: a name, or an IPv4 or IPv6 address without brackets. Looking
  // a name up may take longer than the time-out. Errors, here and above: kUnreachable, kTimedOut,
  // kUnknownHost, kBadUrl.
  static Expected<Daemon, Error> connect(const std::string& host, std::uint16_t port,
                                         const DaemonOptions& options = {});

  // False: the daemon refuses, since there is another registration, or none, or another owner's.
  Expected<bool, Error> set(const rpcbind::rpcb& entry);
  Expected<bool, Error> unset(const rpcbind::rpcb& entry);
  // All that is registered, by RPCBPROC_DUMP. Nothing in it was checked.
  //
  // RPCBPROC_GETADDR is of no use over a stream: the daemon passes over the netid in the question
  // and answers for the transport that it came over (RFC 1833 §2.2.1), which is "tcp".
  Expected<rpcbind::rpcblist_ptr, Error> list();

  const std::string& peer() const noexcept { return peer_; }  // for errors: "rpcbind at …"
  // "ADDR:PORT", numeric, or a path.
  std::string_view peer_address() const noexcept { return client_.connection().peer_address; }

 private:
  Daemon(Client&& client, std::string peer) noexcept
      : client_(std::move(client)), peer_(std::move(peer)) {}
  static Expected<Daemon, Error> connect_url(const std::string& url, std::string peer,
                                             const DaemonOptions& options);
  static Expected<Daemon, Error> connect_one(const std::string& where,
                                             const DaemonOptions& options);
  // Null: without arguments.
  Expected<Reply, Error> call(std::uint32_t procedure, const rpcbind::rpcb* argument);
  Expected<bool, Error> ask_boolean(std::uint32_t procedure, const rpcbind::rpcb& argument);
  Error unusable(std::string_view cause) const;

  Client client_;
  std::string peer_;
  std::uint32_t version_ = rpcbind::RPCBVERS4;
};

// Returns the owner as rpcbind names it in a registration: "superuser", or the number of this
// process's user.
std::string owner_of_process();

}  // namespace rpcrdma::rpcbinding

#endif  // RPCRDMA_RPCBIND_DAEMON_H_
