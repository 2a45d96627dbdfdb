// Says what a simulation found: the first invariant that was broken, and how it shows.
#ifndef RPCRDMA_TESTS_SIM_VERDICT_H_
#define RPCRDMA_TESTS_SIM_VERDICT_H_

#include <optional>
#include <string>
#include <utility>

namespace rpcrdma::simulation {

struct Broken {
  int invariant;     // its number in docs/invariants.md; 0: the simulation did not end
  std::string text;  // one sentence
};

// Keeps the first cause: what follows it may be its consequence.
class Verdict {
 public:
  void broken(int invariant, std::string text) {
    if (!first_) first_ = Broken{invariant, std::move(text)};
  }
  bool ok() const noexcept { return !first_.has_value(); }
  const std::optional<Broken>& first() const noexcept { return first_; }

 private:
  std::optional<Broken> first_;
};

}  // namespace rpcrdma::simulation

#endif  // RPCRDMA_TESTS_SIM_VERDICT_H_
