// A client of a server: it makes backward Calls (RFC 8167) over the connection of a session, which
// drives it.
#ifndef RPCRDMA_RPC_CALL_BACKWARD_CLIENT_H_
#define RPCRDMA_RPC_CALL_BACKWARD_CLIENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "rpc/call/client_impl.h"
#include "rpc/call/rdma_carrier.h"
#include "rpc/serve/session.h"
#include "rpcrdma/provider.h"

namespace rpcrdma {

class BackwardClient final : public ClientImpl,
                             public rpc::BackwardCaller,
                             private rpc::RdmaCarrier::Owner {
 public:
  // One that makes its Calls over the session's connection, and over those of later sessions if it
  // outlives that.
  static Expected<Client, Error> over(rpc::Session& session, rdma::Provider& provider,
                                      const ClientOptions& options, bool outlives_connection);
  BackwardClient(rpc::Session& session, rdma::Provider& provider, const ClientOptions& options,
                 bool outlives_connection);

  Expected<Reply, Error> call(Call call) override;
  void progress() override {}  // the server's progress() is for all
  void wait() override {}
  void drain() override {}
  void close() noexcept override;
  Expected<void, Error> serve(std::uint32_t program, std::uint32_t version,
                              Service& service) override;
  Expected<RegisteredMemory, Error> register_memory(Bytes memory, std::byte* writable) override;
  Expected<void, Error> resume(rpc::Session& session) override;
  int wait_fd() const noexcept override { return has_left_ ? -1 : provider_.wait_fd(); }
  std::string_view provider_name() const noexcept override {
    return has_left_ ? std::string_view() : provider_.name();
  }
  TransferCounters counters() const noexcept override;
  std::string_view peer() const noexcept override { return carrier_.peer(); }
  bool connected() const noexcept override { return carrier_.is_up(); }
  std::optional<ConnectionCharacteristics> characteristics() const noexcept override {
    return carrier_.characteristics();
  }
  std::optional<ConnectionTerms> terms() const noexcept override { return carrier_.terms(); }

  void handle_event(Instant now, const engine::Event& event) override;
  void end_calls() override { close(); }
  void handle_end() override;
  bool holds_replies() const noexcept override { return flow_.calls().any_holds_receive(); }
  Deadline next_deadline() const override { return flow_.calls().deadline(); }
  void handle_time(Instant now) override;
  void handle_server_end() override;

 private:
  void handle_client_end(std::unique_ptr<ClientImpl> self) override;
  // It may be another session's turn, or none's.
  void pump() override { want_turn(); }
  // To post it again, and the session may have waited for its last reply.
  void handle_released(bool /*is_waited_for*/) override { want_turn(); }
  bool waits_for_next() const noexcept override {
    return keeper_ != nullptr && !flow_.is_closing();
  }
  bool may_send() noexcept override { return connected(); }
  std::optional<Error> finish_message(rpc::CallSlot& slot) override;
  void handle_waiting() override;
  std::string absence() const override;
  void handle_other(const engine::Event& event) override;

  void want_turn();
  bool flatten(rpc::CallSlot& slot);
  void move_streams();
  void use_session(rpc::Session* session);
  bool drop_lost_session();
  void end_disconnection();
  void forget_server() noexcept;

  rdma::Provider& provider_;
  // Hold messages while there is no connection.
  const transport::MessageRooms own_rooms_;
  rpc::RdmaCarrier carrier_;
  transport::Connection* connection_ = nullptr;  // session_'s
  rpc::Session* session_ = nullptr;
  bool has_left_ = false;  // the session has gone, and perhaps its server with the provider
  // For Calls that wait for the next connection: the mailbox of the server, and whether the server
  // keeps this client, which has no connection now.
  rpc::Mailbox* keeper_ = nullptr;
  rpc::Mailbox* home_ = nullptr;  // keeper_ as it was first; for comparison only
  bool disconnected_ = false;
  bool has_no_client_ = false;  // any more: the session's seat owns it until its last Call ends
};

}  // namespace rpcrdma

#endif  // RPCRDMA_RPC_CALL_BACKWARD_CLIENT_H_
