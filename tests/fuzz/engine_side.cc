#include "fuzz/engine_side.h"

#include "engine/v2/option_port.h"
#include "engine/work_id.h"
#include "rpcrdma/xdr.h"
#include "wire/v1/header.h"
#include "wire/v2/header.h"

namespace rpcrdma::fuzz {

using engine::Action;
using engine::CallId;
using engine::Lease;
using engine::Role;
using engine::Status;

namespace {

std::vector<Lease> leases_of(const Action& action) {
  std::vector<Lease> leases;
  if (const auto* send = std::get_if<engine::PostSend>(&action)) {
    for (const engine::Fragment& run : send->gather) leases.push_back(run.memory);
  } else if (const auto* read = std::get_if<engine::RdmaRead>(&action)) {
    leases.push_back(read->to);
  } else if (const auto* write = std::get_if<engine::RdmaWrite>(&action)) {
    leases.push_back(write->from);
  } else if (const auto* expose = std::get_if<engine::Expose>(&action)) {
    leases.push_back(expose->memory);
  }
  return leases;
}

}  // namespace

EngineSide::EngineSide(Role role, const engine::Options& options, std::size_t queue_depth,
                       std::size_t batch, bool refuses)
    : role_(role),
      options_(options),
      queue_depth_(queue_depth),
      batch_(batch),
      refuses_(refuses),
      headers_(std::make_unique_for_overwrite<std::byte[]>(
          engine::Connection::header_arena_size(role, options))),
      engine_(role, options, {headers_.get(), engine::Connection::header_arena_size(role, options)},
              engine::kHeaderRegion),
      receive_size_(engine::receive_size(options)) {
  drain();
}

// --- Commands ----------------------------------------------------------------------------------

void EngineSide::connect(const engine::LinkParameters& link) {
  if (connected_ || link_ended_) return;
  connected_ = true;
  inline_send_max_ = link.inline_send;
  engine_.handle_connected(link);
  drain();
}

void EngineSide::configure(const engine::LinkParameters& link) {
  if (!connected_ || told_) return;
  inline_send_max_ = std::max(inline_send_max_, link.inline_send);
  engine_.configure(link);
  drain();
}

void EngineSide::start_call(Message message, std::chrono::nanoseconds timeout) {
  const Xid xid{next_xid_++};
  const auto id = engine_.requester().start_call(now_, xid, message.outgoing(), timeout);
  if (id) {
    FUZZ_CHECK(!told_ && connected_, "a call starts without a connection");
    Call& call = started({true, *id});
    call.xid = xid;
    call.deadline = now_ + timeout;
    call.leases = message.leases;
    call.reply_room_size = message.reply_room ? message.reply_room->size_max : 0;
    for (std::size_t i = 0; i < message.results.size(); ++i) {
      const bool first = i == 0 || message.results[i].item != message.results[i - 1].item;
      if (first) call.result_sizes.push_back(0);
      call.result_sizes.back() += message.results[i].size_max;
    }
    for (const engine::ResultRoom& room : message.results) {
      places_[room.memory] = {room.offset, room.size_max};
    }
    if (const auto& room = message.reply_room)
      places_[room->memory] = {room->offset, room->size_max};
  }
  drain();
}

void EngineSide::cancel(CallId call) {
  engine_.requester().cancel(now_, call);
  drain();
}

void EngineSide::release(CallId call) {
  made(call).delivered = false;
  engine_.requester().release(call);
  drain();
}

void EngineSide::start_reply(CallId id, Message message) {
  Call& call = answered(id);
  call.in_service = call.has_receive = false;
  call.wanted.reset();
  call.leases.merge(message.leases);
  engine_.responder().start_reply(id, message.outgoing());
  drain();
}

void EngineSide::reject(CallId id) {
  Call& call = answered(id);
  call.in_service = call.has_receive = false;
  call.wanted.reset();
  engine_.responder().reject(id);
  drain();
}

void EngineSide::lend(CallId id) {
  Call& call = answered(id);
  FUZZ_CHECK(call.wanted.has_value(), "the driver lends what nobody wants");
  const Lease lease{next_lease_++};
  call.leases.insert(lease);
  call.lent = lease;
  places_[lease] = {64, call.wanted->size};
  call.in_service = false;
  call.wanted.reset();
  engine_.responder().lend(id, lease, 64);
  drain();
}

void EngineSide::ask(const engine::SmallValue& want) {
  if (engine_.option_port().ask(want)) ++changes_;
  drain();
}

void EngineSide::take_change() {
  if (engine_.option_port().poll_change()) --changes_;
  FUZZ_CHECK(changes_ >= 0, "a request ends twice");
}

void EngineSide::raise_receive_size(std::uint32_t size) {
  (void)engine_.option_port().raise_receive_size(size);
  drain();
}

// --- From below --------------------------------------------------------------------------------

bool EngineSide::receive(Bytes message, std::optional<SteeringTag> invalidated) {
  if (receives_.empty() || link_ended_ || !connected_) return false;
  const auto [receive, receive_size] = receives_.front();
  receives_.erase(receives_.begin());
  message = message.first(std::min<std::size_t>(message.size(), receive_size));
  Buffer& held = messages_[receive];
  held.assign(message.begin(), message.end());
  if (invalidated) handles_.erase(*invalidated);
  ++messages_received_;
  xdr::Reader reader(held);
  const std::uint32_t xid = reader.u32("xid");
  (void)reader.u32("version");
  grant_max_ = std::max(grant_max_, reader.u32("credits"));
  for (auto& [key, call] : calls_) {
    if (call.made && static_cast<std::uint32_t>(call.xid) == xid) call.answered = true;
  }
  if (has_profile() && role_ == Role::kClient && !invalidated) note_answer(held, Xid{xid});
  engine_.handle_received(now_, receive, held, invalidated);
  drain();
  return true;
}

// The engine has to take this for the end of a Call, and must confirm it if it has a Read list.
void EngineSide::note_answer(Bytes message, Xid xid) {
  wire::ChunkLists lists;
  const auto decoded = wire::v1::decode(message, wire::Limits{}, lists);
  if (!decoded) return;
  const wire::v1::Body& body = decoded->header.body;
  xdr::Reader stream(decoded->payload);
  (void)stream.u32("xid");
  const bool is_call = stream.u32("type") == 0 && stream.ok();
  if (std::holds_alternative<wire::v1::Msg>(body) && is_call) return;
  const bool is_message =
      std::holds_alternative<wire::v1::Msg>(body) || std::holds_alternative<wire::v1::NoMsg>(body);
  const bool is_padded = std::holds_alternative<wire::v1::Msgp>(body);
  for (auto& [key, call] : calls_) {
    if (!call.made || call.xid != xid || !call.sent || call.settled) continue;
    dones_seen_ = std::max(dones_seen_, call.dones_before);
    if (std::holds_alternative<wire::v1::Done>(body) || (is_padded && !lists.empty())) continue;
    call.settled = true;
    call.wants_done = is_message && !lists.reads.empty();
  }
}

bool EngineSide::complete(std::size_t n, bool well) {
  // Sends and Writes complete in order, the others when they like.
  std::vector<std::size_t> ready;
  bool first = true;
  for (std::size_t i = 0; i < posted_.size(); ++i) {
    if (!posted_[i].in_order || first) ready.push_back(i);
    if (posted_[i].in_order) first = false;
  }
  if (ready.empty()) return false;
  const std::size_t index = ready[n % ready.size()];
  const Posted posted = posted_[index];
  posted_.erase(posted_.begin() + static_cast<std::ptrdiff_t>(index));
  Status status = Status::kOk;
  if (link_ended_) {
    status = Status::kFlushed;
  } else if (!well && !std::holds_alternative<engine::Revoke>(posted.action)) {
    status = n % 2 == 0 ? Status::kLocalError : Status::kRemoteAccess;
    // The peer refused it, and the link is over; an exposure fails for want of room.
    if (!std::holds_alternative<engine::Expose>(posted.action)) end_link();
  }
  done(posted, status);
  drain();
  return true;
}

void EngineSide::done(const Posted& posted, Status status) {
  engine::Completion done{.id = static_cast<std::uint64_t>(*id_of(posted.action)),
                          .status = status};
  if (const auto* expose = std::get_if<engine::Expose>(&posted.action)) {
    if (status == Status::kOk) {
      const SteeringTag tag{next_tag_++};
      done.tag = tag;
      done.address = std::uint64_t{static_cast<std::uint32_t>(tag)} << 20U;
      handles_[tag] = {expose->memory, expose->size, done.address, expose->access};
      tags_.push_back(tag);
    }
  } else if (const auto* revoke = std::get_if<engine::Revoke>(&posted.action)) {
    handles_.erase(revoke->handle);
  } else if (std::holds_alternative<engine::RdmaWrite>(posted.action) && status == Status::kOk) {
    return;  // posted without a signal
  }
  engine_.handle_done(done);
}

void EngineSide::end_link() {
  link_ended_ = true;
  handles_.clear();  // no tag outlives its connection
}

void EngineSide::tell_end() {
  if (told_) return;
  end_link();
  told_ = true;
  flush_waiting();
  engine_.handle_disconnected(refused_write());
  drain();
}

// With some Calls on the way: the Terminate that ended the connection names the last Write's place.
std::optional<engine::RefusedWrite> EngineSide::refused_write() const {
  for (const Posted& posted : posted_) {
    const auto* write = std::get_if<engine::RdmaWrite>(&posted.action);
    if (write == nullptr) continue;
    return engine::RefusedWrite{wire::Segment{write->to.handle, 0, write->to.offset}};
  }
  return std::nullopt;
}

void EngineSide::pass_time(std::chrono::nanoseconds time) {
  now_ += time;
  engine_.handle_time(now_);
  if (const auto timeout = engine_.poll_timeout(); timeout && *timeout <= now_) {
    engine_.handle_timeout(now_);
  }
  drain();
}

bool EngineSide::pass_to_timeout() {
  const auto timeout = engine_.poll_timeout();
  if (!timeout) return false;
  pass_time(std::max(*timeout - now_, std::chrono::nanoseconds{0}));
  return true;
}

// --- Actions -----------------------------------------------------------------------------------

void EngineSide::drain() {
  engine_.handle_time(now_);
  for (bool again = true; again;) {
    if (engine_.link().dialect == engine::Dialect::kV2) {
      // A message that is sent now may have been planned before the peer's size changed.
      inline_send_max_v2_ = std::max(inline_send_max_v2_, engine_.link().inline_send);
    }
    again = drain_events();
    again = drain_actions() || again;
  }
  check_credits();
}

bool EngineSide::drain_actions() {
  bool moved = post_waiting();
  std::vector<work::Request> room(batch_);
  std::vector<engine::Slices> slices(batch_);
  while (waiting_.empty()) {
    moved = drain_receives() || moved;
    const auto requests = engine_.poll_work(room, slices);
    if (requests.empty()) break;
    FUZZ_CHECK(!told_, "work behind the end of the connection");
    moved = true;
    for (const work::Request& request : requests) {
      const Action action = engine::kept(request);
      seen(action);
      waiting_.push_back(action);
    }
    post_waiting();
  }
  if (!engine_.take_disconnect()) return moved;
  FUZZ_CHECK(!told_, "a connection that has ended is to be ended");
  end_link();
  return true;
}

bool EngineSide::drain_receives() {
  if (const auto size = engine_.option_port().poll_receive_size()) {
    FUZZ_CHECK(may_speak_v2() && *size <= std::max(options_.receive_size_max, receive_size_),
               "Receives that are larger than they may be");
    if (has_memory_) receive_size_ = *size;
    engine_.option_port().handle_resized(has_memory_);
  }
  std::vector<engine::ReceiveId> room(batch_);
  const auto receives = engine_.poll_receives(room);
  for (const engine::ReceiveId receive : receives) {
    FUZZ_CHECK(static_cast<std::uint16_t>(receive) < receive_count(), "no such Receive");
    FUZZ_CHECK(std::ranges::find(receives_, receive, &PostedReceive::id) == receives_.end(),
               "a Receive is posted twice");
    messages_.erase(receive);  // its memory is the peer's again
    unused_.erase(receive);
    if (!link_ended_) receives_.push_back({receive, receive_size_});
  }
  const bool moved = !receives.empty();
  for (const engine::ReceiveId receive : engine_.poll_unused_receives(room)) {
    FUZZ_CHECK(static_cast<std::uint16_t>(receive) < receive_count(), "no such Receive");
    FUZZ_CHECK(std::ranges::find(receives_, receive, &PostedReceive::id) == receives_.end(),
               "a Receive is both posted and unused");
    messages_.erase(receive);  // others may have its memory
    unused_.insert(receive);
  }
  return moved;
}

bool EngineSide::post_waiting() {
  bool moved = false;
  while (!waiting_.empty()) {
    if (link_ended_) {
      if (refuses_) flush_waiting();
      return moved || refuses_;
    }
    const Action action = waiting_.front();
    if (posted_.size() >= queue_depth_) return moved;
    waiting_.pop_front();
    moved = true;
    const auto* send = std::get_if<engine::PostSend>(&action);
    if (send != nullptr && !send->follows_writes && now_.time_since_epoch().count() % 2 == 1) {
      done({action, {}, false}, Status::kOk);  // as a provider that takes a copy
    } else {
      const bool in_order = std::holds_alternative<engine::RdmaWrite>(action) ||
                            std::holds_alternative<engine::PostSend>(action);
      posted_.push_back({action, leases_of(action), in_order});
    }
  }
  return moved;
}

// Work that is not posted any more is answered as if it had been flushed.
void EngineSide::flush_waiting() {
  while (!waiting_.empty()) {
    const Action action = waiting_.front();
    waiting_.pop_front();
    done({action, {}, false}, Status::kFlushed);
  }
}

void EngineSide::seen(const Action& action) {
  if (const auto* expose = std::get_if<engine::Expose>(&action)) {
    for (auto& [key, call] : calls_) {
      if (call.limit == 0 && call.leases.contains(expose->memory)) {
        call.limit = engine_.requester().credits().limit();
      }
    }
  } else if (const auto* send = std::get_if<engine::PostSend>(&action)) {
    seen_send(*send);
  } else if (const auto* read = std::get_if<engine::RdmaRead>(&action)) {
    seen_read(*read);
  }
}

void EngineSide::seen_read(const engine::RdmaRead& read) const {
  const auto place = places_.find(read.to);
  FUZZ_CHECK(place != places_.end(), "a Read to memory that was not lent for it");
  const auto& [offset, size] = place->second;
  FUZZ_CHECK(read.to_offset >= offset && read.to_offset - offset <= size &&
                 read.from.length <= size - (read.to_offset - offset),
             "a Read beyond its place");
  const bool is_ended = std::ranges::any_of(calls_, [&](const auto& each) {
    return each.second.ended && each.second.leases.contains(read.to);
  });
  FUZZ_CHECK(!is_ended, "a Read to memory of a call that has ended");
}

// RFC 5666 §3.8: one for each reply with a Read list, when nothing of it is read any more.
void EngineSide::seen_done_sent(Xid xid) {
  const auto found = std::ranges::find_if(calls_, [&](const auto& each) {
    return each.second.made && each.second.xid == xid && each.second.wants_done;
  });
  FUZZ_CHECK(found != calls_.end(), "RDMA_DONE for nothing");
  FUZZ_CHECK(!found->second.confirmed, "RDMA_DONE twice");
  found->second.confirmed = true;
  ++dones_sent_;
  if (link_ended_) return;
  const auto reads_to_it = [&](const Action& action) {
    const auto* read = std::get_if<engine::RdmaRead>(&action);
    return read != nullptr && found->second.leases.contains(read->to);
  };
  FUZZ_CHECK(std::ranges::none_of(waiting_, reads_to_it) &&
                 std::ranges::none_of(posted_, reads_to_it, &Posted::action),
             "RDMA_DONE for a reply that is still read");
}

void EngineSide::seen_send(const engine::PostSend& send) {
  const std::size_t arena = engine::Connection::header_arena_size(role_, options_);
  FUZZ_CHECK(send.header_offset <= arena && send.header_size <= arena - send.header_offset,
             "a header outside of its arena");
  std::uint64_t size = send.header_size + std::uint64_t{send.pad_size};
  for (const engine::Fragment& run : send.gather) size += run.size;
  if (send.pad_size > 0) {
    FUZZ_CHECK(send.pad_size <= arena - send.header_offset - send.header_size &&
                   send.pad_before < send.gather.size() &&
                   send.gather.size() < engine::kFragmentsMax,
               "padding that has no place");
  }
  wire::ChunkLists lists;
  const SentHeader header =
      decode_sent({headers_.get() + send.header_offset, send.header_size}, lists);
  FUZZ_CHECK(size <= (header.version == 2 ? inline_send_max_v2_ : inline_send_max_),
             "a Send longer than the peer's Receive");
  const engine::WorkKind kind = engine::to_name(send.id).kind;
  const bool is_call = kind == engine::WorkKind::kCallSend;
  const bool is_done = kind == engine::WorkKind::kDoneSend;
  const bool is_option = kind == engine::WorkKind::kOptionSend;
  // An option that asks requests, and one that answers grants, as Calls and replies do.
  const bool asks = is_option ? header.says_call.value_or(false) : is_call || is_done;
  const std::uint32_t credits = asks ? requested() : granted();
  FUZZ_CHECK(header.credits == (is_option ? std::max(credits, 1U) : credits),
             "another number of credits");
  FUZZ_CHECK(is_done == header.is_done, "another message than it should be");
  FUZZ_CHECK(!header.is_option || is_option, "a call's message is an option");
  FUZZ_CHECK(!is_option || (lists.empty() && send.gather.empty() && header.version == 2),
             "an option, or its answer, that is more");
  if (is_option) {
    if (header.is_option) last_option_ = header.xid;
    return;
  }
  FUZZ_CHECK(!header.says_call || *header.says_call == is_call, "another direction");
  if (is_done) return seen_done_sent(header.xid);
  is_call ? seen_call_sent(header, lists) : seen_reply_sent(send, header, lists);
}

SentHeader EngineSide::decode_sent(Bytes header, wire::ChunkLists& lists) const {
  namespace v1 = wire::v1;
  namespace v2 = wire::v2;
  FUZZ_CHECK(header.size() >= 2 * xdr::kWordSize, "a header without a version");
  if (xdr::load_word(header.data() + xdr::kWordSize) != v2::kVersion || !may_speak_v2()) {
    const auto decoded = v1::decode(header, wire::Limits{}, lists);
    FUZZ_CHECK(decoded && decoded->payload.empty(), "we send a bad header");
    const v1::Header& sent = decoded->header;
    return {.xid = sent.xid,
            .version = sent.version,
            .credits = sent.credits,
            .is_done = std::holds_alternative<v1::Done>(sent.body)};
  }
  const auto decoded = v2::decode(header, wire::Limits{}, lists);
  FUZZ_CHECK(decoded && decoded->payload.empty(), "we send a bad header of version 2");
  const v2::Header& sent = decoded->header;
  SentHeader told{.xid = sent.xid, .version = sent.version, .credits = sent.credits};
  if (const auto* message = std::get_if<v2::Msg>(&sent.body)) {
    told.says_call = message->direction == v2::Direction::kCall;
  } else if (const auto* no_message = std::get_if<v2::NoMsg>(&sent.body)) {
    told.says_call = no_message->direction == v2::Direction::kCall;
  } else if (const auto* option = std::get_if<v2::Optional>(&sent.body)) {
    told.says_call = option->direction == v2::Direction::kCall;
    told.is_option = true;
  }
  return told;
}

void EngineSide::seen_reply_sent(const engine::PostSend& send, const SentHeader& header,
                                 const wire::ChunkLists& lists) {
  FUZZ_CHECK(role_ == Role::kServer || header.version == 2 || (lists.empty() && !send.invalidate),
             "the answer to a backward Call has chunks");
  // I1: one reply for each Call at most, and its Receive is posted again before it.
  ++replies_sent_;
  FUZZ_CHECK(replies_sent_ <= messages_received_, "more replies than Calls");
}

// The credits that go into our Calls, and into our replies.
std::uint32_t EngineSide::requested() const {
  return role_ == Role::kClient ? options_.credits : options_.backward_calls;
}
std::uint32_t EngineSide::granted() const {
  return role_ == Role::kServer ? options_.credits : options_.backward_calls;
}

void EngineSide::seen_call_sent(const SentHeader& header, const wire::ChunkLists& lists) {
  std::uint32_t unanswered = 0;
  std::uint32_t dones = dones_sent_ - dones_seen_;  // and those that are owed
  std::uint32_t limit = engine_.requester().credits().limit();
  Call* sent = nullptr;
  for (auto& [key, call] : calls_) {
    if (!call.made) continue;
    if (call.xid == header.xid && !call.ended) sent = &call;
    if (call.xid != header.xid && call.sent && !call.answered) {
      ++unanswered;
      limit = std::max(limit, call.limit);
    } else if (call.wants_done && !call.confirmed) {
      ++dones;
    }
  }
  FUZZ_CHECK(sent != nullptr, "a Call is sent too late");
  // A Call that offered version 2 goes again in version 1.
  FUZZ_CHECK(!sent->sent || (sent->version == 2 && header.version < 2), "a Call is sent twice");
  sent->sent = true;
  sent->version = header.version;
  sent->answered = false;
  sent->lists = lists;
  sent->limit = std::max(sent->limit, engine_.requester().credits().limit());
  // I2: those that surely were not answered, with this one. A smaller grant revokes nothing: each
  // counts with the limit under which it took its credit.
  FUZZ_CHECK(unanswered + 1 <= std::max(limit, sent->limit) || link_ended_,
             "a Call without a credit");
  // RFC 5666 §3.8: a DONE uses one too. When no Call is under way, one may go.
  sent->dones_before = dones_sent_;
  FUZZ_CHECK(unanswered == 0 || unanswered + dones + 1 <= grant_max_ || link_ended_,
             "a Call takes the credit of an RDMA_DONE");
  // I1: the Receives of its reply, and of what the peer may still send, are posted.
  const std::uint32_t in_service = engine_.responder().calls_in_service();
  const std::uint32_t for_calls = granted() > in_service ? granted() - in_service : 0;
  FUZZ_CHECK(link_ended_ || engine_.counters().credit_overruns > 0 ||
                 engine_.receives_posted() >= unanswered + 1 + for_calls,
             "a Call takes a Receive of the other direction");
  FUZZ_CHECK(role_ == Role::kClient || header.version == 2 || lists.empty(),
             "a backward Call has chunks");
  const auto check = [&](const wire::Segment& segment) {
    const auto found = handles_.find(segment.handle);
    if (link_ended_) return;
    // The peer may have taken a tag back before it learned of it, if it guessed.
    if (found == handles_.end()) return;
    FUZZ_CHECK(found->second.size == segment.length && found->second.address == segment.offset,
               "a segment is not what was exposed");
    FUZZ_CHECK(sent->leases.contains(found->second.memory), "memory of another call");
  };
  for (const wire::ReadSegment& read : lists.reads) check(read.target);
  for (std::size_t i = 0; i < lists.writes.size(); ++i) {
    for (const wire::Segment& segment : lists.writes.chunk(i)) check(segment);
  }
  for (const wire::Segment& segment : lists.reply) check(segment);
}

void EngineSide::check_credits() const {
  // While a queue is full, the engine is not asked what else it wants posted.
  // Calls that came when there was no slot are left where they are on a connection that is to end.
  if (told_ || link_ended_ || !waiting_.empty()) return;
  FUZZ_CHECK(engine_.receives_posted() <= receive_count(), "more Receives than credits");
  const std::size_t held = receive_count() - engine_.receives_posted();
  const auto replies = std::ranges::count_if(calls_, [](const auto& each) {
    const Call& call = each.second;
    return call.made && (call.delivered || (call.answered && !call.ended));
  });
  // Options keep theirs until they are answered, and those that wait for them are not posted.
  FUZZ_CHECK(may_speak_v2() ||
                 held <= engine_.responder().calls_in_service() + static_cast<std::size_t>(replies),
             "a Receive that no Call and no reply holds is not posted");
  if (requested() == 0) return;
  FUZZ_CHECK(engine_.requester().credits().limit() <= (role_ == Role::kClient && has_profile()
                                                           ? grant_max_
                                                           : std::min(requested(), grant_max_)),
             "more credits than were requested and granted");
  FUZZ_CHECK(engine_.requester().credits().limit() >= 1, "a grant of zero counts as one");
}

// --- Events ------------------------------------------------------------------------------------

bool EngineSide::drain_events() {
  std::array<engine::Event, 3> room;
  const auto events = engine_.poll_events(room);
  for (const engine::Event& event : events) {
    std::visit([this](const auto& value) { on(value); }, event);
  }
  return !events.empty();
}

EngineSide::Call& EngineSide::started(const CallKey& key) {
  const auto [at, is_new] = calls_.emplace(key, Call{});
  FUZZ_CHECK(is_new, "the name of a call is used again");
  at->second.made = key.made;
  return at->second;
}

EngineSide::Call& EngineSide::told_of(CallId id, Xid xid) {
  FUZZ_CHECK(granted() > 0, "a Call for who answers none");
  if (!calls_.contains({false, id})) {
    Call& call = started({false, id});
    call.xid = xid;
    call.has_receive = true;
    const auto held = std::ranges::count_if(
        calls_, [](const auto& each) { return each.second.has_receive && !each.second.ended; });
    FUZZ_CHECK(static_cast<std::size_t>(held) <= granted(), "more Calls than granted are served");
  }
  Call& call = answered(id);
  FUZZ_CHECK(!call.ended && !call.in_service, "a call that is not waited for");
  return call;
}

void EngineSide::check_inline_part(Bytes part) const {
  bool inside = part.empty();
  for (const auto& [id, message] : messages_) inside = inside || within(part, message);
  FUZZ_CHECK(inside, "a view of something else than the received message");
}

// I8: nothing that may still run refers to the memory of a call that has ended.
void EngineSide::check_memory_is_back(const Call& call) const {
  if (link_ended_) return;  // nothing runs any more
  for (const Posted& posted : posted_) {
    for (const Lease lease : posted.leases) {
      FUZZ_CHECK(!call.leases.contains(lease), "a call ends while its memory is in use");
    }
  }
  for (const Action& action : waiting_) {
    for (const Lease lease : leases_of(action)) {
      FUZZ_CHECK(!call.leases.contains(lease), "a call ends while its memory is to be used");
    }
  }
  // I3.
  for (const auto& [tag, exposed] : handles_) {
    FUZZ_CHECK(!call.leases.contains(exposed.memory), "a call ends with a live handle");
  }
}

void EngineSide::ended(Call& call) {
  FUZZ_CHECK(!call.ended, "a call ends twice");
  call.ended = true;
  check_memory_is_back(call);
}

void EngineSide::on(const engine::ReplyReady& event) {
  Call& call = made(event.call);
  ended(call);
  call.delivered = true;
  check_inline_part(event.inline_part);
  FUZZ_CHECK(event.in_reply_chunk <= call.reply_room_size, "more than the Reply chunk holds");
  FUZZ_CHECK(event.inline_part.empty() != (event.in_reply_chunk == 0), "two replies, or none");
  const auto items =
      event.by_read != nullptr ? event.by_read->items : std::span<const engine::ReadItem>{};
  const bool were_read = !items.empty();
  FUZZ_CHECK(!were_read || items.size() == event.results_written.size(),
             "results without a position");
  FUZZ_CHECK(were_read || event.results_written.size() <= call.result_sizes.size(),
             "more results than places");
  std::uint64_t in_reply_room = event.in_reply_chunk;
  for (std::size_t i = 0; i < event.results_written.size(); ++i) {
    if (were_read ? !items[i].in_result : i >= call.result_sizes.size()) {
      in_reply_room += event.results_written[i];
    } else {
      FUZZ_CHECK(i < call.result_sizes.size(), "a result without a place");
      FUZZ_CHECK(event.results_written[i] <= call.result_sizes[i], "a result above its place");
    }
    FUZZ_CHECK(!were_read || i == 0 || items[i - 1].position < items[i].position,
               "results out of order");
  }
  FUZZ_CHECK(in_reply_room <= call.reply_room_size, "more than the room for the reply holds");
  FUZZ_CHECK(!call.wants_done || call.confirmed || link_ended_, "a reply that is not confirmed");
}

void EngineSide::on(const engine::CallFailed& event) {
  Call& call = made(event.call);
  FUZZ_CHECK(event.error != engine::CallError::kTimedOut || now_ >= call.deadline, "too early");
  ended(call);
}

void EngineSide::on(const engine::MemoryWanted& event) {
  Call& call = told_of(event.call, event.xid);
  FUZZ_CHECK(role_ == Role::kServer || may_speak_v2(), "a backward Call has chunks");
  FUZZ_CHECK(event.size > 0 && event.size <= (event.position == 0 ? options_.long_call_size_max
                                                                  : options_.read_chunk_size_max),
             "a Read chunk of a size that is not taken");
  check_inline_part(event.inline_part);
  call.in_service = true;
  call.wanted = event;
}

void EngineSide::on(const engine::CallReceived& event) {
  Call& call = told_of(event.call, event.xid);
  FUZZ_CHECK(role_ == Role::kServer || may_speak_v2() || (event.items.empty() && !event.long_part),
             "a backward Call has chunks");
  check_inline_part(event.inline_part);
  FUZZ_CHECK(event.inline_part.empty() == event.long_part.has_value(), "two streams, or none");
  if (event.long_part) {
    FUZZ_CHECK(call.leases.contains(event.long_part->memory), "memory that was not lent");
  }
  std::uint64_t end = 0;
  for (const engine::PulledItem& item : event.items) {
    FUZZ_CHECK(item.position >= end && item.position % 4 == 0, "items out of order");
    FUZZ_CHECK(item.data.size == 0 || call.leases.contains(item.data.memory), "not lent");
    end = std::uint64_t{item.position} + item.data.size;
  }
  call.in_service = true;
}

void EngineSide::on(const engine::CallDone& event) {
  Call& call = answered(event.call);
  FUZZ_CHECK(!call.in_service, "a call is done before it was answered");
  ended(call);
}

void EngineSide::on(const engine::ChunkRefused&) {
  FUZZ_CHECK((role_ == Role::kServer || may_speak_v2()) && !refused_,
             "one refusal ends the connection");
  refused_ = true;
}

// --- The end -----------------------------------------------------------------------------------

std::vector<EngineSide::CallKey> EngineSide::calls(bool (*choose)(const Call&)) const {
  std::vector<CallKey> chosen;
  for (const auto& [key, call] : calls_) {
    if (choose(call)) chosen.push_back(key);
  }
  return chosen;
}

void EngineSide::settle() {
  for (bool moved = true; moved;) {
    moved = false;
    while (complete(0, true)) moved = true;
    for (const CallKey& key : calls([](const Call& call) { return call.in_service; })) {
      reject(key.id);
      moved = true;
    }
    for (const CallKey& key : calls([](const Call& call) { return call.delivered; })) {
      release(key.id);
      moved = true;
    }
  }
}

// Returns whether the engine still owes an end: of a call that we made, or of a connection that
// does not move. Writes alone are not watched: a queue pair always has room for one reply's and the
// Send.
bool EngineSide::owes_an_end() const {
  if (link_ended_) return false;
  const auto is_under_way = [](const auto& each) { return each.second.made && !each.second.ended; };
  if (std::ranges::any_of(calls_, is_under_way)) return true;
  if (role_ == Role::kServer && !handles_.empty()) return true;  // for RDMA_DONE
  return std::ranges::any_of(posted_, [](const Posted& posted) {
    const engine::WorkKind kind = engine::to_name(*id_of(posted.action)).kind;
    return kind == engine::WorkKind::kRead || kind == engine::WorkKind::kReplySend ||
           kind == engine::WorkKind::kDoneSend || kind == engine::WorkKind::kReplyExpose ||
           kind == engine::WorkKind::kReplyRevoke;
  });
}

std::size_t EngineSide::timeouts_max() const {
  return 4 * (std::size_t{options_.calls_max} + options_.backward_calls +
              (has_profile() ? options_.rfc5666.exposed_replies_max : 0) + 2);
}

// I7, with a peer that leaves all our work where it is: the connection is given up in time, however
// full the queues are.
void EngineSide::finish_stuck() {
  Instant latest = now_ + std::max(options_.peer_timeout, options_.rfc5666.done_timeout);
  for (const auto& [key, call] : calls_) {
    if (call.made && !call.ended) latest = std::max(latest, call.deadline + options_.fence_timeout);
  }
  // A call that failed already has had, or is given, its time to be fenced.
  latest = std::max(latest, now_ + 2 * options_.fence_timeout);
  for (std::size_t i = 0; owes_an_end(); ++i) {
    FUZZ_CHECK(i < timeouts_max(), "time-outs without end");
    FUZZ_CHECK(pass_to_timeout(), "nobody waits for the end of what is left");
    FUZZ_CHECK(now_ <= latest, "later than promised");
  }
}

void EngineSide::finish(bool stuck) {
  // I7: whatever the peer left undone, each call ends within its time and the time to fence it.
  if (stuck) finish_stuck();
  settle();
  for (const auto& [key, call] : calls_) {
    FUZZ_CHECK(!call.settled || call.ended || link_ended_, "nobody goes on with an answered call");
  }
  for (std::size_t i = 0; pass_to_timeout() && !link_ended_; ++i) {
    FUZZ_CHECK(i < timeouts_max(), "time-outs without end");
    settle();
  }
  for (const auto& [key, call] : calls_) {
    FUZZ_CHECK(call.ended || link_ended_, "a call outlives its time");
  }
  if (!link_ended_) {
    const std::size_t kept = may_speak_v2() ? engine::OptionPort::kReceives : 0;
    FUZZ_CHECK(receives_.size() + unused_.size() <= receive_count() &&
                   receives_.size() + unused_.size() + kept >= receive_count() &&
                   (may_speak_v2() || unused_.empty()),
               "a Receive is lost");
    FUZZ_CHECK(handles_.empty(), "a handle is left");
    for (const auto& [key, call] : calls_) {
      FUZZ_CHECK(call.wants_done == call.confirmed, "a reply that was never confirmed");
    }
  }
  tell_end();
  settle();
  for (const auto& [key, call] : calls_) FUZZ_CHECK(call.ended, "a call that never ends");
  FUZZ_CHECK(
      engine_.requester().calls_in_flight() == 0 && engine_.responder().calls_in_service() == 0,
      "calls are left");
  FUZZ_CHECK(engine_.counters().calls_started == engine_.counters().calls_ended, "miscounted");
  FUZZ_CHECK(posted_.empty() && waiting_.empty(), "the driver has not flushed all");
  while (changes_ > 0) {
    const int before = changes_;
    take_change();
    FUZZ_CHECK(changes_ < before, "a request that never ends");
  }
}

// --- Messages ----------------------------------------------------------------------------------

Lease EngineSide::new_lease(Message& message) {
  const Lease lease{next_lease_++};
  message.leases.insert(lease);
  return lease;
}

// A stream as an encoder makes it: each item is followed by its padding in an inline run.
Message EngineSide::message(Choices& choices, bool call) {
  Message message;
  const auto add = [&](std::uint32_t size, std::uint16_t item) {
    message.stream.push_back({new_lease(message), size, choices.u8(), item});
  };
  add(static_cast<std::uint32_t>(4 + choices.size(6'000)), 0);
  const std::size_t items = choices.below(4);
  for (std::uint16_t item = 1; item <= items; ++item) {
    std::uint64_t size = 0;
    for (std::size_t runs = 1 + choices.below(3); runs > 0; --runs) {
      add(static_cast<std::uint32_t>(choices.size(20'000)), item);
      size += message.stream.back().size;
    }
    const std::uint32_t more = choices.flag() ? 0 : choices.u8();
    add(static_cast<std::uint32_t>(xdr::pad_size(size)) + more, 0);
  }
  if (!call && has_profile()) message.may_be_read = choices.flag();
  if (!call) return message;
  const std::size_t results = choices.below(4);
  for (std::uint16_t item = 1; item <= results; ++item) {
    for (std::size_t runs = 1 + choices.below(3); runs > 0; --runs) {
      message.results.push_back(
          {new_lease(message), static_cast<std::uint32_t>(choices.size(20'000)), 0, item});
    }
  }
  message.reply_size_max = static_cast<std::uint32_t>(choices.size(40'000));
  if (choices.flag()) {
    message.reply_room = {new_lease(message), static_cast<std::uint32_t>(choices.size(60'000)), 0,
                          0};
  }
  return message;
}

}  // namespace rpcrdma::fuzz
