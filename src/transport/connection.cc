#include "transport/connection.h"

#include <algorithm>

#include "base/assert.h"

namespace rpcrdma::transport {
namespace {

static_assert(engine::kFragmentsMax + 1 <= work::kSlicesMax);

// Ids of Receives stay below 2^56; the engine's WorkIds have a kind above it.
constexpr std::uint64_t kReceiveIdEnd = std::uint64_t{1} << 56U;

work::RegionId region(engine::Lease lease) {
  return work::RegionId{static_cast<std::uint32_t>(lease)};
}

engine::WorkStatus to_status(rdma::Status status) {
  switch (status) {
    case rdma::Status::kOk:
      return engine::WorkStatus::kOk;
    case rdma::Status::kFlushed:
      return engine::WorkStatus::kFlushed;
    case rdma::Status::kRemoteAccess:
      return engine::WorkStatus::kRefused;
    case rdma::Status::kLocalError:
    case rdma::Status::kRetryExceeded:
      return engine::WorkStatus::kFailed;
  }
  return engine::WorkStatus::kFailed;
}

work::Remote to_remote(const wire::Segment& segment) {
  return {segment.handle, segment.length, segment.offset};
}

// What a dropped action must be answered with, if anything waits for it.
std::optional<engine::WorkId> id_of(const engine::Action& action) {
  return std::visit(
      [](const auto& value) -> std::optional<engine::WorkId> {
        if constexpr (requires { value.id; }) {
          return value.id;
        } else {
          return std::nullopt;
        }
      },
      action);
}

}  // namespace

Expected<std::unique_ptr<Connection>, rdma::Error> Connection::create(
    std::unique_ptr<rdma::QueuePair> queue_pair, engine::Role role, const engine::Options& options,
    MessageRooms* call_rooms) {
  std::unique_ptr<Connection> connection(
      new Connection(std::move(queue_pair), role, options, call_rooms));
  if (!connection->register_arenas()) {
    return Unexpected<rdma::Error>(
        {rdma::Errc::kNoResources, 0, "registering memory for messages"});
  }
  connection->post_actions();  // the Receives
  return connection;
}

Connection::Connection(std::unique_ptr<rdma::QueuePair> queue_pair, engine::Role role,
                       const engine::Options& options, MessageRooms* call_rooms)
    : options_(options),
      header_memory_(std::make_unique_for_overwrite<std::byte[]>(
          engine::Connection::header_arena_size(role, options))),
      own_rooms_(call_rooms != nullptr ? nullptr
                                       : std::make_unique<MessageRooms>(
                                             engine::Connection::made_slot_count(role, options))),
      call_rooms_(call_rooms != nullptr ? call_rooms : own_rooms_.get()),
      answer_rooms_(engine::Connection::answered_slot_count(role, options)),
      header_size_(engine::Connection::header_arena_size(role, options)),
      engine_(role, options, {header_memory_.get(), header_size_}),
      receive_memory_(*queue_pair, engine::Connection::receive_count(role, options),
                      options.receive_alignment),
      queue_pair_(std::move(queue_pair)) {}

Connection::~Connection() = default;

bool Connection::register_arenas() {
  const auto headers = queue_pair_->attach({header_memory_.get(), header_size_});
  if (!receive_memory_.set_size(options_.inline_receive) || !headers) return false;
  const auto attach_rooms = [this](const MessageRooms& rooms, engine::Lease& lease) {
    if (rooms.memory().empty()) return true;  // this side makes, or answers, no Calls
    const auto attached = attach(rooms.memory());
    if (attached) lease = *attached;
    return attached.has_value();
  };
  if (!attach_rooms(*call_rooms_, call_lease_)) return false;
  if (!attach_rooms(answer_rooms_, answer_lease_)) return false;
  header_region_ = *headers;
  return true;
}

Expected<engine::Lease, rdma::Error> Connection::attach(MutableBytes memory) {
  return queue_pair_->attach(memory).map(
      [](work::RegionId id) { return engine::Lease{static_cast<std::uint32_t>(id)}; });
}

Expected<engine::Lease, rdma::Error> Connection::attach_read_only(Bytes memory) {
  return queue_pair_->attach_read_only(memory).map(
      [](work::RegionId id) { return engine::Lease{static_cast<std::uint32_t>(id)}; });
}

void Connection::detach(engine::Lease lease) {
  queue_pair_->detach(region(lease));
}

rdma::Error Connection::cause() const noexcept {
  const engine::GivenUp given_up = engine_.given_up();
  if (given_up == engine::GivenUp::kNot) return queue_pair_->cause();
  return {rdma::Errc::kClosed, 0, engine::to_string(given_up)};
}

bool Connection::pump(Instant now) {
  bool moved = false;
  engine_.handle_time(now);
  if (const auto timeout = engine_.poll_timeout(); timeout && *timeout <= now) {
    engine_.handle_timeout(now);
    moved = true;
  }
  for (bool again = true; again;) {
    again = take_completions(now);
    again = take_link_event() || again;
    again = post_actions() || again;
    moved = moved || again;
  }
  if (shares_receives()) release_receives();
  return moved;
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
  engine_.handle_connected(link);
}

void Connection::handle_disconnected() {
  const auto refused = queue_pair_->refused_write();
  engine_.handle_disconnected(
      refused ? std::optional(wire::Segment{refused->tag, refused->size, refused->address})
              : std::nullopt);
}

bool Connection::take_completions(Instant now) {
  // A message can only come in once the link is known to be up.
  if (!connected_ && !ended_) take_link_event();
  const std::size_t count = queue_pair_->poll(completions_);
  for (std::size_t i = 0; i < count; ++i) take_completion(now, completions_[i]);
  return count > 0;
}

void Connection::take_completion(Instant now, const rdma::Completion& completion) {
  if (completion.id >= kReceiveIdEnd) {
    return engine_.handle_done({engine::WorkId{completion.id}, to_status(completion.status),
                                completion.tag, completion.address});
  }
  if (completion.status != rdma::Status::kOk) return;  // flushed; or the end of the link follows
  const engine::ReceiveId receive{static_cast<std::uint16_t>(completion.id)};
  engine_.handle_received(now, receive, receive_memory_.message(completion), completion.tag);
}

// Receives never wait for room: there are as many as credits of both directions, and a queue pair
// has place for them.
bool Connection::post_receives() {
  bool moved = false;
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

bool Connection::post_actions() {
  bool moved = post_waiting();
  if (waiting_count_ > 0 && engine_.wants_disconnect()) {
    queue_pair_->disconnect();
    return take_link_event() || moved;
  }
  while (waiting_count_ == 0) {
    moved = post_receives() || moved;
    const auto actions = engine_.poll_actions(waiting_);
    if (actions.empty()) break;
    moved = true;
    waiting_first_ = 0;
    waiting_count_ = actions.size();
    post_waiting();
  }
  return moved;
}

// Posts what waits, as one batch when the queue pair takes it, else one by one as far as it goes.
bool Connection::post_waiting() {
  bool moved = false;
  while (waiting_count_ > 0) {
    std::size_t count = 0;
    bool disconnect = false;
    for (; count < waiting_count_ && !disconnect; ++count) {
      const engine::Action& action = waiting_[waiting_first_ + count];
      if (std::holds_alternative<engine::Disconnect>(action)) {
        disconnect = true;
        break;
      }
      to_work(action, count, work_[count]);
    }
    std::size_t posted = count;
    auto result = queue_pair_->post(std::span(work_).first(count));
    if (!result && result.error().code == rdma::Errc::kNoResources && count > 1) {
      posted = 1;
      result = queue_pair_->post(std::span(work_).first(1));
    }
    if (!result) {
      if (result.error().code == rdma::Errc::kNoResources) return moved;  // completions make room
      // What waits is answered when the end is known: until then the peer may still write, and a
      // Revoke is not done by being refused.
      queue_pair_->disconnect();
      return take_link_event() || moved;
    }
    handle_copied(posted);
    if (disconnect && posted == count) {
      queue_pair_->disconnect();
      ++posted;
    }
    moved = true;
    waiting_first_ += posted;
    waiting_count_ -= posted;
  }
  return moved;
}

// Sends that the provider has copied are done.
void Connection::handle_copied(std::size_t posted) {
  for (const work::Request& work : std::span(work_).first(posted)) {
    if (!work.copied) continue;
    engine_.handle_done({engine::WorkId{work.id}, engine::WorkStatus::kOk, std::nullopt, 0});
  }
}

// Answers actions that will never be posted as if the connection had flushed them.
void Connection::flush_waiting() {
  while (waiting_count_ > 0) {
    const auto id = id_of(waiting_[waiting_first_]);
    ++waiting_first_;
    --waiting_count_;
    if (id) engine_.handle_done({*id, engine::WorkStatus::kFlushed, std::nullopt, 0});
  }
}

// The zeros in front of aligned data; how many slices there are then.
std::size_t Connection::add_padding(const engine::PostSend& send, Slices& slices,
                                    std::size_t count) const {
  const auto at = slices.begin() + (send.header_size > 0 ? 1 : 0) + send.pad_before;
  std::copy_backward(at, slices.begin() + count, slices.begin() + count + 1);
  *at = {header_region_, send.pad_size, send.header_offset + send.header_size};
  return count + 1;
}

// Filled in place: built elsewhere and copied, a request costs several store-forwarding stalls,
// which were a tenth of the time of a NULL call.
void Connection::to_work(const engine::Action& action, std::size_t index, work::Request& work) {
  auto& slices = slices_[index];
  work.signaled = true;
  work.may_copy = work.copied = false;
  const auto one_slice = [&](engine::Lease lease, std::uint64_t offset, std::uint32_t size) {
    slices[0] = {region(lease), size, offset};
    return std::span<const work::Slice>(slices).first(1);
  };
  if (const auto* send = std::get_if<engine::PostSend>(&action)) {
    std::size_t count = 0;
    if (send->header_size > 0) {
      slices[count++] = {header_region_, send->header_size, send->header_offset};
    }
    for (const engine::Fragment& run : send->gather) {
      slices[count++] = {region(run.memory), run.size, run.offset};
    }
    if (send->pad_size > 0) [[unlikely]]
      count = add_padding(*send, slices, count);
    work.id = static_cast<std::uint64_t>(send->id);
    work.may_copy = !send->follows_writes;
    auto& made = work.work.emplace<work::Send>();
    made.from = std::span<const work::Slice>(slices).first(count);
    if (send->invalidate) made.invalidate = *send->invalidate;
  } else if (const auto* read = std::get_if<engine::RdmaRead>(&action)) {
    work.id = static_cast<std::uint64_t>(read->id);
    auto& made = work.work.emplace<work::Read>();
    made.into = {region(read->to), read->from.length, read->to_offset};
    made.from = to_remote(read->from);
  } else if (const auto* write = std::get_if<engine::RdmaWrite>(&action)) {
    work.id = static_cast<std::uint64_t>(write->id);
    work.signaled = false;  // the Send behind it says when it is done
    auto& made = work.work.emplace<work::Write>();
    made.from = one_slice(write->from, write->from_offset, write->to.length);
    made.to = to_remote(write->to);
  } else if (const auto* expose = std::get_if<engine::Expose>(&action)) {
    work.id = static_cast<std::uint64_t>(expose->id);
    auto& made = work.work.emplace<work::Expose>();
    made.memory = {region(expose->memory), expose->size, expose->offset};
    made.access = expose->access == engine::Access::kRemoteRead ? work::RemoteAccess::kRead
                                                                : work::RemoteAccess::kWrite;
  } else if (const auto* revoke = std::get_if<engine::Revoke>(&action)) {
    work.id = static_cast<std::uint64_t>(revoke->id);
    work.work.emplace<work::Revoke>().tag = revoke->handle;
  }
}

}  // namespace rpcrdma::transport
