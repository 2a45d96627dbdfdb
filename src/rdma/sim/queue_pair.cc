#include "rdma/sim/queue_pair.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "rdma/regions.h"

namespace rpcrdma::rdma::sim {
namespace {

Capabilities capabilities_of(const Options& options, bool remote_invalidation) {
  return {options.queue_depth_max, options.reads_in_flight_max, options.sge_max,
          remote_invalidation,     remote_invalidation,         options.registering_is_costly,
          options.shares_receives, options.reads_in_flight_max};
}

Completion completion_of(std::uint64_t id, Status status) {
  Completion completion;
  completion.id = id;
  completion.status = status;
  return completion;
}

}  // namespace

QueuePair::QueuePair(World& world, std::string peer_address, bool remote_invalidation)
    : world_(world),
      id_(world.add(this)),
      peer_address_(std::move(peer_address)),
      capabilities_(capabilities_of(world.options(), remote_invalidation)) {}

QueuePair::~QueuePair() {
  if (setup_timer_) world_.cancel(*setup_timer_);
  if (state_ != State::kClosed) travel(CloseMessage{});
  for (const auto& [number, message] : messages_) {
    if (message.is_held) world_.count_shared_message(-1);
  }
  world_.remove(id_);
}

// False: more are held than there are Receives to share.
bool QueuePair::hold(std::uint64_t number, std::vector<std::byte> data) {
  if (data.empty()) data.reserve(1);  // a message of no bytes is somewhere, too
  messages_[number] = {std::move(data), true};
  return world_.count_shared_message(1);
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
  RPCRDMA_ASSERT(!refers_to(region), "detach of a region that posted work refers to");
  domain_.detach(region);
}

bool QueuePair::refers_to(RegionId region) const {
  const auto names_it = [region](const Slice& slice) { return slice.region == region; };
  for (const PostedReceive& receive : receives_) {
    if (std::ranges::any_of(receive.into, names_it)) return true;
  }
  for (const auto& [serial, outgoing] : outgoing_) {
    if (std::ranges::any_of(outgoing.slices, names_it)) return true;
  }
  for (const auto& [serial, local] : local_) {
    const auto* expose = std::get_if<Expose>(&local.work);
    if (expose != nullptr && names_it(expose->memory)) return true;
  }
  return false;
}

std::size_t QueuePair::poll(std::span<Completion> out) {
  const std::size_t count = std::min(out.size(), completions_.size());
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = completions_.front().completion;
    if (completions_.front().of_receive) --received_unpolled_;
    completions_.pop_front();
  }
  return count;
}

std::optional<LinkEvent> QueuePair::poll_link() {
  if (link_events_.empty()) return std::nullopt;
  const LinkEvent event = link_events_.front();
  link_events_.pop_front();
  return event;
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
          self->handle_broken();
        }
      });
}

void QueuePair::handle_accepted(World::QueuePairId acceptor, std::vector<std::byte> private_data) {
  peer_ = acceptor;
  if (state_ != State::kConnecting) {
    travel(CloseMessage{});
    return;
  }
  if (setup_timer_) world_.cancel(*setup_timer_);
  setup_timer_.reset();
  peer_private_data_ = std::move(private_data);
  state_ = State::kConnected;
  tell(LinkEvent::kConnected);
  travel(ReadyMessage{});
}

void QueuePair::handle_refused(const Error& cause) {
  if (state_ != State::kConnecting) return;
  close(cause, LinkEvent::kRefused);
}

void QueuePair::handle_broken() {
  close({Errc::kClosed, 0, "the connection broke"}, LinkEvent::kDisconnected);
}

// Outgoing work.

void QueuePair::depart(Serial serial) {
  const auto at = outgoing_.find(serial);
  if (at == outgoing_.end()) return;  // flushed
  Outgoing& work = at->second;
  switch (work.kind) {
    case Outgoing::Kind::kSend:
      ++counters_.sends;
      travel(SendMessage{serial, gather(work.slices), work.invalidate});
      break;
    case Outgoing::Kind::kWrite:
      ++counters_.writes;
      travel(WriteMessage{serial, gather(work.slices), work.remote});
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

std::vector<std::byte> QueuePair::gather(std::span<const Slice> slices) const {
  std::vector<std::byte> data;
  data.reserve(total_size(slices));
  for (const Slice& slice : slices) {
    const Bytes run = domain_.readable(slice).value();
    data.insert(data.end(), run.begin(), run.end());
  }
  return data;
}

Departure QueuePair::departure_of(const Message& message) const {
  using Kind = Departure::Kind;
  if (const auto* send = std::get_if<SendMessage>(&message)) {
    return {id_, Kind::kSend, send->data, send->invalidate.value_or(SteeringTag{}),
            send->invalidate.has_value()};
  }
  if (const auto* write = std::get_if<WriteMessage>(&message)) {
    return {id_, Kind::kWrite, write->data, write->to.tag, true, write->to.address};
  }
  if (const auto* read = std::get_if<ReadMessage>(&message)) {
    return {id_, Kind::kRead, {}, read->from.tag, true, read->from.address, read->from.size};
  }
  if (const auto* response = std::get_if<ReadResponse>(&message)) {
    return {id_, Kind::kReadResponse, response->data};
  }
  return {id_, std::holds_alternative<ReadyMessage>(message) ? Kind::kSetup : Kind::kEnd, {}};
}

void QueuePair::travel(Message message) {
  if (peer_ == 0) return;  // the peer has not answered yet
  world_.departed(departure_of(message));
  world_.after_in_order(world_.draw_latency(), &last_arrival_,
                        [world = &world_, peer = peer_, message = std::move(message)]() mutable {
                          if (QueuePair* to = world->find(peer)) to->arrive(message);
                        });
}

void QueuePair::handle_taken_by_peer(Serial serial) {
  const auto at = outgoing_.find(serial);
  if (at == outgoing_.end()) return;
  at->second.arrived = true;
  if (!world_.options().completes_before_arrival) complete_later(serial);
}

void QueuePair::complete_later(Serial serial) {
  const auto delay_max = static_cast<std::uint64_t>(world_.options().completion_delay_max.count());
  const std::chrono::nanoseconds delay(world_.random().below(delay_max + 1));
  world_.after_in_order(world_.draw_latency() + delay, &last_completion_,
                        [world = &world_, id = id_, serial] {
                          if (QueuePair* self = world->find(id)) self->complete(serial);
                        });
}

void QueuePair::complete(Serial serial) {
  const auto at = outgoing_.find(serial);
  if (at == outgoing_.end()) return;  // flushed
  const Outgoing work = std::move(at->second);
  outgoing_.erase(at);
  if (work.kind == Outgoing::Kind::kRead) --reads_in_flight_;
  push(completion_of(work.id, Status::kOk), work.signaled);
}

void QueuePair::push(const Completion& completion, bool signaled) {
  const bool is_told = signaled || completion.status != Status::kOk;
  if (is_told) completions_.push_back({completion, false});
  if (std::exchange(was_full_, false) || is_told) note_news();
}

void QueuePair::push_received(const Completion& completion) {
  completions_.push_back({completion, true});
  ++received_unpolled_;
  note_news();
}

void QueuePair::tell(LinkEvent event) {
  link_events_.push_back(event);
  note_news();
}

// Arrivals.

void QueuePair::arrive(Message& message) {
  if (state_ == State::kClosed) return;
  std::visit([this](auto& known) { arrive(known); }, message);
}

void QueuePair::arrive(ReadyMessage&) {
  if (state_ != State::kConnecting) return;
  peer_private_data_ = std::move(early_private_data_);
  state_ = State::kConnected;
  tell(LinkEvent::kConnected);
}

void QueuePair::arrive(SendMessage& message) {
  if (receives_.empty()) {
    if (state_ == State::kClosing) {
      close({Errc::kClosed, 0, "disconnect"}, LinkEvent::kDisconnected);
      return;
    }
    world_.violation("Send to a peer without a posted Receive");
    terminate(message.serial, Status::kRetryExceeded,
              "the peer sent more than Receives are posted");
    return;
  }
  const PostedReceive receive = std::move(receives_.front());
  receives_.pop_front();
  const std::size_t size = message.data.size();
  if (size > receive.size) {
    world_.violation("Send to a peer whose Receive is too small for it");
    push_received(completion_of(receive.id, Status::kLocalError));
    terminate(message.serial, Status::kRetryExceeded, "the peer sent more than the Receive takes");
    return;
  }
  if (message.invalidate && !domain_.is_live(*message.invalidate)) {
    push_received(completion_of(receive.id, Status::kFlushed));
    terminate(message.serial, Status::kRemoteAccess, "the peer invalidated an unknown tag");
    return;
  }
  show_writes();
  if (message.invalidate) domain_.revoke(*message.invalidate);
  Completion completion = completion_of(receive.id, Status::kOk);
  if (capabilities_.shares_receives) {
    if (!hold(receive.id, std::move(message.data))) {
      world_.violation("no shared Receive is left");
    }
    completion.message = messages_[receive.id].data.data();
  } else {
    scatter(message.data, receive.into);
  }
  counters_.payload_received += size;
  counters_.bytes_received += size;
  completion.size = static_cast<std::uint32_t>(size);
  completion.tag = message.invalidate;
  push_received(completion);
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
    pending_writes_.push_back({*into, std::move(message.data)});
    if (world_.random().one_in(4)) show_writes();
  }
  if (QueuePair* peer = world_.find(peer_)) peer->handle_taken_by_peer(message.serial);
}

void QueuePair::arrive(ReadMessage& message) {
  if (message.from.size != 0 && !domain_.remote_readable(message.from)) {
    terminate(message.serial, Status::kRemoteAccess, "the peer read where it must not");
    return;
  }
  world_.after_in_order(world_.draw_latency(), &last_response_,
                        [world = &world_, id = id_, message] {
                          if (QueuePair* self = world->find(id)) self->respond(message);
                        });
}

void QueuePair::respond(const ReadMessage& message) {
  if (state_ == State::kClosed) return;
  show_writes();
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
  const auto at = outgoing_.find(message.serial);
  RPCRDMA_ASSERT(at != outgoing_.end(), "answer to a Read that is not outstanding");
  scatter(message.data, at->second.slices);
  counters_.payload_received += message.data.size();
  counters_.bytes_received += message.data.size();
  complete(message.serial);
}

void QueuePair::arrive(CloseMessage&) {
  close({Errc::kClosed, 0, "the peer disconnected"}, LinkEvent::kDisconnected);
}

void QueuePair::arrive(TerminateMessage& message) {
  const auto at = outgoing_.find(message.serial);
  if (at != outgoing_.end()) at->second.failure = message.status;
  refused_write_ = message.write;
  close({Errc::kProtocol, 0, "the peer refused our work"}, LinkEvent::kDisconnected);
}

void QueuePair::scatter(Bytes data, std::span<const Slice> into) {
  for (const Slice& slice : into) {
    const MutableBytes memory = domain_.writable(slice).value();
    const std::size_t size = std::min(memory.size(), data.size());
    std::ranges::copy(data.first(size), memory.begin());
    data = data.subspan(size);
  }
}

void QueuePair::show_writes() {
  for (const PendingWrite& write : pending_writes_) {
    std::ranges::copy(write.data, write.into.begin());
  }
  pending_writes_.clear();
}

void QueuePair::terminate(Serial serial, Status status, std::string_view text,
                          std::optional<Remote> write) {
  travel(TerminateMessage{serial, status, write});
  close({Errc::kProtocol, 0, text}, LinkEvent::kDisconnected);
}

// Local work.

void QueuePair::run_local(Serial serial) {
  const auto at = local_.find(serial);
  if (at == local_.end()) return;  // flushed
  const Local local = at->second;
  local_.erase(at);
  if (const auto* revoke = std::get_if<Revoke>(&local.work)) {
    // All that the peer wrote while the tag was alive is visible when the owner gets its memory
    // back. A tag that the peer has invalidated meanwhile is dead as well, so the Revoke succeeds.
    show_writes();
    domain_.revoke(revoke->tag);
    push(completion_of(local.id, Status::kOk), local.signaled);
    return;
  }
  if (world_.draw_fault(world_.options().expose_fails_one_in)) {
    push(completion_of(local.id, Status::kLocalError), local.signaled);
    return;
  }
  const SteeringTag tag = world_.new_tag();
  const std::uint64_t address = world_.new_address();
  tags_.insert(tag);
  domain_.expose(std::get<Expose>(local.work), tag, address);
  Completion completion = completion_of(local.id, Status::kOk);
  completion.tag = tag;
  completion.address = address;
  push(completion, local.signaled);
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
  if (world_.random().one_in(2)) show_writes();
  pending_writes_.clear();
  domain_.revoke_all();
  flush();
  tell(event);
  travel(CloseMessage{});
}

void QueuePair::flush() {
  // Sends and Writes that the peer has taken may or may not be known to be done, but a later one
  // never without an earlier one.
  bool known_done = world_.random().one_in(2);
  for (const auto& [serial, work] : outgoing_) {
    known_done = known_done && (work.arrived || work.kind == Outgoing::Kind::kRead);
    const bool done = known_done && work.kind != Outgoing::Kind::kRead;
    push(completion_of(work.id, done ? Status::kOk : work.failure), work.signaled);
  }
  for (const auto& [serial, local] : local_) {
    push(completion_of(local.id, Status::kFlushed), local.signaled);
  }
  for (const PostedReceive& receive : receives_) {
    push_received(completion_of(receive.id, Status::kFlushed));
  }
  outgoing_.clear();
  local_.clear();
  receives_.clear();
  reads_in_flight_ = 0;
}

}  // namespace rpcrdma::rdma::sim
