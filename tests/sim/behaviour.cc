#include "sim/behaviour.h"

#include <fmt/core.h>

#include <fstream>
#include <ios>
#include <sstream>

namespace rpcrdma::simulation {

void BehaviourMonitor::Digest::mix(std::uint64_t value) noexcept {
  value_ = (value_ ^ value) * 0x100000001b3U;  // FNV-1a, by words
  value_ ^= value_ >> 29U;
}

void BehaviourMonitor::Digest::mix(Bytes data) noexcept {
  mix(data.size());
  for (std::size_t i = 0; i < data.size(); i += 8) {
    std::uint64_t word = 0;
    for (std::size_t j = i; j < data.size() && j < i + 8; ++j) {
      word = word << 8U | std::to_integer<std::uint64_t>(data[j]);
    }
    mix(word);
  }
}

void BehaviourMonitor::departed(const rdma::sim::Departure& departure) {
  Digest& digest = senders_[departure.from];
  digest.mix(static_cast<std::uint64_t>(departure.kind));
  digest.mix(departure.data);
  if (departure.has_handle) digest.mix(static_cast<std::uint64_t>(departure.handle));
  digest.mix(departure.offset);
  digest.mix(departure.size);
}

void BehaviourMonitor::call_ended(bool is_backward, std::uint64_t call, unsigned result) {
  calls_[call << 1U | (is_backward ? 1U : 0U)].mix(result);
}

Behaviour BehaviourMonitor::result() const {
  const auto sum = [](const std::map<std::uint64_t, Digest>& digests) {
    Digest all;
    for (const auto& [key, digest] : digests) {
      all.mix(key);
      all.mix(digest.value());
    }
    return all.value();
  };
  return {sum(senders_), sum(calls_)};
}

std::optional<RecordedBehaviour> RecordedBehaviour::read(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  RecordedBehaviour recorded;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::uint64_t seed = 0;
    Behaviour behaviour;
    if (!(words >> seed >> std::hex >> behaviour.messages >> behaviour.outcomes)) {
      return std::nullopt;
    }
    recorded.of_seed_[seed] = behaviour;
  }
  return recorded;
}

std::optional<Behaviour> RecordedBehaviour::of(std::uint64_t seed) const {
  const auto at = of_seed_.find(seed);
  if (at == of_seed_.end()) return std::nullopt;
  return at->second;
}

std::string line_of(std::uint64_t seed, const Behaviour& behaviour) {
  return fmt::format("{} {:016x} {:016x}", seed, behaviour.messages, behaviour.outcomes);
}

}  // namespace rpcrdma::simulation
