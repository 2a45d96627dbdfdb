// The vectors of version 2: the bytes decode to the expected value, the value encodes to the bytes,
// and no strict prefix of a header decodes.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "support/hex.h"
#include "wire/v2/characteristics.h"
#include "wire/v2/header.h"

namespace rpcrdma::wire::v2 {
namespace {

constexpr std::uint32_t kXid = 0x11223344;

std::vector<std::byte> vector_named(const std::string& name) {
  return test::load_hex(std::string(RPCRDMA_GOLDEN_DIR) + "/" + name + ".hex");
}

struct Case {
  std::string name;
  Body body;
  std::size_t payload_size = 0;
  std::uint32_t version = kVersion;
  std::optional<ReadSegment> read{};
  std::optional<Segment> write{};
};

void PrintTo(const Case& value, std::ostream* out) {
  *out << value.name;
}

std::vector<Case> header_cases() {
  return {
      {"v2-msg-short-call", Msg{Direction::kCall}, 40},
      {"v2-msg-reply",
       Msg{Direction::kReply},
       0,
       kVersion,
       {},
       Segment{SteeringTag{0x2001}, 5000, 0x10000}},
      {"v2-nomsg-long-call", NoMsg{Direction::kCall}, 0, kVersion,
       ReadSegment{0, {SteeringTag{0x4001}, 9000, 0x50000}}},
      {"v2-error-vers", ErrVers{1, 2}, 0, 3},
      {"v2-error-bad-header", ErrBadHeader{}},
      {"v2-error-inval-option", ErrInvalOption{}},
  };
}
const std::vector<std::string>& option_names() {
  static const std::vector<std::string> names{"v2-initxch", "v2-reqxch", "v2-respxch", "v2-updxch"};
  return names;
}

ChunkLists lists_of(const Case& value) {
  ChunkLists lists;
  if (value.read) {
    EXPECT_TRUE(lists.reads.push_back(*value.read));
  }
  if (value.write) {
    EXPECT_TRUE(lists.writes.push_back({&*value.write, 1}));
  }
  return lists;
}

class GoldenV2 : public ::testing::TestWithParam<Case> {};

TEST_P(GoldenV2, BytesAndValueAreTheSame) {
  const auto message = vector_named(GetParam().name);
  const Header header{Xid{kXid}, GetParam().version, 32, GetParam().body};
  ChunkLists lists;
  const auto decoded = decode(message, Limits{}, lists);
  ASSERT_TRUE(decoded.has_value()) << decoded.error().field;
  EXPECT_EQ(decoded->header, header);
  EXPECT_EQ(lists, lists_of(GetParam()));
  EXPECT_EQ(decoded->payload.size(), GetParam().payload_size);
  std::vector<std::byte> out(encoded_size(header, lists));
  ASSERT_EQ(out.size() + GetParam().payload_size, message.size());
  ASSERT_EQ(encode(header, lists, out).value(), out.size());
  EXPECT_EQ(test::to_hex(out), test::to_hex(Bytes(message).first(out.size())));
  for (std::size_t cut = 0; cut < out.size(); ++cut) {
    EXPECT_FALSE(decode(Bytes(message).first(cut), Limits{}, lists).has_value()) << cut;
  }
}

INSTANTIATE_TEST_SUITE_P(Documented, GoldenV2, ::testing::ValuesIn(header_cases()),
                         [](const auto& each) {
                           std::string name = each.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// The Linux server's answer to version 2 reads the same in both versions.
TEST(GoldenV2Captured, LinuxRefusesVersionTwo) {
  const auto message = vector_named("linux-error-vers");
  ChunkLists lists;
  const auto decoded = decode(message, Limits{}, lists);
  ASSERT_TRUE(decoded.has_value()) << decoded.error().field;
  EXPECT_EQ(decoded->header, (Header{Xid{0x6c47c049}, 2, 64, ErrVers{1, 1}}));
  std::vector<std::byte> out(encoded_size(decoded->header, lists));
  ASSERT_EQ(encode(decoded->header, lists, out).value(), message.size());
  EXPECT_EQ(out, message);
}

// These messages are the four operations of the characteristics.
TEST(GoldenCharacteristics, AreWrittenAndReadAsTheyAreExplained) {
  using Direction::kCall, Direction::kReply;
  const auto k4096 = test::hex("00001000"), k16384 = test::hex("00004000");
  const auto yes = test::hex("00000001");
  const std::array start{CharacteristicValue{1, k4096}, CharacteristicValue{2, yes},
                         CharacteristicValue{3, yes}};
  const std::array<std::uint32_t, 2> no_change{1, 2};
  const CharacteristicValue larger{1, k16384};
  const std::uint32_t first = 0;
  for (std::size_t i = 0; i < option_names().size(); ++i) {
    std::vector<std::byte> info(128);
    xdr::Writer writer(info);
    if (i == 0) write_init(writer, start, no_change);
    if (i == 1) write_request(writer, {&larger, 1});
    if (i == 2) write_response(writer, {}, {}, {&first, 1});
    if (i == 3) write_update(writer, larger, true);
    info.resize(writer.position());
    const auto type = static_cast<std::uint32_t>(i + 1);
    const Header header{Xid{kXid}, kVersion, 32, Optional{i < 2 ? kCall : kReply, type, info}};
    const auto message = vector_named(option_names()[i]);
    std::vector<std::byte> out(encoded_size(header, {}));
    ASSERT_EQ(encode(header, {}, out).value(), out.size());
    EXPECT_EQ(test::to_hex(out), test::to_hex(message)) << option_names()[i];
    ChunkLists lists;
    const auto decoded = decode(message, Limits{}, lists);
    ASSERT_TRUE(decoded.has_value()) << option_names()[i];
    EXPECT_EQ(decoded->header, header);
    const auto option = decode_option(type, std::get<Optional>(decoded->header.body).info);
    ASSERT_TRUE(option.has_value()) << option_names()[i];
    EXPECT_EQ(option->index(), type);
  }
}

TEST(GoldenFolder, EveryVectorOfVersionTwoIsExplainedAndExpected) {
  std::set<std::string> expected(option_names().begin(), option_names().end());
  for (const auto& value : header_cases()) expected.insert(value.name);
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(RPCRDMA_GOLDEN_DIR)) {
    const std::string name = entry.path().stem().string();
    if (entry.path().extension() != ".hex" || !name.starts_with("v2-")) continue;
    found.insert(name);
    auto explanation = entry.path();
    EXPECT_TRUE(std::filesystem::exists(explanation.replace_extension(".txt"))) << entry.path();
  }
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace rpcrdma::wire::v2
