#include "support/raw_peer.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "iwarp/byte_order.h"
#include "iwarp/crc32c.h"
#include "iwarp/headers.h"

namespace rpcrdma::test {
namespace {

std::optional<sockaddr_in> parse(std::string_view address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  sockaddr_in parsed{};
  parsed.sin_family = AF_INET;
  const std::string host(address.substr(0, colon));
  parsed.sin_port =
      htons(static_cast<std::uint16_t>(std::stoul(std::string(address.substr(colon + 1)))));
  if (inet_pton(AF_INET, host.c_str(), &parsed.sin_addr) != 1) return std::nullopt;
  return parsed;
}
const sockaddr* generic(const sockaddr_in& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}
bool is_busy() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace

std::vector<std::byte> raw_mpa_frame(bool reply, const RawMpa& mpa) {
  std::vector<std::byte> frame(20);
  std::memcpy(frame.data(), reply ? "MPA ID Rep Frame" : "MPA ID Req Frame", 16);
  const bool enhanced = mpa.revision >= 2;
  frame[16] = static_cast<std::byte>((mpa.markers ? 0x80U : 0U) | (mpa.crc ? 0x40U : 0U) |
                                     (mpa.reject ? 0x20U : 0U) | (enhanced ? 0x10U : 0U));
  frame[17] = static_cast<std::byte>(mpa.revision);
  if (enhanced) {
    frame.resize(24);
    iwarp::store16(&frame[20], static_cast<std::uint16_t>(mpa.ird));
    iwarp::store16(&frame[22], static_cast<std::uint16_t>(mpa.ord));
  }
  frame.insert(frame.end(), mpa.private_data.begin(), mpa.private_data.end());
  iwarp::store16(&frame[18], static_cast<std::uint16_t>(frame.size() - 20));
  return frame;
}

std::vector<std::byte> raw_fpdu(Bytes ulpdu, bool crc) {
  std::vector<std::byte> fpdu(iwarp::fpdu_size(ulpdu.size()));
  iwarp::store16(fpdu.data(), static_cast<std::uint16_t>(ulpdu.size()));
  std::ranges::copy(ulpdu, fpdu.begin() + 2);
  iwarp::Crc32c sum;
  sum.add(Bytes(fpdu).first(fpdu.size() - 4));
  if (crc) iwarp::store_crc(&fpdu[fpdu.size() - 4], sum.value());
  return fpdu;
}

std::vector<std::byte> raw_send(std::uint32_t sequence, Bytes payload) {
  std::vector<std::byte> ulpdu(18);
  ulpdu[0] = std::byte{0x41};
  ulpdu[1] = std::byte{0x43};
  iwarp::store32(&ulpdu[10], sequence);
  ulpdu.insert(ulpdu.end(), payload.begin(), payload.end());
  return ulpdu;
}

std::unique_ptr<RawPeer> RawPeer::connect(std::string_view address, Pump pump,
                                          std::string_view source) {
  const auto parsed = parse(address);
  if (!parsed) return nullptr;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto peer = std::make_unique<RawPeer>(fd, std::move(pump));
  if (!source.empty()) {
    const auto from = parse(std::string(source) + ":0");
    if (!from || bind(fd, generic(*from), sizeof(*from)) != 0) return nullptr;
  }
  // On loopback the kernel answers at once, whoever listens.
  if (::connect(fd, generic(*parsed), sizeof(*parsed)) != 0) return nullptr;
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  fcntl(fd, F_SETFL, O_NONBLOCK);
  return peer;
}

RawPeer::~RawPeer() {
  if (socket_ >= 0) close(socket_);
}

bool RawPeer::pump_until(const std::function<bool()>& condition,
                         std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  do {
    if (condition()) return true;
    if (pump_) pump_();
  } while (std::chrono::steady_clock::now() < end);
  return condition();
}

bool RawPeer::send(Bytes bytes) {
  bool broken = false;
  return pump_until([&] {
           while (!bytes.empty() && !broken) {
             const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
             if (sent < 0) {
               broken = !is_busy();
               return broken;
             }
             bytes = bytes.subspan(static_cast<std::size_t>(sent));
           }
           return true;
         }) &&
         !broken;
}

std::vector<std::byte> RawPeer::receive(std::size_t size) {
  std::vector<std::byte> bytes;
  pump_until([&] {
    while (bytes.size() < size) {
      std::array<std::byte, 4096> room;
      const ssize_t got = recv(socket_, room.data(), std::min(room.size(), size - bytes.size()), 0);
      if (got <= 0) return got == 0 || !is_busy();
      bytes.insert(bytes.end(), room.begin(), room.begin() + got);
    }
    return true;
  });
  return bytes;
}

std::optional<std::vector<std::byte>> RawPeer::receive_to_end() {
  std::vector<std::byte> bytes;
  const bool ended = pump_until([&] {
    for (;;) {
      std::array<std::byte, 4096> room;
      const ssize_t got = recv(socket_, room.data(), room.size(), 0);
      if (got <= 0) return got == 0 || !is_busy();
      bytes.insert(bytes.end(), room.begin(), room.begin() + got);
    }
  });
  if (!ended) return std::nullopt;
  return bytes;
}

std::vector<std::byte> RawPeer::receive_fpdu() {
  std::vector<std::byte> fpdu = receive(2);
  if (fpdu.size() < 2) return {};
  const std::vector<std::byte> rest = receive(iwarp::fpdu_size(iwarp::load16(fpdu.data())) - 2);
  fpdu.insert(fpdu.end(), rest.begin(), rest.end());
  if (fpdu.size() != iwarp::fpdu_size(iwarp::load16(fpdu.data()))) return {};
  return fpdu;
}

std::vector<std::byte> RawPeer::receive_mpa_frame() {
  std::vector<std::byte> frame = receive(20);
  if (frame.size() < 20) return {};
  const std::vector<std::byte> rest = receive(iwarp::load16(&frame[18]));
  frame.insert(frame.end(), rest.begin(), rest.end());
  return frame;
}

std::size_t RawPeer::waiting() const {
  int count = 0;
  return ioctl(socket_, FIONREAD, &count) == 0 ? static_cast<std::size_t>(count) : 0;
}

std::vector<std::byte> RawPeer::initiate(const RawMpa& mpa) {
  if (!send(raw_mpa_frame(false, mpa))) return {};
  return receive_mpa_frame();
}

std::vector<std::byte> RawPeer::respond(const RawMpa& mpa) {
  std::vector<std::byte> request = receive_mpa_frame();
  if (request.empty() || !send(raw_mpa_frame(true, mpa))) return {};
  return request;
}

void RawPeer::finish() {
  shutdown(socket_, SHUT_WR);
}

void RawPeer::reset() {
  const linger now{1, 0};
  setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  close(socket_);
  socket_ = -1;
}

RawListener::RawListener(RawPeer::Pump pump) : pump_(std::move(pump)) {
  socket_ = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  sockaddr_in any = *parse("127.0.0.1:0");
  socklen_t size = sizeof(any);
  if (bind(socket_, generic(any), size) != 0 || listen(socket_, 16) != 0) return;
  getsockname(socket_, reinterpret_cast<sockaddr*>(&any), &size);
  address_ = "127.0.0.1:" + std::to_string(ntohs(any.sin_port));
}

RawListener::~RawListener() {
  close(socket_);
}

std::unique_ptr<RawPeer> RawListener::accept() {
  const auto end = std::chrono::steady_clock::now() + RawPeer::kPatience;
  do {
    const int fd = accept4(socket_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      const int on = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      return std::make_unique<RawPeer>(fd, pump_);
    }
    if (pump_) pump_();
  } while (std::chrono::steady_clock::now() < end);
  return nullptr;
}

}  // namespace rpcrdma::test
