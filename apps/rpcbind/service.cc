#include "rpcbind/service.h"

#include <algorithm>

#include "rpcbind/daemon.h"
#include "rpcbind/registration.h"

namespace rpcrdma::rpcbinding {

// --- The directory -----------------------------------------------------------------------------

bool Directory::has(const rpcbind::rpcb& question, bool exact) const {
  return std::ranges::any_of(programs_, [&](const Program& each) {
    return each.program == question.r_prog && (!exact || each.version == question.r_vers);
  });
}

std::string Directory::find(const rpcbind::rpcb& question, std::string_view peer_address,
                            bool exact) const {
  if (!has(question, exact)) return {};
  std::string netid = question.r_netid;
  if (netid.empty()) {  // what the question came over (RFC 1833 §2.2.1)
    const auto peer = from_socket_text(peer_address);
    netid = peer ? peer->netid() : kNetidRdma;
  }
  const auto found =
      std::ranges::find(endpoints_, netid, [](const Endpoint& each) { return each.netid(); });
  if (found == endpoints_.end()) return {};
  Endpoint endpoint = *found;
  // If the server listens on every address, the client best uses the one by which it knows this
  // host.
  if (const auto known = from_universal(netid, question.r_addr);
      endpoint.is_wildcard() && known && !known->is_wildcard()) {
    endpoint.address = known->address;
  }
  return to_universal(endpoint);
}

rpcbind::rpcblist_ptr Directory::list() const {
  rpcbind::rpcblist_ptr entries;
  for (const Program& each : programs_) {
    for (const Endpoint& endpoint : endpoints_) {
      entries.push_back({{each.program, each.version, std::string(endpoint.netid()),
                          to_universal(endpoint), owner_of_process()}});
    }
  }
  return entries;
}

// --- The service -------------------------------------------------------------------------------

RpcbindService::RpcbindService(std::string_view server_address)
    : directory_(endpoints_of(server_address)) {}

Expected<void, Error> RpcbindService::add_to(Server& server) {
  if (auto added = server.add(rpcbind::RPCBPROG, rpcbind::RPCBVERS, version3_); !added) {
    return added;
  }
  if (auto added = server.add(rpcbind::RPCBPROG, rpcbind::RPCBVERS4, version4_); !added) {
    return added;
  }
  add(rpcbind::RPCBPROG, rpcbind::RPCBVERS);
  add(rpcbind::RPCBPROG, rpcbind::RPCBVERS4);
  return {};
}

void RpcbindService::Version3::RPCBPROC_SET(Answer<bool> answer, rpcb) {
  answer.succeed(false);
}

void RpcbindService::Version3::RPCBPROC_UNSET(Answer<bool> answer, rpcb) {
  answer.succeed(false);
}

void RpcbindService::Version3::RPCBPROC_GETADDR(Answer<std::string> answer, rpcb arg1) {
  answer.succeed(directory_.find(arg1, answer.context().peer_address(), false));
}

void RpcbindService::Version3::RPCBPROC_DUMP(Answer<rpcbind::rpcblist_ptr> answer) {
  answer.succeed(directory_.list());
}

void RpcbindService::Version4::RPCB4PROC_SET(Answer<bool> answer, rpcb) {
  answer.succeed(false);
}

void RpcbindService::Version4::RPCB4PROC_UNSET(Answer<bool> answer, rpcb) {
  answer.succeed(false);
}

void RpcbindService::Version4::RPCB4PROC_GETADDR(Answer<std::string> answer, rpcb arg1) {
  answer.succeed(directory_.find(arg1, answer.context().peer_address(), false));
}

void RpcbindService::Version4::RPCB4PROC_GETVERSADDR(Answer<std::string> answer, rpcb arg1) {
  answer.succeed(directory_.find(arg1, answer.context().peer_address(), true));
}

void RpcbindService::Version4::RPCB4PROC_DUMP(Answer<rpcbind::rpcblist_ptr> answer) {
  answer.succeed(directory_.list());
}

}  // namespace rpcrdma::rpcbinding
