// Remembers what has become of a client's connections so far.
#ifndef RPCRDMA_RPC_CALL_CONNECTION_HISTORY_H_
#define RPCRDMA_RPC_CALL_CONNECTION_HISTORY_H_

#include <cstdint>
#include <utility>

namespace rpcrdma::rpc {

class ConnectionHistory {
 public:
  // From now on the client may be without a connection and go on: it has had one, or tries until it
  // has.
  void note_going_on() noexcept { goes_on_ = true; }
  bool goes_on() const noexcept { return goes_on_; }
  // The connection has gone, with all that was sent over it.
  void note_gone() noexcept { ++number_; }
  std::uint32_t number() const noexcept { return number_; }  // of the connection, from 1 on

  // The server has answered a call of the application's.
  void note_answer() noexcept { was_answered_ = true; }
  // Returns whether it has since this was called last.
  bool take_answer() noexcept { return std::exchange(was_answered_, false); }
  // A whole message was lost with the connection, and may have been its fault.
  void note_lost_message() noexcept { lost_message_ = true; }
  bool take_lost_message() noexcept { return std::exchange(lost_message_, false); }

 private:
  std::uint32_t number_ = 1;
  bool goes_on_ = false;
  bool was_answered_ = false;
  bool lost_message_ = false;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_CALL_CONNECTION_HISTORY_H_
