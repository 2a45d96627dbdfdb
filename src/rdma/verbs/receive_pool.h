// One queue of Receives, and the memory of their messages, for all connections that a provider has
// accepted on a device; and a connection's share of it.
//
// A connection that is quiet costs no memory for messages, but those that share are less apart:
// they have one protection domain, and a peer that sends more than it was granted takes what others
// wait for, until it is cut off. A queue pair with Receives of its own has neither.
#ifndef RPCRDMA_RDMA_VERBS_RECEIVE_POOL_H_
#define RPCRDMA_RDMA_VERBS_RECEIVE_POOL_H_

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/ring.h"
#include "rdma/verbs/completion_owner.h"
#include "rdma/verbs/fork_guard.h"
#include "rdma/verbs/options.h"
#include "rpcrdma/provider.h"

namespace rpcrdma::rdma::verbs {

class Device;

// Is told what came for a queue pair, also by collect() of any other one.
class PooledReceiver {
 public:
  // A message is in the buffer `number`, or (by its status) was to come there. Whoever takes it
  // gives the buffer back.
  virtual void take_pooled(std::uint32_t number, const ibv_wc& completion) = 0;

 protected:
  ~PooledReceiver() = default;
};

class ReceivePool final : public CompletionOwner {
 public:
  // Returns why connections of this device can have no pool; empty: they may have one.
  static std::string_view obstacle(const Device& device, const SharedReceives& wish);
  // The device outlives it.
  static Expected<std::unique_ptr<ReceivePool>, Error> open(Device& device,
                                                            const SharedReceives& wish);
  ~ReceivePool();
  ReceivePool(const ReceivePool&) = delete;
  ReceivePool& operator=(const ReceivePool&) = delete;

  // Notes the event with the pool whose queue has failed, on whatever thread that one is: one
  // thread alone reads an event. From any thread.
  static void deliver(const ibv_async_event& event) noexcept;
  // Its queue has failed: nobody receives there any more.
  bool has_failed() const noexcept { return has_failed_; }

  ibv_pd& domain() const noexcept { return *domain_; }
  ibv_srq& queue() const noexcept { return *queue_; }
  ibv_cq& completions() const noexcept { return *completions_; }
  std::uint32_t buffer_size() const noexcept { return wish_.size; }  // bytes

  void add(const ibv_qp& queue_pair, PooledReceiver& receiver);
  void remove(const ibv_qp& queue_pair) noexcept;
  const std::byte* message(std::uint32_t number) const noexcept {
    return memory_.get() + number * stride_;
  }
  // One doorbell. False: the device takes no more.
  bool give_back(std::span<const std::uint32_t> numbers);
  // Hands out what has come, no more than there are buffers: peers may send as fast as they are
  // handed out. True if there was anything.
  bool collect();
  // Asks the device to tell of the next message, and looks for those that came before.
  bool arm();
  void handle_completion_event() noexcept override;

 private:
  ReceivePool(Device& device, const SharedReceives& wish);
  Expected<void, Error> open();

  Device& device_;
  const SharedReceives wish_;
  BornHere born_;
  const std::size_t stride_;  // bytes from one buffer to the next
  std::unique_ptr<std::byte[]> memory_;
  Owned<ibv_pd, ibv_dealloc_pd> domain_;
  Owned<ibv_mr, ibv_dereg_mr> region_;
  Owned<ibv_cq, ibv_destroy_cq> completions_;
  Owned<ibv_srq, ibv_destroy_srq> queue_;
  std::unordered_map<std::uint32_t, PooledReceiver*> receivers_;  // by the queue pair's number
  std::vector<ibv_recv_wr> chain_;                                // kept, as are:
  std::vector<ibv_sge> slices_;
  bool armed_ = false;
  std::atomic<bool> has_failed_ = false;
};

// The rights of one connection to receive from the pool, and the messages that it holds.
class ReceiveShare {
 public:
  // Takes at most `depth` rights at a time.
  ReceiveShare(ReceivePool& pool, std::size_t depth) : pool_(pool), rights_(depth) {}
  ~ReceiveShare();
  ReceiveShare(const ReceiveShare&) = delete;
  ReceiveShare& operator=(const ReceiveShare&) = delete;

  ReceivePool& pool() const noexcept { return pool_; }
  std::size_t rights() const noexcept { return rights_.size(); }
  // Each number is a right to one message of up to `size` bytes, and gives back the buffer of the
  // message that it got before. Returns the doorbells rung; nullopt: the device takes no more.
  std::optional<std::size_t> post(std::span<const std::uint16_t> numbers, std::uint32_t size);
  // Returns the buffers of these numbers.
  std::optional<std::size_t> release(std::span<const std::uint16_t> numbers);
  // The oldest right takes the message in the buffer. nullopt: there is no right for it, whose
  // text is refusal(); the buffer is given back.
  std::optional<Completion> take(std::uint32_t buffer, std::uint32_t size);
  std::string_view refusal() const noexcept {
    return rights_.empty() ? "the peer sent more than Receives are posted"
                           : "a message was longer than the Receive for it";
  }
  // The rights that no message came for, the oldest first.
  template <class Function>
  void flush(Function function) {
    while (!rights_.empty()) function(rights_.pop().number);
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  ReceivePool& pool_;
  struct Right {
    std::uint16_t number;
    std::uint32_t size;  // of the longest message, bytes
  };
  Ring<Right> rights_;
  std::vector<std::uint32_t> held_;      // the buffer that each number has, kNone: none
  std::vector<std::uint32_t> returned_;  // kept for post()
};

}  // namespace rpcrdma::rdma::verbs

#endif  // RPCRDMA_RDMA_VERBS_RECEIVE_POOL_H_
