#include "iwarp/headers.h"

#include <gtest/gtest.h>

#include "iwarp/stream_pair_for_test.h"
#include "support/hex.h"

namespace rpcrdma::iwarp {
namespace {

using rpcrdma::test::hex;

TEST(Headers, SizesFollowFromTheLength) {
  EXPECT_EQ(fpdu_size(14), 20U);
  EXPECT_EQ(fpdu_size(23), 32U);  // three bytes of pad
  EXPECT_EQ(pad_size(22), 0U);
  EXPECT_EQ(pad_size(23), 3U);
  EXPECT_EQ(fpdu_size(kUlpduSizeMax), 65544U);
}

TEST(Headers, RoundTripOfRandomHeaders) {
  SeededRandom random(3);
  for (int i = 0; i < 2000; ++i) {
    Header header;
    header.opcode = static_cast<Opcode>(random.below(8));
    header.last = random.one_in(2);
    header.payload_size = static_cast<std::uint32_t>(random.below(60'000));
    header.ulpdu_size =
        static_cast<std::uint16_t>(header.payload_size + header_size(header.opcode));
    if (is_tagged(header.opcode)) {
      header.address = random.next();
    } else {
      header.queue = static_cast<std::uint32_t>(random.next());
      header.sequence = static_cast<std::uint32_t>(random.next());
      header.offset = static_cast<std::uint32_t>(random.next());
    }
    if (is_tagged(header.opcode) || invalidates(header.opcode)) {
      header.tag = SteeringTag{static_cast<std::uint32_t>(random.next())};
    }
    std::array<std::byte, 20> wire{};
    const std::size_t size = encode_header(header, wire.data());
    ASSERT_EQ(size, kLengthSize + header_size(header.opcode));
    ASSERT_EQ(decode_header(wire), header);
  }
}

TEST(Headers, StartIsJudgedFromFourBytes) {
  EXPECT_EQ(check_start(hex("000e c140")), Fault::kNone);
  EXPECT_EQ(check_start(hex("000d c140")), Fault::kLlpLength);
  EXPECT_EQ(check_start(hex("0000 4143")), Fault::kLlpLength);
  EXPECT_EQ(check_start(hex("0001 4143")), Fault::kLlpLength);
  EXPECT_EQ(check_start(hex("0011 4143")), Fault::kLlpLength);
  EXPECT_EQ(check_start(hex("0012 4143")), Fault::kNone);
  EXPECT_EQ(check_start(hex("002d 4141")), Fault::kLlpLength);  // Read Request of 27 bytes
  EXPECT_EQ(check_start(hex("002e 4141")), Fault::kNone);
  EXPECT_EQ(check_start(hex("0012 4243")), Fault::kUntaggedVersion);
  EXPECT_EQ(check_start(hex("0012 c040")), Fault::kTaggedVersion);
  EXPECT_EQ(check_start(hex("0012 4103")), Fault::kOperationVersion);
  EXPECT_EQ(check_start(hex("0012 4183")), Fault::kOperationVersion);
  EXPECT_EQ(check_start(hex("0012 4148")), Fault::kOperationOpcode);
  EXPECT_EQ(check_start(hex("0012 414f")), Fault::kOperationOpcode);
  EXPECT_EQ(check_start(hex("0012 c143")), Fault::kOperationOpcode);  // a tagged Send
  EXPECT_EQ(check_start(hex("0012 4140")), Fault::kOperationOpcode);  // an untagged Write
  EXPECT_EQ(check_start(hex("0012 7d73")), Fault::kNone);             // reserved bits are ignored
}

TEST(Headers, EveryFaultHasItsOwnCode) {
  for (int i = 1; i < static_cast<int>(Fault::kUnknown); ++i) {
    const auto fault = static_cast<Fault>(i);
    EXPECT_EQ(fault_of(code_of(fault)), fault) << i;
    EXPECT_FALSE(to_string(fault).empty());
  }
  EXPECT_EQ(fault_of({3, 0, 0}), Fault::kUnknown);
  EXPECT_FALSE(to_string(Fault::kUnknown).empty());
}

TEST(Headers, TerminateWithoutHeadersIsTheExampleOfTheSheet) {
  std::array<std::byte, 100> wire{};
  const std::size_t size = encode_terminate(Fault::kTaggedInvalidStag, {}, wire.data());
  EXPECT_EQ(test::Buffer(wire.begin(), wire.begin() + 2 + static_cast<std::ptrdiff_t>(size)),
            hex("0016 4147 00000000 00000002 00000001 00000000 11000000"));
}

TEST(Headers, TerminateCarriesTheSegmentAtFault) {
  const auto write = hex("0012 c140 00012345 0000000000001000 41424344");
  std::array<std::byte, 100> wire{};
  std::size_t size = encode_terminate(Fault::kTaggedBounds, write, wire.data());
  EXPECT_EQ(test::Buffer(wire.begin() + 20, wire.begin() + 2 + static_cast<std::ptrdiff_t>(size)),
            hex("1101c000 0012 c140 00012345 0000000000001000"));
  const Terminate of_write = decode_terminate(Bytes(wire).subspan(20, size - kUntaggedSize));
  EXPECT_EQ(of_write.fault, Fault::kTaggedBounds);
  EXPECT_FALSE(of_write.request);
  ASSERT_TRUE(of_write.write);
  EXPECT_EQ(of_write.write->tag, SteeringTag{0x12345});
  EXPECT_EQ(of_write.write->address, 0x1000U);
  const test::Buffer read = test::read_request_fpdu(1, {SteeringTag{7}, 8, 16, SteeringTag{9}, 10});
  size = encode_terminate(Fault::kProtectionBounds, read, wire.data());
  EXPECT_EQ(size, kTerminateSizeMax);
  const Terminate terminate = decode_terminate(Bytes(wire).subspan(20, size - kUntaggedSize));
  EXPECT_EQ(terminate.fault, Fault::kProtectionBounds);
  ASSERT_TRUE(terminate.request);
  EXPECT_EQ(terminate.request->sink_tag, SteeringTag{7});
  EXPECT_FALSE(terminate.write);
  // A Read Response is tagged like a Write and is none; a header that is cut off tells nothing.
  EXPECT_FALSE(decode_terminate(hex("1101c000 0012 c142 00012345 0000000000001000")).write);
  EXPECT_FALSE(decode_terminate(hex("1101c000 0012 c140 00012345 00000000000010")).write);
  // A header that is cut short is not appended.
  size = encode_terminate(Fault::kTaggedBounds, Bytes(write).first(9), wire.data());
  EXPECT_EQ(size, kUntaggedSize + 4);
}

TEST(Headers, TerminateOfSiwIsUnderstood) {
  // Layer and type swapped, flags in the low bits: DDP tagged, base and bounds, M and D.
  EXPECT_EQ(decode_terminate(hex("11010300")).fault, Fault::kTaggedBounds);
  // LLP CRC error: layer 2, type 0 in the wrong nibbles.
  EXPECT_EQ(decode_terminate(hex("02020000")).fault, Fault::kLlpCrc);
  // DDP untagged, no buffer.
  EXPECT_EQ(decode_terminate(hex("21020000")).fault, Fault::kUntaggedNoBuffer);
  EXPECT_EQ(decode_terminate(hex("ffff0000")).fault, Fault::kUnknown);
  EXPECT_EQ(decode_terminate(hex("11")).fault, Fault::kUnknown);
  EXPECT_EQ(decode_terminate({}).fault, Fault::kUnknown);
}

}  // namespace
}  // namespace rpcrdma::iwarp
