// Changes of transport characteristics, which VersionTwo (rpcrdma/version_two.h) asks for.
#ifndef RPCRDMA_RPC_CALL_VERSION_TWO_CHANGES_H_
#define RPCRDMA_RPC_CALL_VERSION_TWO_CHANGES_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "rpc/call/change_requests.h"
#include "rpc/call/client_impl.h"
#include "transport/connection.h"

namespace rpcrdma::rpc {

class VersionTwoChanges final : public VersionTwoRequests {
 public:
  explicit VersionTwoChanges(ClientImpl& client) noexcept : client_(client) {}

  // Null: there is none.
  void use_connection(transport::Connection* connection);
  // In each round: hands requests on and reports their ends. Returns whether that has led to
  // anything for the connection to do.
  bool take(bool is_up);
  // No connection is to come: the requests that are left are lost.
  void lose_all() { requests_.lose_all(); }
  // When take() has something to do by itself.
  Deadline next(Instant now) const noexcept { return requests_.next(now); }
  // Returns whether the last steps of a round have left news for the next one.
  bool has_news() const noexcept {
    return connection_ != nullptr && connection_->engine().option_port().has_news();
  }

  // Preconditions: the connection speaks version two.
  Expected<void, Error> request_change(std::uint32_t id, Bytes value, ChangeCallback&& callback,
                                       std::chrono::nanoseconds delay) override;
  Expected<void, Error> raise_receive_size(std::uint32_t size) override;
  Expected<void, Error> set_characteristic(std::uint32_t id, Bytes value) override;
  std::optional<std::vector<std::byte>> peer_characteristic(std::uint32_t id) const override;

 private:
  engine::OptionPort& port() const noexcept { return connection_->engine().option_port(); }

  ClientImpl& client_;
  transport::Connection* connection_ = nullptr;
  ChangeRequests requests_;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_CALL_VERSION_TWO_CHANGES_H_
