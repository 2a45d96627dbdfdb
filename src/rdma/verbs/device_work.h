// The work of one connection at its device: the memory that it names, what is in the two queues,
// and what of it is complete.
#ifndef RPCRDMA_RDMA_VERBS_DEVICE_WORK_H_
#define RPCRDMA_RDMA_VERBS_DEVICE_WORK_H_

#include <cstddef>
#include <span>

#include "base/ring.h"
#include "rdma/verbs/device_queues.h"
#include "rdma/verbs/memory.h"
#include "rdma/verbs/receive_queue.h"
#include "rdma/verbs/send_queue.h"

namespace rpcrdma::rdma::verbs {

struct DeviceWork {
  // Precondition: `queues` are open. All outlive it.
  DeviceWork(const DeviceQueues& queues, const Options& options, const Capabilities& given,
             Counters& counted);

  // Returns whether so many further requests have room, and their completions.
  bool has_room(std::size_t more_receives, std::size_t others) const noexcept;
  // How many requests of a batch are of each kind.
  struct Kinds {
    std::size_t receives, exposures, others;
  };
  // Fails if the device cannot do all of the batch. `is_open`: it carries work in both directions.
  Expected<Kinds, Error> check(std::span<const work::Request> batch, bool is_open) const;
  // Takes a batch that was checked and has room, for the queues to post. Returns the requests from
  // the first on whose memory cannot be registered: those cannot be done at all, now or later, and
  // nothing of the batch is to be posted.
  std::span<const work::Request> take(std::span<work::Request> batch);
  void complete(const ibv_wc& completion);
  // The queue pair is gone: ends what is not over.
  void flush();

  const Capabilities& capabilities;
  Counters& counters;
  Memory memory;
  Ring<Completion> ready;  // for the user
  SendQueue sends;
  ReceiveQueue receives;
};

}  // namespace rpcrdma::rdma::verbs

#endif  // RPCRDMA_RDMA_VERBS_DEVICE_WORK_H_
