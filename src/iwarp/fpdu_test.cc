// Bytes that others made: examples computed by hand and frames captured from Linux (siw of 6.1).
#include <gtest/gtest.h>

#include "iwarp/stream_pair_for_test.h"
#include "support/hex.h"

namespace rpcrdma::iwarp::test {
namespace {

using rpcrdma::test::hex;

constexpr std::string_view kHello =
    "0017 4143 00000000 00000000 00000001 00000000 68656c6c6f 000000 b990b10c";
constexpr std::string_view kWrite = "0012 c140 00012345 0000000000001000 41424344 558a3402";
constexpr std::string_view kEmptyWrite = "000e c140 00000001 0000000000000000 ebd34c5f";
constexpr std::string_view kReadRequest =
    "002e 4141 00000000 00000001 00000001 00000000 00abcd01 0000000000002000 00000010 00012345 "
    "0000000000001000 6d5579ab";
constexpr std::string_view kReadResponse =
    "001e c142 00abcd01 0000000000002000 000102030405060708090a0b0c0d0e0f 5531bd8d";
constexpr std::string_view kSendInvalidate =
    "0016 4144 00012345 00000000 00000002 00000000 41424344 4601201a";
constexpr std::string_view kTerminate =
    "0016 4147 00000000 00000002 00000001 00000000 11000000 7cb94e29";

// Linux's NFS client on siw, CRC asked for by the server: an RPC NULL call.
constexpr std::string_view kKernelCall =
    "0056414300000000000000000000000100000000 5c741945000000010000008000000000000000000000000000"
    "0000005c7419450000000000000002000186a3000000040000000000000000000000000000000000000000b938c8"
    "13";
// knfsd's answer to the one of a test program.
constexpr std::string_view kKernelReply =
    "0046414300000000000000000000000100000000 5244520100000001000000400000000000000000000000000000"
    "00005244520100000001000000000000000000000000000000000863c84b";
// The same without CRC: four zero bytes.
constexpr std::string_view kKernelReplyNoCrc =
    "0046414300000000000000000000000100000000 5244520100000001000000400000000000000000000000000000"
    "0000524452010000000100000000000000000000000000000000 00000000";

struct Ready {
  explicit Ready(bool initiator = true, bool crc = true) : stream({8, 8, 4, 4}, random) {
    stream.start({initiator, crc, 2, 4, 4, Rtr::kNone}, kFpduSizeMax, 0);
  }
  SeededRandom random{7};
  Stream stream;
};

TEST(Fpdu, SendsTheExamplesByteByByte) {
  Ready ready;
  const Buffer hello = text("hello");
  const Buffer abcd = text("ABCD");
  ASSERT_TRUE(test::post_send(ready.stream, 1, hello));
  EXPECT_EQ(sent_by(ready.stream), hex(kHello));
  ASSERT_TRUE(test::post_write(ready.stream, 2, abcd, {SteeringTag{0x12345}, 0x1000}));
  EXPECT_EQ(sent_by(ready.stream), hex(kWrite));
  SendOptions how;
  how.invalidate = SteeringTag{0x12345};
  ASSERT_TRUE(test::post_send(ready.stream, 3, abcd, how));
  EXPECT_EQ(sent_by(ready.stream), hex(kSendInvalidate));
  ready.stream.nudge();
  EXPECT_EQ(sent_by(ready.stream), hex(kEmptyWrite));
}

TEST(Fpdu, BuildsTheOtherExamplesFromTheirFields) {
  const ReadRequest request{SteeringTag{0xabcd01}, 0x2000, 16, SteeringTag{0x12345}, 0x1000};
  EXPECT_EQ(read_request_fpdu(1, request), hex(kReadRequest));
  EXPECT_EQ(decode_read_request(Bytes(hex(kReadRequest)).subspan(20)), request);
  EXPECT_EQ(fpdu(tagged_header(Opcode::kReadResponse, SteeringTag{0xabcd01}, 0x2000),
                 hex("000102030405060708090a0b0c0d0e0f")),
            hex(kReadResponse));
  Header header;
  header.opcode = Opcode::kTerminate;
  header.last = true;
  header.queue = kQueueTerminate;
  header.sequence = 1;
  EXPECT_EQ(fpdu(header, hex("11000000")), hex(kTerminate));
}

TEST(Fpdu, KernelFramesAreReceived) {
  for (const auto& [frame, size, crc] :
       {std::tuple(kKernelCall, 68U, true), std::tuple(kKernelReply, 52U, true),
        std::tuple(kKernelReplyNoCrc, 52U, false)}) {
    Ready ready(false, crc);
    Buffer memory(4096);
    ASSERT_TRUE(test::post_receive(ready.stream, 5, memory));
    const auto wire = hex(frame);
    EXPECT_TRUE(receive(ready.stream, wire));
    const auto done = one(ready.stream);
    ASSERT_TRUE(done);
    EXPECT_EQ(done->size, size);
    EXPECT_TRUE(std::equal(memory.begin(), memory.begin() + size, wire.begin() + 20));
    // And what we send with the same content is the same.
    Ready other(true, crc);
    memory.resize(size);
    ASSERT_TRUE(test::post_send(other.stream, 6, memory));
    EXPECT_EQ(sent_by(other.stream), wire);
  }
}

TEST(Fpdu, CutAnywhereItWaitsForTheRest) {
  for (const std::string_view frame : {kHello, kEmptyWrite, kKernelCall}) {
    const auto wire = hex(frame);
    for (std::size_t cut = 0; cut < wire.size(); ++cut) {
      Ready ready(false);
      Buffer memory(4096);
      ASSERT_TRUE(test::post_receive(ready.stream, 1, memory));
      receive(ready.stream, Bytes(wire).first(cut));
      EXPECT_EQ(ready.stream.phase(), Phase::kOpen);
      EXPECT_TRUE(completions(ready.stream).empty()) << cut;
      receive(ready.stream, Bytes(wire).subspan(cut));
      EXPECT_EQ(completions(ready.stream).size(), frame == kEmptyWrite ? 0U : 1U) << cut;
      EXPECT_EQ(ready.stream.counters().fpdus_received, 1U);
    }
    for (std::size_t cut = 1; cut < wire.size(); ++cut) {
      Ready ready(false);
      Buffer memory(4096);
      ASSERT_TRUE(test::post_receive(ready.stream, 1, memory));
      receive(ready.stream, Bytes(wire).first(cut));
      ready.stream.handle_end_of_stream();
      EXPECT_EQ(ready.stream.cause().fault, Fault::kLlpClosed) << cut;
      ASSERT_EQ(one(ready.stream)->status, Status::kFlushed);
    }
  }
}

// One flipped bit, wherever it is, is never delivered.
TEST(Fpdu, FlippedBitIsNeverDelivered) {
  for (const std::string_view frame : {kHello, kKernelCall}) {
    const auto good = hex(frame);
    for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
      auto wire = good;
      wire[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      Ready ready(false);
      Buffer memory(4096);
      ASSERT_TRUE(test::post_receive(ready.stream, 1, memory));
      receive(ready.stream, wire);
      sent_by(ready.stream);
      for (const Completion& done : completions(ready.stream)) {
        EXPECT_NE(done.status, Status::kOk) << bit;
      }
      if (bit >= 32) {
        EXPECT_EQ(ready.stream.cause().fault, Fault::kLlpCrc) << bit;
      }
    }
  }
}

TEST(Fpdu, TerminateOfThePeerEndsTheStream) {
  for (std::size_t step : {std::size_t{1}, std::size_t{1000}}) {
    Ready ready;
    Buffer memory(16);
    ASSERT_TRUE(test::post_receive(ready.stream, 1, memory));
    receive(ready.stream, hex(kTerminate), step);
    EXPECT_EQ(ready.stream.phase(), Phase::kClosed);
    EXPECT_EQ(ready.stream.cause().by, Cause::By::kTerminate);
    EXPECT_EQ(ready.stream.cause().fault, Fault::kTaggedInvalidStag);
    EXPECT_EQ(one(ready.stream)->status, Status::kFlushed);
    EXPECT_TRUE(sent_by(ready.stream).empty());
  }
}

}  // namespace
}  // namespace rpcrdma::iwarp::test
