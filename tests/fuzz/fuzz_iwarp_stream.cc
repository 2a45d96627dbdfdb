// An iWARP stream with a peer that may do anything: a real stream whose bytes are changed on their
// way, FPDUs made by hand with a good CRC, and raw bytes; while our side posts, revokes and closes
// at any time.
//
// These must hold: memory beside posted and exposed runs is untouched; memory that came back (by a
// completion, a revocation, an invalidation or the end) is not touched again, which
// AddressSanitizer sees because it is freed at once; all posted work completes exactly once and in
// order; what we send is well formed, and nothing follows a Terminate.
//
// Our Receives have memory of their own, or take it when a message comes, as those of servers do;
// our Reads are requested whole or in pieces, which may change at any time.
//
// Input: options, then operations until it ends.
#include <array>
#include <optional>

#include "fuzz/fuzz.h"
#include "fuzz/stream_sides.h"
#include "iwarp/stream_pair_for_test.h"

namespace rpcrdma::fuzz {
namespace {

using iwarp::Opcode;
using iwarp::Phase;

class Conversation {
 public:
  explicit Conversation(Choices& choices)
      : choices_(choices), options_(choices), us_(options_), peer_(options_) {}

  void run() {
    // Each operation takes at least a byte, so this ends.
    while (!choices_.empty()) {
      step();
      if (!lazy_) us_.poll();
    }
    us_.end(choices_.flag());
    peer_.close();
  }

 private:
  void step() {
    switch (choices_.below(16)) {
      case 0:
      case 1:
      case 2:
        us_.post(choices_, pick(peer_.places()));
        break;
      case 3:
        us_.revoke(choices_);
        break;
      case 4:
      case 5:
        us_.transmit(choices_, to_peer_);
        break;
      case 6:
      case 7: {
        const std::size_t size = amount();
        us_.receive(to_us_, size, 1 + choices_.size(70'000));
        break;
      }
      case 8:
        peer_.receive(to_peer_);
        peer_.transmit(to_us_);
        break;
      case 9:
      case 10:
        peer_.post(choices_, pick(us_.places()));
        break;
      case 11:
        change();
        break;
      case 12:
        append(choices_.take(choices_.u16() % 1024U));
        break;
      case 13:
        append(made_by_hand());
        break;
      case 14:
        lazy_ = !lazy_;
        break;
      default:
        rarely();
        break;
    }
  }
  void rarely() {
    switch (choices_.below(8)) {
      case 0:
        us_.close();
        break;
      case 1:
        us_.end_of_stream();
        break;
      case 2:
        us_.nudge();
        break;
      case 3:
        us_.split_reads(choices_);
        break;
      default:
        us_.start();
        peer_.start();
        break;
    }
  }

  std::size_t amount() { return choices_.flag() ? to_us_.size() : choices_.size(to_us_.size()); }
  void append(Bytes bytes) {
    if (to_us_.size() + bytes.size() > kWireMax) return;
    to_us_.insert(to_us_.end(), bytes.begin(), bytes.end());
  }
  iwarp::RemoteMemory pick(const std::vector<Known>& places) {
    const std::uint8_t which = choices_.u8();
    if (which == 255 || places.empty()) {
      return {SteeringTag{choices_.u32()}, choices_.u64()};
    }
    const Known& known = places[which % places.size()];
    iwarp::RemoteMemory place = known.memory;
    // Mostly the start; sometimes before it, around the end, or where an access would wrap.
    const std::uint8_t where = choices_.u8();
    if (where >= 248) {
      place.address = ~std::uint64_t{0} - choices_.u8();
    } else if (where >= 224) {
      place.address += where % 2 == 0 ? ~std::uint64_t{0} : choices_.u16();
    } else if (where >= 192) {
      place.address += known.size - where % 16U;
    }
    return place;
  }

  // Does to the bytes that wait to be received what a broken or evil path does.
  void change() {
    if (to_us_.empty()) return;
    const std::size_t at = choices_.u16() % to_us_.size();
    const auto begin = to_us_.begin() + static_cast<std::ptrdiff_t>(at);
    const std::size_t size = std::min<std::size_t>(choices_.u8(), to_us_.size() - at);
    const auto end = begin + static_cast<std::ptrdiff_t>(size);
    switch (choices_.below(4)) {
      case 0:
        *begin ^= static_cast<std::byte>(1U << choices_.below(8));
        break;
      case 1:
        to_us_.erase(begin, end);
        break;
      case 2: {
        const Buffer copy(begin, end);
        to_us_.insert(end, copy.begin(), copy.end());
        break;
      }
      default:
        to_us_.resize(at);
        break;
    }
  }

  // An FPDU that passes the CRC, so that only the checks behind it are left.
  Buffer made_by_hand() {
    const iwarp::RemoteMemory place = pick(us_.places());
    const std::uint8_t flags = choices_.u8();
    iwarp::Header header;
    header.opcode = static_cast<Opcode>(flags & 7U);
    header.last = (flags & 8U) == 0;
    header.tag = place.tag;
    header.address = place.address;
    Buffer payload(choices_.size(40'000));
    fill(payload, flags);
    if (header.opcode == Opcode::kReadRequest) {
      header.queue = iwarp::kQueueReadRequest;
      header.sequence = ++reads_;
      if (payload.size() < 8192) payload.resize(iwarp::kReadRequestSize);
      const SteeringTag sink{choices_.u8()};
      const std::uint64_t sink_address = choices_.flag() ? ~std::uint64_t{100} : 5;
      const auto size = static_cast<std::uint32_t>(choices_.size(100'000));
      iwarp::encode_read_request({sink, sink_address, size, place.tag, place.address},
                                 payload.data());
    } else if (header.opcode == Opcode::kTerminate) {
      header.queue = iwarp::kQueueTerminate;
      header.sequence = 1;
      const Bytes said = choices_.take(std::min<std::size_t>(payload.size(), 64));
      std::copy(said.begin(), said.end(), payload.begin());
    } else if (is_send(header.opcode)) {
      header.sequence = us_.messages_received() + 1;
      header.offset = message_offset_;
      message_offset_ =
          header.last ? 0 : message_offset_ + static_cast<std::uint32_t>(payload.size());
    }
    if ((flags & 16U) != 0) header.sequence += choices_.u8();
    if ((flags & 32U) != 0) header.offset += choices_.u8();
    if ((flags & 64U) != 0) header.queue += choices_.u8();
    return iwarp::test::fpdu(header, payload, (flags & 128U) == 0);
  }

  static constexpr std::size_t kWireMax = 256 * 1024;

  Choices& choices_;
  bool lazy_ = false;  // completions are left where they are
  StreamSetup options_;
  OurSide us_;
  TheirSide peer_;
  Buffer to_us_, to_peer_;
  std::uint32_t reads_ = 0;
  std::uint32_t message_offset_ = 0;
};

}  // namespace
}  // namespace rpcrdma::fuzz

FUZZ_TARGET(iwarp_stream) {
  rpcrdma::fuzz::Choices choices(rpcrdma::fuzz::as_bytes(data, size));
  rpcrdma::fuzz::Conversation conversation(choices);
  conversation.run();
  return 0;
}
