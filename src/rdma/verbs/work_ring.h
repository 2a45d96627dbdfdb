// Keeps work that was posted to one queue of a queue pair and has not completed yet, in its order.
//
// Devices report little: work without a requested completion is known to be done only by a later
// completion, and the end of a connection may flush work with completions, or without any. The ring
// remembers which completions the user still has to get. No rdma-core in this file.
#ifndef RPCRDMA_RDMA_VERBS_WORK_RING_H_
#define RPCRDMA_RDMA_VERBS_WORK_RING_H_

#include <cstdint>

#include "base/ring.h"
#include "rpcrdma/provider.h"

namespace rpcrdma::rdma::verbs {

// T has `bool done` and `bool own_completion`: the latter only ever completes by a completion that
// names it, not by a later one's (RDMA Reads on siw are overtaken by Sends).
template <class T>
class WorkRing {
 public:
  explicit WorkRing(std::size_t depth) : works_(depth) {}

  bool empty() const noexcept { return works_.empty(); }
  std::size_t size() const noexcept { return works_.size(); }
  // The number that the next work gets; numbers count up from 0 for ever.
  std::uint64_t next() const noexcept { return first_ + works_.size(); }
  void push(T work) { works_.push(std::move(work)); }

  // A completion names the work `number`. `finish(work, is_named)` is called for each work that is
  // over by this: it, and all before it that have no completion of their own; the oldest first.
  // False: no such work.
  template <class Finish>
  bool complete(std::uint64_t number, Finish finish) {
    if (number < first_ || number >= next()) return false;
    const auto named = static_cast<std::size_t>(number - first_);
    if (works_.at(named).done) return false;
    for (std::size_t i = 0; i < named; ++i) {
      T& work = works_.at(i);
      if (work.done || work.own_completion) continue;
      work.done = true;
      finish(work, false);
    }
    T& work = works_.at(named);
    work.done = true;
    finish(work, true);
    while (!works_.empty() && works_.front().done) {
      (void)works_.pop();
      ++first_;
    }
    return true;
  }
  // The end: everything that is not done, the oldest first.
  template <class Finish>
  void flush(Finish finish) {
    while (!works_.empty()) {
      T work = works_.pop();
      ++first_;
      if (!work.done) finish(work);
    }
  }

 private:
  Ring<T> works_;
  std::uint64_t first_ = 0;  // number of the oldest
};

}  // namespace rpcrdma::rdma::verbs

#endif  // RPCRDMA_RDMA_VERBS_WORK_RING_H_
