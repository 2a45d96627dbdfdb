// Sources of random bytes. Protocol code gets a source from its caller; it never opens one.
#ifndef RPCRDMA_BASE_RANDOM_H_
#define RPCRDMA_BASE_RANDOM_H_

#include <cstdint>

namespace rpcrdma {

// Real providers give bytes that a peer cannot predict; tests and the simulator a seeded stream.
class RandomSource {
 public:
  virtual ~RandomSource() = default;
  virtual std::uint64_t next() = 0;
};

// splitmix64: a small, seeded, reproducible stream for tests and simulation. Not secret.
class SeededRandom final : public RandomSource {
 public:
  explicit SeededRandom(std::uint64_t seed) noexcept : state_(seed) {}
  std::uint64_t next() override {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }
  // Uniform enough for tests, 0 <= result < bound; bound > 0.
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

}  // namespace rpcrdma

#endif  // RPCRDMA_BASE_RANDOM_H_
