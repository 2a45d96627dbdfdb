// DDP and RDMAP headers, Terminates and the CRC: what decodes encodes to the same bytes save for
// reserved bits, and each Terminate that we write is understood as what it was meant to say.
//
// Input: which fault to tell, then an FPDU.
#include <array>

#include "fuzz/fuzz.h"
#include "iwarp/byte_order.h"
#include "iwarp/crc32c.h"
#include "iwarp/headers.h"

namespace rpcrdma::fuzz {
namespace {

using iwarp::Fault;
using iwarp::Header;
using iwarp::Opcode;

constexpr auto kFaultFirst = static_cast<std::size_t>(Fault::kRdmapCatastrophic);
constexpr auto kFaultEnd = static_cast<std::size_t>(Fault::kUnknown);

// Bits that RFC 5041 §4 and RFC 5040 §4.1 reserve, which are ignored on receipt.
void clear_reserved(std::span<std::byte> fpdu, Opcode opcode) {
  fpdu[2] &= std::byte{0xc3};
  fpdu[3] &= std::byte{0xcf};
  if (is_tagged(opcode) || invalidates(opcode)) return;
  for (std::size_t i = 4; i < 8; ++i) fpdu[i] = std::byte{0};
}

void check_header(Bytes input) {
  const Fault fault = iwarp::check_start(input);
  const std::size_t ulpdu = iwarp::load16(input.data());
  if (fault != Fault::kNone) {
    FUZZ_CHECK(!to_string(fault).empty(), "a fault without a name");
    FUZZ_CHECK(iwarp::fault_of(iwarp::code_of(fault)) == fault, "a fault without a code");
    return;
  }
  const auto opcode = static_cast<Opcode>(std::to_integer<unsigned>(input[3]) & 0x0fU);
  const std::size_t size = iwarp::kLengthSize + header_size(opcode);
  FUZZ_CHECK(iwarp::kLengthSize + ulpdu >= size, "too short for its header, and accepted");
  if (input.size() < size) return;
  const Header header = iwarp::decode_header(input.first(size));
  FUZZ_CHECK(header.payload_size + header_size(opcode) == ulpdu, "bytes are lost");
  Buffer expected(input.begin(), input.begin() + static_cast<std::ptrdiff_t>(size));
  clear_reserved(expected, opcode);
  Buffer output(size);
  FUZZ_CHECK(encode_header(header, output.data()) == size, "a header of another size");
  FUZZ_CHECK(equal(output, expected), "other bytes come back");
  FUZZ_CHECK(iwarp::check_start(output) == Fault::kNone, "our own header is refused");
}

// The short way to read and write a Send of one segment says what the long way says.
void check_plain_send(Bytes input) {
  constexpr std::size_t kSize = iwarp::kLengthSize + iwarp::kUntaggedSize;
  if (input.size() < kSize) return;
  const std::uint32_t sequence = iwarp::load32(&input[12]);
  const bool plain = iwarp::is_plain_send(input.data(), sequence);
  FUZZ_CHECK(!iwarp::is_plain_send(input.data(), sequence + 1), "another message is taken");
  if (iwarp::load16(input.data()) < iwarp::kUntaggedSize) return;
  if (iwarp::check_start(input) != Fault::kNone) {
    FUZZ_CHECK(!plain, "a bad header is plain");
    return;
  }
  const Header header = iwarp::decode_header(input);
  const bool single = header.opcode == Opcode::kSend && header.last && header.offset == 0 &&
                      header.queue == iwarp::kQueueSend;
  FUZZ_CHECK(!plain || single, "not a Send of one segment");
  if (!is_send(header.opcode) || !header.last) return;
  Header expected = header;
  expected.queue = iwarp::kQueueSend;
  expected.offset = 0;
  Buffer long_way(kSize);
  Buffer short_way(kSize);
  iwarp::encode_header(expected, long_way.data());
  iwarp::encode_send_header(header.opcode, header.ulpdu_size, header.tag, header.sequence,
                            short_way.data());
  FUZZ_CHECK(equal(long_way, short_way), "two ways to write a Send");
  FUZZ_CHECK(
      iwarp::is_plain_send(short_way.data(), header.sequence) == (header.opcode == Opcode::kSend),
      "our own Send is not plain");
}

void check_read_request(Bytes payload) {
  if (payload.size() < iwarp::kReadRequestSize) return;
  std::array<std::byte, iwarp::kReadRequestSize> output{};
  encode_read_request(iwarp::decode_read_request(payload), output.data());
  FUZZ_CHECK(equal(output, payload.first(output.size())), "a Read Request does not come back");
}

// `bad` is what Rx has of the FPDU at fault: nothing, or an FPDU whose start was looked at.
void check_our_terminate(Fault fault, Bytes bad) {
  Buffer output(iwarp::kLengthSize + iwarp::kTerminateSizeMax);
  const std::size_t ulpdu = encode_terminate(fault, bad, output.data());
  FUZZ_CHECK(ulpdu <= iwarp::kTerminateSizeMax, "a Terminate above its limit");
  FUZZ_CHECK(iwarp::check_start(output) == Fault::kNone, "our own Terminate is refused");
  const Header header = iwarp::decode_header(output);
  FUZZ_CHECK(header.opcode == Opcode::kTerminate && header.last && header.queue == 2 &&
                 header.ulpdu_size == ulpdu,
             "not a Terminate");
  const Bytes payload =
      Bytes(output).subspan(iwarp::kLengthSize + iwarp::kUntaggedSize, header.payload_size);
  const iwarp::Terminate told = iwarp::decode_terminate(payload);
  FUZZ_CHECK(told.fault == fault && told.code == code_of(fault), "another fault is reported");
  if (!told.request) return;
  const Bytes request = bad.subspan(iwarp::kLengthSize + iwarp::kUntaggedSize);
  FUZZ_CHECK(*told.request == iwarp::decode_read_request(request), "another Read is blamed");
}

void check_their_terminate(Bytes payload) {
  const iwarp::Terminate told = iwarp::decode_terminate(payload);
  FUZZ_CHECK(told.fault != Fault::kNone, "a Terminate for nothing");
  FUZZ_CHECK(told.fault == Fault::kUnknown || code_of(told.fault) == told.code, "another code");
  FUZZ_CHECK(!told.request || payload.size() >= iwarp::kReadRequestSize, "a Read out of nothing");
  FUZZ_CHECK(!to_string(told.fault).empty(), "a fault without a name");
}

// All ways to compute the CRC agree, wherever the bytes are cut.
void check_crc(Bytes input, std::size_t cut) {
  const std::uint32_t expected = iwarp::crc32c_table(0xffffffffU, input);
  iwarp::Crc32c crc;
  crc.add(input.first(cut));
  crc.add(input.subspan(cut));
  FUZZ_CHECK(crc.value() == ~expected, "the CRC depends on how it is computed");
  FUZZ_CHECK(iwarp::crc32c_sliced(0xffffffffU, input) == expected, "eight bytes at a time differ");
  FUZZ_CHECK(iwarp::crc32c_isal(0xffffffffU, input) == expected, "isa-l differs");
  if (iwarp::has_crc_instruction()) {
    FUZZ_CHECK(iwarp::crc32c_instruction(0xffffffffU, input) == expected, "the CPU differs");
  }
  std::array<std::byte, iwarp::kCrcSize> wire{};
  iwarp::store_crc(wire.data(), crc.value());
  FUZZ_CHECK(iwarp::load_crc(wire.data()) == crc.value(), "a CRC does not come back");
}

}  // namespace
}  // namespace rpcrdma::fuzz

FUZZ_TARGET(ddp_rdmap) {
  rpcrdma::fuzz::Choices choices(rpcrdma::fuzz::as_bytes(data, size));
  const std::uint8_t first = choices.u8();
  const auto fault = static_cast<rpcrdma::iwarp::Fault>(
      rpcrdma::fuzz::kFaultFirst + first % (rpcrdma::fuzz::kFaultEnd - rpcrdma::fuzz::kFaultFirst));
  const rpcrdma::Bytes input = choices.rest();
  rpcrdma::fuzz::check_crc(input, std::min<std::size_t>(first, input.size()));
  rpcrdma::fuzz::check_their_terminate(input);
  rpcrdma::fuzz::check_our_terminate(fault, {});
  if (input.size() < rpcrdma::iwarp::kLengthSize + rpcrdma::iwarp::kControlSize) return 0;
  rpcrdma::fuzz::check_header(input);
  rpcrdma::fuzz::check_plain_send(input);
  rpcrdma::fuzz::check_our_terminate(fault, input);
  rpcrdma::fuzz::check_read_request(input.subspan(4));
  return 0;
}
