#include "rpcbind/lookup.h"

#include <array>
#include <utility>

#include "rpcrdma/codec.h"

namespace rpcrdma::rpcbinding {
namespace {

// Who is asked for what.
struct Question {
  std::string host;
  std::uint32_t program;
  std::uint32_t version;
  std::string peer;  // for errors
  bool peer_is_local;

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

// What a peer says: nobody is sent anywhere by it that makes no sense.
Expected<std::string, Error> judge(const Question& question, std::string_view netid,
                                   std::string_view answer) {
  const auto endpoint = from_universal(netid, answer);
  if (!endpoint || endpoint->port == 0) {
    return question.fail(
        Errc::kBadReply,
        "its answer " + quoted(answer) + " is not an address with netid " + std::string(netid));
  }
  if (endpoint->is_wildcard()) return to_url(question.host, endpoint->port);
  if (endpoint->is_loopback() && !question.peer_is_local) {
    return question.fail(Errc::kNotAvailable,
                         "it is served at " + quoted(answer) +
                             " only, its host's loopback; let it listen on another address");
  }
  return to_url(endpoint->host(), endpoint->port);
}

}  // namespace

Expected<std::string, Error> lookup(std::string_view host, std::uint32_t program,
                                    std::uint32_t version, const LookupOptions& options) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  Question question{std::string(host), program, version, "rpcbind at " + std::string(host), false};
  auto client = StreamClient::connect_tcp(question.host, options.port, options.stream);
  if (!client) {
    std::string cause = client.error().cause;
    question.peer = client.error().peer;
    if (client.error().code != Errc::kBadUrl) {
      cause += "; is rpcbind running there? If you know the port: rdma://HOST:PORT";
    }
    return question.fail(client.error().code, cause);
  }
  const auto peer = from_socket_text(client->peer_address());
  question.peer = client->peer();
  question.peer_is_local = peer && peer->is_loopback();
  Daemon daemon(std::move(*client));
  // First what the connection to rpcbind itself is made of.
  std::array<std::string_view, 2> netids = {kNetidRdma, kNetidRdma6};
  if (peer && peer->six) std::swap(netids[0], netids[1]);
  for (const std::string_view netid : netids) {
    // The address is ours of that host: one with several interfaces may answer with the same.
    const bool same = peer && peer->netid() == netid;
    const auto answer = daemon.address_of({program, version, std::string(netid),
                                           same ? to_universal(*peer) : "", owner_of_process()});
    if (!answer) return question.fail(answer.error().code, answer.error().cause);
    if (!answer->empty()) return judge(question, netid, *answer);
  }
  return question.fail(Errc::kNotAvailable,
                       "it knows of none over RDMA (netids rdma and rdma6); is the server running, "
                       "and registered?");
}

}  // namespace rpcrdma::rpcbinding
