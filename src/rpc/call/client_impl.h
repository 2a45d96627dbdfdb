// The inside of Client: what it asks of whatever carries its calls.
#ifndef RPCRDMA_RPC_CALL_CLIENT_IMPL_H_
#define RPCRDMA_RPC_CALL_CLIENT_IMPL_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "base/owner_thread.h"
#include "rpc/call/call_steps.h"
#include "rpcrdma/client.h"
#include "rpcrdma/message.h"

namespace rpcrdma {

namespace rpc {
class Session;

// What Call and Reply show of one call.
struct CallMessage {
  static constexpr std::uint32_t kResultsSizeDefault = 512;  // bytes

  MessageWriter writer;
  std::array<MutableBytes, kBulkItemsMax> results;
  std::size_t result_count = 0;
  bool results_refused = false;        // place_result() was asked for what it cannot do
  bool is_whole = false;               // the application wrote all of the message
  std::uint32_t results_size_max = 0;  // bytes
  std::chrono::nanoseconds timeout{};
  CallStep step;
  MessageReader reader;

  std::span<const MutableBytes> places() const noexcept {
    return std::span(results).first(result_count);
  }
};
}  // namespace rpc

// The functions of both mean what those of Client with the same names do.
class VersionTwo {
 public:
  virtual Expected<void, Error> request_change(std::uint32_t id, Bytes value,
                                               ChangeCallback&& callback,
                                               std::chrono::nanoseconds delay) = 0;
  virtual Expected<void, Error> raise_receive_size(std::uint32_t size) = 0;
  virtual Expected<void, Error> set_characteristic(std::uint32_t id, Bytes value) = 0;
  virtual std::optional<std::vector<std::byte>> peer_characteristic(std::uint32_t id) const = 0;

 protected:
  ~VersionTwo() = default;
};

class ClientImpl {
 public:
  ClientImpl() = default;
  virtual ~ClientImpl() = default;
  ClientImpl(const ClientImpl&) = delete;
  ClientImpl& operator=(const ClientImpl&) = delete;

  virtual Expected<Call, Error> prepare(const Procedure& procedure,
                                        std::uint32_t arguments_size_max) = 0;
  virtual Expected<Call, Error> prepare_message(std::uint32_t size_max) = 0;
  virtual Expected<Reply, Error> call(Call call) = 0;
  virtual Expected<void, Error> start(Call&& call, ReplyCallback&& callback) = 0;
  virtual void use_credential(const AuthSys& credential) = 0;
  virtual void progress() = 0;
  virtual void wait() = 0;
  virtual void drain() = 0;
  virtual void close() noexcept = 0;
  virtual Expected<void, Error> serve(std::uint32_t program, std::uint32_t version,
                                      Service& service) = 0;
  // `writable` is null for memory that is only read.
  virtual Expected<RegisteredMemory, Error> register_memory(Bytes memory, std::byte* writable) = 0;
  virtual Expected<void, Error> resume(rpc::Session& session) = 0;
  // Of Client::step_up(): the descriptor, which is the caller's, and the client has ended.
  virtual Expected<int, Error> give_up_socket();

  virtual int wait_fd() const noexcept = 0;
  virtual std::string_view provider_name() const noexcept = 0;
  virtual TransferCounters counters() const noexcept = 0;
  virtual std::uint32_t calls_in_flight() const noexcept = 0;
  virtual std::string_view peer() const noexcept = 0;
  virtual std::optional<ConnectionCharacteristics> characteristics() const noexcept { return {}; }
  // Null without a connection, and over other transports than RDMA.
  virtual std::optional<ConnectionTerms> terms() const noexcept { return std::nullopt; }
  // Null but on a connection of version two.
  virtual VersionTwo* version_two() noexcept { return nullptr; }
  virtual bool connected() const noexcept = 0;
  virtual bool ended() const noexcept = 0;

  OwnerThread& owner() const noexcept { return owner_; }

  // The end of the Client that had it.
  static void dispose(std::unique_ptr<ClientImpl> impl) {
    if (impl && impl->stays_behind()) (void)impl.release();
  }

 protected:
  static Client make_client(std::unique_ptr<ClientImpl> impl) { return Client(std::move(impl)); }
  Call make_call(std::uint32_t slot) noexcept { return {this, slot}; }
  Reply make_reply(std::uint32_t slot) noexcept { return {this, slot}; }
  static std::uint32_t slot_of(const Call& call) noexcept { return call.slot_; }
  // The call's slot, which is the caller's to free from now on.
  static std::uint32_t take_slot(Call& call) noexcept {
    call.impl_ = nullptr;
    return call.slot_;
  }

 private:
  friend class Call;
  friend class Client;
  friend class Reply;

  mutable OwnerThread owner_;

  virtual std::optional<Procedure> goodbye() const noexcept = 0;
  // True: it deletes itself when the last of its work ends.
  virtual bool stays_behind() = 0;
  virtual rpc::CallMessage& message(std::uint32_t slot) noexcept = 0;
  // Its Call or Reply has gone.
  virtual void free_slot(std::uint32_t slot) = 0;
};

}  // namespace rpcrdma

#endif  // RPCRDMA_RPC_CALL_CLIENT_IMPL_H_
