#include "explain/capture_reader.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace explaining {
namespace {

using rpcrdma::Bytes;
using rpcrdma::explain::LinkType;
using rpcrdma::explain::Packet;

// Half of it fits a second-level cache; a packet or a block has to fit into it.
constexpr std::size_t kBufferSize = std::size_t{1} << 20U;
constexpr std::int64_t kNanoseconds = 1000000000;
constexpr std::size_t kInterfacesMax = 65536;

constexpr std::uint32_t kPcapMicro = 0xa1b2c3d4, kPcapNano = 0xa1b23c4d;
constexpr std::uint32_t kSection = 0x0a0d0d0a, kSectionOrder = 0x1a2b3c4d;
constexpr std::uint32_t kInterfaceBlock = 1, kOldPacket = 2, kSimplePacket = 3, kEnhancedPacket = 6;

// Files that a program has compressed, and how they begin.
struct Packed {
  std::string_view magic, program;
};
constexpr std::array<Packed, 4> kPacked{
    {{"\x1f\x8b", "gzip"}, {"\xfd\x37zXZ", "xz"}, {"\x28\xb5\x2f\xfd", "zstd"}, {"BZh", "bzip2"}}};

std::uint32_t native32(Bytes bytes, std::size_t at) noexcept {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

}  // namespace

CaptureReader::CaptureReader(const std::string& path, int stop)
    : stop_(stop), name_(path == "-" ? "standard input" : path), buffer_(kBufferSize) {
  if (path == "-") {
    descriptor_ = STDIN_FILENO;
  } else {
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    is_open_here_ = descriptor_ >= 0;
  }
  if (descriptor_ < 0) {
    problem_ = fmt::format("{}: {}", name_, std::strerror(errno));
    return;
  }
  (void)::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_SEQUENTIAL);
  if (!start() && problem_.empty() && !is_stopped_) problem_ = why_not();
}

// Says why the file is no capture.
std::string CaptureReader::why_not() const {
  const Bytes head(buffer_.data() + begin_, end_ - begin_);
  if (head.empty()) return fmt::format("{} is empty", name_);
  for (const Packed& each : kPacked) {
    const std::string_view magic = each.magic;
    if (head.size() < magic.size() || std::memcmp(head.data(), magic.data(), magic.size()) != 0) {
      continue;
    }
    return fmt::format("{} is compressed: {} -dc {} | rpcrdma explain -", name_, each.program,
                       name_);
  }
  return fmt::format("{} is no capture: it begins neither as pcap nor as pcapng", name_);
}

CaptureReader::~CaptureReader() {
  if (is_open_here_) ::close(descriptor_);
}

std::uint32_t CaptureReader::word(Bytes bytes, std::size_t at) const noexcept {
  const std::uint32_t value = native32(bytes, at);
  return is_swapped_ ? __builtin_bswap32(value) : value;
}

std::uint16_t CaptureReader::half(Bytes bytes, std::size_t at) const noexcept {
  std::uint16_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return is_swapped_ ? __builtin_bswap16(value) : value;
}

// Waits for the capture to have bytes; returns whether it is to end instead.
bool CaptureReader::waits_in_vain() {
  if (stop_ < 0) return false;
  std::array<pollfd, 2> ends{{{descriptor_, POLLIN, 0}, {stop_, POLLIN, 0}}};
  while (::poll(ends.data(), ends.size(), -1) < 0 && errno == EINTR) {
  }
  is_stopped_ = ends[1].revents != 0;
  return is_stopped_;
}

bool CaptureReader::want(std::size_t size) {
  if (end_ - begin_ >= size) return true;
  if (size > buffer_.size()) return false;
  if (buffer_.size() - begin_ < size) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  while (end_ - begin_ < size && !is_at_end_) {
    if (waits_in_vain()) {
      is_at_end_ = true;
      break;
    }
    const ssize_t count = ::read(descriptor_, buffer_.data() + end_, buffer_.size() - end_);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) problem_ = fmt::format("{}: {}", name_, std::strerror(errno));
    if (count <= 0) {
      is_at_end_ = true;
      break;
    }
    end_ += static_cast<std::size_t>(count);
    bytes_read_ += static_cast<std::uint64_t>(count);
  }
  return end_ - begin_ >= size;
}

Bytes CaptureReader::ahead(std::size_t size) const noexcept {
  return {buffer_.data() + begin_, size};
}

Bytes CaptureReader::take(std::size_t size) {
  const Bytes bytes = ahead(size);
  begin_ += size;
  return bytes;
}

bool CaptureReader::skip(std::uint64_t size) {
  while (size > 0) {
    if (!want(1)) return false;
    const std::size_t count = std::min<std::uint64_t>(size, end_ - begin_);
    begin_ += count;
    size -= count;
  }
  return true;
}

bool CaptureReader::cut(const std::string& what) {
  if (is_stopped_) return false;  // in the middle of a packet, which nobody misses
  if (problem_.empty())
    problem_ = fmt::format("{} is cut behind packet {}: {}", name_, packets_, what);
  return false;
}

bool CaptureReader::start() {
  constexpr std::size_t kHeader = 24;
  if (!want(kHeader)) return false;
  const Bytes head(buffer_.data() + begin_, kHeader);
  const std::uint32_t magic = native32(head, 0);
  if (magic == kSection) {
    format_ = Format::kPcapng;
    return true;
  }
  const std::uint32_t swapped = __builtin_bswap32(magic);
  is_swapped_ = swapped == kPcapMicro || swapped == kPcapNano;
  if (!is_swapped_ && magic != kPcapMicro && magic != kPcapNano) return false;
  is_nanoseconds_ = magic == kPcapNano || swapped == kPcapNano;
  format_ = Format::kPcap;
  constexpr std::uint32_t kLinkMask = 0x0fffffff;  // flags about checksums are above
  link_ = word(head, 20) & kLinkMask;
  take(kHeader);
  return true;
}

bool CaptureReader::next(Packet& packet) {
  if (format_ == Format::kPcap) return next_pcap(packet);
  if (format_ == Format::kPcapng) return next_pcapng(packet);
  return false;
}

bool CaptureReader::next_pcap(Packet& packet) {
  constexpr std::size_t kHeader = 16;
  if (!want(kHeader)) return begin_ == end_ ? false : cut("the header of a packet is incomplete");
  const Bytes header = take(kHeader);
  const std::uint32_t captured = word(header, 8);
  packet.where.packet = packets_ + 1;
  packet.where.time = std::int64_t{word(header, 0)} * kNanoseconds +
                      std::int64_t{word(header, 4)} * (is_nanoseconds_ ? 1 : 1000);
  packet.link = static_cast<LinkType>(link_);
  packet.size = word(header, 12);
  if (captured > kBufferSize - kHeader) return cut("the length of a packet is impossible");
  if (!want(captured)) return cut("a packet is incomplete");
  packet.data = take(captured);
  packet.size = std::max(packet.size, captured);
  ++packets_;
  return true;
}

bool CaptureReader::next_pcapng(Packet& packet) {
  constexpr std::size_t kFrame = 12;  // type and length in front, length behind
  for (;;) {
    if (!want(8)) return begin_ == end_ ? end_of_pcapng() : cut("a block is incomplete");
    const std::uint32_t type = native32(ahead(8), 0);
    if (type == kSection) {
      if (!want(kFrame)) return cut("a section header is incomplete");
      const std::uint32_t order = native32(ahead(kFrame), 8);
      is_swapped_ = order != kSectionOrder;
      if (is_swapped_ && order != __builtin_bswap32(kSectionOrder)) {
        return cut("a section header has no byte order");
      }
    }
    const std::uint32_t kind = is_swapped_ ? __builtin_bswap32(type) : type;
    const std::uint32_t size = word(ahead(8), 4);
    if (size < kFrame || size % 4 != 0) return cut("the length of a block is impossible");
    const bool is_packet = kind == kOldPacket || kind == kSimplePacket || kind == kEnhancedPacket;
    const bool is_used = type == kSection || kind == kInterfaceBlock || is_packet;
    if (!is_used || size > kBufferSize) {
      if (is_packet) ++packets_, ++left_out_;  // as other tools count, who read it
      if (!skip(size)) return cut("a block is incomplete");
      continue;
    }
    if (!want(size)) return cut("a block is incomplete");
    const Bytes block = take(size).subspan(8, size - kFrame);
    if (type == kSection) interfaces_.clear();
    if (kind == kInterfaceBlock) add_interface(block);
    if (!is_packet) continue;
    const bool is_old = kind == kOldPacket;
    if (kind == kSimplePacket ? take_simple(block, packet) : take_enhanced(block, is_old, packet)) {
      return true;
    }
    ++left_out_;
  }
}

bool CaptureReader::end_of_pcapng() {
  if (left_out_ != 0 && problem_.empty()) {
    problem_ =
        fmt::format("{}: {} left out: {} damaged, or longer than 1 MiB", name_,
                    left_out_ == 1 ? "1 packet was" : fmt::format("{} packets were", left_out_),
                    left_out_ == 1 ? "its block is" : "their blocks are");
  }
  return false;
}

void CaptureReader::add_interface(Bytes block) {
  if (block.size() < 8 || interfaces_.size() >= kInterfacesMax) return;
  Interface made;
  made.link = half(block, 0);
  std::size_t at = 8;
  while (at + 4 <= block.size()) {
    const unsigned code = half(block, at);
    const std::size_t size = half(block, at + 2);
    at += 4;
    if (code == 0 || at + size > block.size()) break;
    if (code == 9 && size == 1) {
      const unsigned resolution = std::to_integer<unsigned>(block[at]);
      const unsigned exponent = resolution & 0x7fU;
      made.units_per_second = 1;
      if ((resolution & 0x80U) != 0) {
        if (exponent < 63) made.units_per_second = std::uint64_t{1} << exponent;
      } else {
        for (unsigned i = 0; i < std::min(exponent, 18U); ++i) made.units_per_second *= 10;
      }
    }
    if (code == 14 && size == 8) {
      const std::uint64_t low = word(block, at + (is_swapped_ ? 4 : 0));
      const std::uint64_t high = word(block, at + (is_swapped_ ? 0 : 4));
      made.offset = static_cast<std::int64_t>(high << 32U | low);
    }
    at += (size + 3) / 4 * 4;
  }
  interfaces_.push_back(made);
}

bool CaptureReader::take_enhanced(Bytes block, bool is_old, Packet& packet) {
  constexpr std::size_t kHeader = 20;
  if (block.size() < kHeader) return false;
  ++packets_;
  // The old form has the interface in a half word, and drops in the other.
  const std::uint32_t index = is_old ? half(block, 0) : word(block, 0);
  const std::uint32_t captured = word(block, 12);
  if (index >= interfaces_.size() || captured > block.size() - kHeader) return false;
  const Interface& interface = interfaces_[index];
  const std::uint64_t units = std::uint64_t{word(block, 4)} << 32U | word(block, 8);
  const std::uint64_t seconds = units / interface.units_per_second;
  const std::uint64_t rest = units % interface.units_per_second;
  // Exact for the usual units, which are powers of ten up to nanoseconds.
  const double scale =
      static_cast<double>(kNanoseconds) / static_cast<double>(interface.units_per_second);
  const auto fraction = static_cast<std::int64_t>(static_cast<double>(rest) * scale);
  constexpr std::uint64_t kSecondsMax = 9000000000;  // beyond them the sum would overflow
  packet.where.packet = packets_;
  packet.where.time =
      static_cast<std::int64_t>(std::min(seconds, kSecondsMax)) * kNanoseconds + fraction;
  if (interface.offset > 0 && interface.offset < 1000000000) {
    packet.where.time = std::min<std::int64_t>(packet.where.time, 8000000000 * kNanoseconds) +
                        interface.offset * kNanoseconds;
  }
  packet.link = static_cast<LinkType>(interface.link);
  packet.data = block.subspan(kHeader, captured);
  packet.size = std::max(word(block, 16), captured);
  return true;
}

bool CaptureReader::take_simple(Bytes block, Packet& packet) {
  if (block.size() < 4 || interfaces_.empty()) return false;
  const std::uint32_t size = word(block, 0);
  packet.where = {++packets_, 0};
  packet.link = static_cast<LinkType>(interfaces_[0].link);
  packet.size = size;
  packet.data = block.subspan(4, std::min<std::size_t>(size, block.size() - 4));
  return true;
}

}  // namespace explaining
