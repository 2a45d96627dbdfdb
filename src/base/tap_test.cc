#include "rpcrdma/tap.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/connection_tap.h"

namespace rpcrdma {
namespace {

Bytes bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

struct Seen {
  TapRecord record;
  std::string text;
};

std::vector<Seen> records_in(const std::vector<std::byte>& stream) {
  std::vector<Seen> found;
  for (std::size_t at = 0; at < stream.size();) {
    Seen& seen = found.emplace_back();
    std::memcpy(&seen.record, stream.data() + at, sizeof seen.record);
    seen.text.assign(reinterpret_cast<const char*>(stream.data()) + at + sizeof seen.record,
                     seen.record.kept);
    EXPECT_EQ(seen.record.length % 8, 0U);
    at += seen.record.length;
    EXPECT_LE(at, stream.size());
  }
  return found;
}

TapRecord sent(std::uint64_t size) {
  TapRecord record;
  record.kind = TapRecord::Kind::kSend;
  record.size = size;
  return record;
}

TEST(Tap, KeepsNothingWhileNobodyLooks) {
  Tap tap(1U << 16U);
  const Bytes text = bytes_of("abc");
  tap.add(sent(3), {&text, 1});
  EXPECT_TRUE(tap.take().empty());
  tap.start();
  tap.add(sent(3), {&text, 1});
  tap.stop();
  tap.add(sent(3), {&text, 1});
  tap.start();
  EXPECT_TRUE(tap.take().empty()) << "records of an earlier reader";
}

TEST(Tap, GivesRecordsOnceAndInTheirOrder) {
  Tap tap(1U << 16U);
  tap.start();
  const std::vector<Bytes> runs{bytes_of("ab"), bytes_of(""), bytes_of("cdefghi")};
  tap.add(sent(9), runs);
  tap.add(sent(0), {});
  const auto seen = records_in(tap.take());
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0].text, "abcdefghi");
  EXPECT_EQ(seen[0].record.size, 9U);
  EXPECT_GT(seen[0].record.time, 0);
  EXPECT_EQ(seen[1].text, "");
  EXPECT_TRUE(tap.take().empty());
}

TEST(Tap, KeepsTheFirstBytesOfLongMessages) {
  Tap tap(1U << 16U);
  tap.start();
  const std::string text(Tap::kKeptMax - 1, 'a');
  const std::vector<Bytes> runs{bytes_of(text), bytes_of("bcd")};
  tap.add(sent(text.size() + 3), runs);
  const auto seen = records_in(tap.take());
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].text, text + "b");
  EXPECT_EQ(seen[0].record.size, text.size() + 3);
}

TEST(Tap, CountsWhatASlowReaderHasNoRoomForWhereItIsMissing) {
  Tap tap(1U << 16U);
  tap.start();
  const std::string text(8192, 'a');
  const Bytes bytes = bytes_of(text);
  for (int i = 0; i < 10; ++i) tap.add(sent(text.size()), {&bytes, 1});
  EXPECT_EQ(records_in(tap.take()).size(), 7U);
  tap.add(sent(1), {});
  tap.add(sent(2), {});
  const auto seen = records_in(tap.take());
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen[0].record.kind, TapRecord::Kind::kLost);
  EXPECT_EQ(seen[0].record.size, 3U);
  EXPECT_EQ(seen[1].record.size, 1U);
  EXPECT_EQ(seen[2].record.size, 2U);
}

TEST(ConnectionTap, IntroducesTheConnectionToEachReaderOnce) {
  Tap tap(1U << 16U);
  ConnectionTap connection(&tap, ConnectionTap::Carrier::kTcp),
      other(&tap, ConnectionTap::Carrier::kRdma);
  EXPECT_FALSE(connection.is_on());
  connection.set_sizes(4096, 1024);
  for (int reader = 0; reader < 2; ++reader) {
    tap.start();
    ASSERT_TRUE(connection.is_on());
    connection.add("10.0.0.1:700", sent(1));
    connection.add("10.0.0.1:700", sent(2));
    other.begin("10.0.0.2:701");
    const auto seen = records_in(tap.take());
    ASSERT_EQ(seen.size(), 4U);
    EXPECT_EQ(seen[0].record.kind, TapRecord::Kind::kConnection);
    EXPECT_EQ(seen[0].text, "10.0.0.1:700");
    EXPECT_EQ(seen[0].record.tag, 4096U);
    EXPECT_EQ(seen[0].record.address, 1024U);
    EXPECT_EQ(seen[0].record.size, 2U);
    EXPECT_EQ(seen[0].record.flags, 0U) << "it has begun before";
    EXPECT_EQ(seen[1].record.connection, 1U);
    EXPECT_EQ(seen[2].record.kind, TapRecord::Kind::kSend);
    EXPECT_EQ(seen[3].record.connection, 2U);
    EXPECT_EQ(seen[3].record.flags, TapRecord::kSeenFromTheStart);
    tap.stop();
  }
}

TEST(ConnectionTap, IsOffWithoutATap) {
  EXPECT_FALSE(ConnectionTap(nullptr, ConnectionTap::Carrier::kRdma).is_on());
}

}  // namespace
}  // namespace rpcrdma
