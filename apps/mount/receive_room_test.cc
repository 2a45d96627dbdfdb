#include "mount/receive_room.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace mounts {
namespace {

constexpr std::size_t kSize = 100;

class ReceiveRoomTest : public testing::Test {
 protected:
  // Receives a request whose bytes come behind a header.
  ReceiveRoom::Data receive(std::string_view text) {
    const auto memory = room_.memory().subspan(10);
    std::ranges::transform(text, memory.begin(), [](char each) { return std::byte(each); });
    return room_.take(memory.first(text.size()));
  }
  void take_all_buffers() {
    while (pool_.free_count() > 0) taken_.push_back(pool_.take());
  }
  static std::string text_of(ReceiveRoom::Data& data) {
    std::string text;
    for (const std::byte each : data.buffer().memory().subspan(data.begin(), data.size())) {
      text += static_cast<char>(each);
    }
    return text;
  }

  BufferPool pool_{3, kSize};
  std::vector<Buffer> taken_;
  ReceiveRoom room_{pool_, 10};
};

TEST_F(ReceiveRoomTest, BytesStayInTheBufferThatTheyCameIn) {
  auto data = receive("abc");
  EXPECT_FALSE(data.is_outside());
  EXPECT_EQ(data.begin(), 10U);
  EXPECT_EQ(text_of(data), "abc");
}

TEST_F(ReceiveRoomTest, RequestsThatNeedNoBufferComeWhenAllAreTaken) {
  take_all_buffers();
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(room_.has_memory());
    EXPECT_EQ(room_.memory().size(), kSize);
  }
}

TEST_F(ReceiveRoomTest, BytesThatCameWithoutABufferWaitForOne) {
  take_all_buffers();
  auto first = receive("abc"), second = receive("def");
  EXPECT_TRUE(first.is_outside());
  first.put_into(std::move(taken_.back()));
  EXPECT_FALSE(first.is_outside());
  EXPECT_EQ(text_of(first), "abc");
  taken_.pop_back();
  second.put_into(std::move(taken_.back()));
  EXPECT_EQ(text_of(second), "def");
}

TEST_F(ReceiveRoomTest, BytesThatWaitHaveABoundAndThoseThatNobodyWantsGiveRoom) {
  take_all_buffers();
  auto first = receive("abcde"), second = receive("fghij");
  EXPECT_FALSE(room_.has_memory());
  EXPECT_TRUE(room_.memory().empty());
  first.drop();
  EXPECT_FALSE(first.is_outside());
  EXPECT_TRUE(room_.has_memory());
  EXPECT_FALSE(room_.memory().empty());
}

// Else new requests would take all that come back.
TEST_F(ReceiveRoomTest, BuffersThatComeBackAreForBytesThatWait) {
  take_all_buffers();
  auto data = receive("abc");
  taken_.clear();
  EXPECT_FALSE(room_.memory().empty());
  EXPECT_EQ(pool_.free_count(), pool_.count());
  data.put_into(pool_.take());
  EXPECT_FALSE(room_.memory().empty());
  EXPECT_EQ(pool_.free_count(), pool_.count() - 2);
}

}  // namespace
}  // namespace mounts
