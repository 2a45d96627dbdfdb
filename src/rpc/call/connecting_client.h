// A client over RDMA that makes its connection, and the next one when that is lost.
#ifndef RPCRDMA_RPC_CALL_CONNECTING_CLIENT_H_
#define RPCRDMA_RPC_CALL_CONNECTING_CLIENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/call/backward_answers.h"
#include "rpc/call/client_impl.h"
#include "rpc/call/connector.h"
#include "rpc/call/first_call.h"
#include "rpc/call/link.h"
#include "rpc/call/rdma_carrier.h"
#include "rpc/call/version_two_changes.h"
#include "rpcrdma/provider.h"

namespace rpcrdma {

class ConnectingClient final : public ClientImpl,
                               public MemoryRegistrar,
                               private rpc::ConnectionMaker,
                               private rpc::RdmaCarrier::Owner {
 public:
  // Drives `provider`, which outlives it; `owned` may hold it.
  ConnectingClient(std::unique_ptr<rdma::Provider> owned, rdma::Provider& provider,
                   const ClientOptions& options);
  ~ConnectingClient() override;

  // Starts to connect to the first of these numeric addresses; progress() continues. The others are
  // for the next connections, and what `finder` finds, which may be null.
  Expected<void, Error> begin_connect(std::vector<std::string> addresses,
                                      std::unique_ptr<rpc::AddressFinder> finder);
  // The same on an established TCP connection, which it takes over.
  Expected<void, Error> begin_adopt(int descriptor);
  // Blocks until the connection is up or refused.
  Expected<void, Error> await_connection();
  // A client on a provider of the caller's, which is only starting to connect to the first address.
  static Expected<Client, Error> connect_on(rdma::Provider& provider,
                                            std::vector<std::string> addresses,
                                            const ClientOptions& options);
  static Expected<Client, Error> connect_on(rdma::Provider& provider, std::string_view address,
                                            const ClientOptions& options) {
    return connect_on(provider, std::vector{std::string(address)}, options);
  }
  static Client client_of(std::unique_ptr<ConnectingClient> impl) {
    return make_client(std::move(impl));
  }

  void progress() override;
  void wait() override { provider_.wait(); }
  void close() noexcept override;
  Expected<void, Error> serve(std::uint32_t program, std::uint32_t version,
                              Service& service) override;
  Expected<RegisteredMemory, Error> register_memory(Bytes memory, std::byte* writable) override;
  void unregister(std::uint32_t id) noexcept override { carrier_.memory().remove(id); }
  rpc::VersionTwoRequests* version_two() noexcept override {
    const bool has_it = connected() && connection_->engine().protocol_version() == 2;
    return has_it && !flow_.is_closing() ? &changes_ : nullptr;
  }
  int wait_fd() const noexcept override { return provider_.wait_fd(); }
  std::string_view provider_name() const noexcept override { return provider_.name(); }
  TransferCounters counters() const noexcept override;
  std::string_view peer() const noexcept override { return carrier_.peer(); }
  bool connected() const noexcept override { return carrier_.is_up(); }
  std::optional<ConnectionCharacteristics> characteristics() const noexcept override {
    return carrier_.characteristics();
  }
  std::optional<ConnectionTerms> terms() const noexcept override { return carrier_.terms(); }

 private:
  bool waits_for_next() const noexcept override {
    return connector_.enabled() && !flow_.is_closing();
  }
  bool may_send() noexcept override {
    return connected() && connector_.may_send(carrier_.calls_in_flight());
  }
  std::string_view last_failure() const override { return connector_.last_failure(); }
  std::string absence() const override { return connector_.absence(); }
  void handle_other(const engine::Event& event) override;
  void handle_released(bool is_waited_for) override {
    if (is_waited_for) provider_.wake();
  }

  // ConnectionMaker.
  Expected<void, Error> begin(const std::string& address) override;
  void handle_up() override { carrier_.memory().attach_all(); }
  bool is_taken() const noexcept override { return true; }  // the set-up has an answer
  bool is_lost() const noexcept override {
    return connection_ != nullptr && connection_->ended() && carrier_.calls_in_flight() == 0;
  }
  Error loss() const override {
    return carrier_.errors().explain(connection_->cause(), "the connection");
  }
  bool was_given_up() const noexcept override {
    // A peer that breaks the rules may do so for the call.
    const engine::GivenUp why = connection_->engine().given_up();
    return why != engine::GivenUp::kNot && why != engine::GivenUp::kBadInvalidation;
  }
  void retire() override;
  void pump_begun() override { pump_connection(); }

  void pump() noexcept override;  // an exception of a callback ends the program
  void pump_connection();

  Expected<void, Error> take_queue_pair(
      Expected<std::unique_ptr<rdma::QueuePair>, rdma::Error> queue_pair,
      const engine::Options& options);

  bool is_connecting_again() const noexcept override {
    return first_call_.is_refused() && !flow_.is_closing() && may_connect_;
  }
  Error connect_failure() const;
  void connect_in_version_one();

  std::unique_ptr<rdma::Provider> owned_provider_;
  rdma::Provider& provider_;
  engine::Options engine_options_;
  transport::MessageRooms own_rooms_;  // of the Calls that are made, by slot
  rpc::RdmaCarrier carrier_;
  rpc::BackwardAnswers answers_;
  rpc::Link link_;  // its connection dies before the memory that it was lent
  transport::Connection* connection_ = nullptr;  // link_'s
  // Lost ones whose Receives hold replies that the application still looks at, or whose backward
  // Calls are not answered yet.
  std::vector<rpc::Link> retired_;
  rpc::Connector connector_;
  rpc::FirstCall first_call_;
  rpc::VersionTwoChanges changes_{*this};
  Instant looked_{};                    // when all that was there was read
  bool has_looked_ = false;             // now
  bool may_connect_ = true;             // to the address, once more
  std::optional<Error> connect_error_;  // of connecting once more
  TransferCounters past_;               // of connections that were lost
};

}  // namespace rpcrdma

#endif  // RPCRDMA_RPC_CALL_CONNECTING_CLIENT_H_
