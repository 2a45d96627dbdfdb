// The send queue of one connection: puts work together, posts it, and knows what is not over.
//
// Few doorbells and completions: a batch is one call to the device for Sends, Writes, Reads and
// invalidations. Windows are bound in front of the next work that leaves. Only the last work of a
// batch that somebody waits for asks for a completion, which tells of all before it; RDMA Reads ask
// for their own.
#ifndef RPCRDMA_RDMA_VERBS_SEND_QUEUE_H_
#define RPCRDMA_RDMA_VERBS_SEND_QUEUE_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/ring.h"
#include "rdma/verbs/bounce.h"
#include "rdma/verbs/device.h"
#include "rdma/verbs/memory.h"
#include "rdma/verbs/work_ring.h"
#include "rpcrdma/provider.h"

namespace rpcrdma::rdma::verbs {

class SendQueue {
 public:
  struct Limits {
    std::uint32_t depth;       // work requests of the user's
    std::uint32_t inline_max;  // bytes of a Send that goes by the queue
    std::uint32_t slices_max;  // of a work request
  };
  // Room in the queue for what is not the user's: markers, and work whose end is not known yet.
  static constexpr std::uint32_t kSlack = 64;

  // Completions for the user go to `done`. All that is referred to outlives it.
  SendQueue(const Limits& limits, ibv_pd& domain, const Traits& traits, Memory& memory,
            Ring<Completion>& done, Counters& counters);

  std::size_t size() const noexcept { return works_.size(); }      // posted, and not over
  std::size_t bindings() const noexcept { return binds_.size(); }  // not posted yet
  std::uint32_t copies_under_way() const noexcept { return copies_under_way_; }
  int exposure_failure() const noexcept { return exposure_failure_; }  // an errno
  std::uint64_t registrations() const noexcept { return bounce_.registrations(); }

  // A batch: begin_batch(), add() for each request but Receives, post(). `slices`: no more than so
  // many are added. False from add(): memory could not be registered, the batch cannot be posted.
  void begin_batch(std::size_t slices);
  bool add(work::Request& request);
  // The errno of a device that did not take all of it.
  std::optional<int> post(ibv_qp& queue);
  std::optional<int> post_bindings(ibv_qp& queue);
  // Work of its own kind, whose completion says that all Sends before it are out.
  std::optional<int> post_marker(ibv_qp& queue);

  // A completion names the work `number`.
  void complete(std::uint64_t number, Status status);
  // The queue pair is gone: ends what is not over.
  void flush();

 private:
  enum class Kind : std::uint8_t { kSend, kWrite, kRead, kBind, kInvalidate, kMarker };
  struct Work {
    std::uint64_t id = 0;
    Kind kind = Kind::kSend;
    bool is_wanted = false;  // the user waits for its completion
    bool is_copied = false;  // the message went by the queue, or from our own buffer
    bool own_completion = false;
    bool done = false;
    SteeringTag tag{};       // kBind, kInvalidate
    std::uint32_t size = 0;  // bytes, of what moved
    Bounce::Place bounce{};  // of a Send with too many slices
    MemoryRegion sink{};     // of a Read whose sink had to be exposed
  };

  bool add_send(work::Request& request, const Send& send);
  bool put_together(const Send& send, std::uint64_t size, Work& work);
  bool add_read(const work::Request& request, const Read& read);
  bool add_write(const work::Request& request, const Write& write);
  void expose(const work::Request& request, const Expose& work);
  void revoke(const work::Request& request, const Revoke& work);
  void add_inline(const Send& send);
  ibv_send_wr& append(Work work);
  void name_slices(ibv_send_wr& work, std::size_t first);
  void ask_for_completion();
  void finish(Work& work, Status status, bool is_certain);

  const Limits limits_;
  const Traits& traits_;
  Memory& memory_;
  Ring<Completion>& done_;
  Counters& counters_;
  Bounce bounce_;
  WorkRing<Work> works_;
  std::uint32_t since_signal_ = 0;  // work since the last that asked for a completion
  std::uint32_t copies_under_way_ = 0;
  int exposure_failure_ = 0;
  bool is_gone_ = false;                  // the queue pair
  std::vector<std::uint64_t> unrevoked_;  // ids of Revokes that were given up; told at the end

  // The batch that is being posted; kept, so that nothing is allocated in steady state.
  std::vector<ibv_send_wr> chain_;
  std::vector<ibv_sge> slices_;
  std::optional<std::size_t> last_wanted_;  // of chain_: somebody waits for it
  std::vector<SteeringTag> unbound_;        // whose binding is not with the device yet, with:
  std::vector<ibv_send_wr> binds_;
};

}  // namespace rpcrdma::rdma::verbs

#endif  // RPCRDMA_RDMA_VERBS_SEND_QUEUE_H_
