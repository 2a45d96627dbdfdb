#include "transport/connection.h"

#include <algorithm>
#include <cerrno>

#include "base/assert.h"

namespace rpcrdma::transport {
namespace {

// Ids of Receives stay below 2^56; the engine's WorkIds have a kind above it.
constexpr std::uint64_t kReceiveIdEnd = std::uint64_t{1} << 56U;

// Returns whether a time was over.
bool time_out(engine::Connection& engine, Instant now) {
  const auto timeout = engine.poll_timeout();
  if (!timeout || *timeout > now) return false;
  engine.handle_timeout(now);
  return true;
}

}  // namespace

Expected<std::unique_ptr<Connection>, rdma::Error> Connection::create(
    std::unique_ptr<rdma::QueuePair> queue_pair, engine::Role role, const engine::Options& options,
    MessageRooms* call_rooms, Tap* tap) {
  Headers headers;
  headers.memory = Pages(engine::Connection::header_arena_size(role, options));
  if (headers.memory.size() < engine::Connection::header_arena_size(role, options)) {
    return Unexpected<rdma::Error>({rdma::Errc::kNoResources, ENOMEM, "memory for headers"});
  }
  if (const auto region = queue_pair->attach(headers.memory.bytes())) {
    headers.region = *region;
  }
  const auto header_region = headers.region;
  const Bytes header_memory = headers.memory.bytes();
  std::unique_ptr<Connection> connection(
      new Connection(std::move(queue_pair), std::move(headers), role, options, call_rooms, tap));
  if (header_region && tap != nullptr) {
    connection->tapping_->note_attached(*header_region, header_memory);
  }
  if (!connection->register_arenas()) {
    return Unexpected<rdma::Error>(
        {rdma::Errc::kNoResources, 0, "registering memory for messages"});
  }
  connection->post_work();  // the Receives
  return connection;
}

Connection::Connection(std::unique_ptr<rdma::QueuePair> queue_pair, Headers headers,
                       engine::Role role, const engine::Options& options, MessageRooms* call_rooms,
                       Tap* tap)
    : options_(options),
      headers_(std::move(headers)),
      own_rooms_(call_rooms != nullptr ? nullptr
                                       : std::make_unique<MessageRooms>(
                                             engine::Connection::made_slot_count(role, options))),
      call_rooms_(call_rooms != nullptr ? call_rooms : own_rooms_.get()),
      answer_rooms_(engine::Connection::answered_slot_count(role, options)),
      engine_(role, options, headers_.memory.bytes(), headers_.region.value_or(work::RegionId{})),
      receive_memory_(*queue_pair, engine::Connection::receive_count(role, options),
                      options.receive_alignment),
      queue_pair_(std::move(queue_pair)),
      tapping_(tap == nullptr ? nullptr : std::make_unique<Tapping>(*tap, *queue_pair_)) {}

Connection::~Connection() = default;

bool Connection::register_arenas() {
  if (!call_rooms_->is_whole() || !answer_rooms_.is_whole()) return false;
  if (!receive_memory_.set_size(engine::receive_size(options_)) || !headers_.region) return false;
  const auto attach_rooms = [this](const MessageRooms& rooms, engine::Lease& lease) {
    if (rooms.memory().empty()) return true;  // this side makes, or answers, no Calls
    const auto attached = attach(rooms.memory());
    if (attached) lease = *attached;
    return attached.has_value();
  };
  if (!attach_rooms(*call_rooms_, call_lease_)) return false;
  return attach_rooms(answer_rooms_, answer_lease_);
}

Expected<engine::Lease, rdma::Error> Connection::attach(MutableBytes memory) {
  auto region = queue_pair_->attach(memory);
  if (region && tapping_ != nullptr) tapping_->note_attached(*region, memory);
  return region;
}

Expected<engine::Lease, rdma::Error> Connection::attach_read_only(Bytes memory) {
  auto region = queue_pair_->attach_read_only(memory);
  if (region && tapping_ != nullptr) tapping_->note_attached(*region, memory);
  return region;
}

void Connection::detach(engine::Lease lease) {
  if (tapping_ != nullptr) tapping_->note_detached(lease);
  queue_pair_->detach(lease);
}

rdma::Error Connection::cause() const noexcept {
  const engine::GivenUp given_up = engine_.given_up();
  if (given_up == engine::GivenUp::kNot) return queue_pair_->cause();
  return {rdma::Errc::kClosed, 0, engine::to_string(given_up)};
}

Connection::Moved Connection::pump(Instant now, std::optional<Instant> looked) {
  bool moved = false, is_timed = false;
  engine_.handle_time(now);
  bool again = true;
  for (int step = 0; again && step < kStepsMax; ++step) {
    again = take_completions(now);
    // Time-outs are judged behind all that is here: it has come in time, however late this side
    // looks at it. A peer that goes on sending puts none off.
    if (!is_timed && (!again || step == kStepsMax - 1)) {
      is_timed = true;
      moved = time_out(engine_, looked.value_or(now)) || moved;
    }
    again = take_link_event() || again;
    again = post_work() || again;
    moved = moved || again;
  }
  if (shares_receives()) release_receives();
  return again ? Moved::kPart : moved ? Moved::kAll : Moved::kNothing;
}

bool Connection::take_link_event() {
  const auto event = queue_pair_->poll_link();
  if (!event) return false;
  switch (*event) {
    case rdma::LinkEvent::kConnected:
      connected_ = true;
      handle_connected();
      break;
    case rdma::LinkEvent::kRefused:
    case rdma::LinkEvent::kDisconnected:
      connected_ = false;
      ended_ = true;
      if (is_tapped()) show_end();
      flush_waiting();
      handle_disconnected();
      break;
  }
  return true;
}

void Connection::handle_connected() {
  const rdma::Capabilities& capabilities = queue_pair_->capabilities();
  engine::LinkParameters link = engine::negotiate(options_, queue_pair_->peer_private_data(),
                                                  capabilities.reads_in_flight_max);
  // The set-up may have promised what this device turned out not to do.
  if (!capabilities.send_with_invalidate) link.remote_invalidation = false;
  if (tapping_ != nullptr) tapping_->note_link(link);
  engine_.handle_connected(link, capabilities.send_with_invalidate);
}

void Connection::handle_disconnected() {
  std::optional<engine::RefusedWrite> refused;
  if (queue_pair_->refused_unnamed_write()) refused.emplace();
  if (const auto to = queue_pair_->refused_write()) {
    refused = engine::RefusedWrite{wire::Segment{to->tag, to->size, to->address}};
  }
  engine_.handle_disconnected(refused);
}

bool Connection::take_completions(Instant now) {
  // A message can only come in once the link is known to be up.
  if (!connected_ && !ended_) take_link_event();
  const std::size_t count = queue_pair_->poll(completions_);
  if (is_tapped()) [[unlikely]]
    show(std::span(completions_).first(count));
  for (std::size_t i = 0; i < count; ++i) take_completion(now, completions_[i]);
  return count > 0;
}

void Connection::take_completion(Instant now, const rdma::Completion& completion) {
  if (completion.id >= kReceiveIdEnd) return engine_.handle_done(completion);
  if (completion.status != rdma::Status::kOk) return;  // flushed; or the end of the link follows
  const engine::ReceiveId receive{static_cast<std::uint16_t>(completion.id)};
  engine_.handle_received(now, receive, receive_memory_.message(completion), completion.tag);
}

void Connection::show(std::span<const rdma::Completion> completions) {
  for (const rdma::Completion& completion : completions) {
    if (completion.id >= kReceiveIdEnd) {
      tapping_->note_done(completion);
    } else if (completion.status == rdma::Status::kOk) {
      tapping_->note_received(receive_memory_.message(completion), completion.tag);
    }
  }
}

void Connection::show_end() {
  const rdma::Error why = cause();
  const bool is_in_order = why.code == rdma::Errc::kClosed && why.provider_code == 0;
  tapping_->note_end(is_in_order ? std::string_view() : why.operation);
}

// Receives never wait for room: there are as many as credits of both directions, and a queue pair
// has place for them.
bool Connection::post_receives() {
  bool moved = false;
  if (const auto size = engine_.option_port().poll_receive_size()) [[unlikely]] {
    engine_.option_port().handle_resized(receive_memory_.set_size(*size));
  }
  for (;;) {
    const auto receives = engine_.poll_receives(receives_);
    if (receives.empty()) return moved;
    moved = true;
    for (std::size_t i = 0; i < receives.size(); ++i) {
      receive_numbers_[i] = static_cast<std::uint16_t>(receives[i]);
    }
    const auto numbers = std::span(receive_numbers_).first(receives.size());
    if (queue_pair_->post_receives(receive_memory_.buffers(), numbers)) {
      receive_memory_.posted(numbers);
    } else {
      queue_pair_->release_receives(numbers);
      queue_pair_->disconnect();
      return take_link_event() || moved;
    }
  }
}

// Others may have what this connection was granted and is not any more.
void Connection::release_receives() {
  for (;;) {
    const auto unused = engine_.poll_unused_receives(receives_);
    if (unused.empty()) return;
    for (std::size_t i = 0; i < unused.size(); ++i) {
      receive_numbers_[i] = static_cast<std::uint16_t>(unused[i]);
    }
    queue_pair_->release_receives(std::span(receive_numbers_).first(unused.size()));
  }
}

bool Connection::post_work() {
  bool moved = post_waiting();
  if (waiting_count_ > 0) return end_if_asked() || moved;
  for (bool again = true; again && waiting_count_ == 0;) {
    moved = post_receives() || moved;
    const auto work = engine_.poll_work(work_, slices_);
    waiting_first_ = 0;
    waiting_count_ = work.size();
    post_waiting();
    again = end_if_asked() || !work.empty();
    moved = moved || again;
  }
  return moved;
}

// Ends the connection even if there is work that cannot be posted: a peer that keeps the queues
// full may be the reason.
bool Connection::end_if_asked() {
  if (!engine_.take_disconnect()) return false;
  queue_pair_->disconnect();
  take_link_event();
  return true;
}

// Posts what waits, as one batch when the queue pair takes it, else one by one as far as it goes.
bool Connection::post_waiting() {
  bool moved = false;
  while (waiting_count_ > 0) {
    auto batch = std::span(work_).subspan(waiting_first_, waiting_count_);
    auto result = queue_pair_->post(batch);
    if (!result && result.error().code == rdma::Errc::kNoResources && batch.size() > 1) {
      batch = batch.first(1);
      result = queue_pair_->post(batch);
    }
    if (!result) {
      if (result.error().code == rdma::Errc::kNoResources) return moved;  // completions make room
      // Work that was not posted completes when the end is known: until then the peer may still
      // write, and a refused Revoke revokes nothing.
      queue_pair_->disconnect();
      return take_link_event() || moved;
    }
    moved = true;
    if (is_tapped()) [[unlikely]]
      tapping_->note_posted(batch);
    waiting_first_ += batch.size();
    waiting_count_ -= batch.size();
    handle_copied(batch);
  }
  return moved;
}

// Sends that the provider has copied are done.
void Connection::handle_copied(std::span<const work::Request> posted) {
  for (const work::Request& work : posted) {
    if (!work.copied) continue;
    copied_.id = work.id;
    engine_.handle_done(copied_);
  }
}

// Answers work that will never be posted as if the connection had flushed it.
void Connection::flush_waiting() {
  while (waiting_count_ > 0) {
    const std::uint64_t id = work_[waiting_first_].id;
    ++waiting_first_;
    --waiting_count_;
    engine_.handle_done({.id = id, .status = rdma::Status::kFlushed});
  }
}

}  // namespace rpcrdma::transport
