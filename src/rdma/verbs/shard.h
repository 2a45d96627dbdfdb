// The state that all objects of one provider share.
#ifndef RPCRDMA_RDMA_VERBS_SHARD_H_
#define RPCRDMA_RDMA_VERBS_SHARD_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "posix/reactor.h"
#include "posix/yielding.h"
#include "rdma/verbs/cm.h"
#include "rdma/verbs/device.h"
#include "rdma/verbs/options.h"
#include "rdma/verbs/queue_events.h"

namespace rpcrdma::rdma::verbs {

class QueuePair;

class Shard {
 public:
  Shard(const Options& given, std::unique_ptr<posix::Reactor> made,
        std::unique_ptr<CmChannel> channel)
      : options(given), reactor(std::move(made)), cm(std::move(channel)) {}

  // The device behind a connection manager's context, opened when it is first seen.
  Expected<Device*, Error> device(ibv_context& context);
  // All that were opened.
  std::span<const std::unique_ptr<Device>> devices() const noexcept { return devices_; }

  const Options options;
  const std::unique_ptr<posix::Reactor> reactor;
  const std::unique_ptr<CmChannel> cm;
  posix::Yielding yielding;
  std::vector<QueuePair*> all;       // that are not over
  std::vector<QueuePair*> to_visit;  // that the next progress() has to look after
  std::vector<QueuePair*> news;      // that may have something to poll
  NotedEvents queue_events;          // also those that another thread has read
  bool moved = false;                // completions came since the last wait

 private:
  std::vector<std::unique_ptr<Device>> devices_;
};

}  // namespace rpcrdma::rdma::verbs

#endif  // RPCRDMA_RDMA_VERBS_SHARD_H_
