#include "nfs/client/holes.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>

#include "nfs/served_for_test.h"

namespace nfs {
namespace {

files::File made_file() {
  std::string name = testing::TempDir() + "/holes-XXXXXX";
  files::File file(::mkstemp(name.data()));
  EXPECT_TRUE(file.is_open());
  ::unlink(name.c_str());
  return file;
}

TEST(Holes, DataOfAFileIsFoundBetweenThem) {
  const files::File file = made_file();
  constexpr std::uint64_t kMega = 1 << 20;
  ASSERT_EQ(::ftruncate(file.descriptor(), 8 * kMega), 0);
  ASSERT_EQ(::pwrite(file.descriptor(), "data", 4, 3 * kMega), 4);
  if (file.status()->st_blocks * 512 >= static_cast<off_t>(kMega)) {
    GTEST_SKIP() << "the file system of " << testing::TempDir() << " has no holes";
  }
  const auto data = next_data(file, 0, 8 * kMega);
  ASSERT_TRUE(data);
  EXPECT_LE(data->begin, 3 * kMega);
  EXPECT_GE(data->end, 3 * kMega + 4);
  EXPECT_LT(data->size(), kMega);
  EXPECT_EQ(next_data(file, data->end, 8 * kMega).value(), (Extent{8 * kMega, 8 * kMega}));
}

TEST(Holes, FileThatBecameShorterHasNone) {
  const files::File file = made_file();
  ASSERT_EQ(::ftruncate(file.descriptor(), 4096), 0);
  const auto data = next_data(file, 0, 8192);
  ASSERT_FALSE(data);
  EXPECT_EQ(data.error().message(), "it became shorter while it was copied");
}

TEST(Holes, ZerosInMemoryAreWholeBlocksOfTheFile) {
  constexpr std::uint64_t kBlock = 4096;
  std::string text(4 * kBlock, '\0');
  EXPECT_EQ(next_that_is_not_zero(bytes_of(text), 0, 0), (Extent{4 * kBlock, 4 * kBlock}));
  text[kBlock + 5] = 'x';
  EXPECT_EQ(next_that_is_not_zero(bytes_of(text), 0, 0), (Extent{kBlock, 2 * kBlock}));
  EXPECT_EQ(next_that_is_not_zero(bytes_of(text), 0, 2 * kBlock), (Extent{4 * kBlock, 4 * kBlock}));
  // The memory begins in the middle of a block of the file.
  EXPECT_EQ(next_that_is_not_zero(bytes_of(text), 4, 0), (Extent{kBlock - 4, 2 * kBlock - 4}));
  text[kBlock - 2] = 'x';
  EXPECT_EQ(next_that_is_not_zero(bytes_of(text), 0, 0), (Extent{0, 2 * kBlock}));
  EXPECT_EQ(next_that_is_not_zero({}, 0, 0), (Extent{0, 0}));
}

}  // namespace
}  // namespace nfs
