#include "rdma/verbs/queue_pair.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "rdma/verbs/completion_status.h"
#include "rdma/verbs/preflight.h"

namespace rpcrdma::rdma::verbs {
namespace {

constexpr std::chrono::milliseconds kDrainMax{500};
constexpr std::chrono::milliseconds kReasonMax{500};
constexpr std::chrono::milliseconds kDestroyMax{10};
// The device's word that it has no shared Receive any more; it comes at once, or never.
constexpr std::chrono::milliseconds kLeaveMax{100};

Error lost_device() {
  return {Errc::kProvider, ENODEV, kDeviceRemoved};
}

}  // namespace

QueuePair::QueuePair(Shard& shard, std::string peer_address, Bytes private_data)
    : visit(*this, &shard.to_visit),
      news(*this, &shard.news),
      shard_(shard),
      cm_(std::move(peer_address), private_data),
      queues_(*shard.reactor, shard.queue_events, visit, counters_) {}

Expected<std::unique_ptr<QueuePair>, Error> QueuePair::connect(Shard& shard,
                                                               const posix::Address& address,
                                                               Bytes private_data) {
  std::unique_ptr<QueuePair> made(new QueuePair(shard, to_string(address), private_data));
  if (auto bound = made->cm_.bind(*shard.cm, *made, address); !bound) {
    return Unexpected<Error>(bound.error());
  }
  if (auto opened = made->open(Side::kActive); !opened) return Unexpected<Error>(opened.error());
  const auto timeout = shard.options.setup_timeout_initiator;
  if (auto resolving = made->cm_.resolve_address(address, timeout); !resolving) {
    return Unexpected<Error>(resolving.error());
  }
  shard.reactor->set_deadline(*made, posix::Reactor::now() + timeout);
  shard.reactor->arm();  // the caller may wait for the descriptor before its first round
  shard.all.push_back(made.get());
  made->visit.add();
  return made;
}

Expected<std::unique_ptr<QueuePair>, Error> QueuePair::accept(Shard& shard, Incoming& incoming,
                                                              Bytes private_data) {
  if (incoming.gone_) {
    return Unexpected<Error>(Error{Errc::kClosed, 0, "the peer gave up before it was accepted"});
  }
  if (incoming.has_left_ && !shard.cm->take_over(*incoming.id_)) {
    return Unexpected<Error>(Error{Errc::kProvider, errno, "moving a request to its thread"});
  }
  std::unique_ptr<QueuePair> made(new QueuePair(shard, incoming.peer_address_, private_data));
  made->cm_.take_over(std::move(incoming.id_), incoming.request_, *made);
  made->state_ = State::kAccepting;
  if (auto opened = made->open(Side::kPassive); !opened) {
    made->cm_.reject();
    return Unexpected<Error>(opened.error());
  }
  shard.reactor->set_deadline(*made, posix::Reactor::now() + shard.options.setup_timeout_responder);
  shard.reactor->wake();  // for the answer, which progress() gives
  shard.all.push_back(made.get());
  made->visit.add();
  return made;
}

Expected<void, Error> QueuePair::open(Side side) {
  if (shard_.all.size() >= shard_.options.connections_max) {
    return Unexpected<Error>(Error{Errc::kNoResources, 0, "too many connections"});
  }
  auto device = shard_.device(*cm_.id().verbs);
  if (!device) return Unexpected<Error>(device.error());
  ReceivePool* pool = nullptr;
  if (side == Side::kPassive) {
    auto shared = (*device)->shared_receives(shard_.options.shared_receives);
    if (!shared) return Unexpected<Error>(shared.error());
    pool = *shared;
  }
  if (auto opened = queues_.open(cm_.id(), **device, shard_.options, *this, pool, *this); !opened) {
    return opened;
  }
  const Traits& traits = (*device)->traits();
  const SendQueue::Limits& limits = queues_.limits();
  capabilities_.queue_depth_max = limits.depth;
  capabilities_.reads_in_flight_max = static_cast<std::uint32_t>(std::clamp(
      (*device)->attributes().max_qp_init_rd_atom, 1, std::max<int>(shard_.options.ord, 1)));
  capabilities_.sge_max = limits.slices_max;
  capabilities_.send_with_invalidate = traits.send_with_invalidate;
  // With siw a peer may reach what is registered: what another connection uses next must not be.
  capabilities_.registering_is_costly = !traits.lets_peers_read;
  capabilities_.reports_invalidated_handle = traits.reports_invalidated_handle;
  capabilities_.shares_receives = pool != nullptr;
  work_ = std::make_unique<DeviceWork>(queues_, shard_.options, capabilities_, counters_);
  return {};
}

// --- The connection's beginning ----------------------------------------------------------------

void QueuePair::handle_cm(CmEvent& event) {
  if (state_ == State::kDown) return;
  visit.add();
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (auto resolving = cm_.resolve_route(shard_.options.setup_timeout_initiator); !resolving) {
        end(resolving.error(), LinkEvent::kRefused);
      }
      return;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      state_ = State::kConnecting;
      if (const int code = cm_.connect(queues_.device(), shard_.options, capabilities_);
          code != 0) {
        end(set_up_failure(RDMA_CM_EVENT_CONNECT_ERROR, code), LinkEvent::kRefused);
      }
      return;
    case RDMA_CM_EVENT_ESTABLISHED:
      // After the peer's first message it comes late, and tells nothing new.
      if (state_ == State::kConnecting || state_ == State::kAnswered) opened(event);
      return;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
      if (state_ < State::kOpen) {
        end(set_up_failure(event.type, event.status < 0 ? -event.status : 0), LinkEvent::kRefused);
      }
      return;
    case RDMA_CM_EVENT_DISCONNECTED:
      if (state_ == State::kAnswered) notice_first_message();
      // progress() knows better why.
      if (queues_.events().fault() != QueueEvents::Fault::kNone) return move_on();
      return end({Errc::kClosed, 0, "the peer closed the connection"});
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return end(lost_device());
    case RDMA_CM_EVENT_CONNECT_REQUEST:
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
    case RDMA_CM_EVENT_MULTICAST_JOIN:
    case RDMA_CM_EVENT_MULTICAST_ERROR:
    case RDMA_CM_EVENT_ADDR_CHANGE:
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      return;
  }
}

void QueuePair::answer() {
  state_ = State::kAnswered;
  if (const int code = cm_.accept(queues_.device(), shard_.options, capabilities_); code != 0) {
    // EINVAL: the peer has given up meanwhile.
    const bool gone = code == ECONNRESET || code == EINVAL;
    return end({gone ? Errc::kClosed : Errc::kProvider, code, "accepting a connection"},
               LinkEvent::kDisconnected);
  }
  if (capabilities_.shares_receives && !queues_.device().traits().is_iwarp) {
    queues_.shorten_wait_for_receives();
  }
}

void QueuePair::opened(const CmEvent& event) {
  if (state_ == State::kConnecting) cm_.note_answer(event, queues_.device(), capabilities_);
  shard_.reactor->set_deadline(*this, std::nullopt);
  state_ = State::kOpen;
  news.report(LinkEvent::kConnected);
}

// The peer may speak before the connection manager's last message is here.
void QueuePair::notice_first_message() {
  if (!work_->receives.has_received()) collect();
  // A shared Receive may have told it already.
  if (!work_->receives.has_received() || state_ != State::kAnswered) return;
  cm_.note_first_message();
  opened({});
}

void QueuePair::handle_deadline() {
  if (state_ == State::kDraining) return end(cause_, LinkEvent::kDisconnected);
  if (state_ == State::kLeaving) {
    queues_.device().take_events();  // this turn may be late, and the word there
    if (!queues_.events().has_last_receive()) queues_.device().note_silence();
    return finish_end();
  }
  if (state_ == State::kOpen) return end({Errc::kClosed, 0, "the device gave the connection up"});
  const bool active = state_ == State::kResolving || state_ == State::kConnecting;
  end({Errc::kTimedOut, 0, "the peer did not finish the connection set-up in time"},
      active ? LinkEvent::kRefused : LinkEvent::kDisconnected);
}

// --- Progress ----------------------------------------------------------------------------------

void QueuePair::progress() {
  move_on();
  if (state_ == State::kDown || state_ == State::kLeaving) return;
  if (!queues_.is_armed() || work_->sends.bindings() > 0) visit.add();
}

void QueuePair::handle_completion_event() noexcept {
  queues_.disarm();
  visit.add();
}

void QueuePair::move_on() {
  if (state_ == State::kAccepting) answer();
  if (state_ != State::kDown && state_ != State::kLeaving && queues_.arm() &&
      (state_ == State::kOpen || state_ == State::kAnswered || state_ == State::kDraining)) {
    collect();  // in this order: completions behind the arming cause an event
  }
  if (state_ == State::kAnswered) notice_first_message();
  if (state_ == State::kDown) return;
  if (state_ == State::kLeaving) {
    if (queues_.events().has_last_receive() || queues_.device().is_lost()) finish_end();
    return;
  }
  const QueueEvents::Fault fault = queues_.events().fault();
  if (fault == QueueEvents::Fault::kPeers) {
    return end(
        {Errc::kProtocol, 0, "the peer reached for memory or a Receive that it was not given"});
  }
  if (fault == QueueEvents::Fault::kOwn) {
    return end({Errc::kProvider, EIO, "the RDMA device failed"});
  }
  if (fault == QueueEvents::Fault::kQueue) {
    return end({Errc::kProvider, EIO, "a queue of the RDMA device failed"});
  }
  if (fault == QueueEvents::Fault::kDevice) queues_.device().note_loss();
  if (queues_.device().is_lost()) return end(lost_device());
  if (state_ == State::kDraining && (work_->sends.copies_under_way() == 0 || broken_)) {
    return end(cause_, LinkEvent::kDisconnected);
  }
  if (broken_) return end(cause_);
  if (state_ == State::kOpen && queues_.events().has_last_receive() && !flushed_) give_up_soon();
  if (state_ == State::kOpen && work_->sends.bindings() > 0) {
    note_posted(work_->sends.post_bindings(*queues_.queue_pair()));
  }
}

bool QueuePair::look() {
  if (state_ == State::kOpen && work_->ready.empty()) collect();
  return has_news();
}

std::optional<LinkEvent> QueuePair::poll_link() {
  if (broken_ && state_ == State::kOpen) end(cause_);
  if (born_.elsewhere()) end({Errc::kClosed, 0, kForked});
  return news.poll();
}

std::size_t QueuePair::poll(std::span<Completion> out) {
  if (work_->ready.empty() && (state_ == State::kOpen || state_ == State::kDraining)) collect();
  std::size_t count = 0;
  while (count < out.size() && !work_->ready.empty()) out[count++] = work_->ready.pop();
  return count;
}

// --- Taking work: all of a batch or none ---------------------------------------------------------

// Looks for completions when there seems to be no room: unsignaled work may be done.
bool QueuePair::make_room(std::size_t receives, std::size_t others) {
  if (work_->has_room(receives, others)) return true;
  if (state_ != State::kOpen) return false;
  // Else binds could wait for the very Sends that wait for their room.
  if (work_->sends.bindings() > 0) note_posted(work_->sends.post_bindings(*queues_.queue_pair()));
  collect();
  return work_->has_room(receives, others);
}

Expected<void, Error> QueuePair::post_receives(const ReceiveBuffers& buffers,
                                               std::span<const std::uint16_t> numbers) {
  if (!capabilities_.shares_receives) return rdma::QueuePair::post_receives(buffers, numbers);
  if (!takes_work()) return Unexpected<Error>(Error{Errc::kClosed, 0, "post"});
  if (buffers.size > queues_.pool()->buffer_size()) {
    return Unexpected<Error>(
        Error{Errc::kUnsupported, 0, "Receives longer than those that are shared"});
  }
  if (!make_room(numbers.size(), 0)) {
    return Unexpected<Error>(Error{Errc::kNoResources, 0, "post: the queue is full"});
  }
  if (!work_->receives.post_rights(numbers, buffers.size)) note_posted(EIO);
  return {};
}

void QueuePair::release_receives(std::span<const std::uint16_t> numbers) {
  work_->receives.release(numbers);
}

Expected<void, Error> QueuePair::post(std::span<work::Request> batch) {
  if (!takes_work()) return Unexpected<Error>(Error{Errc::kClosed, 0, "post"});
  const auto kinds = work_->check(batch, state_ == State::kOpen);
  if (!kinds) return Unexpected<Error>(kinds.error());
  if (!make_room(kinds->receives, kinds->others)) {
    return Unexpected<Error>(Error{Errc::kNoResources, 0, "post: the queue is full"});
  }
  if (!work_->memory.has_room_for(kinds->exposures)) {
    return Unexpected<Error>(Error{Errc::kNoResources, 0, "post: too much memory is exposed"});
  }
  if (const auto rest = work_->take(batch); !rest.empty()) {
    const int code = work_->memory.failure() != 0 ? work_->memory.failure() : ENOMEM;
    end({Errc::kNoResources, code, kRegisteringMemory});
    for (const work::Request& each : rest) {
      work_->ready.push({.id = each.id, .status = Status::kFlushed});
    }
    news.report();
    return {};
  }
  note_posted(work_->receives.post(*queues_.queue_pair()));
  note_posted(work_->sends.post(*queues_.queue_pair()));
  if (!work_->ready.empty()) news.report();  // what was done at once
  if (work_->sends.bindings() > 0) visit.add();
  return {};
}

// Work that the device refused is flushed with the rest.
void QueuePair::note_posted(std::optional<int> failure) {
  if (failure) fail({Errc::kProvider, std::abs(*failure), "posting work to the RDMA device"});
}

// --- Completions, and the end of a queue pair whose work failed ----------------------------------

void QueuePair::collect() {
  const bool found = queues_.poll([this](const ibv_wc& completion) {
    work_->complete(completion);
    news.report();  // also for work that reports nothing: there is room again
    if (work_->sends.bindings() > 0) visit.add();
    if (completion.status != IBV_WC_SUCCESS) note_failure(completion);
  });
  if (found) shard_.moved = true;
}

// A device may have no event for the end of a connection but this one, so that it begins here.
void QueuePair::note_failure(const ibv_wc& completion) {
  if (is_decided()) return;
  if (completion.status != IBV_WC_WR_FLUSH_ERR) return fail(cause_of(completion.status));
  if (!flushed_ && state_ == State::kOpen) give_up_soon();
}

// Work failed; progress() ends the connection.
void QueuePair::fail(const Error& cause) {
  broken_ = true;
  cause_ = cause;
  visit.add();
  shard_.reactor->wake();
}

// The device does no more work. An event tells why, as a rule; a peer may see to it that none
// comes.
void QueuePair::give_up_soon() {
  flushed_ = true;
  visit.add();
  shard_.reactor->set_deadline(*this, posix::Reactor::now() + kReasonMax);
  shard_.reactor->wake();  // which arms the timer
}

void QueuePair::take_pooled(std::uint32_t number, const ibv_wc& completion) {
  if (completion.status != IBV_WC_SUCCESS) {  // the right remains, and is flushed with the others
    (void)queues_.pool()->give_back({&number, 1});
    return note_failure(completion);
  }
  if (!work_->receives.take(number, completion)) {
    // With Receives of its own the device would have refused the message.
    if (is_decided()) return;
    (void)queues_.stop();  // now, so that it takes no more of what others wait for
    return fail({Errc::kProtocol, 0, work_->receives.refusal()});
  }
  news.report();
  // Another connection's turn may have found it: the user is to hear of the connection first.
  if (state_ == State::kAnswered) notice_first_message();
}

// --- The end -----------------------------------------------------------------------------------

void QueuePair::disconnect() noexcept {
  if (state_ == State::kDown || state_ == State::kLeaving || state_ == State::kDraining) return;
  const Error cause{Errc::kClosed, 0, "closed by this side"};
  if (state_ != State::kOpen || broken_ || born_.elsewhere()) {
    return end(cause, LinkEvent::kDisconnected);
  }
  collect();
  if (work_->sends.copies_under_way() == 0) return end(cause, LinkEvent::kDisconnected);
  note_posted(work_->sends.post_marker(*queues_.queue_pair()));
  cause_ = cause;
  state_ = State::kDraining;
  shard_.reactor->set_deadline(*this, posix::Reactor::now() + kDrainMax);
}

void QueuePair::end(const Error& cause, std::optional<LinkEvent> event) {
  if (state_ == State::kDown || state_ == State::kLeaving) return;
  const bool was_up = state_ == State::kOpen || state_ == State::kDraining;
  const bool is_refused = state_ == State::kResolving || state_ == State::kConnecting;
  // Work that is done shall not be called flushed. In a child all this is its parent's.
  if (was_up && !born_.elsewhere()) {
    collect();
    cm_.disconnect();
  }
  cause_ = cause;
  ending_ = event.value_or(is_refused ? LinkEvent::kRefused : LinkEvent::kDisconnected);
  refuses_ = !was_up;
  // Before the answer nothing can have come.
  if (!queues_.stop_for_last_receive(state_ != State::kAccepting)) return finish_end();
  state_ = State::kLeaving;
  shard_.reactor->set_deadline(*this, posix::Reactor::now() + kLeaveMax);
  shard_.reactor->wake();  // which arms the timer
}

void QueuePair::finish_end() {
  state_ = State::kDown;
  shard_.reactor->set_deadline(*this, std::nullopt);
  queues_.disarm();
  // Windows first: rxe waits 50 s for those that are bound to a queue pair when it is destroyed.
  work_->memory.free_windows();
  collect();
  queues_.destroy();  // no memory is touched any more
  collect();
  work_->flush();
  if (refuses_) cm_.release();  // tells a peer that waits; what has ended by itself needs no more
  news.report(ending_);
  std::erase(shard_.all, this);
}

QueuePair::~QueuePair() {
  visit.close();
  news.close();
  if (born_.elsewhere()) {  // all that it holds is its parent's
    std::erase(shard_.all, this);
    return;
  }
  if (state_ == State::kOpen && work_->sends.copies_under_way() > 0) disconnect();
  const Instant end = posix::Reactor::now() + kDestroyMax;
  while (state_ == State::kDraining && work_->sends.copies_under_way() > 0 && !broken_ &&
         posix::Reactor::now() < end) {
    work_->ready.clear();
    collect();
    shard_.yielding.yield();
  }
  if (state_ == State::kDown) return;
  shard_.reactor->set_deadline(*this, std::nullopt);
  queues_.disarm();
  if (state_ == State::kOpen || state_ == State::kDraining) cm_.disconnect();
  if (queues_.pool() != nullptr) {
    if (state_ == State::kLeaving || queues_.stop_for_last_receive(state_ != State::kAccepting)) {
      queues_.wait_for_last_receive(shard_.yielding, kDestroyMax);
    }
    state_ = State::kLeaving;         // what comes now begins nothing
    (void)queues_.pool()->collect();  // a device's library may forget what it has for a queue pair
  }
  if (work_) work_->memory.free_windows();
  queues_.destroy();
  if (queues_.pool() != nullptr) (void)queues_.pool()->collect();
  shard_.reactor->set_deadline(*this, std::nullopt);
  std::erase(shard_.all, this);
}

Error QueuePair::exposure_failure() const noexcept {
  return {Errc::kNoResources, work_->sends.exposure_failure(), kRegisteringMemory};
}

Counters QueuePair::counters() const noexcept {
  Counters result = counters_;
  result.registrations += work_->memory.registrations() + work_->sends.registrations();
  result.attached_bytes = work_->memory.attached_bytes();
  result.bytes_copied += work_->memory.bytes_copied();
  return result;
}

}  // namespace rpcrdma::rdma::verbs
