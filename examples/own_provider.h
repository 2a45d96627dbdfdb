// A provider of one's own (rpcrdma/provider.h): it moves bytes from memory to memory inside of this
// process, in the place of an RDMA stack that the library does not know.
//
//   own::Wire wire;
//   auto server = rpcrdma::Server::listen(std::make_unique<own::Provider>(wire), "any:0");
//   auto client = rpcrdma::Client::connect({std::make_unique<own::Provider>(wire), address});
//
// All work is done while it is posted. One lock is around everything, so that each provider may be
// on a thread of its own. tests/conformance tries it by the suite of the library's own providers.
#ifndef RPCRDMA_EXAMPLES_OWN_PROVIDER_H_
#define RPCRDMA_EXAMPLES_OWN_PROVIDER_H_

#include <poll.h>
#include <rpcrdma/provider.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

namespace own {

using rpcrdma::Bytes, rpcrdma::Expected, rpcrdma::Instant, rpcrdma::MutableBytes,
    rpcrdma::SteeringTag;
namespace rdma = rpcrdma::rdma;
namespace work = rpcrdma::work;
using Failure = rpcrdma::Unexpected<rdma::Error>;

class Listener;
class QueuePair;

// The wire into which the providers are plugged. Outlives them.
struct Wire {
  std::recursive_mutex mutex;
  std::map<std::string, Listener*, std::less<>> listeners;
  std::map<int, QueuePair*> pairs;  // by a number that is never used twice
  int next_number = 1;
};
using Lock = std::lock_guard<std::recursive_mutex>;

inline Instant now() {
  return Instant(std::chrono::steady_clock::now().time_since_epoch());
}

// A provider sleeps on this. It is a descriptor, since a signal handler may ring it.
class Bell {
 public:
  Bell() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  }
  ~Bell() { ::close(descriptor_); }
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;
  void ring() noexcept { (void)!::eventfd_write(descriptor_, 1); }
  // Or at most a second.
  void wait_until(Instant when) noexcept {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(when - now()).count();
    pollfd poll{descriptor_, POLLIN, 0};
    (void)::poll(&poll, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 1000)));
    eventfd_t rung = 0;
    (void)!::eventfd_read(descriptor_, &rung);
  }

 private:
  int descriptor_;
};

class QueuePair final : public rdma::QueuePair {
 public:
  QueuePair(Wire& wire, Bell& bell, std::string peer_address)
      : wire_(wire), bell_(bell), peer_address_(std::move(peer_address)) {
    const Lock lock(wire_.mutex);
    number_ = wire_.next_number++;
    wire_.pairs.emplace(number_, this);
  }
  ~QueuePair() override {
    const Lock lock(wire_.mutex);
    disconnect();
    wire_.pairs.erase(number_);
  }

  const rdma::Capabilities& capabilities() const noexcept override { return kCapabilities; }
  Expected<work::RegionId, rdma::Error> attach(MutableBytes memory) override {
    return add_region({memory, memory.data()});
  }
  Expected<work::RegionId, rdma::Error> attach_read_only(Bytes memory) override {
    return add_region({memory, nullptr});
  }
  void detach(work::RegionId region) override {
    const Lock lock(wire_.mutex);
    counters_.attached_bytes -= regions_.at(region).bytes.size();
    regions_.erase(region);
  }
  Bytes peer_private_data() const noexcept override { return private_data_; }
  std::string_view peer_address() const noexcept override { return peer_address_; }
  rdma::Error cause() const noexcept override { return cause_; }
  rdma::Counters counters() const noexcept override { return counters_; }

  Expected<void, rdma::Error> post(std::span<work::Request> batch) override {
    const Lock lock(wire_.mutex);
    if (state_ == State::kEnded) return Failure({rdma::Errc::kClosed, 0, "post"});
    std::size_t receives = receives_.size() + receives_done_;
    std::size_t others = completions_.size() - receives_done_;
    for (const work::Request& request : batch) {
      ++(std::holds_alternative<work::Receive>(request.work) ? receives : others);
      if (!std::visit([this](const auto& work) { return is_good(work); }, request.work)) {
        return Failure({rdma::Errc::kUnsupported, 0, "post: memory that is not there"});
      }
    }
    if (std::max(receives, others) > kCapabilities.queue_depth_max) {
      return Failure({rdma::Errc::kNoResources, 0, "post: the queue is full"});
    }
    for (const work::Request& request : batch) {
      std::visit([&](const auto& work) { run(request, work); }, request.work);
    }
    return {};
  }
  std::size_t poll(std::span<rdma::Completion> out) override {
    const Lock lock(wire_.mutex);
    std::size_t count = 0;
    for (; count < out.size() && !completions_.empty(); ++count) {
      out[count] = completions_.front().first;
      if (completions_.front().second) --receives_done_;
      completions_.pop_front();
    }
    return count;
  }
  std::optional<rdma::LinkEvent> poll_link() override {
    const Lock lock(wire_.mutex);
    if (events_.empty()) return std::nullopt;
    const rdma::LinkEvent event = events_.front();
    events_.pop_front();
    return event;
  }
  void disconnect() noexcept override {
    const Lock lock(wire_.mutex);
    if (QueuePair* const other = peer()) {
      other->end({rdma::Errc::kClosed, 0, "the peer disconnected"});
    }
    end({rdma::Errc::kClosed, 0, "disconnected"});
  }

  // --- For the provider; the lock is held.

  int number() const noexcept { return number_; }
  bool is_connecting() const noexcept { return state_ == State::kConnecting; }
  void set_up(int peer, std::vector<std::byte> private_data) {
    peer_ = peer;
    private_data_ = std::move(private_data);
    state_ = State::kConnected;
    tell(rdma::LinkEvent::kConnected);
  }
  void refuse(rdma::Errc why) {
    if (is_connecting()) end({why, 0, "connect"}, rdma::LinkEvent::kRefused);
  }

 private:
  enum class State { kConnecting, kConnected, kEnded };
  struct Memory {
    Bytes bytes;
    std::byte* writable;  // null: only to be read
  };
  struct Exposure {
    Memory memory;
    std::uint64_t address;
  };
  static constexpr rdma::Capabilities kCapabilities{.queue_depth_max = 4096,
                                                    .reads_in_flight_max = 16,
                                                    .sge_max = work::kSlicesMax,
                                                    .send_with_invalidate = true,
                                                    .reports_invalidated_handle = true,
                                                    .reads_served_max = 16};

  work::RegionId add_region(const Memory& memory) {
    const Lock lock(wire_.mutex);
    ++counters_.registrations;
    counters_.attached_bytes += memory.bytes.size();
    return regions_.emplace(work::RegionId{next_region_++}, memory).first->first;
  }
  QueuePair* peer() const {
    const auto found = wire_.pairs.find(peer_);
    return state_ == State::kConnected && found != wire_.pairs.end() ? found->second : nullptr;
  }

  // --- Memory: null, and no more than that, where there is none.

  static std::optional<Memory> part_of(const Memory& whole, std::uint64_t offset,
                                       std::uint64_t size, bool to_write) {
    if (offset > whole.bytes.size() || size > whole.bytes.size() - offset) return std::nullopt;
    if (to_write && whole.writable == nullptr) return std::nullopt;
    return Memory{whole.bytes.subspan(offset, size),
                  whole.writable != nullptr ? whole.writable + offset : nullptr};
  }
  std::optional<Memory> find(const work::Slice& slice, bool to_write) const {
    const auto region = regions_.find(slice.region);
    if (region == regions_.end()) return std::nullopt;
    return part_of(region->second, slice.offset, slice.size, to_write);
  }
  // Returns the memory that a peer may access. An address below the start becomes a huge offset.
  std::optional<Memory> find(const work::Remote& remote, bool to_write) const {
    const auto exposure = exposures_.find(remote.tag);
    if (exposure == exposures_.end()) return std::nullopt;
    if ((exposure->second.memory.writable != nullptr) != to_write) return std::nullopt;
    return part_of(exposure->second.memory, remote.address - exposure->second.address, remote.size,
                   to_write);
  }
  bool are_good(std::span<const work::Slice> slices, bool to_write) const {
    return std::ranges::all_of(
        slices, [&](const auto& slice) { return find(slice, to_write).has_value(); });
  }
  bool is_good(const work::Receive& work) const { return are_good(work.into, true); }
  bool is_good(const work::Send& work) const { return are_good(work.from, false); }
  bool is_good(const work::Write& work) const { return are_good(work.from, false); }
  bool is_good(const work::Read& work) const { return are_good({&work.into, 1}, true); }
  bool is_good(const work::Expose& work) const {
    return are_good({&work.memory, 1}, work.access == work::RemoteAccess::kWrite);
  }
  bool is_good(const work::Revoke& /*work*/) const { return true; }
  std::vector<std::byte> gather(std::span<const work::Slice> slices) const {
    std::vector<std::byte> all;
    for (const work::Slice& slice : slices) {
      const Bytes bytes = find(slice, false)->bytes;
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  }

  // --- Work. Before the connection is up, only local work can be posted.

  void run(const work::Request& request, const work::Receive& work) {
    receives_.push_back({request.id, {work.into.begin(), work.into.end()}});
  }
  void run(const work::Request& request, const work::Send& work) {
    ++counters_.sends;
    QueuePair* const other = peer();
    const std::vector<std::byte> message = gather(work.from);
    counters_.payload_sent += message.size();
    if (other == nullptr || !other->receive(message, work.invalidate)) {
      return fail(request, rdma::Status::kFlushed, "a message that the peer could not take");
    }
    complete({.id = request.id}, request.signaled);
  }
  void run(const work::Request& request, const work::Write& work) {
    ++counters_.writes;
    const std::vector<std::byte> bytes = gather(work.from);
    QueuePair* const other = peer();
    const auto room = other != nullptr ? other->find(work.to, true) : std::nullopt;
    if (!room || bytes.size() != work.to.size) {
      return fail(request, rdma::Status::kRemoteAccess, "a Write that is not allowed");
    }
    std::ranges::copy(bytes, room->writable);
    count_moved(*this, *other, bytes.size());
    complete({.id = request.id}, request.signaled);
  }
  void run(const work::Request& request, const work::Read& work) {
    ++counters_.reads;
    QueuePair* const other = peer();
    const auto source = other != nullptr ? other->find(work.from, false) : std::nullopt;
    if (!source || work.into.size != work.from.size) {
      return fail(request, rdma::Status::kRemoteAccess, "a Read that is not allowed");
    }
    std::memmove(find(work.into, true)->writable, source->bytes.data(), work.from.size);
    count_moved(*other, *this, work.from.size);
    complete({.id = request.id}, request.signaled);
  }
  void run(const work::Request& request, const work::Expose& work) {
    const bool to_write = work.access == work::RemoteAccess::kWrite;
    Memory memory = *find(work.memory, to_write);
    if (!to_write) memory.writable = nullptr;
    const SteeringTag tag = new_tag();
    const std::uint64_t address = random_();
    exposures_.emplace(tag, Exposure{memory, address});
    complete({.id = request.id, .tag = tag, .address = address}, request.signaled);
  }
  void run(const work::Request& request, const work::Revoke& work) {
    exposures_.erase(work.tag);
    complete({.id = request.id}, request.signaled);
  }

  static void count_moved(QueuePair& from, QueuePair& into, std::uint64_t size) {
    from.counters_.payload_sent += size;
    into.counters_.payload_received += size;
  }
  // Takes a message of the peer. False: this side cannot take it.
  bool receive(const std::vector<std::byte>& message, std::optional<SteeringTag> invalidated) {
    if (receives_.empty()) return false;
    counters_.payload_received += message.size();
    const auto [id, into] = std::move(receives_.front());
    receives_.pop_front();
    std::size_t taken = 0;
    for (const work::Slice& slice : into) {
      const auto room = find(slice, true);
      const std::size_t size = std::min(message.size() - taken, std::size_t{slice.size});
      std::copy_n(message.data() + taken, size, room->writable);
      taken += size;
    }
    const bool ok = taken == message.size() && (!invalidated || exposures_.erase(*invalidated) > 0);
    const auto status = ok ? rdma::Status::kOk : rdma::Status::kLocalError;
    const auto size = static_cast<std::uint32_t>(taken);
    complete({.id = id, .status = status, .size = size, .tag = invalidated}, true, true);
    return ok;
  }
  void complete(const rdma::Completion& completion, bool signaled, bool of_receive = false) {
    if (!signaled) return;
    completions_.emplace_back(completion, of_receive);
    if (of_receive) ++receives_done_;
    bell_.ring();
  }
  void fail(const work::Request& request, rdma::Status status, std::string_view why) {
    complete({.id = request.id, .status = status}, true);
    if (QueuePair* const other = peer()) other->end({rdma::Errc::kProtocol, 0, why});
    end({rdma::Errc::kClosed, 0, why});
  }
  // Different for 2^32 times: each step can be undone. Random enough for an example.
  SteeringTag new_tag() {
    std::uint32_t tag = next_tag_++;
    tag = (tag ^ (tag >> 16U)) * 0x85ebca6bU;
    tag = (tag ^ (tag >> 13U)) * 0xc2b2ae35U;
    return SteeringTag{tag ^ (tag >> 16U)};
  }

  // --- The end

  void tell(rdma::LinkEvent event) {
    events_.push_back(event);
    bell_.ring();
  }
  void end(const rdma::Error& cause, rdma::LinkEvent event = rdma::LinkEvent::kDisconnected) {
    if (state_ == State::kEnded) return;
    state_ = State::kEnded;
    cause_ = cause;
    exposures_.clear();
    for (const auto& [id, into] : std::exchange(receives_, {})) {
      complete({.id = id, .status = rdma::Status::kFlushed}, true, true);
    }
    tell(event);
  }

  Wire& wire_;
  Bell& bell_;
  const std::string peer_address_;
  int number_ = 0;
  int peer_ = 0;
  State state_ = State::kConnecting;
  rdma::Error cause_{rdma::Errc::kClosed, 0, ""};
  std::vector<std::byte> private_data_;  // the peer's
  std::deque<rdma::LinkEvent> events_;
  std::deque<std::pair<rdma::Completion, bool>> completions_;  // true: of a Receive
  std::size_t receives_done_ = 0;                              // of completions_
  std::deque<std::pair<std::uint64_t, std::vector<work::Slice>>> receives_;
  std::map<work::RegionId, Memory> regions_;
  std::uint32_t next_region_ = 1;
  std::map<SteeringTag, Exposure> exposures_;
  std::mt19937_64 random_{std::random_device{}()};
  std::uint32_t next_tag_ = static_cast<std::uint32_t>(random_());
  rdma::Counters counters_;
};

class Incoming final : public rdma::Incoming {
 public:
  Incoming(Wire& wire, int initiator, Bytes data)
      : wire_(wire), initiator_(initiator), data_(data.begin(), data.end()) {}
  ~Incoming() override {
    const Lock lock(wire_.mutex);
    if (QueuePair* const waiting = initiator()) waiting->refuse(rdma::Errc::kRefused);
  }
  Bytes private_data() const noexcept override { return data_; }
  std::string_view peer_address() const noexcept override { return "client:0"; }
  // Null: it has gone, or waits no more.
  QueuePair* initiator() const {
    const auto found = wire_.pairs.find(initiator_);
    return found != wire_.pairs.end() && found->second->is_connecting() ? found->second : nullptr;
  }

 private:
  Wire& wire_;
  const int initiator_;
  const std::vector<std::byte> data_;
};

class Listener final : public rdma::Listener {
 public:
  Listener(Wire& wire, Bell& bell, std::string address)
      : wire_(wire), bell_(bell), address_(std::move(address)) {
    wire_.listeners.emplace(address_, this);
  }
  ~Listener() override {
    const Lock lock(wire_.mutex);
    wire_.listeners.erase(address_);
    waiting_.clear();
  }
  std::unique_ptr<rdma::Incoming> poll_incoming() override {
    const Lock lock(wire_.mutex);
    if (waiting_.empty()) return nullptr;
    auto first = std::move(waiting_.front());
    waiting_.pop_front();
    return first;
  }
  std::string_view address() const noexcept override { return address_; }
  void request(int initiator, Bytes private_data) {
    waiting_.push_back(std::make_unique<Incoming>(wire_, initiator, private_data));
    bell_.ring();
  }

 private:
  Wire& wire_;
  Bell& bell_;
  const std::string address_;
  std::deque<std::unique_ptr<Incoming>> waiting_;
};

class Provider final : public rdma::Provider {
 public:
  explicit Provider(Wire& wire) : wire_(wire) {}

  std::string_view name() const noexcept override { return "own"; }
  Expected<std::unique_ptr<rdma::QueuePair>, rdma::Error> connect(std::string_view address,
                                                                  Bytes private_data) override {
    if (!is_address(address)) return Failure({rdma::Errc::kBadAddress, 0, "connect"});
    const Lock lock(wire_.mutex);
    const auto listener = wire_.listeners.find(address);
    if (listener == wire_.listeners.end()) return Failure({rdma::Errc::kRefused, 0, "connect"});
    auto made = std::make_unique<QueuePair>(wire_, bell_, std::string(address));
    connecting_.emplace(now() + kSetupTimeout, made->number());
    listener->second->request(made->number(), private_data);
    return made;
  }
  // The connection is there at the next progress(), so that Receives are posted before.
  Expected<std::unique_ptr<rdma::QueuePair>, rdma::Error> accept(
      std::unique_ptr<rdma::Incoming> request, Bytes private_data) override {
    const Lock lock(wire_.mutex);
    auto& incoming = static_cast<Incoming&>(*request);  // of a listener of ours
    const QueuePair* const initiator = incoming.initiator();
    if (initiator == nullptr) return Failure({rdma::Errc::kClosed, 0, "accept"});
    auto made = std::make_unique<QueuePair>(wire_, bell_, std::string(request->peer_address()));
    accepted_.push_back({made->number(), std::move(request), copy_of(private_data)});
    bell_.ring();
    return made;
  }
  Expected<std::unique_ptr<rdma::Listener>, rdma::Error> listen(std::string_view address) override {
    if (!is_address(address)) return Failure({rdma::Errc::kBadAddress, 0, "listen"});
    const Lock lock(wire_.mutex);
    std::string real(address);
    if (real.ends_with(":0")) real.replace(real.size() - 1, 1, std::to_string(wire_.next_number++));
    if (wire_.listeners.contains(real)) return Failure({rdma::Errc::kBadAddress, 0, "listen"});
    return std::make_unique<Listener>(wire_, bell_, real);
  }
  void progress() override {
    const Lock lock(wire_.mutex);
    for (auto& [number, request, data] : std::exchange(accepted_, {})) {
      const auto& incoming = static_cast<const Incoming&>(*request);
      QueuePair* const initiator = incoming.initiator();
      const auto made = wire_.pairs.find(number);
      if (made == wire_.pairs.end()) continue;  // the request goes, and so is refused
      if (initiator == nullptr) {
        made->second->disconnect();
        continue;
      }
      made->second->set_up(initiator->number(), copy_of(incoming.private_data()));
      initiator->set_up(number, std::move(data));
    }
    while (!connecting_.empty() && connecting_.begin()->first <= now()) {
      const auto late = wire_.pairs.find(connecting_.begin()->second);
      if (late != wire_.pairs.end()) late->second->refuse(rdma::Errc::kTimedOut);
      connecting_.erase(connecting_.begin());
    }
  }
  int wait_fd() const noexcept override { return -1; }
  Instant now() const noexcept override { return own::now(); }
  void arm_timer(std::optional<Instant> when) override { timer_ = when; }
  void wait() override { bell_.wait_until(timer_.value_or(Instant::max())); }
  void wake() noexcept override { bell_.ring(); }

 private:
  struct Accepted {
    int number;
    std::unique_ptr<rdma::Incoming> request;
    std::vector<std::byte> private_data;
  };
  static constexpr std::chrono::seconds kSetupTimeout{10};

  static std::vector<std::byte> copy_of(Bytes bytes) { return {bytes.begin(), bytes.end()}; }
  static bool is_address(std::string_view address) {
    const std::size_t colon = address.rfind(':');
    return colon != std::string_view::npos && colon > 0 && colon + 1 < address.size() &&
           address.find_first_not_of("0123456789", colon + 1) == std::string_view::npos;
  }

  Wire& wire_;
  Bell bell_;
  std::optional<Instant> timer_;
  std::vector<Accepted> accepted_;
  std::multimap<Instant, int> connecting_;  // by when they have to be answered
};

}  // namespace own

#endif  // RPCRDMA_EXAMPLES_OWN_PROVIDER_H_
