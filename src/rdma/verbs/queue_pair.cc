#include "rdma/verbs/queue_pair.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/assert.h"
#include "rdma/verbs/preflight.h"

namespace rpcrdma::rdma::verbs {
namespace {

constexpr std::chrono::milliseconds kDrainMax{500};
constexpr std::chrono::milliseconds kDestroyMax{10};
// The device's word that it has no shared Receive any more; it comes at once, or never.
constexpr std::chrono::milliseconds kLeaveMax{100};
constexpr std::uint32_t kSlack = SendQueue::kSlack;
// More would only make the entries of the queue longer; what has more slices is put together.
constexpr std::uint32_t kSendSlicesMax = 8;

Error lost_device() {
  return {Errc::kProvider, ENODEV, kDeviceRemoved};
}

template <class T>
T clamp_to(int limit, T wish) {
  return static_cast<T>(std::clamp<std::int64_t>(wish, 0, std::max(limit, 0)));
}

}  // namespace

QueuePair::QueuePair(Shard& shard, CmId id, std::string peer_address, Bytes private_data)
    : shard_(shard),
      id_(std::move(id)),
      peer_address_(std::move(peer_address)),
      private_data_(private_data.begin(), private_data.end()),
      state_(State::kResolving),
      device_events_(*shard.reactor),
      ready_(std::size_t{2} * shard.options.queue_depth + kSlack) {}

Expected<std::unique_ptr<QueuePair>, Error> QueuePair::connect(Shard& shard,
                                                               const posix::Address& address,
                                                               Bytes private_data) {
  auto local = local_address_for(address);
  if (!local) return Unexpected<Error>(Error{Errc::kProvider, errno, "looking for the route"});
  std::unique_ptr<QueuePair> made(new QueuePair(shard, nullptr, to_string(address), private_data));
  made->id_ = shard.cm->make_id(*made);
  if (!made->id_) {
    return Unexpected<Error>(Error{Errc::kNoResources, errno, "opening an RDMA identifier"});
  }
  // Bound to where the system would send from, the device is known at once, and with it where
  // memory is registered; resolving the peer takes its time.
  if (rdma_bind_addr(made->id_.get(), local->pointer()) != 0 || made->id_->verbs == nullptr) {
    return Unexpected<Error>(Error{Errc::kUnsupported, ENODEV, kNoDeviceOnTheWay});
  }
  if (auto opened = made->open_queue(Side::kActive); !opened) {
    return Unexpected<Error>(opened.error());
  }
  const auto timeout = shard.options.setup_timeout_initiator;
  posix::Address peer = address;
  if (rdma_resolve_addr(made->id_.get(), nullptr, peer.pointer(),
                        static_cast<int>(timeout.count())) != 0) {
    return Unexpected<Error>(Error{Errc::kProvider, errno, "resolving the peer's address"});
  }
  shard.reactor->set_deadline(*made, posix::Reactor::now() + timeout);
  shard.all.push_back(made.get());
  return made;
}

Expected<std::unique_ptr<QueuePair>, Error> QueuePair::accept(Shard& shard, Incoming& incoming,
                                                              Bytes private_data) {
  if (incoming.gone_) {
    return Unexpected<Error>(Error{Errc::kClosed, 0, "the peer gave up before it was accepted"});
  }
  const bool is_iwarp = incoming.id_->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
  const Bytes told = private_data_of(incoming.request_, !is_iwarp);
  std::unique_ptr<QueuePair> made(
      new QueuePair(shard, std::move(incoming.id_), incoming.peer_address_, private_data));
  made->id_->context = static_cast<CmTarget*>(made.get());
  made->state_ = State::kAccepting;
  made->peer_private_data_.assign(told.begin(), told.end());
  made->responder_resources_ = incoming.request_.responder_resources;
  made->initiator_depth_ = incoming.request_.initiator_depth;
  if (auto opened = made->open_queue(Side::kPassive); !opened) {
    (void)rdma_reject(made->id_.get(), nullptr, 0);
    return Unexpected<Error>(opened.error());
  }
  shard.reactor->set_deadline(*made, posix::Reactor::now() + shard.options.setup_timeout_responder);
  shard.reactor->wake();  // for the answer, which progress() gives
  shard.all.push_back(made.get());
  return made;
}

// --- The queue pair ----------------------------------------------------------------------------

Expected<void, Error> QueuePair::open_receives(Side side) {
  if (side == Side::kPassive) {
    auto pool = device_->shared_receives(shard_.options.shared_receives);
    if (!pool) return Unexpected<Error>(pool.error());
    pool_ = *pool;
    if (pool_ != nullptr) return {};
  }
  own_domain_.reset(ibv_alloc_pd(id_->verbs));
  if (own_domain_) return {};
  return Unexpected<Error>(Error{Errc::kNoResources, errno, kOpeningQueue});
}

Expected<void, Error> QueuePair::open_queue(Side side) {
  if (shard_.all.size() >= shard_.options.connections_max) {
    return Unexpected<Error>(Error{Errc::kNoResources, 0, "too many connections"});
  }
  auto device = shard_.device(*id_->verbs);
  if (!device) return Unexpected<Error>(device.error());
  device_ = *device;
  const ibv_device_attr& can = device_->attributes();
  if (auto opened = open_receives(side); !opened) return opened;
  const std::uint32_t depth =
      clamp_to(std::min(can.max_qp_wr, can.max_cqe / 2) - static_cast<int>(kSlack),
               shard_.options.queue_depth);
  completions_.reset(
      ibv_create_cq(id_->verbs, static_cast<int>((pool_ ? depth : 2 * depth) + kSlack),
                    static_cast<CompletionOwner*>(this), &device_->completions(), 0));
  if (!completions_) {
    return Unexpected<Error>(Error{Errc::kNoResources, errno, kOpeningQueue});
  }
  capabilities_.queue_depth_max = depth;
  capabilities_.reads_in_flight_max =
      std::max<std::uint32_t>(1, clamp_to(can.max_qp_init_rd_atom, shard_.options.ord));
  capabilities_.send_with_invalidate = device_->traits().send_with_invalidate;
  // With siw a peer may reach what is registered: what another connection uses next must not be.
  capabilities_.registering_is_costly = !device_->traits().lets_peers_read;
  capabilities_.reports_invalidated_handle = device_->traits().reports_invalidated_handle;
  capabilities_.shares_receives = pool_ != nullptr;
  if (!create_queue_pair(*device_)) {
    return Unexpected<Error>(Error{Errc::kNoResources, errno, kOpeningQueue});
  }
  ibv_pd& domain = pool_ ? pool_->domain() : *own_domain_;
  memory_ = std::make_unique<Memory>(domain, device_->traits(), shard_.options.regions,
                                     shard_.options.exposures);
  sends_ =
      std::make_unique<SendQueue>(limits_, domain, device_->traits(), *memory_, ready_, counters_);
  receives_ = std::make_unique<ReceiveQueue>(shard_.options.queue_depth, pool_, device_->traits(),
                                             *memory_, ready_, counters_);
  return {};
}

// Devices do not tell beforehand how much goes inline, so they are asked by trying.
bool QueuePair::create_queue_pair(const Device& device) {
  ibv_qp_init_attr wish{};
  wish.qp_context = this;
  wish.send_cq = completions_.get();
  wish.recv_cq = pool_ ? &pool_->completions() : completions_.get();
  wish.srq = pool_ ? &pool_->queue() : nullptr;
  wish.qp_type = IBV_QPT_RC;
  ibv_pd& domain = pool_ ? pool_->domain() : *own_domain_;
  const auto slices = static_cast<std::uint32_t>(std::clamp(device.attributes().max_sge, 1, 24));
  for (const std::uint32_t inline_size : {shard_.options.inline_max, 128U, 80U, 64U, 0U}) {
    if (inline_size > shard_.options.inline_max) continue;
    wish.cap = {};
    wish.cap.max_send_wr = capabilities_.queue_depth_max + kSlack;
    wish.cap.max_recv_wr = pool_ ? 0 : capabilities_.queue_depth_max;
    wish.cap.max_send_sge = std::min(slices, kSendSlicesMax);
    wish.cap.max_recv_sge = pool_ ? 0 : std::min(slices, kSendSlicesMax);
    wish.cap.max_inline_data = inline_size;
    ++counters_.system_calls;
    if (rdma_create_qp(id_.get(), &domain, &wish) == 0) {
      device_events_.watch(*id_->qp);
      if (pool_) pool_->add(*id_->qp, *this);
      limits_ = {capabilities_.queue_depth_max, std::min(inline_size, device.traits().inline_limit),
                 std::min(slices, kSendSlicesMax)};
      capabilities_.sge_max = limits_.slices_max;
      return true;
    }
  }
  return false;
}

Expected<RegionId, Error> QueuePair::attach(MutableBytes memory) {
  const auto id = memory_->attach(memory, memory.data());
  if (id) return *id;
  return Unexpected<Error>(Error{Errc::kNoResources, 0, "too many regions are attached"});
}

Expected<RegionId, Error> QueuePair::attach_read_only(Bytes memory) {
  const auto id = memory_->attach(memory, nullptr);
  if (id) return *id;
  return Unexpected<Error>(Error{Errc::kNoResources, 0, "too many regions are attached"});
}

// --- The connection's beginning ----------------------------------------------------------------

void QueuePair::handle_cm(CmEvent& event) {
  if (state_ == State::kDown) return;
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (rdma_resolve_route(
              id_.get(), static_cast<int>(shard_.options.setup_timeout_initiator.count())) != 0) {
        end({Errc::kProvider, errno, "resolving the route to the peer"}, LinkEvent::kRefused);
      }
      return;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      return begin_connecting();
    case RDMA_CM_EVENT_ESTABLISHED:
      // After the peer's first message it comes late, and tells nothing new.
      if (state_ == State::kConnecting || state_ == State::kAnswered) opened(event);
      return;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
      if (is_setting_up()) set_up_failed(event.type, event.status < 0 ? -event.status : 0);
      return;
    case RDMA_CM_EVENT_DISCONNECTED:
      if (state_ == State::kAnswered) notice_first_message();
      if (device_events_.fault() != QueueEvents::Fault::kNone)
        return progress();  // it knows better why
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

void QueuePair::begin_connecting() {
  const ibv_device_attr& can = device_->attributes();
  rdma_conn_param parameters{};
  parameters.private_data = private_data_.data();
  parameters.private_data_len = static_cast<std::uint8_t>(private_data_.size());
  parameters.responder_resources =
      static_cast<std::uint8_t>(clamp_to(std::min(can.max_qp_rd_atom, 255), shard_.options.ird));
  parameters.initiator_depth = static_cast<std::uint8_t>(
      clamp_to(std::min(can.max_qp_init_rd_atom, 255), shard_.options.ord));
  capabilities_.reads_served_max = parameters.responder_resources;
  parameters.retry_count = 7;
  // Credits see to it that a Receive is there; where none is, something is wrong (RFC 8166 §3.3.1).
  parameters.rnr_retry_count = 0;
  state_ = State::kConnecting;
  // Some devices wait for the peer in here.
  if (rdma_connect(id_.get(), &parameters) != 0) set_up_failed(RDMA_CM_EVENT_CONNECT_ERROR, errno);
}

// The peer asks for so many Reads that it may have in flight, and serves so many of ours.
void QueuePair::answer() {
  const ibv_device_attr& can = device_->attributes();
  rdma_conn_param parameters{};
  parameters.private_data = private_data_.data();
  parameters.private_data_len = static_cast<std::uint8_t>(private_data_.size());
  parameters.responder_resources = static_cast<std::uint8_t>(
      clamp_to(std::min<int>(can.max_qp_rd_atom, responder_resources_), shard_.options.ird));
  parameters.initiator_depth = static_cast<std::uint8_t>(
      clamp_to(std::min<int>(can.max_qp_init_rd_atom, initiator_depth_), shard_.options.ord));
  // With shared Receives another peer may have taken, for a moment, what it was not granted.
  constexpr std::uint8_t kForEver = 7;
  parameters.rnr_retry_count = pool_ ? kForEver : 0;
  capabilities_.reads_in_flight_max = parameters.initiator_depth;  // 0: it serves none
  capabilities_.reads_served_max = parameters.responder_resources;
  state_ = State::kAnswered;
  if (rdma_accept(id_.get(), &parameters) != 0) {
    // EINVAL: the peer has given up meanwhile.
    const bool gone = errno == ECONNRESET || errno == EINVAL;
    return end({gone ? Errc::kClosed : Errc::kProvider, errno, "accepting a connection"},
               LinkEvent::kDisconnected);
  }
  if (pool_ && !device_->traits().is_iwarp) {
    // How long a peer waits that finds no Receive; librdmacm has it as long as can be, 0.66 s.
    constexpr std::uint8_t k640Microseconds = 12;
    ibv_qp_attr timer{};
    timer.min_rnr_timer = k640Microseconds;
    (void)ibv_modify_qp(id_->qp, &timer, IBV_QP_MIN_RNR_TIMER);
  }
}

bool QueuePair::is_setting_up() const noexcept {
  return state_ == State::kResolving || state_ == State::kConnecting ||
         state_ == State::kAccepting || state_ == State::kAnswered;
}

void QueuePair::opened(const CmEvent& event) {
  if (state_ == State::kConnecting) {
    const Bytes told = private_data_of(event, !device_->traits().is_iwarp);
    peer_private_data_.assign(told.begin(), told.end());
    if (event.initiator_depth > 0 || !device_->traits().is_iwarp) {  // siw does not always tell
      capabilities_.reads_in_flight_max =
          std::min<std::uint32_t>(capabilities_.reads_in_flight_max, event.initiator_depth);
    }
  }
  shard_.reactor->set_deadline(*this, std::nullopt);
  state_ = State::kOpen;
  events_.push(LinkEvent::kConnected);
}

// The peer may speak before the connection manager's last message is here.
void QueuePair::notice_first_message() {
  if (!receives_->has_received()) collect();
  if (!receives_->has_received() || state_ != State::kAnswered)
    return;  // a shared Receive may have told it already
  (void)rdma_notify(id_.get(), IBV_EVENT_COMM_EST);
  opened({});
}

void QueuePair::set_up_failed(rdma_cm_event_type event, int code) {
  Error cause{Errc::kProvider, code, "connecting"};
  if (event == RDMA_CM_EVENT_REJECTED || code == ECONNREFUSED) {
    // Of a listener that is not there, or of one that did not want us: transports differ.
    cause = {Errc::kRefused, ECONNREFUSED, "the peer refused the connection"};
  } else if (code == ETIMEDOUT || event == RDMA_CM_EVENT_UNREACHABLE) {
    cause = {Errc::kTimedOut, code, "the peer does not answer"};
  } else if (event == RDMA_CM_EVENT_ADDR_ERROR || event == RDMA_CM_EVENT_ROUTE_ERROR) {
    cause.operation = "finding the way to the peer";
  }
  end(cause, LinkEvent::kRefused);
}

void QueuePair::handle_deadline() {
  if (state_ == State::kDraining) return end(cause_, LinkEvent::kDisconnected);
  if (state_ == State::kLeaving) {
    device_->take_events();  // this turn may be late, and the word there
    if (!device_events_.has_last_receive()) device_->note_silence();
    return finish_end();
  }
  if (state_ == State::kOpen) return end({Errc::kClosed, 0, "the device gave the connection up"});
  const bool active = state_ == State::kResolving || state_ == State::kConnecting;
  end({Errc::kTimedOut, 0, "the peer did not finish the connection set-up in time"},
      active ? LinkEvent::kRefused : LinkEvent::kDisconnected);
}

// --- Progress ----------------------------------------------------------------------------------

void QueuePair::progress() {
  if (state_ == State::kAccepting) answer();
  arm();
  if (state_ == State::kAnswered) notice_first_message();
  if (state_ == State::kDown) return;
  if (state_ == State::kLeaving) {
    if (device_events_.has_last_receive() || device_->is_lost()) finish_end();
    return;
  }
  if (device_events_.fault() == QueueEvents::Fault::kPeers) {
    return end(
        {Errc::kProtocol, 0, "the peer reached for memory or a Receive that it was not given"});
  }
  if (device_events_.fault() == QueueEvents::Fault::kOwn)
    return end({Errc::kProvider, EIO, "the RDMA device failed"});
  if (device_->is_lost()) return end(lost_device());
  if (state_ == State::kDraining && (sends_->copies_under_way() == 0 || broken_)) {
    return end(cause_, LinkEvent::kDisconnected);
  }
  if (broken_) return end(cause_);
  if (state_ == State::kOpen && device_events_.has_last_receive() && !flushed_) give_up_soon();
  if (state_ == State::kOpen && sends_->bindings() > 0) {
    note_posted(sends_->post_bindings(*id_->qp));
  }
}

// In this order: what comes in behind the arming is told.
void QueuePair::arm() {
  if (armed_ || state_ == State::kDown || state_ == State::kLeaving) return;
  armed_ = ibv_req_notify_cq(completions_.get(), 0) == 0;
  if (armed_) device_->count_armed();
  if (state_ == State::kOpen || state_ == State::kAnswered || state_ == State::kDraining) collect();
}

void QueuePair::disarm() noexcept {
  if (armed_) device_->count_disarmed();
  armed_ = false;
}

bool QueuePair::look() {
  if (state_ == State::kOpen && ready_.empty()) collect();
  return has_news();
}

std::optional<LinkEvent> QueuePair::poll_link() {
  if (broken_ && state_ == State::kOpen) end(cause_);
  if (events_.empty()) return std::nullopt;
  return events_.pop();
}

std::size_t QueuePair::poll(std::span<Completion> out) {
  if (ready_.empty() && (state_ == State::kOpen || state_ == State::kDraining)) collect();
  std::size_t count = 0;
  while (count < out.size() && !ready_.empty()) out[count++] = ready_.pop();
  return count;
}

// --- The end -----------------------------------------------------------------------------------

void QueuePair::disconnect() noexcept {
  if (state_ == State::kDown || state_ == State::kLeaving || state_ == State::kDraining) return;
  const Error cause{Errc::kClosed, 0, "closed by this side"};
  if (state_ != State::kOpen || broken_ || born_.elsewhere())
    return end(cause, LinkEvent::kDisconnected);
  collect();
  if (sends_->copies_under_way() == 0) return end(cause, LinkEvent::kDisconnected);
  note_posted(sends_->post_marker(*id_->qp));
  cause_ = cause;
  state_ = State::kDraining;
  shard_.reactor->set_deadline(*this, posix::Reactor::now() + kDrainMax);
}

void QueuePair::end(const Error& cause) {
  const bool was_up = state_ == State::kOpen || state_ == State::kDraining;
  const bool active = state_ == State::kResolving || state_ == State::kConnecting;
  end(cause, was_up || !active ? LinkEvent::kDisconnected : LinkEvent::kRefused);
}

void QueuePair::end(const Error& cause, LinkEvent event) {
  if (state_ == State::kDown || state_ == State::kLeaving) return;
  const bool was_up = state_ == State::kOpen || state_ == State::kDraining;
  // Work that is done shall not be called flushed. In a child all this is its parent's.
  if (was_up && !born_.elsewhere()) {
    collect();
    (void)rdma_disconnect(id_.get());
  }
  cause_ = cause;
  ending_ = event;
  refuses_ = !was_up;
  if (!begin_leaving()) finish_end();
}

bool QueuePair::stop_receiving() {
  ibv_qp_attr error{};
  error.qp_state = IBV_QPS_ERR;
  return ibv_modify_qp(id_->qp, &error, IBV_QP_STATE) == 0;
}

// A shared Receive that the device has taken for this queue pair comes back by a completion, or is
// lost with the queue pair. True: it has to be waited for.
bool QueuePair::begin_leaving() {
  if (!pool_ || born_.elsewhere() || id_->qp == nullptr) return false;
  // Before the answer nothing can have come.
  const bool was_answered = state_ != State::kAccepting;
  if (!stop_receiving() || !was_answered || !device_->tells_last_receive() || device_->is_lost())
    return false;
  device_->take_events();
  if (device_events_.has_last_receive()) return false;
  state_ = State::kLeaving;
  shard_.reactor->set_deadline(*this, posix::Reactor::now() + kLeaveMax);
  shard_.reactor->wake();  // which arms the timer
  return true;
}

void QueuePair::finish_end() {
  state_ = State::kDown;
  shard_.reactor->set_deadline(*this, std::nullopt);
  destroy_queue();
  if (refuses_) id_.reset();  // tells a peer that waits; what has ended by itself needs no more
  events_.push(ending_);
  std::erase(shard_.all, this);
}

// After this no memory is touched any more, and nothing is left to complete.
void QueuePair::destroy_queue() {
  disarm();
  // Windows first: rxe waits 50 s for those that are bound to a queue pair when it is destroyed.
  if (memory_) memory_->free_windows();
  if (completions_) collect();
  if (id_ && id_->qp != nullptr && !born_.elsewhere()) {
    device_events_.forget();
    if (pool_) pool_->remove(*id_->qp);
    rdma_destroy_qp(id_.get());
  }
  if (completions_) collect();
  if (sends_) sends_->flush();
  if (receives_) receives_->flush();
  if (memory_) memory_->revoke_all();
}

void QueuePair::wait_for_copies() {
  const Instant end = posix::Reactor::now() + kDestroyMax;
  while (sends_->copies_under_way() > 0 && !broken_ && posix::Reactor::now() < end) {
    ready_.clear();
    collect();
    shard_.yielding.yield();
  }
}

void QueuePair::wait_for_last_receive() {
  if (state_ != State::kLeaving && !begin_leaving()) return;
  const Instant end = posix::Reactor::now() + kDestroyMax;
  while (!device_events_.has_last_receive() && posix::Reactor::now() < end) {
    device_->take_events();
    shard_.yielding.yield();
  }
}

QueuePair::~QueuePair() {
  if (born_.elsewhere()) {  // all that it holds is its parent's
    std::erase(shard_.all, this);
    return;
  }
  if (state_ == State::kOpen && sends_->copies_under_way() > 0) disconnect();
  if (state_ == State::kDraining) wait_for_copies();
  if (state_ == State::kDown) return;
  shard_.reactor->set_deadline(*this, std::nullopt);
  disarm();
  if (state_ == State::kOpen || state_ == State::kDraining) (void)rdma_disconnect(id_.get());
  if (pool_) {
    wait_for_last_receive();
    state_ = State::kLeaving;  // what comes now begins nothing
    (void)pool_->collect();    // a device's library may forget what it has for a queue pair
  }
  if (memory_) memory_->free_windows();
  if (id_ && id_->qp != nullptr) {
    device_events_.forget();
    if (pool_) pool_->remove(*id_->qp);
    rdma_destroy_qp(id_.get());
  }
  if (pool_) (void)pool_->collect();
  shard_.reactor->set_deadline(*this, std::nullopt);
  std::erase(shard_.all, this);
}

Error QueuePair::exposure_failure() const noexcept {
  return {Errc::kNoResources, sends_->exposure_failure(), kRegisteringMemory};
}

Counters QueuePair::counters() const noexcept {
  Counters result = counters_;
  result.registrations += memory_->registrations() + sends_->registrations();
  result.bytes_copied += memory_->bytes_copied();
  return result;
}

}  // namespace rpcrdma::rdma::verbs
