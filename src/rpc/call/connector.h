// Makes a client's next connection when one is lost, over any transport, and decides whether its
// calls may all go over it at once.
#ifndef RPCRDMA_RPC_CALL_CONNECTOR_H_
#define RPCRDMA_RPC_CALL_CONNECTOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "rpc/call/address_finder.h"
#include "rpc/call/backoff.h"
#include "rpc/call/call_flow.h"
#include "rpcrdma/error.h"
#include "rpcrdma/options.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rpc {

// One connection at a time, as its transport makes it.
class ConnectionMaker {
 public:
  // Starts to connect.
  virtual Expected<void, Error> begin(const std::string& address) = 0;
  // It is up for the first time.
  virtual void handle_up() {}
  // The server itself has taken the connection that is up, not the system in its place.
  virtual bool is_taken() const noexcept = 0;
  // There was a connection, and it has ended with all calls that were sent over it.
  virtual bool is_lost() const noexcept = 0;
  // Says why it was lost.
  virtual Error loss() const = 0;
  // This side has ended it, for a call that timed out.
  virtual bool was_given_up() const noexcept = 0;
  // Drops what is left of the lost one.
  virtual void retire() = 0;
  // Sends what has been given to it.
  virtual void pump_begun() = 0;

 protected:
  ~ConnectionMaker() = default;
};

class Connector {
 public:
  Connector(CallFlow& flow, ConnectionMaker& maker, const ReconnectOptions& options)
      : flow_(flow),
        maker_(maker),
        options_(options),
        backoff_(options, flow.prepared().last_xid()) {}

  // Starts to make the first connection, to the first of these. A connection that was taken is made
  // again at its own address first; after each failure comes the next one. With
  // ReconnectOptions::retries_first it does not fail, and next_attempt() is set if the attempt did.
  // After an attempt that failed, `finder` looks the addresses up again, and the next attempt goes
  // to what has been found by then. Null: they stay as they are. Precondition: there is at least
  // one.
  Expected<void, Error> begin(std::vector<std::string> addresses,
                              std::unique_ptr<AddressFinder> finder = nullptr);
  bool enabled() const noexcept { return options_.enabled; }
  // For the settings of its flow.
  static bool keeps_calls(const ClientOptions& options) noexcept {
    return options.reconnect.enabled && options.reconnect.repeats_calls;
  }
  // In each round of the client, if it is enabled(): handles what has become of the connection, and
  // sends calls that waited for it.
  void maintain(bool is_up);
  // When maintain() has something to do although nothing has happened.
  Deadline next_attempt() const noexcept { return next_attempt_; }
  // Returns whether a call may be sent over the connection, which is up. After several losses
  // without a reply calls go one at a time, to find out which one it is that the server cannot
  // stand.
  bool may_send(std::uint32_t calls_in_flight) noexcept;
  // For the error of a call that waited in vain.
  std::string absence() const;
  // See ConnectionPolicy.
  std::string_view last_failure() const noexcept;

  // --- For makers that connect by themselves.
  void handle_begun() noexcept;
  void handle_failure(std::string cause);

 private:
  std::string_view address() const noexcept;  // of the server; for probes
  static constexpr std::uint32_t kLossesBeforeSuspicion = 2;

  void give_up();  // once the client is closed
  void handle_loss();
  void blame_lonely_call(const Error& loss);
  void try_next();
  void choose_next_address();
  void forget_losses_if_heard() noexcept {
    if (flow_.history().take_answer()) losses_in_a_row_ = 0;
  }

  CallFlow& flow_;
  ConnectionMaker& maker_;
  const ReconnectOptions options_;
  Backoff backoff_;
  std::vector<std::string> addresses_;
  std::unique_ptr<AddressFinder> finder_;  // null: the addresses stay
  std::size_t at_ = 0;                     // in addresses_: of the connection
  bool was_up_ = false;                    // the connection that there is
  Instant up_since_{};                     // if it was
  bool stays_ = false;                     // the next attempt is at the same address
  Deadline next_attempt_;                  // set: there is no connection, and none is being made
  std::uint32_t losses_in_a_row_ = 0;      // without a reply in between
  std::string last_failure_;               // empty: none yet
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_CALL_CONNECTOR_H_
