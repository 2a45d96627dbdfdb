#include "rdma/sim/provider.h"

#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "rdma/sim/queue_pair.h"

namespace rpcrdma::rdma::sim {
namespace {

std::vector<std::byte> copy_of(Bytes bytes) {
  return {bytes.begin(), bytes.end()};
}

bool is_address(std::string_view address) {
  const std::size_t colon = address.rfind(':');
  return colon != std::string_view::npos && colon > 0 && colon + 1 < address.size() &&
         address.find_first_not_of("0123456789", colon + 1) == std::string_view::npos;
}

Unexpected<Error> failure(Errc code, std::string_view operation) {
  return Unexpected<Error>(Error{code, 0, operation});
}

void refuse(World& world, World::QueuePairId initiator) {
  world.after(world.draw_latency(), [&world, initiator] {
    if (QueuePair* queue_pair = world.find(initiator)) {
      queue_pair->handle_refused({Errc::kRefused, 0, "connect"});
    }
  });
}

}  // namespace

Provider::Provider(World& world, std::string name)
    : world_(world),
      name_(std::move(name)),
      remote_invalidation_(world.options().remote_invalidation) {
  world_.add(this);
}

Provider::~Provider() {
  world_.remove(this);
}

Expected<std::unique_ptr<rdma::QueuePair>, Error> Provider::accept(
    std::unique_ptr<rdma::Incoming> request, Bytes private_data) {
  // Requests come from listeners of this world; others are our bug. Must work without RTTI.
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-static-cast-downcast)
  std::unique_ptr<Incoming> incoming(static_cast<Incoming*>(request.release()));
  ConnectRequest taken = incoming->take();
  auto queue_pair = std::make_unique<QueuePair>(world_, std::move(taken.peer_address),
                                                incoming->sends_with_invalidate());
  queue_pair->accept(taken.initiator, std::move(taken.private_data), copy_of(private_data));
  return queue_pair;
}

Expected<std::unique_ptr<rdma::QueuePair>, Error> Provider::connect(std::string_view address,
                                                                    Bytes private_data) {
  if (!is_address(address)) return failure(Errc::kBadAddress, "connect");
  auto queue_pair = std::make_unique<QueuePair>(world_, std::string(address), remote_invalidation_);
  queue_pair->start_setup_timer();
  ConnectRequest request{queue_pair->id(), world_.new_ephemeral_address(host_),
                         copy_of(private_data)};
  world_.after(world_.draw_latency(), [world = &world_, to = std::string(address), request] {
    Listener* listener = world->find_listener(to);
    if (listener == nullptr || world->draw_fault(world->options().refuse_one_in)) {
      refuse(*world, request.initiator);
    } else {
      listener->handle_request(request);
    }
  });
  return queue_pair;
}

Expected<std::unique_ptr<rdma::Listener>, Error> Provider::listen(std::string_view address) {
  if (!is_address(address)) return failure(Errc::kBadAddress, "listen");
  auto listener = std::make_unique<Listener>(world_, remote_invalidation_);
  if (!listener->start(address)) return failure(Errc::kBadAddress, "listen");
  return listener;
}

void Provider::progress() {
  world_.run_due();
}

void Provider::wait() {
  if (woken_.exchange(false)) return;
  world_.pass_time();
}

Incoming::Incoming(World& world, ConnectRequest request, bool sends_with_invalidate)
    : world_(world), request_(std::move(request)), sends_with_invalidate_(sends_with_invalidate) {}

Incoming::~Incoming() {
  if (!taken_) refuse(world_, request_.initiator);
}

ConnectRequest Incoming::take() {
  RPCRDMA_ASSERT(!taken_, "connection request accepted twice");
  taken_ = true;
  return request_;
}

Listener::~Listener() {
  if (!address_.empty() && !failure_) world_.remove_listener(address_);
}

std::unique_ptr<rdma::Incoming> Listener::poll_incoming() {
  if (waiting_.empty()) return nullptr;
  auto first = std::move(waiting_.front());
  waiting_.pop_front();
  return first;
}

bool Listener::start(std::string_view address) {
  const auto real = world_.add_listener(std::string(address), this);
  address_ = real.value_or("");
  return real.has_value();
}

void Listener::handle_device_removed() {
  failure_ = Error{Errc::kProvider, ENODEV, "the simulated device was removed"};
}

void Listener::handle_request(ConnectRequest request) {
  waiting_.push_back(std::make_unique<Incoming>(world_, std::move(request), remote_invalidation_));
}

}  // namespace rpcrdma::rdma::sim
