// A peer that speaks bytes: an ordinary TCP socket under full control of the test, for
// conversations that a well-behaved iWARP endpoint would never hold.
//
// Nothing sleeps: each wait polls its socket and calls `pump` in between, with a bound of time, so
// that the other side can live in the same thread.
#ifndef RPCRDMA_TESTS_SUPPORT_RAW_PEER_H_
#define RPCRDMA_TESTS_SUPPORT_RAW_PEER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rpcrdma/types.h"

namespace rpcrdma::test {

struct RawMpa {  // what a set-up frame of this peer says
  bool crc = true;
  bool reject = false;
  bool markers = false;
  unsigned revision = 2;        // from 2 on with IRD and ORD
  unsigned ird = 16, ord = 16;  // with the flag bits of RFC 6581 on top, if wanted
  std::vector<std::byte> private_data{};
};
// The bytes of a whole Request or Reply.
std::vector<std::byte> raw_mpa_frame(bool reply, const RawMpa& mpa);
// A whole FPDU around a ULPDU: length, pad, and the right CRC or zeros.
std::vector<std::byte> raw_fpdu(Bytes ulpdu, bool crc = true);
// The ULPDU of a Send in one segment.
std::vector<std::byte> raw_send(std::uint32_t sequence, Bytes payload);

class RawPeer {
 public:
  using Pump = std::function<void()>;
  static constexpr std::chrono::milliseconds kPatience{5'000};

  // Connects to "ADDR:PORT" (IPv4), from the address `source` of this machine if it is not empty.
  // Null when nobody listens there.
  static std::unique_ptr<RawPeer> connect(std::string_view address, Pump pump,
                                          std::string_view source = {});
  RawPeer(int socket, Pump pump) : socket_(socket), pump_(std::move(pump)) {}
  ~RawPeer();
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  // False: the other side has gone, or does not read.
  bool send(Bytes bytes);
  // Exactly so many bytes; fewer when the other side ends or time is up.
  std::vector<std::byte> receive(std::size_t size);
  // Everything until the other side ends; nullopt when it does not in time.
  std::optional<std::vector<std::byte>> receive_to_end();
  // One FPDU from its length field to its CRC; empty at the end or when time is up.
  std::vector<std::byte> receive_fpdu();
  // One MPA frame with its private data; empty at the end or when time is up.
  std::vector<std::byte> receive_mpa_frame();
  // Bytes that have come and were not received yet.
  std::size_t waiting() const;
  // Both sides of the set-up; the peer's frame is returned.
  std::vector<std::byte> initiate(const RawMpa& mpa);
  std::vector<std::byte> respond(const RawMpa& mpa);
  void finish();  // FIN
  void reset();   // RST
  // Pumps until the condition holds; false when time is up.
  bool pump_until(const std::function<bool()>& condition,
                  std::chrono::milliseconds patience = kPatience);

 private:
  int socket_;
  Pump pump_;
};

class RawListener {
 public:
  explicit RawListener(RawPeer::Pump pump);
  ~RawListener();
  RawListener(const RawListener&) = delete;
  RawListener& operator=(const RawListener&) = delete;
  const std::string& address() const { return address_; }  // "127.0.0.1:PORT"
  std::unique_ptr<RawPeer> accept();                       // null when time is up

 private:
  int socket_ = -1;
  RawPeer::Pump pump_;
  std::string address_;
};

}  // namespace rpcrdma::test

#endif  // RPCRDMA_TESTS_SUPPORT_RAW_PEER_H_
