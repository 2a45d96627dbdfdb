#include "rdma/sim/queue_pair.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "rdma/request_check.h"

namespace rpcrdma::rdma::sim {
namespace {

constexpr Error kBroken{Errc::kClosed, 0, "the connection broke"};

Capabilities capabilities_of(const Options& options, bool remote_invalidation) {
  return {options.queue_depth_max, options.reads_in_flight_max, options.sge_max,
          remote_invalidation,     remote_invalidation,         options.registering_is_costly,
          options.shares_receives, options.reads_in_flight_max};
}

Departure departure_of(World::QueuePairId from, const Message& message) {
  using Kind = Departure::Kind;
  if (const auto* send = std::get_if<SendMessage>(&message)) {
    return {from, Kind::kSend, send->data, send->invalidate.value_or(SteeringTag{}),
            send->invalidate.has_value()};
  }
  if (const auto* write = std::get_if<WriteMessage>(&message)) {
    return {from, Kind::kWrite, write->data, write->to.tag, true, write->to.address};
  }
  if (const auto* read = std::get_if<ReadMessage>(&message)) {
    return {from, Kind::kRead, {}, read->from.tag, true, read->from.address, read->from.size};
  }
  if (const auto* response = std::get_if<ReadResponse>(&message)) {
    return {from, Kind::kReadResponse, response->data};
  }
  return {from, std::holds_alternative<ReadyMessage>(message) ? Kind::kSetup : Kind::kEnd, {}};
}

std::vector<Slice> copy_of(std::span<const Slice> slices) {
  return {slices.begin(), slices.end()};
}

}  // namespace

QueuePair::QueuePair(World& world, std::string peer_address, bool remote_invalidation)
    : world_(world),
      id_(world.add(this)),
      peer_address_(std::move(peer_address)),
      capabilities_(capabilities_of(world.options(), remote_invalidation)) {}

QueuePair::~QueuePair() {
  if (setup_timer_) world_.cancel(*setup_timer_);
  if (state_ != State::kClosed) travel(EndMessage{});
  world_.remove(id_);
}

Expected<RegionId, Error> QueuePair::attach(MutableBytes memory) {
  if (domain_.region_count() >= world_.options().regions_max ||
      world_.draw_fault(world_.options().attach_fails_one_in)) {
    return Unexpected<Error>(Error{Errc::kNoResources, 0, "attach"});
  }
  ++counters_.registrations;
  return domain_.attach(memory, memory);
}

Expected<RegionId, Error> QueuePair::attach_read_only(Bytes memory) {
  if (domain_.region_count() >= world_.options().regions_max ||
      world_.draw_fault(world_.options().attach_fails_one_in)) {
    return Unexpected<Error>(Error{Errc::kNoResources, 0, "attach"});
  }
  ++counters_.registrations;
  return domain_.attach(memory, std::nullopt);
}

void QueuePair::detach(RegionId region) {
  RPCRDMA_ASSERT(!work_.refers_to(region), "detach of a region that posted work refers to");
  domain_.detach(region);
}

// Set-up.

void QueuePair::start_setup_timer() {
  setup_timer_ = world_.after(world_.options().setup_timeout, [world = &world_, id = id_] {
    QueuePair* self = world->find(id);
    if (self == nullptr) return;
    self->setup_timer_.reset();
    self->handle_refused({Errc::kTimedOut, 0, "connect"});
  });
}

void QueuePair::accept(World::QueuePairId initiator, std::vector<std::byte> peer_private_data,
                       std::vector<std::byte> private_data) {
  peer_ = initiator;
  world_.departed({initiator, Departure::Kind::kSetup, peer_private_data});
  world_.departed({id_, Departure::Kind::kSetup, private_data});
  early_private_data_ = std::move(peer_private_data);
  // In the order of messages, so that the end of the connection never comes before its start.
  world_.after_in_order(
      world_.draw_latency(), &last_arrival_,
      [world = &world_, initiator, acceptor = id_, data = std::move(private_data)] {
        if (QueuePair* peer = world->find(initiator)) {
          peer->handle_accepted(acceptor, data);
        } else if (QueuePair* self = world->find(acceptor)) {
          self->close(kBroken, LinkEvent::kDisconnected);
        }
      });
}

void QueuePair::handle_accepted(World::QueuePairId acceptor, std::vector<std::byte> private_data) {
  peer_ = acceptor;
  if (state_ != State::kConnecting) {
    travel(EndMessage{});
    return;
  }
  if (setup_timer_) world_.cancel(*setup_timer_);
  setup_timer_.reset();
  peer_private_data_ = std::move(private_data);
  state_ = State::kConnected;
  news_.report(LinkEvent::kConnected);
  travel(ReadyMessage{});
}

void QueuePair::handle_refused(const Error& cause) {
  if (state_ != State::kConnecting) return;
  close(cause, LinkEvent::kRefused);
}

void QueuePair::break_connection() {
  for (const World::QueuePairId id : {id_, peer_}) {
    world_.after(world_.draw_latency(), [world = &world_, id] {
      if (QueuePair* each = world->find(id)) each->close(kBroken, LinkEvent::kDisconnected);
    });
  }
}

// Posting.

Expected<void, Error> QueuePair::post(std::span<work::Request> batch) {
  if (state_ == State::kClosing || state_ == State::kClosed) {
    return Unexpected<Error>(Error{Errc::kClosed, 0, "post"});
  }
  RequestCheck check(
      capabilities_, state_ == State::kConnected,
      [this](std::span<const Slice> slices, std::size_t max, auto to_write) {
        return slices.size() <= std::min<std::size_t>(max, capabilities_.sge_max) &&
               (to_write ? domain_.are_writable(slices) : domain_.are_readable(slices));
      });
  for (const work::Request& request : batch) {
    std::string_view fault = check.fault_of(request);
    const auto* revoke = std::get_if<Revoke>(&request.work);
    if (revoke != nullptr && !domain_.was_given_out(revoke->tag)) {
      fault = "Revoke of a tag that was never given out";
    }
    if (fault.empty()) continue;
    world_.violation(fault);
    return Unexpected<Error>(Error{Errc::kUnsupported, 0, fault});
  }
  if (const auto full =
          work_.find_no_room(batch, domain_.exposure_count(), world_.options().exposures_max)) {
    return Unexpected<Error>(*full);
  }
  for (work::Request& request : batch) take(request);
  return {};
}

Expected<void, Error> QueuePair::post_receives(const ReceiveBuffers& buffers,
                                               std::span<const std::uint16_t> numbers) {
  if (!capabilities_.shares_receives) return rdma::QueuePair::post_receives(buffers, numbers);
  if (state_ == State::kClosing || state_ == State::kClosed) {
    return Unexpected<Error>(Error{Errc::kClosed, 0, "post"});
  }
  if (!work_.has_room_for_receives(numbers.size())) {
    return Unexpected<Error>(Error{Errc::kNoResources, 0, "post: the queue is full"});
  }
  for (const std::uint16_t number : numbers) {
    messages_.give_back(number);
    work_.add(PostedReceive{number, {}, buffers.size});
  }
  return {};
}

void QueuePair::release_receives(std::span<const std::uint16_t> numbers) {
  for (const std::uint16_t number : numbers) {
    if (work_.has_receive(number)) world_.violation("release of a Receive that is posted");
    messages_.give_back(number);
  }
}

void QueuePair::take(work::Request& request) {
  const std::uint64_t id = request.id;
  const bool signaled = request.signaled;
  using Kind = Outgoing::Kind;
  const auto start = [this](Outgoing outgoing) {
    later(&last_departure_, &QueuePair::depart, work_.add(std::move(outgoing)));
  };
  const auto start_local = [this](Local local) {
    later(&last_local_, &QueuePair::run_local, work_.add(std::move(local)));
  };
  const Overloaded takes{
      [&](const Receive& work) {
        for (const Slice& slice : work.into) domain_.poison(slice);
        work_.add(PostedReceive{id, copy_of(work.into), total_size(work.into)});
      },
      [&](const Send& work) {
        request.copied = request.may_copy && work_.skips_next();
        if (!request.copied) {
          return start({id, signaled, Kind::kSend, copy_of(work.from), {}, work.invalidate});
        }
        std::vector<std::byte> data = domain_.gather(work.from);
        ++counters_.sends;
        counters_.payload_sent += data.size();
        counters_.bytes_sent += data.size();
        counters_.bytes_copied += data.size();
        travel(SendMessage{work_.skip(), std::move(data), work.invalidate});
      },
      [&](const Read& work) {
        domain_.poison(work.into);
        start({id, signaled, Kind::kRead, {work.into}, work.from});
      },
      [&](const Write& work) {
        start({id, signaled, Kind::kWrite, copy_of(work.from), work.to});
      },
      [&](const Expose& work) {
        if (work.access == RemoteAccess::kWrite) domain_.poison(work.memory);
        start_local({id, signaled, work});
      },
      [&](const Revoke& work) {
        start_local({id, signaled, work});
      }};
  std::visit(takes, request.work);
}

// Outgoing work.

void QueuePair::depart(Serial serial) {
  const Outgoing* const at = work_.find(serial);
  if (at == nullptr) return;  // flushed
  const Outgoing& work = *at;
  switch (work.kind) {
    case Outgoing::Kind::kSend:
      ++counters_.sends;
      travel(SendMessage{serial, domain_.gather(work.slices), work.invalidate});
      break;
    case Outgoing::Kind::kWrite:
      ++counters_.writes;
      travel(WriteMessage{serial, domain_.gather(work.slices), work.remote});
      break;
    case Outgoing::Kind::kRead:
      ++counters_.reads;
      travel(ReadMessage{serial, work.remote});
      return;
  }
  const std::uint64_t size = total_size(work.slices);
  counters_.payload_sent += size;
  counters_.bytes_sent += size;
  if (world_.options().completes_before_arrival) complete_later(serial);
}

void QueuePair::travel(Message message) {
  if (peer_ == 0) return;  // the peer has not answered yet
  if (auto* send = std::get_if<SendMessage>(&message)) send->is_hostile = hostility.is_hostile;
  world_.departed(departure_of(id_, message));
  world_.after_in_order(world_.draw_latency(), &last_arrival_,
                        [world = &world_, peer = peer_, message = std::move(message)]() mutable {
                          QueuePair* const to = world->find(peer);
                          if (to == nullptr || to->state_ == State::kClosed) return;
                          std::visit([to](auto& known) { to->arrive(known); }, message);
                        });
}

void QueuePair::handle_taken_by_peer(Serial serial) {
  Outgoing* const work = work_.find(serial);
  if (work == nullptr) return;
  work->arrived = true;
  if (!world_.options().completes_before_arrival) complete_later(serial);
}

void QueuePair::complete_later(Serial serial) {
  const auto delay_max = static_cast<std::uint64_t>(world_.options().completion_delay_max.count());
  const std::chrono::nanoseconds delay(world_.random().below(delay_max + 1));
  world_.after_in_order(world_.draw_latency() + delay, &last_completion_,
                        [world = &world_, id = id_, serial] {
                          if (QueuePair* self = world->find(id)) self->work_.complete(serial);
                        });
}

// Arrivals.

void QueuePair::arrive(ReadyMessage&) {
  if (state_ != State::kConnecting) return;
  peer_private_data_ = std::move(early_private_data_);
  state_ = State::kConnected;
  news_.report(LinkEvent::kConnected);
}

void QueuePair::arrive(SendMessage& message) {
  if (!work_.has_receive()) {
    if (state_ == State::kClosing) {
      close({Errc::kClosed, 0, "disconnect"}, LinkEvent::kDisconnected);
      return;
    }
    if (!hostility.excuses(message)) world_.violation("Send to a peer without a posted Receive");
    terminate(message.serial, Status::kRetryExceeded,
              "the peer sent more than Receives are posted");
    return;
  }
  const PostedReceive receive = work_.take_receive();
  const std::size_t size = message.data.size();
  if (size > receive.size) {
    if (!hostility.excuses(message))
      world_.violation("Send to a peer whose Receive is too small for it");
    work_.push_received({.id = receive.id, .status = Status::kLocalError});
    terminate(message.serial, Status::kRetryExceeded, "the peer sent more than the Receive takes");
    return;
  }
  if (message.invalidate && !domain_.is_live(*message.invalidate)) {
    work_.push_received({.id = receive.id, .status = Status::kFlushed});
    terminate(message.serial, Status::kRemoteAccess, "the peer invalidated an unknown tag");
    return;
  }
  domain_.show_writes();
  if (message.invalidate) domain_.revoke(*message.invalidate);
  Completion completion{.id = receive.id};
  if (capabilities_.shares_receives) {
    completion.message = messages_.hold(receive.id, std::move(message.data));
  } else {
    domain_.scatter(message.data, receive.into);
  }
  counters_.payload_received += size;
  counters_.bytes_received += size;
  completion.size = static_cast<std::uint32_t>(size);
  completion.tag = message.invalidate;
  work_.push_received(completion);
  if (QueuePair* peer = world_.find(peer_)) peer->handle_taken_by_peer(message.serial);
}

void QueuePair::arrive(WriteMessage& message) {
  // Nothing is looked up for a Write of no bytes: some peers use one with any tag as a knock.
  if (!message.data.empty()) {
    const auto into = domain_.remote_writable(message.to);
    if (!into) {
      terminate(message.serial, Status::kRemoteAccess, "the peer wrote where it must not",
                Remote{message.to.tag, 0, message.to.address});
      return;
    }
    counters_.payload_received += message.data.size();
    counters_.bytes_received += message.data.size();
    domain_.write_later(*into, std::move(message.data));
    if (world_.random().one_in(4)) domain_.show_writes();
  }
  if (QueuePair* peer = world_.find(peer_)) peer->handle_taken_by_peer(message.serial);
}

void QueuePair::arrive(ReadMessage& message) {
  if (message.from.size != 0 && !domain_.remote_readable(message.from)) {
    terminate(message.serial, Status::kRemoteAccess, "the peer read where it must not");
    return;
  }
  // Responses keep the order of their Reads, also behind those that poll() is about to let go.
  if (hostility.holds_responses || !hostility.held_reads.empty()) {
    return hostility.held_reads.push_back(message);
  }
  later(&last_response_, &QueuePair::respond, message);
}

std::size_t QueuePair::poll(std::span<Completion> out) {
  if (!hostility.holds_responses) {
    for (const ReadMessage& read : std::exchange(hostility.held_reads, {})) {
      later(&last_response_, &QueuePair::respond, read);
    }
  }
  return work_.poll(out);
}

void QueuePair::respond(ReadMessage message) {
  if (state_ == State::kClosed) return;
  domain_.show_writes();
  ReadResponse response{message.serial, {}};
  if (message.from.size != 0) {
    // The tag may have died since the request came.
    const auto from = domain_.remote_readable(message.from);
    if (!from) {
      terminate(message.serial, Status::kRemoteAccess, "the peer read where it must not");
      return;
    }
    response.data.assign(from->begin(), from->end());
  }
  counters_.payload_sent += response.data.size();
  counters_.bytes_sent += response.data.size();
  travel(std::move(response));
}

void QueuePair::arrive(ReadResponse& message) {
  const Outgoing* const read = work_.find(message.serial);
  RPCRDMA_ASSERT(read != nullptr, "answer to a Read that is not outstanding");
  domain_.scatter(message.data, read->slices);
  counters_.payload_received += message.data.size();
  counters_.bytes_received += message.data.size();
  work_.complete(message.serial);
}

void QueuePair::arrive(EndMessage& message) {
  if (!message.refusal) {
    return close({Errc::kClosed, 0, "the peer disconnected"}, LinkEvent::kDisconnected);
  }
  if (Outgoing* const work = work_.find(message.refusal->serial)) {
    work->failure = message.refusal->status;
  }
  refused_write_ = message.refusal->write;
  close({Errc::kProtocol, 0, "the peer refused our work"}, LinkEvent::kDisconnected);
}

void QueuePair::terminate(Serial serial, Status status, std::string_view text,
                          std::optional<Remote> write) {
  travel(EndMessage{EndMessage::Refusal{serial, status, write}});
  close({Errc::kProtocol, 0, text}, LinkEvent::kDisconnected);
}

// Local work.

void QueuePair::run_local(Serial serial) {
  const auto local = work_.take_local(serial);
  if (!local) return;  // flushed
  if (const auto* revoke = std::get_if<Revoke>(&local->work)) {
    // All that the peer wrote while the tag was alive is visible when the owner gets its memory
    // back. A tag that the peer has invalidated meanwhile is dead as well, so the Revoke succeeds.
    domain_.show_writes();
    domain_.revoke(revoke->tag);
    return work_.push({.id = local->id}, local->signaled);
  }
  if (world_.draw_fault(world_.options().expose_fails_one_in)) {
    return work_.push({.id = local->id, .status = Status::kLocalError}, local->signaled);
  }
  const SteeringTag tag = world_.new_tag();
  const std::uint64_t address = world_.new_address();
  domain_.expose(std::get<Expose>(local->work), tag, address);
  work_.push({.id = local->id, .tag = tag, .address = address}, local->signaled);
}

// The end.

void QueuePair::disconnect() noexcept {
  if (state_ == State::kClosing || state_ == State::kClosed) return;
  state_ = State::kClosing;
  world_.after(world_.draw_latency(), [world = &world_, id = id_] {
    if (QueuePair* self = world->find(id)) {
      self->close({Errc::kClosed, 0, "disconnect"}, LinkEvent::kDisconnected);
    }
  });
}

void QueuePair::close(const Error& cause, LinkEvent event) {
  if (state_ == State::kClosed) return;
  if (setup_timer_) world_.cancel(*setup_timer_);
  setup_timer_.reset();
  state_ = State::kClosed;
  cause_ = cause;
  // The last Writes of the peer may or may not have arrived.
  if (world_.random().one_in(2)) domain_.show_writes();
  domain_.revoke_all();
  // Sends and Writes that the peer has taken may or may not be known to be done.
  work_.flush(world_.random().one_in(2));
  news_.report(event);
  travel(EndMessage{});
}

}  // namespace rpcrdma::rdma::sim
