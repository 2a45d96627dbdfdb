// A client over TCP or a Unix socket that makes its connection, and the next one when that is lost.
#ifndef RPCRDMA_RPC_CALL_TCP_CLIENT_H_
#define RPCRDMA_RPC_CALL_TCP_CLIENT_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "posix/reactor.h"
#include "rpc/call/client_impl.h"
#include "rpc/call/connector.h"
#include "rpc/call/tcp_carrier.h"

namespace rpcrdma {

class TcpClient final : public ClientImpl, private rpc::ConnectionMaker {
 public:
  // Starts to connect to the first of these numeric addresses and paths; progress() continues. The
  // others are for the next connections, and what `finder` finds, which may be null. kUnsupported:
  // the options ask for what only RDMA has.
  static Expected<std::unique_ptr<TcpClient>, Error> begin_connect(
      std::vector<std::string> addresses, std::unique_ptr<rpc::AddressFinder> finder,
      const ClientOptions& options);
  ~TcpClient() override;
  // Blocks until the connection is up or refused.
  Expected<void, Error> await_connection();
  static Client client_of(std::unique_ptr<TcpClient> impl) { return make_client(std::move(impl)); }

  void progress() override;
  void wait() override { reactor_->block(); }
  void close() noexcept override;
  Expected<void, Error> serve(std::uint32_t program, std::uint32_t version,
                              Service& service) override;
  Expected<RegisteredMemory, Error> register_memory(Bytes memory, std::byte* writable) override;
  Expected<int, Error> give_up_socket() override;
  int wait_fd() const noexcept override { return reactor_->fd(); }
  std::string_view provider_name() const noexcept override { return "tcp"; }
  TransferCounters counters() const noexcept override { return carrier_.counters(); }
  std::string_view peer() const noexcept override { return carrier_.peer(); }
  bool connected() const noexcept override { return carrier_.is_up(); }

 private:
  TcpClient(std::unique_ptr<posix::Reactor> reactor, const ClientOptions& options);

  bool waits_for_next() const noexcept override {
    return connector_.enabled() && !flow_.is_closing() && !carrier_.has_stepped_up();
  }
  bool may_send() noexcept override {
    return connected() && connector_.may_send(carrier_.calls_in_flight());
  }
  std::string_view last_failure() const override { return connector_.last_failure(); }
  std::string absence() const override { return connector_.absence(); }

  // ConnectionMaker.
  Expected<void, Error> begin(const std::string& address) override;
  bool is_taken() const noexcept override { return carrier_.has_received(); }
  bool is_lost() const noexcept override {
    return carrier_.is_lost() && !carrier_.has_stepped_up();
  }
  Error loss() const override { return carrier_.explain(engine::CallError::kConnectionLost); }
  bool was_given_up() const noexcept override { return carrier_.was_given_up(); }
  void retire() override { carrier_.retire(); }
  void pump_begun() override { carrier_.pump(looked_); }

  void pump() noexcept override;  // an exception of a callback ends the program

  std::unique_ptr<posix::Reactor> reactor_;
  rpc::TcpCarrier carrier_;
  rpc::Connector connector_;
  Instant looked_{};         // when all that was there was read
  bool has_looked_ = false;  // now
};

}  // namespace rpcrdma

#endif  // RPCRDMA_RPC_CALL_TCP_CLIENT_H_
