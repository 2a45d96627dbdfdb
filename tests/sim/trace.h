// Records what happens, step by step: hashed always, printed when asked for.
#ifndef RPCRDMA_TESTS_SIM_TRACE_H_
#define RPCRDMA_TESTS_SIM_TRACE_H_

#include <fmt/core.h>

#include <cstdint>
#include <cstdio>
#include <string_view>
#include <type_traits>

#include "rdma/sim/world.h"

namespace rpcrdma::simulation {

// The digest covers time, words and numbers, never an address of memory: two runs of one seed have
// the same.
class Trace {
 public:
  explicit Trace(bool verbose) noexcept : verbose_(verbose) {}

  // `words` has a {} for each of the values: numbers, or texts.
  template <class... Values>
  void note(const rdma::sim::World& world, std::string_view words, const Values&... values) {
    mix(static_cast<std::uint64_t>(world.now().time_since_epoch().count()));
    mix(world.events());
    mix(words);
    (mix(values), ...);
    if (!verbose_) return;
    const auto ns = world.now().time_since_epoch().count();
    fmt::print("{:3}.{:09} {}\n", ns / 1'000'000'000, ns % 1'000'000'000,
               fmt::format(fmt::runtime(words), values...));
    std::fflush(stdout);
  }
  // Words for people only.
  void remark(std::string_view words) {
    if (!verbose_) return;
    fmt::print("              {}\n", words);
    std::fflush(stdout);
  }
  bool verbose() const noexcept { return verbose_; }
  std::uint64_t digest() const noexcept { return digest_; }

 private:
  void mix(std::string_view text) noexcept {
    for (const char c : text) mix(static_cast<unsigned char>(c));
  }
  template <class Number>
  requires std::is_arithmetic_v<Number>
  void mix(Number number) noexcept {
    const auto value = static_cast<std::uint64_t>(number);
    digest_ = (digest_ ^ value) * 0x100000001b3U;  // FNV-1a, by words
    digest_ ^= digest_ >> 29U;
  }

  const bool verbose_;
  std::uint64_t digest_ = 0xcbf29ce484222325U;
};

}  // namespace rpcrdma::simulation

#endif  // RPCRDMA_TESTS_SIM_TRACE_H_
