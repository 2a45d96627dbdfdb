// RPC messages (RFC 5531): headers and AUTH_SYS come back as they were, refused Calls have an
// answer that can be sent, and a message whose bulk items were moved reads like the whole one.
//
// Input: which of the four, then its bytes.
#include <array>
#include <initializer_list>
#include <optional>
#include <span>

#include "fuzz/fuzz.h"
#include "oncrpc/message.h"
#include "rpcrdma/message.h"
#include "rpcrdma/oncrpc.h"

namespace rpcrdma::fuzz {
namespace {

// `opaques`: what of the input is of variable length.
template <class Encode>
void check_comes_back(Bytes input, std::size_t size, std::initializer_list<Bytes> opaques,
                      Encode encode) {
  Buffer output(size + 4, std::byte{0xa5});
  xdr::Writer writer(output);
  encode(writer);
  FUZZ_CHECK(writer.ok() && writer.position() == size, "a header of another size");
  WithZeroFill expected(input.first(size));
  for (const Bytes item : opaques) expected.clear_behind(item);
  FUZZ_CHECK(equal(Bytes(output).first(size), expected.bytes()), "other bytes come back");
}

bool is_plain(const Credential& credential) {
  return credential.flavor == AuthFlavor::kNone && credential.body.empty();
}

// The short way through plain headers takes just those that the long way finds plain.
void check_plain_call(Bytes input, const Expected<oncrpc::CallHeader, oncrpc::BadCall>& call) {
  oncrpc::CallHeader header{};
  const bool taken = oncrpc::take_plain_call(input, header);
  FUZZ_CHECK(taken == (call && is_plain(call->credential) && is_plain(call->verifier)),
             "a Call is plain on one way only");
  FUZZ_CHECK(!taken || header == *call, "the two ways read different Calls");
}

void check_plain_reply(Bytes input, const Expected<oncrpc::ReplyHeader, xdr::DecodeError>& reply) {
  const Xid xid{xdr::Reader(input).u32("xid")};
  const auto* accepted = reply ? std::get_if<oncrpc::Accepted>(&reply->body) : nullptr;
  const bool plain = accepted != nullptr && accepted->status == AcceptStatus::kSuccess &&
                     is_plain(accepted->verifier);
  FUZZ_CHECK(oncrpc::is_plain_success(input, xid) == plain, "plain on one way only");
  const Xid other{static_cast<std::uint32_t>(xid) ^ 1U};
  FUZZ_CHECK(!oncrpc::is_plain_success(input, other), "a reply to somebody else");
}

void check_call(Bytes input) {
  xdr::Reader reader(input);
  const auto call = oncrpc::decode_call(reader);
  check_plain_call(input, call);
  if (call) {
    FUZZ_CHECK(reader.ok() && reader.position() <= oncrpc::kCallHeaderSizeMax &&
                   reader.position() >= oncrpc::kCallHeaderSizeMin,
               "a Call header of an impossible size");
    FUZZ_CHECK(within(call->credential.body, input) && within(call->verifier.body, input),
               "a credential leaves the message");
    check_comes_back(input, reader.position(), {call->credential.body, call->verifier.body},
                     [&](xdr::Writer& writer) { encode_call(*call, writer); });
    return;
  }
  FUZZ_CHECK(!reader.ok() && call.error().error == reader.error(), "a failure that is not told");
  if (!call.error().answer) return;
  const oncrpc::ReplyHeader& answer = *call.error().answer;
  FUZZ_CHECK(static_cast<std::uint32_t>(answer.xid) == xdr::Reader(input).u32("xid"),
             "an answer to somebody else");
  std::array<std::byte, oncrpc::kReplyHeaderSizeMax> output{};
  xdr::Writer writer(output);
  encode_reply(answer, writer);
  FUZZ_CHECK(writer.ok(), "an answer above its limit");
  xdr::Reader back(Bytes(output).first(writer.position()));
  const auto understood = oncrpc::decode_reply(back);
  FUZZ_CHECK(understood && *understood == answer && back.rest().empty(), "cannot be understood");
}

void check_reply(Bytes input) {
  xdr::Reader reader(input);
  const auto reply = oncrpc::decode_reply(reader);
  check_plain_reply(input, reply);
  FUZZ_CHECK(reply.has_value() == reader.ok(), "a failure that is not told");
  if (!reply) return;
  FUZZ_CHECK(reader.position() <= oncrpc::kReplyHeaderSizeMax, "a reply header above its limit");
  const auto* accepted = std::get_if<oncrpc::Accepted>(&reply->body);
  check_comes_back(input, reader.position(),
                   {accepted != nullptr ? accepted->verifier.body : Bytes{}},
                   [&](xdr::Writer& writer) { encode_reply(*reply, writer); });
}

void check_auth_sys(Bytes input) {
  const auto parsed = parse_auth_sys(input);
  if (!parsed) return;
  FUZZ_CHECK(parsed->gid_count <= kGidsMax && parsed->machine_name.size() <= kMachineNameSizeMax,
             "a count above its limit");
  Buffer output(input.size());
  const auto size = encode_auth_sys(*parsed, output);
  WithZeroFill expected(input);
  expected.clear_behind(std::as_bytes(std::span(parsed->machine_name)));
  FUZZ_CHECK(size && *size == input.size() && equal(output, expected.bytes()),
             "AUTH_SYS does not come back");
}

// A message of words and opaques, some of which are moved out of it, read back as a peer's.
void check_moved_items(Choices& choices) {
  constexpr std::size_t kItems = 12;
  std::array<Buffer, kItems> items;
  std::array<bool, kItems> moved{};
  Buffer stream(16 * 1024);
  xdr::Writer writer(stream);
  std::vector<MessageReader::Placed> placed;
  std::vector<Buffer> places;
  places.reserve(kItems);
  const std::size_t count = choices.below(kItems);
  const bool in_order = choices.flag();
  std::size_t position = 0;  // in the whole message
  for (std::size_t i = 0; i < count; ++i) {
    writer.u32(static_cast<std::uint32_t>(i));
    const std::uint8_t kind = choices.u8();
    items[i].resize(choices.u8());
    fill(items[i], kind);
    moved[i] = (kind & 1U) != 0 && placed.size() < kBulkItemsMax;
    position += 2 * xdr::kWordSize;
    if (moved[i]) {
      writer.u32(static_cast<std::uint32_t>(items[i].size()));
      // RFC 8166 §3.4.5.2: a chunk may hold the padding or not.
      Buffer& place = places.emplace_back(items[i]);
      if ((kind & 2U) != 0) place.resize(xdr::padded_memory(place.size()));
      placed.push_back(
          {in_order ? MessageReader::kInOrder : static_cast<std::uint32_t>(position), place});
    } else {
      // In order of position, what was left inside has an empty place.
      if (in_order && placed.size() < kBulkItemsMax)
        placed.push_back({MessageReader::kInOrder, {}});
      else if (in_order)
        return;
      writer.opaque(items[i]);
    }
    position += xdr::padded_memory(items[i].size());
  }
  if (!writer.ok()) return;
  MessageReader reader(Bytes(stream).first(writer.position()), 0, placed);
  for (std::size_t i = 0; i < count; ++i) {
    FUZZ_CHECK(reader.xdr().u32("number") == i, "a word is read at the wrong place");
    const Bytes item = reader.bulk(256, "item");
    FUZZ_CHECK(equal(item, items[i]), "another item");
    FUZZ_CHECK(item.empty() || reader.last_was_placed() == moved[i], "from the wrong place");
  }
  FUZZ_CHECK(reader.finish(), "a good message is refused");
}

// The same reader with whatever a peer may claim.
void check_claimed_items(Choices& choices) {
  std::vector<MessageReader::Placed> placed(choices.below(10));
  Buffer memory(256);
  for (auto& item : placed) {
    const std::uint8_t at = choices.u8();
    item.position = at == 255 ? MessageReader::kInOrder : at;
    item.data = Bytes(memory).first(choices.u8());
  }
  const std::size_t offset = choices.u8();
  const std::size_t reads = choices.below(16);
  const Bytes stream = choices.rest();
  MessageReader reader(stream, offset, placed);
  for (std::size_t i = 0; i < reads; ++i) {
    const Bytes item = reader.bulk(128, "item");
    FUZZ_CHECK(item.size() <= 128, "above the limit");
    FUZZ_CHECK(reader.last_was_placed() ? within(item, memory) : within(item, stream),
               "a view of something else");
    if (i % 3 == 2) (void)reader.xdr().u32("number");
    FUZZ_CHECK(reader.ok() || item.empty() || i % 3 == 2, "a value behind a failure");
  }
  (void)reader.finish();
}

}  // namespace
}  // namespace rpcrdma::fuzz

FUZZ_TARGET(rpc_message) {
  rpcrdma::fuzz::Choices choices(rpcrdma::fuzz::as_bytes(data, size));
  switch (choices.below(5)) {
    case 0:
      rpcrdma::fuzz::check_call(choices.rest());
      break;
    case 1:
      rpcrdma::fuzz::check_reply(choices.rest());
      break;
    case 2:
      rpcrdma::fuzz::check_auth_sys(choices.rest());
      break;
    case 3:
      rpcrdma::fuzz::check_moved_items(choices);
      break;
    default:
      rpcrdma::fuzz::check_claimed_items(choices);
      break;
  }
  return 0;
}
