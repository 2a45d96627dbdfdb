// A client that makes its connection, and the next one when that is lost.
#ifndef RPCRDMA_RPC_CALL_CONNECTING_CLIENT_H_
#define RPCRDMA_RPC_CALL_CONNECTING_CLIENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/call/backward_answers.h"
#include "rpc/call/change_requests.h"
#include "rpc/call/link.h"
#include "rpc/call/rdma_client.h"
#include "rpc/call/reconnector.h"
#include "rpcrdma/provider.h"

namespace rpcrdma {

class ConnectingClient final : public RdmaClient, public MemoryRegistrar, private VersionTwo {
 public:
  // Drives `provider`, which outlives it; `owned` may hold it.
  ConnectingClient(std::unique_ptr<rdma::Provider> owned, rdma::Provider& provider,
                   const ClientOptions& options);
  ~ConnectingClient() override;

  // Starts to connect to a numeric address; progress() goes on with it.
  Expected<void, Error> begin_connect(std::string_view address);
  // The same on an established TCP connection, which it takes over.
  Expected<void, Error> begin_adopt(int descriptor);
  // Blocks until the connection is up or refused.
  Expected<void, Error> await_connection();
  // A client on a provider of the caller's, which is only starting to connect.
  static Expected<Client, Error> connect_on(rdma::Provider& provider, std::string_view address,
                                            const ClientOptions& options);
  static Client client_of(std::unique_ptr<ConnectingClient> impl) {
    return make_client(std::move(impl));
  }

  Expected<Reply, Error> call(Call call) override;
  void progress() override;
  void wait() override { provider_.wait(); }
  void drain() override;
  void close() noexcept override;
  Expected<void, Error> serve(std::uint32_t program, std::uint32_t version,
                              Service& service) override;
  Expected<RegisteredMemory, Error> register_memory(Bytes memory, std::byte* writable) override;
  void unregister(std::uint32_t id) noexcept override { memory_.remove(id); }
  Expected<void, Error> resume(rpc::Session& session) override;
  VersionTwo* version_two() noexcept override {
    const bool has_it = connected() && connection_->engine().protocol_version() == 2;
    return has_it && !closing_ ? this : nullptr;
  }
  int wait_fd() const noexcept override { return provider_.wait_fd(); }
  std::string_view provider_name() const noexcept override { return provider_.name(); }
  TransferCounters counters() const noexcept override;

 private:
  // VersionTwo, on a connection of it.
  Expected<void, Error> request_change(std::uint32_t id, Bytes value, ChangeCallback&& callback,
                                       std::chrono::nanoseconds delay) override;
  Expected<void, Error> raise_receive_size(std::uint32_t size) override;
  Expected<void, Error> set_characteristic(std::uint32_t id, Bytes value) override;
  std::optional<std::vector<std::byte>> peer_characteristic(std::uint32_t id) const override;

  bool stays_behind() override { return false; }
  void handle_started() override { pump(); }
  bool waits_for_next() const noexcept override { return options_.reconnect.enabled && !closing_; }
  bool may_start() noexcept override;
  std::string absence() const override;
  void handle_other(const engine::Event& event) override;

  Expected<void, Error> take_queue_pair(
      Expected<std::unique_ptr<rdma::QueuePair>, rdma::Error> queue_pair,
      const engine::Options& options);
  void pump() noexcept;  // an exception of a callback ends the program
  void pump_connection();

  // The Connection Configuration Protocol (link_configuration.cc).
  bool is_rfc5666() const noexcept { return options_.connection.profile == Profile::kRfc5666; }
  void configure();
  void handle_configured(Expected<Reply, Error> reply);
  // Starts the library's own call, prepared; or ends the connection.
  void start_own_call(ReplyCallback callback);

  // The version of RPC-over-RDMA (version_offer.cc).
  void offer_version();
  void handle_offered();
  bool is_connecting_again() const noexcept override;
  Error connect_failure() const;
  void connect_in_version_one();
  void take_changes();

  // Reconnection (connecting_client_loss.cc).
  void forget_losses_if_heard() noexcept;
  void maintain_connection();
  void handle_connected();
  void handle_loss();
  bool is_offer_unanswered() const noexcept;
  void note_unanswered_offer() noexcept;
  void blame_single_call(const Error& loss);
  void retire_connection();
  void try_to_connect();

  std::unique_ptr<rdma::Provider> owned_provider_;
  engine::Options engine_options_;
  transport::MessageRooms own_rooms_;  // of the Calls that are made, by slot
  rpc::BackwardAnswers answers_;
  rpc::Link link_;  // its connection dies before the memory that it was lent
  // Lost ones whose Receives hold replies that the application still looks at, or whose backward
  // Calls are not answered yet.
  std::vector<rpc::Link> retired_;
  rpc::Reconnector reconnector_;
  rpc::ChangeRequests changes_;
  bool configuration_started_ = false;
  bool may_connect_ = true;              // to the address, once more
  bool has_version_two_ = false;         // the server has answered in it
  std::uint32_t unanswered_offers_ = 0;  // in a row, since it has
  std::optional<Error> connect_error_;   // of connecting once more
  TransferCounters past_;                // of connections that were lost
};

}  // namespace rpcrdma

#endif  // RPCRDMA_RPC_CALL_CONNECTING_CLIENT_H_
