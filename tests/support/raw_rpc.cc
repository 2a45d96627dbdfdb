#include "support/raw_rpc.h"

#include <algorithm>
#include <array>

#include "iwarp/byte_order.h"
#include "rpcrdma/xdr.h"
#include "support/rpc_fixture.h"
#include "wire/private_data.h"

namespace rpcrdma::test {

Message words(std::initializer_list<std::uint32_t> values) {
  Message bytes(4 * values.size());
  xdr::Writer writer(bytes);
  for (const std::uint32_t value : values) writer.u32(value);
  return bytes;
}

std::vector<std::uint32_t> to_words(Bytes bytes) {
  xdr::Reader reader(bytes);
  std::vector<std::uint32_t> values;
  while (reader.rest().size() >= 4) values.push_back(reader.u32("word"));
  return values;
}

Message join(std::initializer_list<Message> parts) {
  Message whole;
  for (const Message& part : parts) whole.insert(whole.end(), part.begin(), part.end());
  return whole;
}

Message first(const Message& message, std::size_t size) {
  return {message.begin(), message.begin() + static_cast<std::ptrdiff_t>(size)};
}

Message raw_header(std::uint32_t xid, std::uint32_t type, std::uint32_t version) {
  return words({xid, version, 32, type});
}

Message raw_call(std::uint32_t xid, std::uint32_t procedure) {
  return words({xid, 0, 2, TestService::kProgram, TestService::kVersion, procedure, 0, 0, 0, 0});
}

Message raw_reply(std::uint32_t xid) {
  return words({xid, 1, 0, 0, 0, 0});
}

Message record(const Message& message) {
  return join({words({0x80000000U | static_cast<std::uint32_t>(message.size())}), message});
}

RawMpa RawTalk::mpa(bool crc) {
  RawMpa mpa;
  mpa.crc = crc;
  const auto data = wire::encode(wire::PrivateData{true, 4096, 4096});
  mpa.private_data.assign(data.begin(), data.end());
  return mpa;
}

bool RawTalk::send(Bytes message) {
  return peer_->send(send_fpdu(message));
}

bool RawTalk::send_invalidating(std::uint32_t tag, Bytes message) {
  Message ulpdu = raw_send(sequence_++, message);
  ulpdu[1] = std::byte{0x44};
  iwarp::store32(&ulpdu[2], tag);
  return send_ulpdu(ulpdu);
}

bool RawTalk::send_tagged(iwarp::Header header, Bytes data) {
  header.ulpdu_size = static_cast<std::uint16_t>(iwarp::kTaggedSize + data.size());
  header.payload_size = static_cast<std::uint32_t>(data.size());
  std::array<std::byte, iwarp::kLengthSize + iwarp::kUntaggedSize> start{};
  const std::size_t size = iwarp::encode_header(header, start.data());
  Message ulpdu(start.begin() + iwarp::kLengthSize,
                start.begin() + static_cast<std::ptrdiff_t>(size));
  ulpdu.insert(ulpdu.end(), data.begin(), data.end());
  return send_ulpdu(ulpdu);
}

bool RawTalk::write(std::uint32_t tag, std::uint64_t address, Bytes data) {
  iwarp::Header header;
  header.opcode = iwarp::Opcode::kWrite;
  header.last = true;
  header.tag = SteeringTag{tag};
  header.address = address;
  return send_tagged(header, data);
}

bool RawTalk::read_response(std::uint32_t tag, std::uint64_t address, Bytes data, bool last) {
  iwarp::Header header;
  header.opcode = iwarp::Opcode::kReadResponse;
  header.last = last;
  header.tag = SteeringTag{tag};
  header.address = address;
  return send_tagged(header, data);
}

bool RawTalk::read_request(std::uint32_t sequence, const iwarp::ReadRequest& request) {
  Message ulpdu(iwarp::kUntaggedSize + iwarp::kReadRequestSize);
  ulpdu[0] = std::byte{0x41};
  ulpdu[1] = std::byte{0x41};
  iwarp::store32(&ulpdu[6], iwarp::kQueueReadRequest);
  iwarp::store32(&ulpdu[10], sequence);
  iwarp::encode_read_request(request, &ulpdu[iwarp::kUntaggedSize]);
  return send_ulpdu(ulpdu);
}

bool RawTalk::terminate(iwarp::Fault fault, Bytes bad) {
  Message bytes(iwarp::kLengthSize + iwarp::kTerminateSizeMax);
  const std::size_t size = iwarp::encode_terminate(fault, bad, bytes.data());
  return send_ulpdu(Bytes(bytes).subspan(iwarp::kLengthSize, size));
}

std::optional<RawTalk::Fpdu> RawTalk::next() {
  const Message fpdu = peer_->receive_fpdu();
  if (fpdu.size() < 4 || iwarp::check_start(fpdu) != iwarp::Fault::kNone) return std::nullopt;
  Fpdu found{iwarp::decode_header(fpdu), {}, fpdu};
  const Bytes payload = Bytes(fpdu).subspan(
      iwarp::kLengthSize + iwarp::header_size(found.header.opcode), found.header.payload_size);
  found.payload.assign(payload.begin(), payload.end());
  return found;
}

std::optional<Message> RawTalk::next_message() {
  while (auto fpdu = next()) {
    if (iwarp::is_send(fpdu->header.opcode)) return std::move(fpdu->payload);
  }
  return std::nullopt;
}

std::optional<iwarp::Fault> RawTalk::fault_at_end() {
  const auto bytes = peer_->receive_to_end();
  if (!bytes) return std::nullopt;
  for (Bytes rest = *bytes; rest.size() >= 4;) {
    const std::size_t size = iwarp::fpdu_size(iwarp::load16(rest.data()));
    if (size > rest.size()) break;
    const iwarp::Header header = iwarp::decode_header(rest);
    if (header.opcode == iwarp::Opcode::kTerminate) {
      const std::size_t start = iwarp::kLengthSize + iwarp::kUntaggedSize;
      return iwarp::decode_terminate(rest.subspan(start, header.payload_size)).fault;
    }
    rest = rest.subspan(size);
  }
  return iwarp::Fault::kNone;
}

}  // namespace rpcrdma::test
