#include "gss/wrapping.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "support/fake_mechanism.h"
#include "support/gss_body.h"

namespace rpcrdma::gss {
namespace {

using test::FakeContext;

class Wrapping : public ::testing::TestWithParam<Service> {
 protected:
  FakeContext client_{{}, true, 7}, server_{{}, false, 7};
};

INSTANTIATE_TEST_SUITE_P(OverEach, Wrapping,
                         ::testing::Values(Service::kIntegrity, Service::kPrivacy),
                         [](const auto& each) {
                           return each.param == Service::kIntegrity ? "integrity" : "privacy";
                         });

std::vector<std::byte> numbered(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = std::byte(i * 7);
  return bytes;
}

TEST_P(Wrapping, GivesBackWhatWasWrappedForTheNumber) {
  for (const std::size_t size : {0U, 4U, 100U, 100'000U}) {
    const auto data = numbered(size);
    const std::array<Bytes, 3> pieces{Bytes(data).first(size / 3), Bytes{},
                                      Bytes(data).subspan(size / 3)};
    const auto wrapped = test::wrap_body(client_, GetParam(), 9, pieces);
    ASSERT_FALSE(wrapped.empty());
    EXPECT_EQ(wrapped.size() % 4, 0U);
    EXPECT_EQ(test::unwrap_body(server_, GetParam(), 9, wrapped), data);
    EXPECT_FALSE(test::unwrap_body(server_, GetParam(), 8, wrapped)) << "that of another number";
    EXPECT_FALSE(test::unwrap_body(client_, GetParam(), 9, wrapped)) << "its own, sent back";
  }
}

TEST_P(Wrapping, RefusesABodyThatIsCutOrChangedAnywhere) {
  const auto data = numbered(40);
  const Bytes piece(data);
  const auto wrapped = test::wrap_body(client_, GetParam(), 9, {&piece, 1});
  for (std::size_t size = 0; size < wrapped.size(); ++size) {
    EXPECT_FALSE(test::unwrap_body(server_, GetParam(), 9, Bytes(wrapped).first(size))) << size;
  }
  for (std::size_t at = 0; at < wrapped.size(); ++at) {
    auto changed = wrapped;
    changed[at] ^= std::byte{0x10};
    const auto found = test::unwrap_body(server_, GetParam(), 9, changed);
    // Fill bytes, and those of a token's header that the fake mechanism does not look at.
    EXPECT_TRUE(!found || found == data) << at;
  }
}

// As the formulas have it (gss.md G-82): the room for results is calculated by them.
TEST_P(Wrapping, HasTheSizesOfTheFormulas) {
  const test::FakeSettings sizes{.checksum_size = 13, .header_size = 5, .trailer_size = 8};
  FakeContext context(sizes, true, 7);
  for (std::size_t size = 0; size < 64; size += 4) {
    const auto data = numbered(size);
    const Bytes piece(data);
    EXPECT_EQ(test::wrap_body(context, GetParam(), 1, {&piece, 1}).size(),
              GetParam() == Service::kIntegrity ? 8 + size + 4 + 16 : 4 + xdr::padded(17 + size));
  }
}

TEST_P(Wrapping, FailsWithTheMechanism) {
  client_.fails = true;
  const auto data = numbered(8);
  const Bytes piece(data);
  EXPECT_TRUE(test::wrap_body(client_, GetParam(), 1, {&piece, 1}).empty());
}

TEST_P(Wrapping, UnwrapsInPlace) {
  const auto data = numbered(1000);
  const Bytes piece(data);
  auto wrapped = test::wrap_body(client_, GetParam(), 1, {&piece, 1});
  const auto found = unwrap(server_, GetParam(), 1, wrapped);
  ASSERT_TRUE(found);
  EXPECT_GE(found->data(), wrapped.data());
  EXPECT_LE(found->data() + found->size(), wrapped.data() + wrapped.size());
}

TEST(Enclosing, LeavesThePiecesWhereTheyAre) {
  FakeContext context({}, true, 7);
  const auto data = numbered(1U << 20U);
  const Bytes piece(data);
  WrapRoom room;
  const auto enclosure = enclose(context, 1, {&piece, 1}, room);
  ASSERT_TRUE(enclosure);
  EXPECT_EQ(enclosure->before.size(), 8U);
  EXPECT_EQ(enclosure->after.size(), 4 + xdr::padded(test::FakeSettings{}.checksum_size));
  EXPECT_EQ(room.bytes.size(), enclosure->before.size() + enclosure->after.size());
}

}  // namespace
}  // namespace rpcrdma::gss
