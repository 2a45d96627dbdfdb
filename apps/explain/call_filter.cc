#include "explain/call_filter.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "explain/names.h"

namespace explaining {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char each) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(each)));
  });
  return text;
}

bool is_peer(const std::string& wanted, const rpcrdma::explain::Endpoint& endpoint) {
  const std::string full = to_string(endpoint);
  const std::string host = full.substr(0, full.rfind(':'));
  return wanted == full || wanted == host || "[" + wanted + "]" == host;
}

}  // namespace

bool passes(const Filter& filter, const rpcrdma::explain::CallFact& call,
            const rpcrdma::explain::ConnectionFact& connection, std::int64_t start) {
  if (filter.xid && *filter.xid != call.xid) return false;
  if (!filter.procedure.empty()) {
    const std::string name = lower(call_name(call));
    const std::string wanted = lower(filter.procedure);
    const bool is_word = (" " + name + " ").find(" " + wanted + " ") != std::string::npos;
    if (!is_word) return false;
  }
  if (!filter.peer.empty() && !is_peer(filter.peer, connection.sides[0].endpoint) &&
      !is_peer(filter.peer, connection.sides[1].endpoint)) {
    return false;
  }
  if (!filter.status.empty()) {
    const std::string wanted = lower(filter.status);
    const bool is_good = has_succeeded(call);
    const bool matches = wanted == lower(status_text(call)) || (wanted == "ok" && is_good) ||
                         (wanted == "failed" && !is_good);
    if (!matches) return false;
  }
  const auto& first = call.has_call ? call.call.first : call.reply.first;
  const double at = static_cast<double>(first.time - start) / 1e9;
  if (filter.since && at < *filter.since) return false;
  if (filter.until && at > *filter.until) return false;
  return filter.slower_than <= 0 || static_cast<double>(call.duration()) / 1e9 > filter.slower_than;
}

}  // namespace explaining
