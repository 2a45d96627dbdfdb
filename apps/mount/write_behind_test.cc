#include "mount/write_behind.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <string>
#include <vector>

namespace mounts {
namespace {

using Piece = WriteBehind::Piece;

constexpr std::size_t kSize = 64;

nfs3::writeverf3 verifier_of(unsigned boot) {
  nfs3::writeverf3 made{};
  made[0] = static_cast<std::byte>(boot);
  return made;
}

class WriteBehindTest : public testing::Test {
 protected:
  void add(std::uint64_t offset, const std::string& text) {
    Buffer buffer = pool_.take();
    ASSERT_TRUE(buffer);
    std::ranges::copy(std::as_bytes(std::span(text)), buffer.memory().begin());
    writes_.add(offset, std::move(buffer), 0, text.size());
  }
  static std::string text_of(const Piece& piece) {
    std::string text;
    for (const std::byte each : piece.data()) text += static_cast<char>(each);
    return text;
  }

  BufferPool pool_{64, kSize};
  WriteBehind writes_;
};

TEST_F(WriteBehindTest, BytesAreKeptUntilACommitHasTheirVerifier) {
  add(0, "abc");
  Piece* const piece = writes_.begin_write();
  ASSERT_NE(piece, nullptr);
  EXPECT_EQ(writes_.begin_write(), nullptr);
  writes_.end_write(*piece, 3, false, verifier_of(1));
  EXPECT_TRUE(writes_.is_written());
  EXPECT_FALSE(writes_.is_clean());
  ASSERT_TRUE(writes_.needs_commit());
  writes_.begin_commit();
  writes_.end_commit(verifier_of(1));
  EXPECT_TRUE(writes_.is_clean());
  EXPECT_EQ(pool_.free_count(), pool_.count());
}

// Else a file that is cut meanwhile would have zeros where they began.
TEST_F(WriteBehindTest, BytesThatAreThereInPartGoWholeBehindACut) {
  add(0, "abcdef");
  writes_.end_write(*writes_.begin_write(), 3, false, verifier_of(1));
  writes_.write_whole();
  EXPECT_EQ(text_of(*writes_.begin_write()), "abcdef");
}

TEST_F(WriteBehindTest, CommitIsInTheNameOfWhoWroteBytesThatAreThere) {
  for (std::uint32_t uid = 1; uid <= 2; ++uid) {
    writes_.add(uid * kSize, pool_.take(), 0, 1, Time::max(), {uid, {}});
  }
  (void)writes_.begin_write();
  writes_.end_write(*writes_.begin_write(), 1, false, verifier_of(1));
  ASSERT_TRUE(writes_.needs_commit());
  EXPECT_EQ(writes_.writer_to_commit().uid, 2U);
}

TEST_F(WriteBehindTest, BytesWithoutAnAnswerGoOnceMoreAsTheyAre) {
  add(0, "abcdef");
  writes_.end_write(*writes_.begin_write(), 2, false, verifier_of(1));
  const Time later{std::chrono::hours(2)};
  writes_.repeat_write(*writes_.begin_write(), later);
  EXPECT_FALSE(writes_.is_written());
  EXPECT_EQ(writes_.under_way(), 0U);
  Piece* const piece = writes_.begin_write();
  ASSERT_NE(piece, nullptr);
  EXPECT_EQ(text_of(*piece), "cdef");
  EXPECT_EQ(piece->deadline, later);
  writes_.end_write(*piece, 4, false, verifier_of(1));
  EXPECT_TRUE(writes_.is_written());
}

TEST_F(WriteBehindTest, BytesOfAServerThatWasRestartedAreWrittenAgain) {
  add(0, "abc");
  writes_.end_write(*writes_.begin_write(), 3, false, verifier_of(1));
  writes_.begin_commit();
  writes_.end_commit(verifier_of(2));
  EXPECT_FALSE(writes_.is_written());
  Piece* const again = writes_.begin_write();
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(text_of(*again), "abc");
  EXPECT_EQ(writes_.written_twice(), 3U);
}

TEST_F(WriteBehindTest, BytesThatAreLostAgainAndAgainAreAnError) {
  add(0, "abc");
  unsigned boot = 0;
  while (!writes_.is_clean()) {
    ASSERT_LT(boot, 1000U);
    writes_.end_write(*writes_.begin_write(), 3, false, verifier_of(++boot));
    writes_.begin_commit();
    writes_.end_commit(verifier_of(++boot));
  }
  EXPECT_GT(boot, 20U);
  EXPECT_EQ(writes_.take_error(), EIO);
  EXPECT_EQ(pool_.free_count(), pool_.count());
}

TEST_F(WriteBehindTest, StableBytesNeedNoCommit) {
  add(0, "abc");
  writes_.end_write(*writes_.begin_write(), 3, true, verifier_of(1));
  EXPECT_FALSE(writes_.needs_commit());
  EXPECT_TRUE(writes_.is_clean());
}

TEST_F(WriteBehindTest, StableBytesStayAboveOlderOnesThatGoAgain) {
  add(0, "old");
  writes_.end_write(*writes_.begin_write(), 3, false, verifier_of(1));
  add(0, "new");
  writes_.end_write(*writes_.begin_write(), 3, true, verifier_of(1));
  writes_.begin_commit();
  writes_.end_commit(verifier_of(2));
  Piece* const old = writes_.begin_write();
  ASSERT_NE(old, nullptr);
  EXPECT_EQ(text_of(*old), "old");
  writes_.end_write(*old, 3, false, verifier_of(2));
  Piece* const newer = writes_.begin_write();
  ASSERT_NE(newer, nullptr);
  EXPECT_EQ(text_of(*newer), "new");
}

TEST_F(WriteBehindTest, RestOfAShortWriteGoesWithAFurtherCall) {
  add(10, "abcdef");
  Piece* piece = writes_.begin_write();
  writes_.end_write(*piece, 2, false, verifier_of(1));
  EXPECT_FALSE(writes_.is_written());
  piece = writes_.begin_write();
  ASSERT_NE(piece, nullptr);
  EXPECT_EQ(text_of(*piece), "cdef");
  EXPECT_EQ(piece->offset + piece->done, 12U);
  writes_.end_write(*piece, 4, false, verifier_of(1));
  EXPECT_TRUE(writes_.is_written());
  writes_.begin_commit();
  writes_.end_commit(verifier_of(2));
  EXPECT_EQ(text_of(*writes_.begin_write()), "abcdef");
}

TEST_F(WriteBehindTest, PartsOfTwoBootsAreWrittenAgainAsOne) {
  add(0, "abcd");
  writes_.end_write(*writes_.begin_write(), 2, false, verifier_of(1));
  writes_.end_write(*writes_.begin_write(), 2, false, verifier_of(2));
  Piece* const again = writes_.begin_write();
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(text_of(*again), "abcd");
}

TEST_F(WriteBehindTest, PartsOfEverNewBootsAreAnErrorInTheEnd) {
  add(0, "abcd");
  unsigned boot = 0;
  while (!writes_.is_clean()) {
    ASSERT_LT(boot, 1000U);
    writes_.end_write(*writes_.begin_write(), 1, false, verifier_of(++boot));
  }
  EXPECT_GT(boot, 20U);
  EXPECT_TRUE(writes_.is_written());
  EXPECT_EQ(writes_.take_error(), EIO);
  EXPECT_EQ(pool_.free_count(), pool_.count());
}

TEST_F(WriteBehindTest, PiecesThatOverlapAreWrittenOneBehindTheOther) {
  add(0, "aaaa");
  add(2, "bbbb");
  add(6, "cc");
  Piece* const first = writes_.begin_write();
  Piece* const third = writes_.begin_write();
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(text_of(*third), "cc");
  EXPECT_EQ(writes_.begin_write(), nullptr);
  writes_.end_write(*first, 4, false, verifier_of(1));
  ASSERT_NE(writes_.begin_write(), nullptr);
}

TEST_F(WriteBehindTest, NewerBytesFollowOlderOnesThatGoAgain) {
  add(0, "old");
  writes_.end_write(*writes_.begin_write(), 3, false, verifier_of(1));
  writes_.begin_commit();
  add(0, "new");
  writes_.end_write(*writes_.begin_write(), 3, false, verifier_of(2));
  writes_.end_commit(verifier_of(2));
  Piece* const old = writes_.begin_write();
  ASSERT_NE(old, nullptr);
  EXPECT_EQ(text_of(*old), "old");
  EXPECT_EQ(writes_.begin_write(), nullptr);
  writes_.end_write(*old, 3, false, verifier_of(2));
  Piece* const newer = writes_.begin_write();
  ASSERT_NE(newer, nullptr);
  EXPECT_EQ(text_of(*newer), "new");
}

TEST_F(WriteBehindTest, NewerBytesUnderWayGoOnceMoreBehindOlderOnesThatGoAgain) {
  add(0, "old");
  writes_.end_write(*writes_.begin_write(), 3, false, verifier_of(1));
  writes_.begin_commit();
  add(0, "new");
  Piece* const newer = writes_.begin_write();
  writes_.end_commit(verifier_of(2));
  writes_.end_write(*newer, 3, false, verifier_of(2));
  EXPECT_FALSE(writes_.is_written());
  Piece* const old = writes_.begin_write();
  ASSERT_NE(old, nullptr);
  EXPECT_EQ(text_of(*old), "old");
  writes_.end_write(*old, 3, false, verifier_of(2));
  Piece* const last = writes_.begin_write();
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(text_of(*last), "new");
}

TEST_F(WriteBehindTest, ErrorStaysUntilItIsTaken) {
  add(0, "abc");
  add(10, "def");
  writes_.fail_write(*writes_.begin_write(), ENOSPC);
  writes_.fail_write(*writes_.begin_write(), EIO);
  EXPECT_TRUE(writes_.is_clean());
  EXPECT_EQ(writes_.error(), ENOSPC);
  EXPECT_EQ(writes_.take_error(), ENOSPC);
  EXPECT_EQ(writes_.take_error(), 0);
}

TEST_F(WriteBehindTest, SmallWritesThatFollowEachOtherShareABuffer) {
  add(0, "abc");
  const std::string more = "def";
  EXPECT_FALSE(writes_.append(4, std::as_bytes(std::span(more))));
  EXPECT_TRUE(writes_.append(3, std::as_bytes(std::span(more))));
  const std::string too_much(kSize, 'x');
  EXPECT_FALSE(writes_.append(6, std::as_bytes(std::span(too_much))));
  Piece* const piece = writes_.begin_write();
  EXPECT_EQ(text_of(*piece), "abcdef");
  EXPECT_FALSE(writes_.append(6, std::as_bytes(std::span(more))));
}

// A server that loses what was not committed, at any time, has everything after the last commit.
TEST(WriteBehindModel, ServerHasAllBytesWhateverItLost) {
  constexpr std::size_t kFile = 40;
  for (unsigned seed = 1; seed <= 500; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](std::size_t end) { return static_cast<std::size_t>(random() % end); };
    BufferPool pool(64, kSize);
    WriteBehind writes;
    std::string expected(kFile, '.'), memory = expected, disk = expected;
    unsigned boot = 1;
    unsigned commit_boot = 0;
    std::vector<Piece*> calls;
    bool is_ending = false;
    for (int step = 0; step < 3000 && !(is_ending && writes.is_clean()); ++step) {
      is_ending = step > 120;
      switch (is_ending ? 1 + below(4) : below(6)) {
        case 0: {
          Buffer buffer = pool.take();
          if (!buffer) break;
          const std::size_t size = 1 + below(8), offset = below(kFile - size);
          const char letter = static_cast<char>('a' + below(26));
          for (std::size_t i = 0; i < size; ++i) {
            buffer.memory()[i] = static_cast<std::byte>(letter);
            expected[offset + i] = letter;
          }
          writes.add(offset, std::move(buffer), 0, size);
          break;
        }
        case 1:
          if (Piece* const next = writes.begin_write()) calls.push_back(next);
          break;
        case 2: {  // the server makes any of the calls
          if (calls.empty()) break;
          const auto at = calls.begin() + static_cast<std::ptrdiff_t>(below(calls.size()));
          Piece& piece = **at;
          calls.erase(at);
          const auto data = piece.data();
          const std::size_t count = below(3) == 0 ? 1 + below(data.size()) : data.size();
          const bool is_stable = below(4) == 0;
          for (std::size_t i = 0; i < count; ++i) {
            const std::size_t at_byte = piece.offset + piece.done + i;
            memory[at_byte] = static_cast<char>(data[i]);
            if (is_stable) disk[at_byte] = memory[at_byte];
          }
          writes.end_write(piece, count, is_stable, verifier_of(boot));
          break;
        }
        case 3:
          if (writes.is_committing()) {
            // The reply of a commit that was made before a restart has that boot's verifier.
            writes.end_commit(verifier_of(commit_boot));
          } else if (writes.needs_commit()) {
            writes.begin_commit();
            disk = memory;
            commit_boot = boot;
          }
          break;
        case 4:
          if (below(is_ending ? 40 : 8) == 0) {
            ++boot;
            memory = disk;
          }
          break;
        default:
          break;
      }
    }
    ASSERT_TRUE(writes.is_clean()) << "seed " << seed;
    EXPECT_EQ(disk, expected) << "seed " << seed;
    EXPECT_EQ(pool.free_count(), pool.count());
  }
}

}  // namespace
}  // namespace mounts
