#include "fuzz/stream_sides.h"

#include <cstring>

#include "iwarp/byte_order.h"
#include "iwarp/crc32c.h"

namespace rpcrdma::fuzz {

using iwarp::Completion;
using iwarp::Phase;
using iwarp::RemoteMemory;
using iwarp::WorkKind;

namespace {

constexpr std::size_t kMemorySize = 80 * 1024;  // of the peer
constexpr std::size_t kPlaceMax = 40'000;
constexpr std::byte kGuardByte{0xa5};

bool sends(WorkKind kind) {
  return kind == WorkKind::kSend || kind == WorkKind::kWrite;
}

}  // namespace

StreamSetup::StreamSetup(Choices& choices) {
  const std::uint8_t flags = choices.u8();
  ours.initiator = (flags & 1U) != 0;
  ours.crc = (flags & 2U) == 0;
  ours.rtr = static_cast<iwarp::Rtr>((flags >> 2U) % 4);
  const std::uint8_t depths = choices.u8();
  ours.ird = depths % 3;
  ours.ord = depths / 3 % 3;
  theirs = ours;
  theirs.initiator = !ours.initiator;
  std::swap(theirs.ird, theirs.ord);
  if ((flags & 16U) != 0) fpdu_size_max = 128 + 40 * std::size_t{choices.u8()};
  if ((flags & 32U) != 0) segment_size = 64 + choices.u8();
  bare_receives = (flags & 64U) != 0;
}

// --- Place -------------------------------------------------------------------------------------

Place::Place(Choices& choices, std::size_t size_max, std::size_t runs) : seed_(choices.u8()) {
  for (std::size_t i = 0; i < runs; ++i) {
    Buffer& run = runs_.emplace_back(choices.size(size_max) + 2 * kGuard, kGuardByte);
    fill(MutableBytes(run).subspan(kGuard, run.size() - 2 * kGuard), seed_);
  }
}

Place::Place(std::size_t size) : runs_(1, Buffer(size + 2 * kGuard, kGuardByte)), seed_(0) {}

MutableBytes Place::run(std::size_t index) {
  return MutableBytes(runs_[index]).subspan(kGuard, runs_[index].size() - 2 * kGuard);
}

std::vector<MutableBytes> Place::targets() {
  std::vector<MutableBytes> all;
  for (std::size_t i = 0; i < runs_.size(); ++i) all.push_back(run(i));
  return all;
}

std::vector<Bytes> Place::sources() {
  std::vector<Bytes> all;
  for (std::size_t i = 0; i < runs_.size(); ++i) all.push_back(run(i));
  return all;
}

std::size_t Place::size() const {
  std::size_t size = 0;
  for (const Buffer& run : runs_) size += run.size() - 2 * kGuard;
  return size;
}

void Place::check(bool read_only) const {
  for (const Buffer& run : runs_) {
    for (std::size_t i = 0; i < kGuard; ++i) {
      FUZZ_CHECK(run[i] == kGuardByte && run[run.size() - 1 - i] == kGuardByte,
                 "memory beside a run was written");
    }
    FUZZ_CHECK(!read_only || is_filled(Bytes(run).subspan(kGuard, run.size() - 2 * kGuard), seed_),
               "memory that may only be read was written");
  }
}

// --- Output ------------------------------------------------------------------------------------

void Output::add(Bytes bytes) {
  FUZZ_CHECK(!terminated_ || bytes.empty(), "something follows a Terminate");
  pending_.insert(pending_.end(), bytes.begin(), bytes.end());
  std::size_t taken = 0;
  while (const std::size_t size = take_fpdu(Bytes(pending_).subspan(taken))) taken += size;
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(taken));
}

// The size of the FPDU at the front; 0 when it is not whole yet.
std::size_t Output::take_fpdu(Bytes bytes) {
  if (bytes.size() < iwarp::kLengthSize + iwarp::kControlSize) return 0;
  FUZZ_CHECK(iwarp::check_start(bytes) == iwarp::Fault::kNone, "we send a bad FPDU");
  const std::size_t ulpdu = iwarp::load16(bytes.data());
  const std::size_t size = iwarp::fpdu_size(ulpdu);
  if (bytes.size() < size) return 0;
  iwarp::Crc32c crc;
  crc.add(bytes.first(size - iwarp::kCrcSize));
  const std::uint32_t sent = iwarp::load_crc(&bytes[size - iwarp::kCrcSize]);
  FUZZ_CHECK(sent == (crc_ ? crc.value() : 0), "we send a bad CRC");
  const iwarp::Header header = iwarp::decode_header(bytes);
  if (header.opcode == iwarp::Opcode::kReadRequest) {
    const auto request =
        iwarp::decode_read_request(bytes.subspan(iwarp::kLengthSize + iwarp::kUntaggedSize));
    sinks_.push_back({{request.sink_tag, request.sink_address}, request.size});
  }
  terminated_ = header.opcode == iwarp::Opcode::kTerminate;
  FUZZ_CHECK(!terminated_ || bytes.size() == size, "something follows a Terminate");
  return size;
}

std::vector<Known> Output::take_sinks() {
  return std::exchange(sinks_, {});
}

// --- Our side ----------------------------------------------------------------------------------

OurSide::OurSide(const StreamSetup& setup)
    : setup_(setup), stream_(setup.stream, random_), output_(setup.ours.crc) {
  if (setup.bare_receives) stream_.use_memory(*this);
}

void OurSide::start() {
  if (stream_.phase() != Phase::kWaiting) return;
  stream_.start(setup_.ours, setup_.fpdu_size_max, setup_.segment_size);
  const bool begins_with_read = setup_.ours.initiator && setup_.ours.rtr == iwarp::Rtr::kRead;
  if (begins_with_read) unrequested_.push_front(0);  // the initiator's first FPDU, RFC 6581 §9
}

void OurSide::post(Choices& choices, RemoteMemory remote) {
  switch (choices.below(5)) {
    case 0:
      return post_receive(choices);
    case 1:
      return post_send(choices, remote);
    case 2:
      return post_write(choices, remote);
    case 3:
      return post_read(choices, remote);
    default:
      return expose(choices);
  }
}

void OurSide::note(bool posted, Work work) {
  const bool over = stream_.phase() == Phase::kTerminating || stream_.phase() == Phase::kClosed;
  FUZZ_CHECK(!posted || !over, "work is taken behind the end");
  if (posted) works_.emplace(next_id_++, std::move(work));
}

void OurSide::post_receive(Choices& choices) {
  if (setup_.bare_receives) {
    const auto size = static_cast<std::uint32_t>(choices.size(kPlaceMax));
    const bool over = stream_.phase() == Phase::kTerminating || stream_.phase() == Phase::kClosed;
    if (over || stream_.free().receives == 0) return;
    stream_.post_bare_receive(next_id_, size);
    return note(true, {WorkKind::kReceive, true, nullptr, {}, false, size});
  }
  auto place = std::make_unique<Place>(choices, kPlaceMax, 1 + choices.below(3));
  const bool posted = stream_.post_receive(next_id_, place->targets());
  note(posted, {WorkKind::kReceive, true, std::move(place)});
}

// Returns memory that is as large as the stream says, so that ASan sees each byte beyond it.
std::byte* OurSide::take(std::uint64_t id, std::uint32_t size) {
  const auto found = works_.find(id);
  FUZZ_CHECK(found != works_.end() && found->second.kind == WorkKind::kReceive,
             "memory is taken for no Receive");
  FUZZ_CHECK(found->second.place == nullptr, "memory is taken twice for one Receive");
  FUZZ_CHECK(size <= found->second.size, "more memory is taken than the Receive is for");
  found->second.place = std::make_unique<Place>(size);
  return found->second.place->run().data();
}

void OurSide::split_reads(Choices& choices) {
  const auto piece = static_cast<std::uint32_t>(choices.size(20'000));
  (void)stream_.split_reads(choices.flag() ? piece : 0);
}

void OurSide::post_send(Choices& choices, RemoteMemory remote) {
  auto place = std::make_unique<Place>(choices, kPlaceMax, choices.below(4));
  iwarp::SendOptions how;
  const std::uint8_t flags = choices.u8();
  if ((flags & 1U) != 0) how.invalidate = remote.tag;
  how.solicited = (flags & 2U) != 0;
  how.signaled = (flags & 4U) == 0;
  // A copied Send keeps nothing: its memory goes here, and ASan would tell.
  if ((flags & 8U) != 0 && stream_.send_now(place->sources(), how.invalidate)) return;
  const bool posted = stream_.post_send(next_id_, place->sources(), how);
  note(posted, {WorkKind::kSend, how.signaled, std::move(place)});
}

void OurSide::post_write(Choices& choices, RemoteMemory remote) {
  auto place = std::make_unique<Place>(choices, kPlaceMax, choices.below(4));
  const bool signaled = choices.flag();
  const bool posted = stream_.post_write(next_id_, place->sources(), remote, signaled);
  note(posted, {WorkKind::kWrite, signaled, std::move(place)});
}

void OurSide::post_read(Choices& choices, RemoteMemory remote) {
  auto place = std::make_unique<Place>(choices, kPlaceMax, 1);
  const bool posted = stream_.post_read(next_id_, place->run(), remote);
  if (posted) unrequested_.push_back(place->size());
  note(posted, {WorkKind::kRead, true, std::move(place)});
}

void OurSide::expose(Choices& choices) {
  auto place = std::make_unique<Place>(choices, kPlaceMax, 1);
  const bool readable = choices.flag();
  const bool posted = readable ? stream_.expose_for_reading(next_id_, place->run())
                               : stream_.expose_for_writing(next_id_, place->run());
  note(posted, {WorkKind::kExpose, true, std::move(place), {}, readable});
}

void OurSide::revoke(Choices& choices) {
  if (places_.empty()) return;
  const SteeringTag tag = places_[choices.below(256) % places_.size()].memory.tag;
  const bool posted = stream_.revoke(next_id_, tag);
  note(posted, {WorkKind::kRevoke, true, nullptr, tag});
}

void OurSide::receive(Buffer& wire, std::size_t size, std::size_t step) {
  std::size_t taken = 0;
  std::array<MutableBytes, 8> room;
  size = std::min(size, wire.size());
  while (taken < size) {
    const std::size_t count = stream_.receive_room(room);
    if (count == 0) break;
    std::size_t now = 0;
    for (std::size_t i = 0; i < count; ++i) {
      FUZZ_CHECK(!room[i].empty(), "room without room");
      const std::size_t part = std::min({room[i].size(), size - taken - now, step - now});
      if (part > 0) std::memcpy(room[i].data(), &wire[taken + now], part);
      now += part;
    }
    stream_.handle_received(now);
    taken += now;
  }
  wire.erase(wire.begin(), wire.begin() + static_cast<std::ptrdiff_t>(taken));
  bytes_received_ += taken;
  FUZZ_CHECK(stream_.counters().bytes_received == bytes_received_, "bytes are not counted");
}

void OurSide::transmit(Choices& choices, Buffer& wire) {
  std::array<Bytes, 40> room;
  const std::size_t entries = 1 + choices.below(room.size());
  std::size_t limit = choices.flag() ? ~std::size_t{0} : 1 + choices.size(100'000);
  const bool terminating = stream_.phase() == Phase::kTerminating;
  const std::uint64_t built = stream_.counters().fpdus_sent;
  const std::size_t count = stream_.transmit(std::span(room).first(entries));
  FUZZ_CHECK(!terminating || stream_.counters().fpdus_sent <= built + 1,
             "something is built in front of a Terminate");
  FUZZ_CHECK(count == 0 || stream_.phase() != Phase::kClosed, "a stream that is over sends");
  std::size_t size = 0;
  for (std::size_t i = 0; i < count && limit > 0; ++i) {
    const Bytes part = room[i].first(std::min(limit, room[i].size()));
    output_.add(part);
    wire.insert(wire.end(), part.begin(), part.end());
    limit -= part.size();
    size += part.size();
  }
  if (count > 0) stream_.handle_sent(size);
  for (const Known& sink : output_.take_sinks()) {
    check_request(sink);
    places_.push_back(sink);
  }
}

// Read Requests go out in the order of posting, and those of one Read cover it from its beginning.
void OurSide::check_request(const Known& sink) {
  auto found = requested_.find(sink.memory.tag);
  if (found == requested_.end()) {
    FUZZ_CHECK(!unrequested_.empty(), "a Read Request of no Read");
    found = requested_.insert({sink.memory.tag, {sink.memory, unrequested_.front()}}).first;
    unrequested_.pop_front();
  }
  Known& rest = found->second;
  FUZZ_CHECK(sink.memory.address == rest.memory.address, "a Read Request of another place");
  FUZZ_CHECK(sink.size <= rest.size, "a Read Request of more than the Read");
  rest.memory.address += sink.size;
  rest.size -= sink.size;
  if (rest.size == 0) requested_.erase(found);
}

void OurSide::poll() {
  std::array<Completion, 5> some;
  while (const std::size_t count = stream_.poll_completions(some)) {
    for (std::size_t i = 0; i < count; ++i) completed(some[i]);
  }
}

// Work of one kind completes in the order of posting; Sends and Writes are one kind.
void OurSide::check_order(std::uint64_t id, const Work& work) {
  for (auto it = works_.begin(); it != works_.end() && it->first < id;) {
    const bool same = it->second.kind == work.kind || (sends(it->second.kind) && sends(work.kind));
    FUZZ_CHECK(!same || !it->second.signaled || work.kind == WorkKind::kExpose,
               "work is overtaken by younger work of its kind");
    // Unsignaled work before it is complete too: its memory is ours again.
    it = same && !it->second.signaled ? works_.erase(it) : std::next(it);
  }
}

void OurSide::completed(const Completion& done) {
  const auto found = works_.find(done.id);
  FUZZ_CHECK(found != works_.end(), "a completion of no work, or a second one");
  Work work = std::move(found->second);
  works_.erase(found);
  FUZZ_CHECK(done.kind == work.kind, "a completion of another kind");
  FUZZ_CHECK(work.signaled || done.status != iwarp::Status::kOk, "an unsignaled completion");
  check_order(done.id, work);
  const bool ok = done.status == iwarp::Status::kOk;
  FUZZ_CHECK(ok || work.kind == WorkKind::kRead || stream_.phase() == Phase::kClosed ||
                 stream_.phase() == Phase::kTerminating,
             "work fails on a stream that lives");
  switch (work.kind) {
    case WorkKind::kReceive:
      check_message(work, done);
      if (ok) ++messages_received_;
      if (done.tag) give_back(*done.tag);
      break;
    case WorkKind::kSend:
    case WorkKind::kWrite:
      work.place->check(true);
      break;
    case WorkKind::kRead:
      work.place->check(false);
      break;
    case WorkKind::kExpose:
      FUZZ_CHECK(ok && done.tag, "an exposure without a tag");
      places_.push_back({{*done.tag, done.address}, work.place->size()});
      FUZZ_CHECK(exposed_.emplace(*done.tag, Exposed{std::move(work.place), work.readable}).second,
                 "a tag that is in use");
      break;
    case WorkKind::kRevoke:
      give_back(work.tag);
      break;
  }
}

void OurSide::check_message(const Work& work, const Completion& done) const {
  const bool has_place = work.place != nullptr;
  FUZZ_CHECK(done.size <= (has_place ? work.place->size() : 0),
             "a message longer than its Receive");
  if (has_place) work.place->check(false);
}

// The memory behind the tag is ours again: it is checked and freed.
void OurSide::give_back(SteeringTag tag) {
  const auto found = exposed_.find(tag);
  if (found == exposed_.end()) return;
  found->second.place->check(found->second.readable);
  exposed_.erase(found);
}

void OurSide::end(bool by_peer) {
  by_peer ? stream_.handle_end_of_stream() : stream_.close();
  FUZZ_CHECK(stream_.phase() == Phase::kClosed, "the end does not end it");
  FUZZ_CHECK(stream_.cause().by != iwarp::Cause::By::kNobody, "an end without a cause");
  // Nothing of the upper layer's memory is used from here on, whether completions are polled or
  // not.
  for (auto& [id, work] : works_) {
    if (work.place == nullptr || work.kind == WorkKind::kExpose) continue;
    work.place->check(sends(work.kind));
  }
  poll();
  for (const auto& [id, work] : works_) FUZZ_CHECK(!work.signaled, "work that never completed");
  for (const auto& [tag, exposed] : exposed_) exposed.place->check(exposed.readable);
  works_.clear();
  exposed_.clear();
  std::array<MutableBytes, 4> room;
  std::array<Bytes, 4> output;
  FUZZ_CHECK(stream_.receive_room(room) == 0, "a stream that is over receives");
  FUZZ_CHECK(stream_.transmit(output) == 0, "a stream that is over sends");
  const iwarp::Stream::Free free = stream_.free();
  FUZZ_CHECK(free.receives == setup_.stream.queue_depth && free.sends == free.receives &&
                 free.controls == free.receives && free.tags == setup_.stream.exposures,
             "room in a queue is lost");
}

// --- Their side --------------------------------------------------------------------------------

TheirSide::TheirSide(const StreamSetup& setup)
    : setup_(setup), memory_(kMemorySize), stream_(setup.stream, random_) {
  const auto take_place = [this](bool posted) {
    const Completion* done = stream_.completion();
    FUZZ_CHECK(posted && done != nullptr && done->tag, "the peer cannot expose its memory");
    places_.push_back({{*done->tag, done->address}, kMemorySize / 2});
    stream_.drop_completion();
  };
  take_place(stream_.expose_for_writing(1, MutableBytes(memory_).first(kMemorySize / 2)));
  take_place(stream_.expose_for_reading(2, MutableBytes(memory_).subspan(kMemorySize / 2)));
}

void TheirSide::start() {
  if (stream_.phase() == Phase::kWaiting) stream_.start(setup_.theirs, setup_.fpdu_size_max, 0);
}

void TheirSide::post(Choices& choices, RemoteMemory remote) {
  const std::size_t size = choices.size(kMemorySize / 2);
  const MutableBytes low = MutableBytes(memory_).first(size);
  const Bytes high = Bytes(memory_).subspan(kMemorySize / 2, size);
  // Work that does not fit its queue is dropped.
  switch (choices.below(5)) {
    case 0:
      (void)stream_.post_receive(3, {&low, 1});
      break;
    case 1:
      (void)stream_.post_send(4, {&high, 1});
      break;
    case 2: {
      iwarp::SendOptions how;
      how.invalidate = remote.tag;
      (void)stream_.post_send(5, {&high, 1}, how);
      break;
    }
    case 3:
      (void)stream_.post_write(6, {&high, 1}, remote);
      break;
    default:
      (void)stream_.post_read(7, low, remote);
      break;
  }
}

void TheirSide::receive(Buffer& wire) {
  std::array<MutableBytes, 8> room;
  std::size_t taken = 0;
  while (taken < wire.size()) {
    const std::size_t count = stream_.receive_room(room);
    if (count == 0) break;
    std::size_t now = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t part = std::min(room[i].size(), wire.size() - taken - now);
      if (part > 0) std::memcpy(room[i].data(), &wire[taken + now], part);
      now += part;
    }
    stream_.handle_received(now);
    taken += now;
  }
  wire.clear();
  drop_completions();
}

void TheirSide::transmit(Buffer& wire) {
  std::array<Bytes, 64> room;
  while (stream_.phase() != Phase::kClosed) {
    const std::size_t count = stream_.transmit(room);
    if (count == 0) break;
    std::size_t size = 0;
    for (std::size_t i = 0; i < count; ++i) {
      wire.insert(wire.end(), room[i].begin(), room[i].end());
      size += room[i].size();
    }
    stream_.handle_sent(size);
  }
  drop_completions();
}

void TheirSide::drop_completions() {
  while (stream_.has_completions()) stream_.drop_completion();
}

}  // namespace rpcrdma::fuzz
