// The seam between a connection of a server and the client that makes backward Calls over it.
#ifndef RPCRDMA_RPC_SERVE_BACKWARD_CALLER_H_
#define RPCRDMA_RPC_SERVE_BACKWARD_CALLER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/deadline_heap.h"
#include "engine/types.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rpc {

// Makes backward Calls over a session's connection, and gets their ends from the session.
class BackwardCaller : public DeadlineHeap<BackwardCaller>::Entry {
 public:
  virtual ~BackwardCaller() = default;
  virtual void handle_event(Instant now, const engine::Event& event) = 0;
  // Fails all outstanding Calls toward their callers. The connection is still there, but will not
  // move again.
  virtual void end_calls() = 0;
  // The session goes: no Call may remain outstanding.
  virtual void handle_end() = 0;
  // Returns whether replies are still in use, which lie in Receives of the connection.
  virtual bool holds_replies() const noexcept = 0;
  // These three are called while there is no connection, see Mailbox::set_disconnected(). The first
  // returns the first time limit of a Call that waits; the others say that time has passed, behind
  // which the caller says its next limit by set_disconnected(), and that the server ends.
  virtual Deadline next_deadline() const = 0;
  virtual void handle_time(Instant now) = 0;
  virtual void handle_server_end() = 0;

 private:
  friend class DisconnectedCallers;
  std::optional<std::size_t> place_;  // among those without a connection
};

// The place of a session's caller; there is one at a time. A caller outlives the session, or goes
// before and says its last XID: the next caller goes on from there, for the client may still answer
// Calls that were given up. One whose owner has gone before its last Calls belongs to the seat.
class CallerSeat {
 public:
  void take(BackwardCaller& caller) noexcept { caller_ = &caller; }
  // Owns the caller, which has the seat, until it leaves or the session goes.
  void keep(std::unique_ptr<BackwardCaller> caller) noexcept { kept_ = std::move(caller); }
  void vacate(std::uint32_t last_xid) noexcept {
    caller_ = nullptr;
    last_xid_ = last_xid;
  }
  // Precondition: there is a caller.
  void handle_event(Instant now, const engine::Event& event) {
    caller_->handle_event(now, event);
    if (caller_ == nullptr) kept_.reset();  // it has left
  }
  BackwardCaller* caller() const noexcept { return caller_; }  // null: nobody
  std::optional<std::uint32_t> last_xid() const noexcept { return last_xid_; }
  bool holds_replies() const noexcept { return caller_ != nullptr && caller_->holds_replies(); }
  // Called when the server ends: the ends of backward Calls may still make services answer theirs.
  void end_calls() {
    if (caller_ != nullptr) caller_->end_calls();
  }
  // Called when the session goes. Its connection goes before it, and is still there.
  void release() {
    if (caller_ != nullptr) std::exchange(caller_, nullptr)->handle_end();
    kept_.reset();
  }

 private:
  BackwardCaller* caller_ = nullptr;
  std::unique_ptr<BackwardCaller> kept_;
  std::optional<std::uint32_t> last_xid_;  // of callers that have left
};

// The callers of a server whose connections are lost, and whose Calls wait for the next one. There
// may be many, of which few have Calls: a round costs nothing for the others.
class DisconnectedCallers {
 public:
  // Called again whenever the first time limit of its Calls may have changed.
  void set(BackwardCaller& caller, bool is_disconnected) {
    deadlines_.set(caller, is_disconnected ? caller.next_deadline() : std::nullopt);
    if (caller.place_.has_value() == is_disconnected) return;
    if (is_disconnected) {
      caller.place_ = callers_.size();
      callers_.push_back(&caller);
      return;
    }
    const std::size_t place = *std::exchange(caller.place_, std::nullopt);
    callers_[place] = callers_.back();
    if (callers_[place] != &caller) callers_[place]->place_ = place;
    callers_.pop_back();
  }
  // The callbacks of a caller may end it, and others.
  void handle_time(Instant now) {
    while (BackwardCaller* const due = deadlines_.take_due(now)) due->handle_time(now);
  }
  void end_all() {
    while (!callers_.empty()) callers_.back()->handle_server_end();
  }
  Deadline next_deadline() const { return deadlines_.first(); }

 private:
  std::vector<BackwardCaller*> callers_;
  DeadlineHeap<BackwardCaller> deadlines_;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_BACKWARD_CALLER_H_
