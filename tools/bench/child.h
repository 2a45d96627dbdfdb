// A server in a process of its own.
#ifndef RPCRDMA_TOOLS_BENCH_CHILD_H_
#define RPCRDMA_TOOLS_BENCH_CHILD_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace rpcrdma::tools::bench {

// Tells the parent where the server listens; call once.
using Announce = std::function<void(const std::string& address)>;

// Forks, keeps the child to `cpu` and lets it serve until the parent kills it or dies. Call while
// the process has one thread. Throws std::runtime_error when the child does not come up.
class Child {
 public:
  Child(std::optional<int> cpu, const std::function<void(const Announce&)>& serve);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  const std::string& address() const noexcept { return address_; }
  double cpu_seconds() const;                  // that it has used
  std::uint64_t allocations() const noexcept;  // by its operator new

 private:
  struct Shared;  // memory of both processes
  Shared* shared_;
  pid_t pid_ = -1;
  std::string address_;
};

// Keeps the calling process to one CPU.
void pin_to(std::optional<int> cpu);

}  // namespace rpcrdma::tools::bench

#endif  // RPCRDMA_TOOLS_BENCH_CHILD_H_
