// Runs every vector of this folder: the bytes decode to the expected value, the value encodes to
// the bytes, and no strict prefix of a header decodes.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "support/hex.h"
#include "wire/private_data.h"
#include "wire/v1/header.h"

namespace rpcrdma::wire {
namespace {

using Segments = std::vector<Segment>;

std::vector<std::byte> vector_named(const std::string& name) {
  return test::load_hex(std::string(RPCRDMA_GOLDEN_DIR) + "/" + name + ".hex");
}

struct Case {
  std::string name;
  v1::Header header;
  std::size_t payload_size = 0;
  std::vector<ReadSegment> reads{};
  std::vector<Segments> writes{};
  std::optional<Segments> reply{};
};

void PrintTo(const Case& value, std::ostream* out) {
  *out << value.name;
}

Segment segment(std::uint32_t handle, std::uint32_t length, std::uint64_t offset) {
  return {SteeringTag{handle}, length, offset};
}

v1::Header header(std::uint32_t xid, std::uint32_t credits, v1::Body body,
                  std::uint32_t version = 1) {
  return {Xid{xid}, version, credits, body};
}

wire::ChunkLists lists_of(const Case& value) {
  wire::ChunkLists lists;
  EXPECT_TRUE(lists.reads.assign(value.reads));
  for (const Segments& chunk : value.writes) EXPECT_TRUE(lists.writes.push_back(chunk));
  lists.has_reply = value.reply.has_value();
  if (value.reply) {
    EXPECT_TRUE(lists.reply.assign(*value.reply));
  }
  return lists;
}

// The examples of the documents, written out by hand.
std::vector<Case> documented_cases() {
  constexpr std::uint32_t kXid = 0x11223344;
  return {
      {"msg-short-call", header(kXid, 32, v1::Msg{}), 40},
      {"msg-read-chunk",
       header(kXid, 32, v1::Msg{}),
       96,
       {{96, segment(0x1001, 4096, 0x7f0000001000)}, {96, segment(0x1101, 1904, 0x7f0000009000)}}},
      {"msg-write-list-and-reply-chunk",
       header(kXid, 32, v1::Msg{}),
       0,
       {},
       {{segment(0x2001, 8192, 0x10000)},
        {segment(0x2101, 4096, 0x20000), segment(0x2201, 4096, 0x30000)}},
       Segments{segment(0x3001, 2048, 0x40000)}},
      {"nomsg-long-call", header(kXid, 32, v1::NoMsg{}), 0, {{0, segment(0x4001, 9000, 0x50000)}}},
      {"error-vers", header(kXid, 32, v1::ErrVers{1, 1}, 7)},
      {"error-chunk", header(kXid, 32, v1::ErrChunk{})},
      {"msg-reply-full-form",
       header(kXid, 64, v1::Msg{}),
       0,
       {},
       {{segment(0x2001, 5000, 0x10000)},
        {segment(0x2101, 0, 0x20000), segment(0x2201, 0, 0x30000)}},
       Segments{segment(0x3001, 0, 0x40000)}},
      {"msg-reply-short-form",
       header(kXid, 64, v1::Msg{}),
       0,
       {},
       {{segment(0x2001, 5000, 0x10000)}, {}},
       Segments{}},
      {"done", header(kXid, 32, v1::Done{})},
      {"msgp-header", header(kXid, 32, v1::Msgp{1024, 512})},
  };
}

// Messages of the Linux NFS client and server, not made by us.
std::vector<Case> captured_cases() {
  return {
      {"linux-null-call", header(0xa73e86fe, 128, v1::Msg{}), 40},
      {"linux-null-reply", header(0xa73e86fe, 64, v1::Msg{}), 24},
      {"linux-error-vers", header(0x6c47c049, 64, v1::ErrVers{1, 1}, 2)},
      {"linux-read-call",
       header(0xbb3e86fe, 128, v1::Msg{}),
       108,
       {},
       {{segment(0x44940e01, 65536, 0xbb3e86fe858fc000)}}},
      {"linux-read-reply",
       header(0xbb3e86fe, 64, v1::Msg{}),
       128,
       {},
       {{segment(0x44940e01, 65536, 0xbb3e86fe858fc000)}}},
      {"linux-read-odd-call",
       header(0xe33e86fe, 128, v1::Msg{}),
       108,
       {},
       {{segment(0x02dbc602, 10001, 0xe33e86fe85925000), segment(0x310f7801, 4, 0x822ae52c)}}},
      {"linux-read-odd-reply",
       header(0xe33e86fe, 64, v1::Msg{}),
       128,
       {},
       {{segment(0x02dbc602, 10001, 0xe33e86fe85925000), segment(0x310f7801, 0, 0x822ae52c)}}},
      {"linux-write-call",
       header(0xc83e86fe, 128, v1::Msg{}),
       116,
       {{116, segment(0x44940e02, 65536, 0xc83e86fe83282000)}}},
      {"linux-write-reply", header(0xc83e86fe, 64, v1::Msg{}), 136},
      {"linux-readdirplus-call",
       header(0xed3e86fe, 128, v1::Msg{}),
       120,
       {},
       {},
       Segments{segment(0x44940e03, 124, 0xed3e86fe87558800),
                segment(0xd14b7f01, 65536, 0xed3e86fefed05000),
                segment(0x0442ed01, 4, 0xed3e86fe8755887c)}},
      {"linux-readdirplus-reply",
       header(0xed3e86fe, 64, v1::NoMsg{}),
       0,
       {},
       {},
       Segments{segment(0x44940e03, 124, 0xed3e86fe87558800),
                segment(0xd14b7f01, 35484, 0xed3e86fefed05000),
                segment(0x0442ed01, 0, 0xed3e86fe8755887c)}},
  };
}

class GoldenHeader : public testing::TestWithParam<Case> {};

TEST_P(GoldenHeader, BytesDecodeToTheExpectedValue) {
  const auto message = vector_named(GetParam().name);
  wire::ChunkLists lists;
  const auto decoded = v1::decode(message, Limits{}, lists);
  ASSERT_TRUE(decoded.has_value()) << decoded.error().field;
  EXPECT_EQ(decoded->header, GetParam().header);
  EXPECT_EQ(lists, lists_of(GetParam()));
  EXPECT_EQ(decoded->payload.size(), GetParam().payload_size);
  EXPECT_EQ(decoded->payload.data() + decoded->payload.size(), message.data() + message.size());
}

TEST_P(GoldenHeader, ExpectedValueEncodesToTheBytes) {
  const auto message = vector_named(GetParam().name);
  const auto lists = lists_of(GetParam());
  std::vector<std::byte> out(v1::encoded_size(GetParam().header, lists));
  ASSERT_EQ(out.size() + GetParam().payload_size, message.size());
  ASSERT_EQ(v1::encode(GetParam().header, lists, out).value(), out.size());
  EXPECT_EQ(test::to_hex(out), test::to_hex(Bytes(message).first(out.size())));
}

TEST_P(GoldenHeader, PrefixesOfTheHeaderFailAndLongerOnesHaveAShorterPayload) {
  const auto message = vector_named(GetParam().name);
  const std::size_t header_size = message.size() - GetParam().payload_size;
  wire::ChunkLists lists;
  for (std::size_t cut = 0; cut < message.size(); ++cut) {
    const auto decoded = v1::decode(Bytes(message).first(cut), Limits{}, lists);
    ASSERT_EQ(decoded.has_value(), cut >= header_size) << cut;
    if (decoded) {
      EXPECT_EQ(decoded->payload.size(), cut - header_size);
    } else {
      EXPECT_EQ(decoded.error().code, xdr::Errc::kTruncated);
    }
  }
}

std::string test_name(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Documented, GoldenHeader, testing::ValuesIn(documented_cases()),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Linux, GoldenHeader, testing::ValuesIn(captured_cases()), test_name);

struct PrivateDataCase {
  std::string name;
  PrivateData data;
};
std::vector<PrivateDataCase> private_data_cases() {
  return {{"private-data-256k", {true, 262144, 1024}},
          {"private-data-linux-client", {true, 4096, 4096}},
          {"private-data-linux-server", {false, 4096, 4096}}};
}

TEST(GoldenPrivateData, DecodesToTheValueAndEncodesToTheBytes) {
  for (const auto& expected : private_data_cases()) {
    const auto bytes = vector_named(expected.name);
    EXPECT_EQ(find_private_data(bytes), expected.data) << expected.name;
    EXPECT_EQ(test::to_hex(encode(expected.data)), test::to_hex(bytes));
    for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
      EXPECT_EQ(find_private_data(Bytes(bytes).first(cut)), std::nullopt);
    }
  }
}

// A vector without a test, or without its explanation, is as good as none.
TEST(GoldenFolder, EveryVectorIsExplainedAndExpected) {
  std::set<std::string> expected;
  for (const auto& value : documented_cases()) expected.insert(value.name);
  for (const auto& value : captured_cases()) expected.insert(value.name);
  for (const auto& value : private_data_cases()) expected.insert(value.name);
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(RPCRDMA_GOLDEN_DIR)) {
    // Those of version 2 are in golden_v2_test.cc.
    const bool is_v2 = entry.path().stem().string().starts_with("v2-");
    if (entry.path().extension() != ".hex" || is_v2) continue;
    found.insert(entry.path().stem().string());
    auto explanation = entry.path();
    EXPECT_TRUE(std::filesystem::exists(explanation.replace_extension(".txt"))) << entry.path();
  }
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace rpcrdma::wire
