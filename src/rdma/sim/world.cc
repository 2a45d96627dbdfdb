#include "rdma/sim/world.h"

#include <algorithm>

#include "base/assert.h"
#include "rdma/sim/provider.h"
#include "rdma/sim/queue_pair.h"

namespace rpcrdma::rdma::sim {

World::World(std::uint64_t seed, const Options& options)
    : options_(options), random_(seed), tag_key_(random_.next()) {
  RPCRDMA_ASSERT(options.latency_max.count() > 0 && options.granularity.count() > 0,
                 "simulated time must pass");
}

World::~World() {
  RPCRDMA_ASSERT(queue_pairs_.empty() && providers_.empty(), "a world must end last");
}

bool World::step() {
  if (agenda_.empty()) return false;
  auto event = agenda_.extract(agenda_.begin());
  now_ = std::max(now_, event.key().first);
  ++events_;
  event.mapped()();
  if (options_.disconnect_every != 0 && events_ % options_.disconnect_every == 0) {
    break_some_connection();
  }
  return true;
}

void World::run_due() {
  while (!agenda_.empty() && agenda_.begin()->first.first <= now_) step();
}

std::optional<Instant> World::next_event() const {
  if (agenda_.empty()) return std::nullopt;
  return agenda_.begin()->first.first;
}

bool World::pass_time() {
  std::optional<Instant> next = next_event();
  for (const Provider* provider : providers_) {
    const std::optional<Instant> timer = provider->timer();
    if (timer && (!next || *timer < *next)) next = timer;
  }
  if (!next) return false;
  now_ = std::max(now_, *next);
  for (Provider* provider : providers_) provider->disarm_if_due(now_);
  return true;
}

void World::remove_listening_devices() {
  for (const auto& [address, listener] : listeners_) listener->handle_device_removed();
  listeners_.clear();
}

void World::violation(std::string_view text) {
  violations_.emplace_back(text);
}

void World::stop_faults() {
  options_.refuse_one_in = 0;
  options_.attach_fails_one_in = 0;
  options_.expose_fails_one_in = 0;
  options_.disconnect_every = 0;
}

std::chrono::nanoseconds World::draw_latency() {
  const auto bound = static_cast<std::uint64_t>(options_.latency_max.count());
  return std::chrono::nanoseconds(1 + random_.below(bound));
}

World::EventKey World::at(Instant when, std::function<void()> action) {
  const auto grain = options_.granularity.count();
  const auto ticks = (when.time_since_epoch().count() + grain - 1) / grain * grain;
  const EventKey key{Instant{std::chrono::nanoseconds(ticks)}, next_sequence_++};
  agenda_.emplace(key, std::move(action));
  return key;
}

World::EventKey World::after_in_order(std::chrono::nanoseconds delay, Instant* last,
                                      std::function<void()> action) {
  *last = std::max(*last, now_ + delay);
  return at(*last, std::move(action));
}

SteeringTag World::new_tag() {
  // Four rounds of a Feistel network over the count: a permutation of 32 bits, hence no repetition.
  std::uint32_t left = tags_given_ >> 16U;
  std::uint32_t right = tags_given_ & 0xffffU;
  for (std::uint64_t round = 0; round < 4; ++round) {
    const std::uint64_t mixed = SeededRandom(tag_key_ ^ (round << 32U) ^ right).next();
    const std::uint32_t next = left ^ static_cast<std::uint32_t>(mixed & 0xffffU);
    left = right;
    right = next;
  }
  ++tags_given_;
  RPCRDMA_ASSERT(tags_given_ != 0, "all steering tags of the world are used up");
  return SteeringTag{left << 16U | right};
}

std::uint64_t World::new_address() {
  return random_.next() >> 16U;
}

World::QueuePairId World::add(QueuePair* queue_pair) {
  const QueuePairId id = next_queue_pair_++;
  queue_pairs_.emplace(id, queue_pair);
  return id;
}

QueuePair* World::find(QueuePairId id) const {
  const auto at = queue_pairs_.find(id);
  return at == queue_pairs_.end() ? nullptr : at->second;
}

std::optional<std::string> World::add_listener(std::string address, Listener* listener) {
  if (address.ends_with(":0")) {
    address.pop_back();
    address += std::to_string(next_port_++);
  }
  if (!listeners_.emplace(address, listener).second) return std::nullopt;
  return address;
}

Listener* World::find_listener(const std::string& address) const {
  const auto at = listeners_.find(address);
  return at == listeners_.end() ? nullptr : at->second;
}

std::string World::new_ephemeral_address(std::string_view host) {
  return std::string(host) + ":" + std::to_string(next_port_++);
}

void World::break_some_connection() {
  std::vector<QueuePair*> connected;
  for (const auto& [id, queue_pair] : queue_pairs_) {
    if (queue_pair->is_connected()) connected.push_back(queue_pair);
  }
  if (connected.empty()) return;
  connected[static_cast<std::size_t>(random_.below(connected.size()))]->break_connection();
}

}  // namespace rpcrdma::rdma::sim
