// Keeps the changes that a client asks of its server (rpcrdma/characteristics.h).
#ifndef RPCRDMA_RPC_CALL_CHANGE_REQUESTS_H_
#define RPCRDMA_RPC_CALL_CHANGE_REQUESTS_H_

#include <cstdint>
#include <vector>

#include "base/deadline.h"
#include "engine/connection.h"
#include "engine/v2/small_value.h"
#include "rpcrdma/characteristics.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rpc {

// Requests that wait for their time, and those that the engine has. Each ends once, by its
// callback.
class ChangeRequests {
 public:
  // False: there is one for this value already.
  bool add(const engine::SmallValue& want, Instant at, ChangeCallback&& callback);
  bool empty() const noexcept { return requests_.empty(); }

  // Hands on those whose time has come, as far as the engine takes them, and tells of those that
  // have ended. `version`: that the connection has come to; 0: none yet, or no more, and those
  // whose time has come wait.
  void progress(engine::Connection& engine, std::uint32_t version, Instant now);
  // The connection goes, and with it what was asked on it.
  void lose(engine::Connection& engine);
  // There is no next connection.
  void lose_all();
  // When progress() has something to do by itself.
  Deadline next(Instant now) const noexcept;

 private:
  struct Request {
    engine::SmallValue want;
    Instant at;
    ChangeCallback callback;
    bool is_asked = false;
  };
  void take_ends(engine::OptionPort& port);
  // The callback may add others, behind all that are there.
  void end(std::size_t index, ChangeResult result);

  std::vector<Request> requests_;  // few
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_CALL_CHANGE_REQUESTS_H_
