// The Receives of one connection: a queue of its own, or its share of those of the device.
#ifndef RPCRDMA_RDMA_VERBS_RECEIVE_QUEUE_H_
#define RPCRDMA_RDMA_VERBS_RECEIVE_QUEUE_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/ring.h"
#include "rdma/verbs/device.h"
#include "rdma/verbs/memory.h"
#include "rdma/verbs/receive_pool.h"
#include "rdma/verbs/work_ring.h"
#include "rpcrdma/provider.h"

namespace rpcrdma::rdma::verbs {

class ReceiveQueue {
 public:
  // `depth`: Receives at a time. Completions for the user go to `done`. Null for `pool`: a queue of
  // its own. All that is referred to outlives it.
  ReceiveQueue(std::size_t depth, ReceivePool* pool, const Traits& traits, Memory& memory,
               Ring<Completion>& done, Counters& counters);

  std::size_t posted() const noexcept { return share_ ? share_->rights() : works_.size(); }
  bool has_received() const noexcept { return has_received_; }  // a message, ever

  // A queue of its own. A batch: begin_batch(), add(), post(), as in SendQueue.
  void begin_batch(std::size_t slices);
  bool add(std::uint64_t id, const Receive& receive);
  std::optional<int> post(ibv_qp& queue);
  // A completion names the Receive `number`.
  void complete(std::uint64_t number, const ibv_wc& completion);

  // A share. False: the device takes no more.
  bool post_rights(std::span<const std::uint16_t> numbers, std::uint32_t size);
  void release(std::span<const std::uint16_t> numbers);  // nothing without a share
  // A message is in the buffer. False: the connection had no right to it; refusal() says why.
  bool take(std::uint32_t buffer, const ibv_wc& completion);
  std::string_view refusal() const noexcept { return share_->refusal(); }

  // The queue pair is gone: ends what is not over.
  void flush();

 private:
  struct Work {
    std::uint64_t id = 0;
    bool own_completion = true;
    bool done = false;
  };

  Completion message_of(const ibv_wc& completion);

  const Traits& traits_;
  Memory& memory_;
  Ring<Completion>& done_;
  Counters& counters_;
  std::optional<ReceiveShare> share_;  // none: Receives of its own
  bool has_received_ = false;
  WorkRing<Work> works_;
  std::vector<ibv_recv_wr> chain_;  // the batch that is being posted, kept, as are:
  std::vector<ibv_sge> slices_;
};

}  // namespace rpcrdma::rdma::verbs

#endif  // RPCRDMA_RDMA_VERBS_RECEIVE_QUEUE_H_
