#include "rpcbind/lookup.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "rpcrdma/generated/codec.h"
#include "rpcrdma/generated/text.h"

namespace rpcrdma::rpcbinding {
namespace {

// A question to rpcbind: the host, and the program to find there.
struct Question {
  std::string host;
  std::uint32_t program;
  std::uint32_t version;
  std::string peer;  // for errors
  bool peer_is_local;
  Over over;
  bool takes_other_versions = false;

  // The netids of the transport: over IPv4, over IPv6.
  std::array<std::string_view, 2> netids() const {
    if (over == Over::kTcp) return {kNetidTcp, kNetidTcp6};
    return {kNetidRdma, kNetidRdma6};
  }
  std::string url(std::string_view at, std::uint16_t port) const {
    const std::string rdma = to_url(at, port);
    return over == Over::kRdma ? rdma : "tcp" + rdma.substr(rdma.find(':'));
  }

  Unexpected<Error> fail(Errc code, const std::string& cause) const {
    return Unexpected<Error>(Error{
        code,
        "looking up program " + std::to_string(program) + " version " + std::to_string(version),
        peer, cause});
  }
};

std::string quoted(std::string_view text) {
  std::string out;
  codec::append_quoted(out, text);
  return out;
}

// Accepts the answer of a peer only if it is an address that a client can connect to.
Expected<std::string, Error> judge(const Question& question, std::string_view netid,
                                   std::string_view answer) {
  const auto endpoint = from_universal(netid, answer);
  if (!endpoint || endpoint->port == 0) {
    return question.fail(Errc::kBadReply, "its answer " + quoted(answer) +
                                              ", which is none of netid " + std::string(netid));
  }
  if (endpoint->is_wildcard()) return question.url(question.host, endpoint->port);
  if (endpoint->is_loopback() && !question.peer_is_local) {
    return question.fail(Errc::kNotAvailable,
                         "it is served at " + quoted(answer) +
                             " only, its host's loopback; let it listen on another address");
  }
  return question.url(endpoint->host(), endpoint->port);
}

// The program's URL from what is registered; one of the family that rpcbind was asked over if there
// is one.
Expected<std::string, Error> choose(const Question& question, const rpcbind::rpcblist_ptr& known,
                                    bool six) {
  auto netids = question.netids();
  if (six) std::swap(netids[0], netids[1]);
  std::optional<Expected<std::string, Error>> first_failure;
  for (const std::string_view netid : netids) {
    const auto is_it = [&](const rpcbind::rp__list& each) {
      return each.rpcb_map.r_prog == question.program && each.rpcb_map.r_netid == netid;
    };
    auto found = std::ranges::find_if(known, [&](const rpcbind::rp__list& each) {
      return is_it(each) && each.rpcb_map.r_vers == question.version;
    });
    if (found == known.end() && question.takes_other_versions) {
      found = std::ranges::find_if(known, is_it);
    }
    if (found == known.end()) continue;
    auto url = judge(question, netid, found->rpcb_map.r_addr);
    if (url) return url;
    if (!first_failure) first_failure = std::move(url);
  }
  if (first_failure) return std::move(*first_failure);
  return question.fail(
      Errc::kNotAvailable,
      question.over == Over::kTcp
          ? "it knows of none over TCP (netids tcp and tcp6); is the server running, "
            "and registered?"
          : "it knows of none over RDMA (netids rdma and rdma6); is the server "
            "running, and registered?");
}

}  // namespace

Expected<std::string, Error> lookup(std::string_view host, std::uint32_t program,
                                    std::uint32_t version, const LookupOptions& options) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  Question question{std::string(host),
                    program,
                    version,
                    "rpcbind at " + std::string(host),
                    false,
                    options.over,
                    options.takes_other_versions};
  auto daemon = Daemon::connect(question.host, options.port, options.daemon);
  if (!daemon) {
    std::string cause = daemon.error().cause;
    question.peer = daemon.error().peer;
    if (daemon.error().code != Errc::kUnknownHost) {
      cause += options.over == Over::kRdma
                   ? "; is rpcbind running there? If you know the port: rdma://HOST:PORT"
                   : "; is rpcbind running there? If you know the port, name it (--mount-port)";
    }
    return question.fail(daemon.error().code, cause);
  }
  question.peer = daemon->peer();
  const auto peer = from_socket_text(daemon->peer_address());
  question.peer_is_local = peer && peer->is_loopback();
  const auto known = daemon->list();
  if (!known) return question.fail(known.error().code, known.error().cause);
  return choose(question, *known, peer && peer->six);
}

}  // namespace rpcrdma::rpcbinding
