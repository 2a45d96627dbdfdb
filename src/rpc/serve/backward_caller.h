// Who makes backward Calls over a connection of a server.
#ifndef RPCRDMA_RPC_SERVE_BACKWARD_CALLER_H_
#define RPCRDMA_RPC_SERVE_BACKWARD_CALLER_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "engine/types.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rpc {

// Makes backward Calls over a session's connection, and is told of their ends.
class BackwardCaller {
 public:
  virtual void handle_event(Instant now, const engine::Event& event) = 0;
  // Fails all outstanding Calls toward their callers. The connection is still there, but will not
  // move again.
  virtual void end_calls() = 0;
  // The session goes. No Calls remain outstanding.
  virtual void handle_end() = 0;
  // Whether there are replies of Calls, whose Receives are the connection's.
  virtual bool holds_replies() const noexcept = 0;
  // Without a connection, see Mailbox::set_adrift(): the first time limit of a Call that waits,
  // time that has passed, and the end of the server.
  virtual std::optional<Instant> next_deadline() const = 0;
  virtual void handle_time(Instant now) = 0;
  virtual void handle_server_end() = 0;

 protected:
  ~BackwardCaller() = default;
};

// Of one session: one caller at a time. It outlives the session, or leaves before and tells its
// last XID: the next one goes on from there, for the client may still answer Calls that were given
// up.
class CallerSeat {
 public:
  void take(BackwardCaller& caller) noexcept { caller_ = &caller; }
  void leave(std::uint32_t last_xid) noexcept {
    caller_ = nullptr;
    last_xid_ = last_xid;
  }
  BackwardCaller* caller() const noexcept { return caller_; }  // null: nobody
  std::optional<std::uint32_t> last_xid() const noexcept { return last_xid_; }
  bool holds_replies() const noexcept { return caller_ != nullptr && caller_->holds_replies(); }
  // The server goes: the ends of backward Calls may still make services answer theirs.
  void end_calls() {
    if (caller_ != nullptr) caller_->end_calls();
  }
  // The session goes, and its connection, which is still there, before it.
  void release() {
    if (caller_ != nullptr) std::exchange(caller_, nullptr)->handle_end();
  }

 private:
  BackwardCaller* caller_ = nullptr;
  std::optional<std::uint32_t> last_xid_;  // of callers that have left
};

// Callers whose connections are lost, and whose Calls wait for the next one.
class AdriftCallers {
 public:
  void set(BackwardCaller& caller, bool is_adrift) {
    std::erase(callers_, &caller);
    if (is_adrift) callers_.push_back(&caller);
  }
  // Their callbacks may end other clients.
  void tell_time(Instant now) {
    const auto is_due = [now](const BackwardCaller* caller) {
      const auto deadline = caller->next_deadline();
      return deadline && *deadline <= now;
    };
    for (;;) {
      const auto due = std::ranges::find_if(callers_, is_due);
      if (due == callers_.end()) return;
      (*due)->handle_time(now);
    }
  }
  void end_all() {
    while (!callers_.empty()) callers_.back()->handle_server_end();
  }
  std::optional<Instant> next_deadline() const {
    std::optional<Instant> next;
    for (const BackwardCaller* caller : callers_) {
      const auto deadline = caller->next_deadline();
      if (deadline && (!next || *deadline < *next)) next = deadline;
    }
    return next;
  }

 private:
  std::vector<BackwardCaller*> callers_;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_BACKWARD_CALLER_H_
