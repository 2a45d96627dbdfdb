#include "wire/v2/characteristics.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "support/hex.h"

namespace rpcrdma::wire::v2 {
namespace {

using test::hex;
using xdr::DecodeError;
using xdr::Errc;
using Message = std::vector<std::byte>;

constexpr std::uint32_t kInit = 1, kReq = 2, kResp = 3, kUpd = 4;

const Message k4096 = hex("00001000"), k16384 = hex("00004000"), kTrue = hex("00000001");

// Returns the bytes that `write` writes.
template <class Write>
Message written(Write&& write) {
  Message room(512);
  xdr::Writer writer(room);
  write(writer);
  EXPECT_TRUE(writer.ok());
  room.resize(writer.position());
  return room;
}

template <class Operation>
Operation decoded(std::uint32_t type, const Message& info) {
  const auto option = decode_option(type, info);
  EXPECT_TRUE(option.has_value()) << option.error().field;
  const auto* found = option ? std::get_if<Operation>(&*option) : nullptr;
  EXPECT_NE(found, nullptr);
  return found != nullptr ? *found : Operation{};
}

std::vector<std::pair<std::uint32_t, Message>> values_of(const CharacteristicSpec& spec) {
  std::vector<std::pair<std::uint32_t, Message>> values;
  spec.for_each([&](std::uint32_t index, const CharacteristicValue& value) {
    EXPECT_EQ(index, values.size());
    values.emplace_back(value.id, Message(value.data.begin(), value.data.end()));
  });
  return values;
}

// The four examples of the specification sheet, written and read.
TEST(Characteristics, InitialValues) {
  const auto info = hex(
      "00000003  00000001 00000004 00001000  00000002 00000004 00000001  00000003 00000004 00000001"
      "  00000001 00000006");
  const std::array values{CharacteristicValue{1, k4096}, CharacteristicValue{2, kTrue},
                          CharacteristicValue{3, kTrue}};
  const std::array<std::uint32_t, 2> no_change{1, 2};
  EXPECT_EQ(written([&](xdr::Writer& writer) { write_init(writer, values, no_change); }), info);
  const auto init = decoded<InitXch>(kInit, info);
  EXPECT_EQ(values_of(init.start),
            (std::vector<std::pair<std::uint32_t, Message>>{{1, k4096}, {2, kTrue}, {3, kTrue}}));
  EXPECT_FALSE(init.no_change.contains(0));
  EXPECT_TRUE(init.no_change.contains(1));
  EXPECT_TRUE(init.no_change.contains(2));
  EXPECT_FALSE(init.no_change.contains(3));
  EXPECT_FALSE(init.no_change.contains(0xffffffff));
}

TEST(Characteristics, Requests) {
  const auto info = hex("00000001  00000001 00000004 00004000");
  const CharacteristicValue want{1, k16384};
  EXPECT_EQ(written([&](xdr::Writer& writer) { write_request(writer, {&want, 1}); }), info);
  EXPECT_EQ(values_of(decoded<ReqXch>(kReq, info).want),
            (std::vector<std::pair<std::uint32_t, Message>>{{1, k16384}}));
}

TEST(Characteristics, Responses) {
  const auto info = hex("00000000  00000000  00000001 00000001");
  const std::uint32_t first = 0;
  EXPECT_EQ(written([&](xdr::Writer& writer) {
              write_response(writer, {}, {}, {&first, 1});
            }),
            info);
  const auto response = decoded<RespXch>(kResp, info);
  EXPECT_FALSE(response.done.contains(0));
  EXPECT_FALSE(response.rejected.contains(0));
  EXPECT_TRUE(response.pending.contains(0));
}

TEST(Characteristics, Updates) {
  const auto info = hex("00000001 00000004 00004000  00000001");
  EXPECT_EQ(written([&](xdr::Writer& writer) { write_update(writer, {1, k16384}, true); }), info);
  EXPECT_EQ(decoded<UpdXch>(kUpd, info), (UpdXch{{1, k16384}, true}));
}

// Element N is bit N mod 32 of word N div 32, bit 0 being the least significant.
TEST(Characteristics, SubsetsReachOverSeveralWords) {
  const std::array<std::uint32_t, 3> indices{0, 31, 33};
  const auto info = written([&](xdr::Writer& writer) { write_response(writer, indices, {}, {}); });
  EXPECT_EQ(info, hex("00000002 80000001 00000002 00000000 00000000"));
  const auto response = decoded<RespXch>(kResp, info);
  for (std::uint32_t i = 0; i < 70; ++i) {
    EXPECT_EQ(response.done.contains(i), i == 0 || i == 31 || i == 33) << i;
  }
}

TEST(Characteristics, UnknownOptionsAreNamedAsSuch) {
  for (const std::uint32_t type : {0U, 5U, 0xffffffffU}) {
    const auto option = decode_option(type, hex("deadbeef"));
    ASSERT_TRUE(option.has_value());
    EXPECT_TRUE(std::holds_alternative<UnknownOption>(*option));
  }
}

//
TEST(Characteristics, ValueThatReachesBeyondTheMessageIsRefused) {
  EXPECT_EQ(decode_option(kReq, hex("00000001 00000001 00000008 00004000")).error().code,
            Errc::kTruncated);
  EXPECT_EQ(decode_option(kUpd, hex("00000001 ffffffff 00004000")).error().code, Errc::kTruncated);
}

TEST(Characteristics, CountsThatCannotBeTrueAreRefusedBeforeAnythingIsRead) {
  EXPECT_EQ(decode_option(kReq, hex("ffffffff 00000001 00000000")).error(),
            (DecodeError{Errc::kTruncated, 0, "xcharspec"}));
  EXPECT_EQ(decode_option(kResp, hex("40000000 00000001 00000000")).error().code, Errc::kTruncated);
}

TEST(Characteristics, TrailingBytesAreRefused) {
  EXPECT_EQ(decode_option(kReq, hex("00000000 00000000")).error().code, Errc::kTrailing);
}

//
TEST(Characteristics, ValuesOfKnownTypes) {
  const Message three = hex("000001"), longer = hex("0000000100000009"), other = hex("00000003");
  EXPECT_EQ(as_number({1, k16384}), 16384U);
  EXPECT_EQ(as_number({1, three}), std::nullopt);
  EXPECT_EQ(as_number({1, longer}), 1U) << "what is behind the value is ignored";
  EXPECT_EQ(as_boolean({2, kTrue}), true);
  EXPECT_EQ(as_boolean({2, other}), std::nullopt);
  EXPECT_EQ(as_boolean({2, {}}), std::nullopt);
  EXPECT_EQ(as_backward_support({3, kTrue}), BackwardSupport::kInline);
  EXPECT_EQ(as_backward_support({3, other}), std::nullopt);
}

TEST(Characteristics, NoStrictPrefixOfAnOperationDecodes) {
  const Message infos[] = {hex("00000002 00000001 00000004 00001000 ffffff00 00000005 "
                               "0102030405000000 00000001 00000002"),
                           hex("00000002 00000001 00000004 00001000 ffffff00 00000000"),
                           hex("00000001 00000001 00000000 00000002 00000000 80000000"),
                           hex("ffffff01 00000006 0102030405060000 00000000")};
  for (std::uint32_t type = kInit; type <= kUpd; ++type) {
    const Message& info = infos[type - 1];
    ASSERT_TRUE(decode_option(type, info).has_value()) << type;
    for (std::size_t cut = 0; cut < info.size(); ++cut) {
      EXPECT_FALSE(decode_option(type, Bytes(info).first(cut)).has_value()) << type << " " << cut;
    }
  }
}

// Whatever bytes come: decoding ends, and views stay within them.
TEST(Characteristics, RandomBytesAreDecodedOrRefused) {
  SeededRandom random(25);
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    Message info(4 * random.below(12));
    for (std::size_t i = 0; i < info.size(); i += 4) {
      xdr::store_word(info.data() + i, static_cast<std::uint32_t>(random.below(6)));
    }
    const auto type = static_cast<std::uint32_t>(1 + random.below(4));
    const auto option = decode_option(type, info);
    if (!option) continue;
    ++accepted;
    if (const auto* init = std::get_if<InitXch>(&*option)) {
      std::uint32_t count = 0;
      init->start.for_each([&](std::uint32_t, const CharacteristicValue& value) {
        ++count;
        EXPECT_LE(value.data.size(), info.size());
      });
      EXPECT_EQ(count, init->start.size());
    }
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace rpcrdma::wire::v2
