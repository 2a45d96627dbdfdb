// Describes what peers and programs can see of one seed by two numbers: they stay the same while
// the library is rebuilt inside.
#ifndef RPCRDMA_TESTS_SIM_BEHAVIOUR_H_
#define RPCRDMA_TESTS_SIM_BEHAVIOUR_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "rdma/sim/world.h"

namespace rpcrdma::simulation {

// `messages` covers what each end of each connection sent, in order and byte for byte; `outcomes`
// how each call ended. Neither covers time, nor how messages of several connections interleave.
struct Behaviour {
  std::uint64_t messages = 0;
  std::uint64_t outcomes = 0;
  bool operator==(const Behaviour&) const = default;
};

class BehaviourMonitor {
 public:
  void departed(const rdma::sim::Departure& departure);
  // Calls of clients and backward calls are numbered apart. `result` is 1000 or an Errc.
  void call_ended(bool is_backward, std::uint64_t call, unsigned result);

  Behaviour result() const;

 private:
  class Digest {
   public:
    void mix(std::uint64_t value) noexcept;
    void mix(Bytes data) noexcept;
    std::uint64_t value() const noexcept { return value_; }

   private:
    std::uint64_t value_ = 0xcbf29ce484222325U;
  };

  std::map<std::uint64_t, Digest> senders_;
  std::map<std::uint64_t, Digest> calls_;
};

// The behaviour of seeds as a file holds it: a line "SEED MESSAGES OUTCOMES" for each, in hex.
class RecordedBehaviour {
 public:
  // nullopt: the file cannot be read, or a line of it is not such a line.
  static std::optional<RecordedBehaviour> read(const std::string& path);
  // nullopt: the file does not have this seed.
  std::optional<Behaviour> of(std::uint64_t seed) const;

 private:
  std::map<std::uint64_t, Behaviour> of_seed_;
};
std::string line_of(std::uint64_t seed, const Behaviour& behaviour);

}  // namespace rpcrdma::simulation

#endif  // RPCRDMA_TESTS_SIM_BEHAVIOUR_H_
