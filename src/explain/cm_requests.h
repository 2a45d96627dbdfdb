// Requests of RoCE's connection manager that wait for their reply.
#ifndef RPCRDMA_EXPLAIN_CM_REQUESTS_H_
#define RPCRDMA_EXPLAIN_CM_REQUESTS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "explain/facts.h"
#include "explain/roce.h"

namespace rpcrdma::explain {

struct CmRequest {
  CmMessage message;  // without its private data, whose bytes are those of a packet
  std::vector<std::byte> private_data;
  Endpoint from;
  Where where;
};

class CmRequests {
 public:
  static constexpr std::size_t kMost = 1024;

  // Replaces a request of the same sender with the same id. Where there are too many, the oldest is
  // forgotten: its reply is the least likely to come.
  void add(CmRequest request);
  // Returns the request of this sender with this id, and forgets it; nullopt: there is none.
  std::optional<CmRequest> take(const Endpoint& from, std::uint32_t id);

 private:
  using Key = std::pair<Endpoint, std::uint32_t>;

  std::list<CmRequest> by_age_;  // the oldest first
  std::map<Key, std::list<CmRequest>::iterator> by_sender_;
};

}  // namespace rpcrdma::explain

#endif  // RPCRDMA_EXPLAIN_CM_REQUESTS_H_
