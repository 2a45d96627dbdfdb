// Helpers for tests of this module: two streams back to back, and FPDUs made by hand.
#ifndef RPCRDMA_IWARP_STREAM_PAIR_FOR_TEST_H_
#define RPCRDMA_IWARP_STREAM_PAIR_FOR_TEST_H_

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "iwarp/byte_order.h"
#include "iwarp/crc32c.h"
#include "iwarp/stream.h"

namespace rpcrdma::iwarp::test {

using Buffer = std::vector<std::byte>;

inline Buffer text(std::string_view characters) {
  Buffer bytes(characters.size());
  if (!bytes.empty()) std::memcpy(bytes.data(), characters.data(), characters.size());
  return bytes;
}
// Does the same without a copy: the text is a literal.
inline Bytes literal(std::string_view characters) {
  return std::as_bytes(std::span(characters.data(), characters.size()));
}
inline Buffer random_bytes(SeededRandom& random, std::size_t size) {
  Buffer bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

// One whole FPDU. Sets the ULPDU length.
inline Buffer fpdu(Header header, Bytes payload, bool crc = true) {
  const std::size_t ulpdu = header_size(header.opcode) + payload.size();
  header.ulpdu_size = static_cast<std::uint16_t>(ulpdu);
  Buffer bytes(fpdu_size(ulpdu));
  const std::size_t at = encode_header(header, bytes.data());
  if (!payload.empty()) std::memcpy(&bytes[at], payload.data(), payload.size());
  Crc32c sum;
  sum.add(Bytes(bytes).first(bytes.size() - kCrcSize));
  if (crc) store_crc(&bytes[bytes.size() - kCrcSize], sum.value());
  return bytes;
}
inline void fix_crc(Buffer& bytes) {
  Crc32c sum;
  sum.add(Bytes(bytes).first(bytes.size() - kCrcSize));
  store_crc(&bytes[bytes.size() - kCrcSize], sum.value());
}
inline Header send_header(std::uint32_t sequence, std::uint32_t offset = 0, bool last = true) {
  Header header;
  header.opcode = Opcode::kSend;
  header.last = last;
  header.sequence = sequence;
  header.offset = offset;
  return header;
}
inline Header tagged_header(Opcode opcode, SteeringTag tag, std::uint64_t address,
                            bool last = true) {
  Header header;
  header.opcode = opcode;
  header.last = last;
  header.tag = tag;
  header.address = address;
  return header;
}
inline Buffer read_request_fpdu(std::uint32_t sequence, const ReadRequest& request) {
  Header header;
  header.opcode = Opcode::kReadRequest;
  header.last = true;
  header.queue = kQueueReadRequest;
  header.sequence = sequence;
  Buffer payload(kReadRequestSize);
  encode_read_request(request, payload.data());
  return fpdu(header, payload);
}

// All that the stream wants to send now.
inline Buffer sent_by(Stream& stream) {
  Buffer wire;
  std::array<Bytes, 128> room;
  while (const std::size_t count = stream.transmit(room)) {
    std::size_t size = 0;
    for (std::size_t i = 0; i < count; ++i) {
      wire.insert(wire.end(), room[i].begin(), room[i].end());
      size += room[i].size();
    }
    stream.handle_sent(size);
  }
  return wire;
}
// Hands bytes to a stream, at most `step` at a time, as readv would. False if it takes no more.
inline bool receive(Stream& stream, Bytes bytes, std::size_t step = ~std::size_t{0}) {
  std::array<MutableBytes, 8> room;
  while (!bytes.empty()) {
    const std::size_t count = stream.receive_room(room);
    if (count == 0) return false;
    std::size_t taken = 0;
    std::size_t left = std::min(step, bytes.size());
    for (std::size_t i = 0; i < count && left > 0; ++i) {
      const std::size_t part = std::min(left, room[i].size());
      std::memcpy(room[i].data(), &bytes[taken], part);
      taken += part;
      left -= part;
    }
    bytes = bytes.subspan(taken);
    stream.handle_received(taken);
  }
  return true;
}
inline std::vector<Completion> completions(Stream& stream) {
  std::vector<Completion> all;
  std::array<Completion, 16> some;
  while (const std::size_t count = stream.poll_completions(some)) {
    all.insert(all.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(count));
  }
  return all;
}
inline std::optional<Completion> one(Stream& stream) {
  const auto all = completions(stream);
  return all.size() == 1 ? std::optional(all[0]) : std::nullopt;
}
inline RemoteMemory exposed(Stream& stream, MutableBytes memory) {
  if (!stream.expose_for_writing(0, memory)) return {};
  const auto completion = one(stream);
  return completion ? RemoteMemory{*completion->tag, completion->address} : RemoteMemory{};
}
inline RemoteMemory exposed_source(Stream& stream, Bytes memory) {
  if (!stream.expose_for_reading(0, memory)) return {};
  const auto completion = one(stream);
  return completion ? RemoteMemory{*completion->tag, completion->address} : RemoteMemory{};
}
inline bool post_receive(Stream& stream, std::uint64_t id, MutableBytes memory) {
  return stream.post_receive(id, std::array{memory});
}
inline bool post_send(Stream& stream, std::uint64_t id, Bytes memory, const SendOptions& how = {}) {
  return stream.post_send(id, std::array{memory}, how);
}
inline bool post_write(Stream& stream, std::uint64_t id, Bytes memory, RemoteMemory to) {
  return stream.post_write(id, std::array{memory}, to);
}

// An initiator and a responder that have finished their set-up.
struct StreamPair {
  explicit StreamPair(bool crc = true, std::size_t fpdu_size_max = kFpduSizeMax,
                      std::uint16_t depth = 4, Rtr rtr = Rtr::kNone, std::size_t segment = 0)
      : initiator({64, 64, depth, depth}, random), responder({64, 64, depth, depth}, random) {
    initiator.start({true, crc, 2, depth, depth, rtr}, fpdu_size_max, segment);
    responder.start({false, crc, 2, depth, depth, rtr}, fpdu_size_max, segment);
  }
  // Carries everything until both are silent.
  void run() {
    for (bool moved = true; moved;) {
      const Buffer there = sent_by(initiator);
      receive(responder, there);
      const Buffer back = sent_by(responder);
      receive(initiator, back);
      moved = !there.empty() || !back.empty();
    }
  }
  // The responder may send from here on.
  void open() {
    initiator.nudge();
    run();
  }

  SeededRandom random{42};
  Stream initiator;
  Stream responder;
};

}  // namespace rpcrdma::iwarp::test

#endif  // RPCRDMA_IWARP_STREAM_PAIR_FOR_TEST_H_
