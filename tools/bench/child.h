// Servers, and further clients, in processes of their own.
#ifndef RPCRDMA_TOOLS_BENCH_CHILD_H_
#define RPCRDMA_TOOLS_BENCH_CHILD_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tools/bench/histogram.h"

namespace rpcrdma::tools::bench {

// Tells the parent where the server listens, or that the clients are there; call once.
using Announce = std::function<void(const std::string& text)>;
// Counts of a child, in memory that its parent reads.
struct Tally {
  // Counts calls of a client that have ended in one round of its loop.
  void ended(std::uint64_t count) noexcept { calls.fetch_add(count, std::memory_order_relaxed); }
  // Records how long a call of them took, while the parent measures.
  void took(std::chrono::nanoseconds latency) noexcept {
    if (measures.load(std::memory_order_relaxed)) latencies.add(latency);
  }

  std::atomic<std::uint64_t> allocations = 0;  // by its operator new
  std::atomic<std::uint64_t> calls = 0;        // that have ended; of clients
  std::atomic<bool> may_begin = false;         // Child::begin()
  std::atomic<bool> measures = false;          // Child::measure()
  Histogram latencies;                         // of clients' calls, while it measures
};

// Forks, keeps the child to `cpu` and lets it run `body` until the parent kills it or dies. Call
// while the process has one thread. Throws std::runtime_error when the child does not come up.
class Child {
 public:
  Child(std::optional<int> cpu, const std::function<void(const Announce&, Tally&)>& body);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  const std::string& address() const noexcept { return address_; }
  double cpu_seconds() const;  // that it has used
  std::uint64_t resident_kib() const;
  const Tally& tally() const noexcept { return *tally_; }
  bool has_ended() const;
  // Lets what waits in await_begin() go on.
  void begin() noexcept { tally_->may_begin = true; }
  // Begins or ends recording the latencies of the child's calls.
  void measure(bool value) noexcept { tally_->measures = value; }

 private:
  Tally* tally_;  // memory of both processes
  pid_t pid_ = -1;
  std::string address_;
};

// Waits in a child whose calls would hold up others that still connect.
void await_begin(const Tally& tally);
// Lets clients begin, and returns when together they have made so many calls: enough that each
// connection has had its turn, whose first calls cost what later ones do not. Throws
// std::runtime_error if one of them ends.
void begin_all(std::span<const std::unique_ptr<Child>> clients, std::uint64_t calls);
// Lets the calling process have as many descriptors as it may.
void raise_descriptors();
// Keeps the calling process to one CPU.
void pin_to(std::optional<int> cpu);

}  // namespace rpcrdma::tools::bench

#endif  // RPCRDMA_TOOLS_BENCH_CHILD_H_
