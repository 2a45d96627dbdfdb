// A peer that breaks the rules: each violation has its Terminate, and nothing is delivered.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "iwarp/stream_pair_for_test.h"
#include "support/hex.h"

namespace rpcrdma::iwarp::test {
namespace {

using rpcrdma::test::hex;

constexpr std::byte kWritten{0xee};
constexpr std::byte kReadable{0x5a};

// A responder with memory of each kind, fed with bytes made by hand.
struct Victim {
  Victim() : stream({8, 8, 2, 2}, random) {
    stream.start({false, true, 2, 2, 2, Rtr::kNone}, kFpduSizeMax, 0);
    writable_at = exposed(stream, writable);
    readable_at = exposed_source(stream, readable);
    EXPECT_TRUE(test::post_receive(stream, 77, inbox));
  }
  // The fault that the Terminate on the wire tells; kNone without one.
  Fault told() {
    const Buffer wire = sent_by(stream);
    std::size_t at = 0;
    while (at + 24 <= wire.size()) {
      const std::size_t ulpdu = load16(&wire[at]);
      const Header header = decode_header(Bytes(wire).subspan(at));
      if (header.opcode == Opcode::kTerminate) {
        EXPECT_EQ(at + fpdu_size(ulpdu), wire.size()) << "nothing may follow a Terminate";
        return decode_terminate(Bytes(wire).subspan(at + 20, header.payload_size)).fault;
      }
      at += fpdu_size(ulpdu);
    }
    return Fault::kNone;
  }
  // `placed`: bytes of a Write that were in place before its CRC came, and which nobody hears of.
  void expect(Fault fault, std::size_t placed = 0) {
    EXPECT_EQ(stream.cause().fault, fault) << to_string(stream.cause().fault);
    EXPECT_EQ(stream.cause().by, Cause::By::kOurCheck);
    EXPECT_EQ(told(), fault);
    EXPECT_EQ(stream.phase(), Phase::kClosed);
    for (const Completion& done : completions(stream)) {
      const bool too_small = fault == Fault::kUntaggedTooLong && done.kind == WorkKind::kReceive &&
                             stream.counters().fpdus_received < 2;
      EXPECT_TRUE(done.status == Status::kFlushed ||
                  (too_small && done.status == Status::kLocalError));
    }
    Buffer left(writable.size());
    std::fill_n(left.begin(), placed, kWritten);
    EXPECT_EQ(writable, left);
    EXPECT_EQ(readable, Buffer(readable.size(), kReadable));
  }

  SeededRandom random{21};
  Buffer writable = Buffer(10'000);
  Buffer readable = Buffer(10'000, kReadable);
  Buffer inbox = Buffer(64);
  Stream stream;
  RemoteMemory writable_at, readable_at;
};

using Attack = std::function<Buffer(const Victim&)>;
struct Case {
  const char* name;
  Fault fault;
  Attack attack;
  std::size_t placed = 0;
};

Buffer write_to(SteeringTag tag, std::uint64_t address, std::size_t size) {
  return fpdu(tagged_header(Opcode::kWrite, tag, address), Buffer(size, kWritten));
}
Buffer read_from(SteeringTag tag, std::uint64_t address, std::uint32_t size) {
  return read_request_fpdu(1, {SteeringTag{1}, 0, size, tag, address});
}
SteeringTag other(SteeringTag tag) {
  return SteeringTag{static_cast<std::uint32_t>(tag) ^ 0x00800001U};
}

std::vector<Case> tagged_cases() {
  return {
      {"write to an unknown tag", Fault::kTaggedInvalidStag,
       [](const Victim& v) {
         return write_to(other(v.writable_at.tag), v.writable_at.address, 4);
       }},
      {"large write to an unknown tag", Fault::kTaggedInvalidStag,
       [](const Victim& v) {
         return write_to(other(v.writable_at.tag), v.writable_at.address, 9'000);
       }},
      {"write before the start", Fault::kTaggedBounds,
       [](const Victim& v) { return write_to(v.writable_at.tag, v.writable_at.address - 1, 4); }},
      {"write across the end", Fault::kTaggedBounds,
       [](const Victim& v) {
         return write_to(v.writable_at.tag, v.writable_at.address + 9'997, 4);
       }},
      {"large write across the end", Fault::kTaggedBounds,
       [](const Victim& v) {
         return write_to(v.writable_at.tag, v.writable_at.address + 1, 10'000);
       }},
      {"write that wraps", Fault::kTaggedWrap,
       [](const Victim& v) {
         return write_to(v.writable_at.tag, std::numeric_limits<std::uint64_t>::max() - 1, 4);
       }},
      {"write to what may be read", Fault::kProtectionAccess,
       [](const Victim& v) { return write_to(v.readable_at.tag, v.readable_at.address, 4); }},
      {"read of an unknown tag", Fault::kProtectionInvalidStag,
       [](const Victim& v) {
         return read_from(other(v.readable_at.tag), v.readable_at.address, 4);
       }},
      {"read across the end", Fault::kProtectionBounds,
       [](const Victim& v) { return read_from(v.readable_at.tag, v.readable_at.address, 10'001); }},
      {"read that wraps", Fault::kProtectionWrap,
       [](const Victim& v) {
         return read_from(v.readable_at.tag, std::numeric_limits<std::uint64_t>::max(), 4);
       }},
      {"read of what may be written", Fault::kProtectionAccess,
       [](const Victim& v) { return read_from(v.writable_at.tag, v.writable_at.address, 4); }},
      {"read into a sink that wraps", Fault::kProtectionWrap,
       [](const Victim& v) {
         return read_request_fpdu(1, {SteeringTag{1}, std::numeric_limits<std::uint64_t>::max(), 4,
                                      v.readable_at.tag, v.readable_at.address});
       }},
      {"response that nobody asked for", Fault::kOperationOpcode,
       [](const Victim& v) {
         return fpdu(tagged_header(Opcode::kReadResponse, v.writable_at.tag, v.writable_at.address),
                     Buffer(4));
       }},
  };
}

Header invalidating(SteeringTag tag) {
  Header header = send_header(1);
  header.opcode = Opcode::kSendInvalidate;
  header.tag = tag;
  return header;
}

std::vector<Case> untagged_cases() {
  return {
      {"send on another queue", Fault::kUntaggedQueue,
       [](const Victim&) {
         Header header = send_header(1);
         header.queue = 1;
         return fpdu(header, Buffer(4));
       }},
      {"send out of sequence", Fault::kUntaggedMsn,
       [](const Victim&) { return fpdu(send_header(2), Buffer(4)); }},
      {"send with sequence zero", Fault::kUntaggedMsn,
       [](const Victim&) { return fpdu(send_header(0), Buffer(4)); }},
      {"send with an offset", Fault::kUntaggedOffset,
       [](const Victim&) { return fpdu(send_header(1, 4), Buffer(4)); }},
      {"send with a gap", Fault::kUntaggedOffset,
       [](const Victim&) {
         Buffer wire = fpdu(send_header(1, 0, false), Buffer(4));
         const Buffer rest = fpdu(send_header(1, 5), Buffer(4));
         wire.insert(wire.end(), rest.begin(), rest.end());
         return wire;
       }},
      {"send longer than its Receive", Fault::kUntaggedTooLong,
       [](const Victim&) { return fpdu(send_header(1), Buffer(65)); }},
      {"large send longer than its Receive", Fault::kUntaggedTooLong,
       [](const Victim&) { return fpdu(send_header(1), Buffer(20'000)); }},
      {"send that grows too long", Fault::kUntaggedTooLong,
       [](const Victim&) {
         Buffer wire = fpdu(send_header(1, 0, false), Buffer(64));
         const Buffer rest = fpdu(send_header(1, 64), Buffer(1));
         wire.insert(wire.end(), rest.begin(), rest.end());
         return wire;
       }},
      {"send that changes its kind", Fault::kOperationOpcode,
       [](const Victim& v) {
         Buffer wire = fpdu(send_header(1, 0, false), Buffer(4));
         Header header = invalidating(v.writable_at.tag);
         header.offset = 4;
         const Buffer rest = fpdu(header, Buffer(4));
         wire.insert(wire.end(), rest.begin(), rest.end());
         return wire;
       }},
      {"invalidation of an unknown tag", Fault::kProtectionCannotInvalidate,
       [](const Victim& v) { return fpdu(invalidating(other(v.writable_at.tag)), Buffer(4)); }},
      {"read request on another queue", Fault::kUntaggedQueue,
       [](const Victim&) {
         Buffer wire = read_from(SteeringTag{1}, 0, 0);
         store32(&wire[8], 0);
         fix_crc(wire);
         return wire;
       }},
      {"read request out of sequence", Fault::kUntaggedMsn,
       [](const Victim&) { return read_request_fpdu(2, {}); }},
      {"read request that is too long", Fault::kUntaggedTooLong,
       [](const Victim&) {
         Header header = send_header(1);
         header.opcode = Opcode::kReadRequest;
         header.queue = 1;
         return fpdu(header, Buffer(32));
       }},
      {"read request of 20,000 bytes", Fault::kUntaggedTooLong,
       [](const Victim&) {
         Header header = send_header(1);
         header.opcode = Opcode::kReadRequest;
         header.queue = 1;
         return fpdu(header, Buffer(20'000));
       }},
  };
}

std::vector<Case> framing_cases() {
  const auto bytes = [](std::string_view digits) {
    return [wire = hex(digits)](const Victim&) { return wire; };
  };
  return {
      {"length zero", Fault::kLlpLength, bytes("0000 4143")},
      {"length of one", Fault::kLlpLength, bytes("0001 4143")},
      {"length below the header's", Fault::kLlpLength, bytes("0011 4143")},
      {"read request below its size", Fault::kLlpLength, bytes("0020 4141")},
      {"another DDP version, tagged", Fault::kTaggedVersion, bytes("000e c240")},
      {"another DDP version, untagged", Fault::kUntaggedVersion, bytes("0012 4043")},
      {"another RDMAP version", Fault::kOperationVersion, bytes("0012 4183")},
      {"unknown opcode", Fault::kOperationOpcode, bytes("0012 4149")},
      {"opcode of the other model", Fault::kOperationOpcode, bytes("000e c144")},
      {"bad CRC", Fault::kLlpCrc,
       [](const Victim&) {
         Buffer wire = fpdu(send_header(1), Buffer(4));
         wire.back() ^= std::byte{0x80};
         return wire;
       }},
      {"bad CRC of a large FPDU", Fault::kLlpCrc,
       [](const Victim& v) {
         Buffer wire = write_to(v.writable_at.tag, v.writable_at.address, 9'000);
         wire.back() ^= std::byte{0x80};
         return wire;
       },
       9'000},
      {"bad CRC of an FPDU without data", Fault::kLlpCrc,
       [](const Victim&) {
         Buffer wire = fpdu(tagged_header(Opcode::kWrite, SteeringTag{1}, 0), Buffer());
         wire.back() ^= std::byte{0x80};
         return wire;
       }},
  };
}

TEST(StreamHostile, EachViolationHasItsTerminate) {
  for (const auto& cases : {tagged_cases(), untagged_cases(), framing_cases()}) {
    for (const Case& each : cases) {
      for (const std::size_t step : {~std::size_t{0}, std::size_t{1}, std::size_t{17}}) {
        SCOPED_TRACE(each.name);
        Victim victim;
        receive(victim.stream, each.attack(victim), step);
        victim.expect(each.fault, each.placed);
      }
    }
  }
}

TEST(StreamHostile, SendWithoutReceive) {
  Victim victim;
  const Buffer first = fpdu(send_header(1), Buffer(4));
  const Buffer second = fpdu(send_header(2), Buffer(4));
  receive(victim.stream, first);
  EXPECT_EQ(one(victim.stream)->status, Status::kOk);
  receive(victim.stream, second);
  victim.expect(Fault::kUntaggedNoBuffer);
}

TEST(StreamHostile, MoreReadsThanAgreed) {
  Victim victim;
  for (std::uint32_t i = 1; i <= 3; ++i) {
    receive(victim.stream, read_request_fpdu(i, {SteeringTag{1}, 0, 16, victim.readable_at.tag,
                                                 victim.readable_at.address}));
  }
  victim.expect(Fault::kOperationStream);
}

TEST(StreamHostile, SinkOfOurReadIsNoTarget) {
  // The peer knows the sink's tag from the Read Request, and tries it for other things.
  for (int way = 0; way < 5; ++way) {
    SCOPED_TRACE(way);
    Victim victim;
    receive(victim.stream, fpdu(tagged_header(Opcode::kWrite, SteeringTag{1}, 0), {}));
    Buffer sink(100);
    ASSERT_TRUE(victim.stream.post_read(5, sink, {SteeringTag{9}, 9}));
    const Buffer asked = sent_by(victim.stream);
    const ReadRequest request = decode_read_request(Bytes(asked).subspan(20));
    const auto response = [&](std::uint64_t address, std::size_t size, bool last) {
      return fpdu(tagged_header(Opcode::kReadResponse, request.sink_tag, address, last),
                  Buffer(size, std::byte{1}));
    };
    if (way == 0) {
      receive(victim.stream, write_to(request.sink_tag, request.sink_address, 4));
      victim.expect(Fault::kProtectionAccess);
    } else if (way == 1) {
      receive(victim.stream, fpdu(invalidating(request.sink_tag), {}));
      victim.expect(Fault::kProtectionCannotInvalidate);
    } else if (way == 2) {
      receive(victim.stream, response(request.sink_address + 1, 99, true));
      victim.expect(Fault::kTaggedBounds);
    } else if (way == 3) {
      receive(victim.stream, response(request.sink_address, 99, true));  // too short
      victim.expect(Fault::kTaggedBounds);
    } else {
      receive(victim.stream, response(request.sink_address, 101, false));
      victim.expect(Fault::kTaggedBounds);
    }
    EXPECT_EQ(sink, Buffer(100));
  }
}

TEST(StreamHostile, InvalidationOfWhatIsBeingReadEndsTheStream) {
  Victim victim;
  Buffer source(50'000);
  const RemoteMemory at = exposed_source(victim.stream, source);
  receive(victim.stream, read_request_fpdu(1, {SteeringTag{1}, 0, 50'000, at.tag, at.address}));
  std::array<Bytes, 128> room;
  ASSERT_GT(victim.stream.transmit(room), 0U);  // handed to the kernel, not yet taken
  receive(victim.stream, fpdu(invalidating(at.tag), Buffer(4)));
  for (const Completion& done : completions(victim.stream)) ADD_FAILURE() << done.id;
  victim.expect(Fault::kOperationCannotInvalidate);
}

// A large message takes its time, in which a Read of the memory begins; more has come behind it.
TEST(StreamHostile, LateInvalidationOfWhatIsBeingReadIsNamedInTheTerminate) {
  Victim victim;
  receive(victim.stream, fpdu(send_header(1), Buffer(4)));
  ASSERT_TRUE(one(victim.stream));
  Buffer inbox(20'000);
  ASSERT_TRUE(post_receive(victim.stream, 78, inbox));
  Buffer source(50'000);
  const RemoteMemory at = exposed_source(victim.stream, source);
  receive(victim.stream, read_request_fpdu(1, {SteeringTag{1}, 0, 50'000, at.tag, at.address}));
  Header header = invalidating(at.tag);
  header.sequence = 2;
  const Buffer message = fpdu(header, Buffer(12'000));
  receive(victim.stream, Bytes(message).first(10'000));
  std::array<Bytes, 128> room;
  ASSERT_GT(victim.stream.transmit(room), 0U);
  Buffer rest(message.begin() + 10'000, message.end());
  const Buffer next = fpdu(send_header(3), Buffer(4));
  rest.insert(rest.end(), next.begin(), next.end());
  receive(victim.stream, rest);
  const Buffer wire = sent_by(victim.stream);
  const std::size_t terminate = wire.size() - fpdu_size(kUntaggedSize + 4 + 2 + kUntaggedSize);
  ASSERT_EQ(decode_header(Bytes(wire).subspan(terminate)).opcode, Opcode::kTerminate);
  const Bytes named = Bytes(wire).subspan(terminate + kLengthSize + kUntaggedSize + 4 + 2);
  EXPECT_TRUE(std::ranges::equal(named.first(kUntaggedSize),
                                 Bytes(message).subspan(kLengthSize, kUntaggedSize)));
}

TEST(StreamHostile, SecondTerminateIsNotAnswered) {
  Victim victim;
  receive(victim.stream, hex("0000 4143"));
  receive(victim.stream, hex("0000 4143"));
  EXPECT_EQ(victim.told(), Fault::kLlpLength);
  EXPECT_TRUE(sent_by(victim.stream).empty());
}

TEST(StreamHostile, TerminatesOfAllSizesEndTheStream) {
  for (const std::size_t size : {0U, 1U, 3U, 4U, 5U, 60U, 9'000U, 60'000U}) {
    Victim victim;
    Header header = send_header(1);
    header.opcode = Opcode::kTerminate;
    header.queue = 2;
    receive(victim.stream, fpdu(header, Buffer(size, std::byte{0xff})));
    EXPECT_EQ(victim.stream.phase(), Phase::kClosed) << size;
    EXPECT_EQ(victim.stream.cause().by, Cause::By::kTerminate);
    EXPECT_EQ(victim.told(), Fault::kNone);
  }
}

TEST(StreamHostile, GarbageNeverDeliversAndAlwaysEnds) {
  SeededRandom random(22);
  for (int round = 0; round < 300; ++round) {
    Victim victim;
    for (int i = 0; i < 40 && victim.stream.phase() == Phase::kOpen; ++i) {
      receive(victim.stream, random_bytes(random, 1 + random.below(5000)), 1 + random.below(3000));
    }
    EXPECT_NE(victim.stream.phase(), Phase::kOpen);
    sent_by(victim.stream);
    for (const Completion& done : completions(victim.stream)) {
      EXPECT_EQ(done.status, Status::kFlushed);
    }
  }
}

// Headers that are nearly right, with a good CRC: the checks behind it have to hold alone.
TEST(StreamHostile, MutatedHeadersNeverLeaveTheirMemory) {
  SeededRandom random(23);
  for (int round = 0; round < 5000; ++round) {
    Victim victim;
    for (int i = 0; i < 6 && victim.stream.phase() == Phase::kOpen; ++i) {
      Buffer wire;
      switch (random.below(4)) {
        case 0:
          wire = write_to(victim.writable_at.tag, victim.writable_at.address + random.below(10'100),
                          random.below(9'000));
          break;
        case 1:
          wire =
              read_from(victim.readable_at.tag, victim.readable_at.address + random.below(10'100),
                        static_cast<std::uint32_t>(random.below(10'100)));
          break;
        case 2:
          wire = fpdu(send_header(1), Buffer(random.below(70)));
          break;
        default:
          wire = fpdu(invalidating(victim.readable_at.tag), Buffer(random.below(70)));
          break;
      }
      const std::size_t header = std::min<std::size_t>(wire.size() - 4, 48);
      if (random.one_in(2)) {
        wire[2 + random.below(header - 2)] ^= static_cast<std::byte>(1U << random.below(8));
        fix_crc(wire);
      }
      receive(victim.stream, wire, 1 + random.below(9'000));
      sent_by(victim.stream);
      for (const Completion& done : completions(victim.stream)) {
        EXPECT_TRUE(done.id != 77 || done.size <= victim.inbox.size()) << done.size;
      }
      ASSERT_EQ(victim.readable, Buffer(victim.readable.size(), kReadable));
    }
  }
}

}  // namespace
}  // namespace rpcrdma::iwarp::test
