#include "support/rfc4121_context.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "support/hex.h"

namespace rpcrdma::test {
namespace {

using Message = std::vector<std::byte>;
using Side = Rfc4121Context::Side;

const Message kText = hex("00000016 6f6e6520 74776f");

Rfc4121Key key_of(krb5_enctype type, std::size_t size) {
  return {type, Message(size, std::byte{0x5a})};
}
// AES-128 and AES-256, each with SHA-1 and SHA-2; and the bytes of their checksums.
struct Kind {
  Rfc4121Key key;
  std::size_t checksum_size;
};
std::vector<Kind> kinds() {
  return {{key_of(17, 16), 12}, {key_of(18, 32), 12}, {key_of(19, 16), 16}, {key_of(20, 32), 24}};
}

Message wrapped(Rfc4121Context& sender) {
  Message token(sender.wrap_header_size() + kText.size() + sender.wrap_trailer_size());
  std::ranges::copy(kText, token.begin() + static_cast<std::ptrdiff_t>(sender.wrap_header_size()));
  EXPECT_FALSE(sender.wrap(token).is_error());
  return token;
}

TEST(Rfc4121Context, ChecksumsAreThoseOfTheOtherSide) {
  for (const Kind& kind : kinds()) {
    Rfc4121Context client(kind.key, Side::kInitiator), server(kind.key, Side::kAcceptor);
    client.set_next_number(0x1122334455667788);
    const std::array<Bytes, 2> pieces{Bytes(kText).first(3), Bytes(kText).subspan(3)};
    const Bytes whole(kText);
    Message checksum;
    ASSERT_FALSE(client.checksum(pieces, checksum).is_error());
    EXPECT_EQ(to_hex(Bytes(checksum).first(16)), "040404ff ffffffff 11223344 55667788");
    EXPECT_EQ(checksum.size(), 16 + kind.checksum_size);
    EXPECT_TRUE(server.is_checksum_of({&whole, 1}, checksum));
    EXPECT_FALSE(client.is_checksum_of({&whole, 1}, checksum));
    EXPECT_FALSE(server.is_checksum_of(std::span(pieces).first(1), checksum));
    EXPECT_FALSE(server.is_checksum_of({&whole, 1}, Bytes(checksum).first(20)));
  }
}

TEST(Rfc4121Context, TokensAreOpenedByTheOtherSideHoweverTheyAreTurned) {
  for (const Kind& kind : kinds()) {
    Rfc4121Context client(kind.key, Side::kInitiator), server(kind.key, Side::kAcceptor);
    const Message token = wrapped(server);
    EXPECT_EQ(token.size(), 48 + kText.size() + kind.checksum_size);
    for (const std::size_t turn : {0UL, 1UL, 28UL, 76UL, 1000UL}) {
      Message turned = token;
      const std::size_t size = turned.size() - 16;
      std::rotate(turned.begin() + 16, turned.end() - static_cast<std::ptrdiff_t>(turn % size),
                  turned.end());
      turned[6] = std::byte(turn >> 8U);
      turned[7] = std::byte(turn);
      Message other = turned;
      EXPECT_FALSE(server.unwrap(other));
      const auto opened = client.unwrap(turned);
      ASSERT_TRUE(opened) << turn;
      EXPECT_EQ(to_hex(*opened), to_hex(kText));
    }
  }
}

TEST(Rfc4121Context, TokensThatWereChangedOrCutAreNotOpened) {
  for (const Kind& kind : kinds()) {
    Rfc4121Context client(kind.key, Side::kInitiator), server(kind.key, Side::kAcceptor);
    const Message token = wrapped(client);
    for (std::size_t at = 0; at < token.size(); ++at) {
      Message changed = token, cut(token.begin(), token.begin() + static_cast<std::ptrdiff_t>(at));
      changed[at] ^= std::byte{0x10};
      EXPECT_FALSE(server.unwrap(changed)) << at;
      EXPECT_FALSE(server.unwrap(cut)) << at;
    }
  }
}

}  // namespace
}  // namespace rpcrdma::test
