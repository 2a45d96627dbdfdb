// The active side of a connection over an RDMA device, straight on librdmacm and libibverbs: for
// conversations that the provider would never hold, since each step is taken when the test says so.
//
// On RoCE the queue pair is not the connection manager's, so that even the last message of the
// set-up waits for the test. On iWARP there is none: the kernel ends the set-up by itself.
#ifndef RPCRDMA_TESTS_CONFORMANCE_RAW_VERBS_PEER_H_
#define RPCRDMA_TESTS_CONFORMANCE_RAW_VERBS_PEER_H_

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rpcrdma/provider.h"

namespace rpcrdma::test {

class RawVerbsPeer {
 public:
  // Drives the other side until the condition holds; false when time is up (Fabric::pump_until).
  using PumpUntil = std::function<bool(const std::function<bool()>&)>;
  // Finds the way to "ADDR:PORT", from ADDR as well, and makes a queue pair. Null: a call failed.
  static std::unique_ptr<RawVerbsPeer> make(const std::string& address, PumpUntil pump_until);
  ~RawVerbsPeer();  // without a farewell, but for what the kernel says
  RawVerbsPeer(const RawVerbsPeer&) = delete;
  RawVerbsPeer& operator=(const RawVerbsPeer&) = delete;

  // The set-up, in this order. False: a call failed, or the other side did not answer.
  bool request();       // asks for a connection
  bool await_answer();  // the other side has accepted: work can be posted
  bool confirm();       // tells the other side that the answer came; iWARP: nothing

  // Posts one buffer, whose contents do not matter. A Send for which the other side has no Receive
  // fails at once, as that side wishes; the other side's are tried again until one is there.
  bool receive(std::uint32_t size);
  bool send(std::uint32_t size);
  bool write(std::uint32_t size, const work::Remote& to);
  // Waits for the next completion; nullopt when none comes.
  std::optional<ibv_wc_status> next_completion();

  bool is_iwarp() const { return id_->verbs->device->transport_type == IBV_TRANSPORT_IWARP; }
  bool has_heard(rdma_cm_event_type type);

 private:
  template <auto kDestroy>
  struct Destroy {
    template <class T>
    void operator()(T* object) const noexcept {
      (void)kDestroy(object);
    }
  };
  template <class T, auto kDestroy>
  using Owned = std::unique_ptr<T, Destroy<kDestroy>>;

  explicit RawVerbsPeer(PumpUntil pump_until) : pump_until_(std::move(pump_until)) {}
  bool find(const std::string& address);
  bool make_queue();
  bool move_to(ibv_qp_state state);
  bool post(ibv_send_wr work, std::uint32_t size);
  bool await(rdma_cm_event_type type);
  ibv_qp* queue() const { return own_queue_ ? own_queue_.get() : id_->qp; }

  PumpUntil pump_until_;
  std::array<std::byte, 4096> buffer_{};
  std::vector<rdma_cm_event_type> heard_;
  Owned<rdma_event_channel, rdma_destroy_event_channel> channel_;
  Owned<rdma_cm_id, rdma_destroy_id> id_;
  Owned<ibv_pd, ibv_dealloc_pd> domain_;
  Owned<ibv_mr, ibv_dereg_mr> memory_;
  Owned<ibv_cq, ibv_destroy_cq> completions_;
  Owned<ibv_qp, ibv_destroy_qp> own_queue_;  // null on iWARP: it is the id's
};

}  // namespace rpcrdma::test

#endif  // RPCRDMA_TESTS_CONFORMANCE_RAW_VERBS_PEER_H_
