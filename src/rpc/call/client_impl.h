// The inside of Client: the flow of its calls, and for each transport what makes connections for
// them.
#ifndef RPCRDMA_RPC_CALL_CLIENT_IMPL_H_
#define RPCRDMA_RPC_CALL_CLIENT_IMPL_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/owner_thread.h"
#include "rpc/call/call_flow.h"
#include "rpcrdma/client.h"
#include "rpcrdma/message.h"

namespace rpcrdma {

class Service;

namespace rpc {

class Session;

// Its functions do what those of VersionTwo with the same names do.
class VersionTwoRequests {
 public:
  virtual Expected<void, Error> request_change(std::uint32_t id, Bytes value,
                                               ChangeCallback&& callback,
                                               std::chrono::nanoseconds delay) = 0;
  virtual Expected<void, Error> raise_receive_size(std::uint32_t size) = 0;
  virtual Expected<void, Error> set_characteristic(std::uint32_t id, Bytes value) = 0;
  virtual std::optional<std::vector<std::byte>> peer_characteristic(std::uint32_t id) const = 0;

 protected:
  ~VersionTwoRequests() = default;
};

}  // namespace rpc

class ClientImpl : protected rpc::ConnectionPolicy {
 public:
  virtual ~ClientImpl() = default;
  ClientImpl(const ClientImpl&) = delete;
  ClientImpl& operator=(const ClientImpl&) = delete;

  // --- The same over each transport.
  Expected<void, Error> start(Call&& call, ReplyCallback&& callback);
  rpc::CallFlow& flow() noexcept { return flow_; }
  OwnerThread& owner() const noexcept { return owner_; }
  bool ended() const noexcept { return flow_.ended(); }
  // The state of the call that a Call or a Reply shows.
  rpc::CallSlot& message(std::uint32_t slot) noexcept { return flow_.calls()[slot]; }
  Call make_call(std::uint32_t slot) noexcept { return {this, slot}; }
  Reply make_reply(std::uint32_t slot) noexcept { return {this, slot}; }
  static std::uint32_t slot_of(const Call& call) noexcept { return call.slot_; }
  Error unsupported(std::string operation, std::string cause) const;
  // Calls, or other things, were started: inside of a round its end does the rest.
  void handle_started() {
    if (!flow_.in_round()) pump();
  }
  // Called at the end of its Client.
  static void dispose(std::unique_ptr<ClientImpl> impl) {
    ClientImpl* const at = impl.get();
    if (at == nullptr) return;
    if (at->options().on_end) at->options().on_end(at->counters());
    at->handle_client_end(std::move(impl));
  }

  // --- Different for each transport.
  virtual Expected<Reply, Error> call(Call call);
  virtual void progress() = 0;
  virtual void wait() = 0;
  virtual void drain();
  virtual void close() noexcept = 0;
  virtual Expected<void, Error> serve(std::uint32_t program, std::uint32_t version,
                                      Service& service) = 0;
  // `writable` is null for memory that is only read.
  virtual Expected<RegisteredMemory, Error> register_memory(Bytes memory, std::byte* writable) = 0;
  virtual Expected<void, Error> resume(rpc::Session& session);
  // For Client::step_up(): returns the descriptor, which is the caller's; the client has ended.
  virtual Expected<int, Error> give_up_socket();
  virtual int wait_fd() const noexcept = 0;
  virtual std::string_view provider_name() const noexcept = 0;
  virtual TransferCounters counters() const noexcept = 0;
  virtual std::string_view peer() const noexcept = 0;
  virtual bool connected() const noexcept = 0;
  virtual std::optional<ConnectionCharacteristics> characteristics() const noexcept { return {}; }
  // Nothing without a connection, and over other transports than RDMA.
  virtual std::optional<ConnectionTerms> terms() const noexcept { return std::nullopt; }
  // Null unless the connection speaks version two.
  virtual rpc::VersionTwoRequests* version_two() noexcept { return nullptr; }

 protected:
  // `clock` and `wake` as for CallFlow. The carrier is set before the first call.
  ClientImpl(const ClientOptions& options, const rpc::CallFlow::Settings& settings,
             const std::function<Instant()>& clock, std::function<void()> wake)
      : flow_(*this, *this, options, settings, clock, std::move(wake)) {}

  static Client make_client(std::unique_ptr<ClientImpl> impl) { return Client(std::move(impl)); }
  // Returns the call's slot, which is the caller's to free from now on.
  static std::uint32_t take_slot(Call& call) noexcept {
    call.impl_ = nullptr;
    return call.slot_;
  }
  const ClientOptions& options() const noexcept { return flow_.options(); }
  rpc::CallFlow flow_;

 private:
  // Does at once what would have to wait for progress().
  virtual void pump() = 0;
  // The Client goes. `self` is this object, which ends here unless something takes it that waits
  // for its last call.
  virtual void handle_client_end(std::unique_ptr<ClientImpl> /*self*/) {}

  mutable OwnerThread owner_;
};

}  // namespace rpcrdma

#endif  // RPCRDMA_RPC_CALL_CLIENT_IMPL_H_
