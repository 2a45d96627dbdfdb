#include "rdma/siwarp/capture.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>

#include "iwarp/byte_order.h"
#include "iwarp/headers.h"
#include "iwarp/mpa.h"
#include "rdma/siwarp/tcp_socket.h"

namespace rpcrdma::rdma::siwarp {
namespace {

constexpr std::size_t kEthernetSize = 14;
constexpr std::size_t kIpv4Size = 20;
constexpr std::size_t kIpv6Size = 40;
constexpr std::size_t kTcpSize = 20;
// IP packets of at most 65,000 bytes: an FPDU that is longer shows as several segments.
constexpr std::size_t kSegmentMax = 65'000 - kIpv6Size - kTcpSize;

constexpr unsigned kFin = 0x01, kSyn = 0x02, kPush = 0x08, kAck = 0x10;

// pcapng block types and the like, draft-ietf-opsawg-pcapng §4.
constexpr std::uint32_t kSectionHeader = 0x0a0d0d0a;
constexpr std::uint32_t kByteOrderMagic = 0x1a2b3c4d;
constexpr std::uint32_t kInterface = 1;
constexpr std::uint32_t kEnhancedPacket = 6;
constexpr std::uint16_t kLinkEthernet = 1;
constexpr std::uint16_t kOptionTimeResolution = 9;

template <class Integer>
void append(std::vector<std::byte>& to, Integer value) {  // in the byte order of this machine
  const std::size_t at = to.size();
  to.resize(at + sizeof(value));
  std::memcpy(&to[at], &value, sizeof(value));
}
void put16(std::byte* to, std::size_t value) {
  to[0] = static_cast<std::byte>(value >> 8U);
  to[1] = static_cast<std::byte>(value);
}
void put32(std::byte* to, std::uint32_t value) {
  put16(to, value >> 16U);
  put16(to + 2, value & 0xffffU);
}
// Adds 16-bit words to an Internet checksum, RFC 1071.
std::uint64_t add_words(std::uint64_t sum, Bytes bytes) {
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) {
    sum += (std::to_integer<std::uint64_t>(bytes[i]) << 8U) |
           std::to_integer<std::uint64_t>(bytes[i + 1]);
  }
  if (bytes.size() % 2 != 0) sum += std::to_integer<std::uint64_t>(bytes.back()) << 8U;
  return sum;
}
std::size_t folded(std::uint64_t sum) {
  while (sum >> 16U != 0) sum = (sum & 0xffffU) + (sum >> 16U);
  return static_cast<std::size_t>(~sum & 0xffffU);
}

}  // namespace

// The files that this process has begun. The path stays here when its file is closed.
struct Capture::Table {
  explicit Table(Table* of_parent) noexcept : parents(of_parent) {}

  const posix::BornHere born{};
  Table* const parents;  // null: there is none; kept so that leak checkers find it
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Capture>> begun;  // guarded by mutex
};

// Tables are never destroyed: providers may be, at the end of the program. A child has its own,
// since a thread of its parent may have held the mutex; several threads of it may come first.
Capture::Table& Capture::table() {
  static std::atomic<Table*> latest{new Table(nullptr)};
  Table* found = latest.load();
  while (found->born.elsewhere()) {
    auto made = std::make_unique<Table>(found);
    if (latest.compare_exchange_strong(found, made.get())) return *made.release();
  }
  return *found;
}

Expected<Capture::Opened, Error> Capture::open(const std::string& path, std::uint64_t bytes_max) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  const std::string name = std::filesystem::absolute(path).lexically_normal().string();
  const auto [entry, is_new] = all.begun.try_emplace(name);
  if (entry->second) {
    ++entry->second->users_;
    return Opened(entry->second.get());
  }
  // Each block goes behind all others, whichever process has written them.
  const int replaces = is_new && all.parents == nullptr ? O_TRUNC : 0;
  posix::Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | replaces, 0666));
  if (!file) {
    if (is_new) all.begun.erase(entry);
    return Unexpected<Error>(Error{Errc::kProvider, errno, "opening the capture file"});
  }
  // A pipe has no size, and gets another section, as the format allows.
  struct stat status {};
  const bool has_size = ::fstat(file.value(), &status) == 0 && status.st_size > 0;
  const std::uint64_t bytes = has_size ? static_cast<std::uint64_t>(status.st_size) : 0;
  std::unique_ptr<Capture> capture(new Capture(std::move(file), bytes_max, bytes));
  if (bytes == 0 && !capture->start()) {
    return Unexpected<Error>(Error{Errc::kProvider, errno, "writing the capture file"});
  }
  entry->second = std::move(capture);
  return Opened(entry->second.get());
}

void Capture::Leave::operator()(Capture* capture) const noexcept {
  Table& all = table();  // a child's has none of its parent's captures, which stay
  const std::lock_guard lock(all.mutex);
  // Behind a packet that was written in part nothing more can be read: it stays, and takes nothing.
  if (--capture->users_ > 0 || capture->is_torn_) return;
  for (auto& [path, each] : all.begun) {
    if (each.get() == capture) return each.reset();
  }
}

bool Capture::put(Bytes block) {
  if (full_) return false;
  full_ = bytes_ + block.size() > bytes_max_;
  if (!full_) full_ = is_torn_ = !put_all(block);
  bytes_ += full_ ? 0 : block.size();
  return !full_;
}

// Writes at once: what a FILE holds back a child of fork() would write a second time when it ends.
bool Capture::put_all(Bytes block) {
  while (!block.empty()) {
    const ssize_t size = ::write(file_.value(), block.data(), block.size());
    if (size < 0 && errno != EINTR) return false;
    if (size > 0) block = block.subspan(static_cast<std::size_t>(size));
  }
  return true;
}

bool Capture::start() {
  append(block_, kSectionHeader);
  append(block_, std::uint32_t{28});
  append(block_, kByteOrderMagic);
  append(block_, std::uint16_t{1});
  append(block_, std::uint16_t{0});
  append(block_, ~std::uint64_t{0});  // section length unknown
  append(block_, std::uint32_t{28});
  append(block_, kInterface);
  append(block_, std::uint32_t{32});
  append(block_, kLinkEthernet);
  append(block_, std::uint16_t{0});
  append(block_, std::uint32_t{0});  // packets are whole
  append(block_, kOptionTimeResolution);
  append(block_, std::uint16_t{1});
  append(block_, std::uint32_t{9});  // nanoseconds; three bytes of it are padding
  append(block_, std::uint32_t{0});  // end of options
  append(block_, std::uint32_t{32});
  return put(block_);
}

bool Capture::write(Bytes packet) {
  if (born_.elsewhere()) return false;
  const std::lock_guard lock(mutex_);
  if (full_) return false;
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  const auto nanoseconds = static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U +
                           static_cast<std::uint64_t>(time.tv_nsec);
  const auto captured = static_cast<std::uint32_t>(packet.size());
  const std::uint32_t padded = (captured + 3U) & ~3U;
  block_.clear();
  append(block_, kEnhancedPacket);
  append(block_, padded + 32);
  append(block_, std::uint32_t{0});  // the only interface
  append(block_, static_cast<std::uint32_t>(nanoseconds >> 32U));
  append(block_, static_cast<std::uint32_t>(nanoseconds));
  append(block_, captured);
  append(block_, captured);
  block_.insert(block_.end(), packet.begin(), packet.end());
  block_.resize(block_.size() + (padded - captured));
  append(block_, padded + 32);
  return put(block_);
}

void CaptureSegments::add(Bytes bytes) {
  held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(begin_));
  begin_ = 0;
  held_.insert(held_.end(), bytes.begin(), bytes.end());
}

Bytes CaptureSegments::next() noexcept {
  if (pieces_ == 0) pieces_ = frame_size();
  const std::size_t size = std::min(pieces_, kSegmentMax);
  pieces_ -= size;
  return take(size);
}

Bytes CaptureSegments::rest() noexcept {
  unknown_ = true;  // what may still come begins anywhere
  pieces_ = 0;
  return take(std::min(held_.size() - begin_, kSegmentMax));
}

std::size_t CaptureSegments::frame_size() noexcept {
  const Bytes ahead = Bytes(held_).subspan(begin_);
  if (!set_up_ && !unknown_) {
    const Bytes key = ahead.first(std::min(ahead.size(), iwarp::kMpaKeySize));
    unknown_ = !iwarp::key_matches(false, key) && !iwarp::key_matches(true, key);
  }
  if (unknown_) return ahead.size();
  std::size_t size = 0;
  if (!set_up_) {
    if (ahead.size() < iwarp::kMpaHeaderSize) return 0;
    size = iwarp::kMpaHeaderSize + iwarp::load16(&ahead[iwarp::kMpaHeaderSize - 2]);
  } else {
    if (ahead.size() < iwarp::kLengthSize) return 0;
    size = iwarp::fpdu_size(iwarp::load16(ahead.data()));
  }
  if (ahead.size() < size) return 0;
  set_up_ = true;
  return size;
}

Bytes CaptureSegments::take(std::size_t size) noexcept {
  const Bytes taken = Bytes(held_).subspan(begin_, size);
  begin_ += size;
  return taken;
}

CaptureFlow::CaptureFlow(Capture& capture, const posix::Address& local,
                         const posix::Address& remote, bool initiator)
    : capture_(capture), six_(local.family() == AF_INET6) {
  set(local_, local);
  set(remote_, remote);
  local_.mac = std::byte{1};
  remote_.mac = std::byte{2};
  segment(initiator, kSyn, {});
  segment(!initiator, kSyn | kAck, {});
  segment(initiator, kAck, {});
}

CaptureFlow::~CaptureFlow() {
  finished();
}

void CaptureFlow::set(Endpoint& endpoint, const posix::Address& address) {
  if (address.family() == AF_INET6) {
    sockaddr_in6 six{};
    std::memcpy(&six, &address.storage, sizeof(six));
    std::memcpy(endpoint.host.data(), &six.sin6_addr, 16);
    endpoint.port = ntohs(six.sin6_port);
  } else {
    sockaddr_in four{};
    std::memcpy(&four, &address.storage, sizeof(four));
    std::memcpy(endpoint.host.data(), &four.sin_addr, 4);
    endpoint.port = ntohs(four.sin_port);
  }
}

void CaptureFlow::sent(std::span<const Bytes> parts, std::size_t size) {
  data(true, parts, size);
}

void CaptureFlow::received(std::span<const MutableBytes> parts, std::size_t size) {
  data(false, parts, size);
}

template <class Part>
void CaptureFlow::data(bool outgoing, std::span<const Part> parts, std::size_t size) {
  CaptureSegments& segments = (outgoing ? local_ : remote_).segments;
  for (const Part& part : parts) {
    const std::size_t take = std::min(size, part.size());
    segments.add(part.first(take));
    size -= take;
    if (size == 0) break;
  }
  for (Bytes next = segments.next(); !next.empty(); next = segments.next()) {
    segment(outgoing, kPush | kAck, next);
  }
}

void CaptureFlow::finished() {
  if (finished_) return;
  finished_ = true;
  for (const bool outgoing : {false, true}) {
    CaptureSegments& segments = (outgoing ? local_ : remote_).segments;
    for (Bytes rest = segments.rest(); !rest.empty(); rest = segments.rest()) {
      segment(outgoing, kPush | kAck, rest);
    }
  }
  segment(true, kFin | kAck, {});
}

void CaptureFlow::segment(bool outgoing, unsigned flags, Bytes payload) {
  Endpoint& from = outgoing ? local_ : remote_;
  const Endpoint& to = outgoing ? remote_ : local_;
  headers(from, to, flags, payload);
  packet_.insert(packet_.end(), payload.begin(), payload.end());
  from.sequence += static_cast<std::uint32_t>(payload.size());
  if ((flags & (kSyn | kFin)) != 0) ++from.sequence;
  capture_.write(packet_);
}

std::size_t CaptureFlow::headers(const Endpoint& from, const Endpoint& to, unsigned flags,
                                 Bytes payload) {
  const std::size_t ip_size = six_ ? kIpv6Size : kIpv4Size;
  const std::size_t host_size = six_ ? 16 : 4;
  const std::size_t tcp_total = kTcpSize + payload.size();
  packet_.assign(kEthernetSize + ip_size + kTcpSize, std::byte{0});
  std::byte* ethernet = packet_.data();
  ethernet[0] = ethernet[6] = std::byte{2};  // locally administered
  ethernet[5] = to.mac;
  ethernet[11] = from.mac;
  put16(ethernet + 12, six_ ? 0x86dd : 0x0800);
  std::byte* ip = ethernet + kEthernetSize;
  if (six_) {
    ip[0] = std::byte{0x60};
    put16(ip + 4, tcp_total);
    ip[6] = std::byte{6};  // TCP
    ip[7] = std::byte{64};
    std::memcpy(ip + 8, from.host.data(), 16);
    std::memcpy(ip + 24, to.host.data(), 16);
  } else {
    ip[0] = std::byte{0x45};
    put16(ip + 2, kIpv4Size + tcp_total);
    ip[6] = std::byte{0x40};  // do not fragment
    ip[8] = std::byte{64};
    ip[9] = std::byte{6};
    std::memcpy(ip + 12, from.host.data(), 4);
    std::memcpy(ip + 16, to.host.data(), 4);
    put16(ip + 10, folded(add_words(0, Bytes(ip, kIpv4Size))));
  }
  std::byte* tcp = ip + ip_size;
  put16(tcp, from.port);
  put16(tcp + 2, to.port);
  put32(tcp + 4, from.sequence);
  put32(tcp + 8, (flags & kAck) != 0 ? to.sequence : 0);
  tcp[12] = std::byte{0x50};
  tcp[13] = static_cast<std::byte>(flags);
  put16(tcp + 14, 0xffff);
  std::uint64_t sum = add_words(6 + tcp_total, Bytes(from.host).first(host_size));
  sum = add_words(sum, Bytes(to.host).first(host_size));
  sum = add_words(sum, Bytes(tcp, kTcpSize));
  put16(tcp + 16, folded(add_words(sum, payload)));
  return packet_.size();
}

}  // namespace rpcrdma::rdma::siwarp
