// RFC 8797: the structure is found where a plain search finds it, and what follows from it stays
// within our own options.
//
// Input: two bytes for our options, then the peer's private data.
#include <cstring>
#include <optional>

#include "engine/connection.h"
#include "fuzz/fuzz.h"
#include "wire/private_data.h"

namespace rpcrdma::fuzz {
namespace {

using wire::PrivateData;

constexpr std::uint8_t kIdentifier[] = {0xf6, 0xab, 0x0e, 0x18};

std::optional<PrivateData> plain_search(Bytes input) {
  for (std::size_t at = 0; at + wire::kPrivateDataSize <= input.size(); ++at) {
    if (std::memcmp(&input[at], kIdentifier, sizeof kIdentifier) != 0) continue;
    if (input[at + 4] != std::byte{1}) return std::nullopt;
    return PrivateData{(std::to_integer<unsigned>(input[at + 5]) & 1U) != 0,
                       1024 + 1024 * std::to_integer<std::uint32_t>(input[at + 6]),
                       1024 + 1024 * std::to_integer<std::uint32_t>(input[at + 7])};
  }
  return std::nullopt;
}

void check_negotiation(Bytes input, const std::optional<PrivateData>& peer, Choices& choices) {
  engine::Options options;
  options.inline_send = 1024 * (1U + choices.u8());
  options.inline_receive = 1024 * (1U + choices.u8());
  const engine::LinkParameters agreed = engine::negotiate(options, input, 3);
  const PrivateData known = peer.value_or(PrivateData{false, 1024, 1024});
  FUZZ_CHECK(agreed.inline_send == std::min(options.inline_send, known.receive_size),
             "we may send more than the peer takes, or less than both can");
  FUZZ_CHECK(agreed.inline_receive == std::min(options.inline_receive, known.send_size),
             "the peer may send more than we take, or less than both can");
  FUZZ_CHECK(agreed.inline_send >= 1024 && agreed.inline_receive >= 1024, "below RFC 8166");
  FUZZ_CHECK(agreed.remote_invalidation == known.takes_invalidation, "flag R");
  FUZZ_CHECK(agreed.reads_in_flight_max == 3, "not for private data to say");
}

}  // namespace
}  // namespace rpcrdma::fuzz

FUZZ_TARGET(private_data) {
  rpcrdma::fuzz::Choices choices(rpcrdma::fuzz::as_bytes(data, size));
  rpcrdma::fuzz::Choices options(choices.take(2));
  const rpcrdma::Bytes input = choices.rest();
  const auto found = rpcrdma::wire::find_private_data(input);
  FUZZ_CHECK(found == rpcrdma::fuzz::plain_search(input), "found what is not there, or not found");
  if (found) {
    const auto encoded = rpcrdma::wire::encode(*found);
    FUZZ_CHECK(rpcrdma::wire::find_private_data(encoded) == found, "does not come back");
  }
  rpcrdma::fuzz::check_negotiation(input, found, options);
  return 0;
}
