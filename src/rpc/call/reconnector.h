// When a client makes its next connection, and whether its calls may all go over it at once.
#ifndef RPCRDMA_RPC_CALL_RECONNECTOR_H_
#define RPCRDMA_RPC_CALL_RECONNECTOR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "rpc/call/backoff.h"
#include "rpcrdma/options.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rpc {

class Reconnector {
 public:
  Reconnector(const ReconnectOptions& options, std::uint64_t seed) noexcept
      : options_(options), backoff_(options, seed) {}

  // A connection is being made.
  void begin() noexcept {
    next_attempt_.reset();
    was_up_ = is_loss_handled_ = false;
  }
  void set_up() noexcept { was_up_ = true; }
  bool was_up() const noexcept { return was_up_; }

  // The connection is lost; to be handled once, when the engine has given all its calls up.
  bool is_loss_handled() const noexcept { return is_loss_handled_; }
  void handle_loss(Instant now, std::string cause) {
    is_loss_handled_ = true;
    if (was_up_) {
      backoff_.reset();
      ++losses_in_a_row_;
    }
    handle_failure(now, std::move(cause));
  }
  // No connection could be made.
  void handle_failure(Instant now, std::string cause) {
    last_failure_ = std::move(cause);
    next_attempt_ = now + backoff_.next();
  }
  const std::string& last_failure() const noexcept { return last_failure_; }  // empty: none yet

  // Set: there is no connection, and none is being made.
  std::optional<Instant> next_attempt() const noexcept { return next_attempt_; }
  bool is_due(Instant now) const noexcept { return next_attempt_ && *next_attempt_ <= now; }

  // After several losses without a reply, calls are made one at a time, to find out which one it is
  // that the server cannot stand.
  bool suspects() const noexcept { return losses_in_a_row_ >= kLossesBeforeSuspicion; }
  void forget_losses() noexcept { losses_in_a_row_ = 0; }
  bool is_too_often(std::uint32_t lost_alone) const noexcept {
    return lost_alone >= options_.losses_max;
  }

 private:
  static constexpr std::uint32_t kLossesBeforeSuspicion = 2;

  const ReconnectOptions options_;
  Backoff backoff_;
  bool was_up_ = false;           // the connection that there is, or was
  bool is_loss_handled_ = false;  // of that
  std::optional<Instant> next_attempt_;
  std::uint32_t losses_in_a_row_ = 0;  // without a reply in between
  std::string last_failure_;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_CALL_RECONNECTOR_H_
