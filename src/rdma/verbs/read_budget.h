// Shares what a device has for RDMA Reads of peers among its connections.
#ifndef RPCRDMA_RDMA_VERBS_READ_BUDGET_H_
#define RPCRDMA_RDMA_VERBS_READ_BUDGET_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

namespace rpcrdma::rdma::verbs {

// A device says how many Reads it can serve in each queue pair (max_qp_rd_atom), and how many in
// all (max_res_rd_atom). Some have fewer in all than a few queue pairs may have each: the next one
// could not be connected. So each takes a part of what is left. From any thread.
class ReadBudget {
 public:
  // `total`: of the device; 0 or less: it does not say.
  explicit ReadBudget(int total) noexcept : left_(total > 0 ? total : kUnknown) {}
  ReadBudget(const ReadBudget&) = delete;
  ReadBudget& operator=(const ReadBudget&) = delete;

  // Holds what one connection has taken, until it goes.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)),
          reads_(other.reads_),
          taken_(other.taken_) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(reads_, other.reads_);
      std::swap(taken_, other.taken_);
      return *this;
    }
    ~Share() {
      if (budget_ != nullptr) budget_->left_.fetch_add(taken_, std::memory_order_relaxed);
    }
    std::uint8_t reads() const noexcept { return reads_; }

   private:
    friend ReadBudget;
    Share(ReadBudget& budget, std::uint8_t reads, int taken) noexcept
        : budget_(&budget), reads_(reads), taken_(taken) {}

    ReadBudget* budget_ = nullptr;
    std::uint8_t reads_ = 0;
    int taken_ = 0;  // may be less: where nothing is left, the device decides
  };

  // Takes `wish` Reads, or an eighth of what is left if that is less; one at least, if any is
  // wished for.
  Share take(std::uint8_t wish) noexcept {
    int left = left_.load(std::memory_order_relaxed);
    for (;;) {
      const int reads = std::min<int>(wish, std::max(left / kParts, 1));
      const int taken = std::min(reads, left);
      if (left_.compare_exchange_weak(left, left - taken, std::memory_order_relaxed)) {
        return {*this, static_cast<std::uint8_t>(reads), taken};
      }
    }
  }

 private:
  static constexpr int kParts = 8;
  static constexpr int kUnknown = 1 << 30;

  std::atomic<int> left_;
};

}  // namespace rpcrdma::rdma::verbs

#endif  // RPCRDMA_RDMA_VERBS_READ_BUDGET_H_
