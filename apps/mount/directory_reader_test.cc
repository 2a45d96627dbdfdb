#include "mount/directory_reader.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace mounts {
namespace {

// A directory of the server whose cookies are `first` and those behind it.
class DirectoryReaderTest : public testing::Test {
 protected:
  DirectoryReaderTest() {
    for (int i = 0; i < 50; ++i) names_.push_back("n" + std::to_string(i));
  }
  DirectoryReader::Page page_from(std::uint64_t cookie, std::size_t size) const {
    DirectoryReader::Page page;
    const std::size_t begin = cookie == 0 ? 0 : static_cast<std::size_t>(cookie - first_ + 1);
    for (std::size_t i = begin; i < names_.size() && i < begin + size; ++i) {
      page.entries.push_back({names_[i], i, first_ + i});
    }
    page.is_last = begin + size >= names_.size();
    return page;
  }
  // Gives the kernel up to so many names from an offset; its next offset is in `offset_`.
  std::vector<std::string> read(std::size_t count) {
    std::vector<std::string> names;
    reader_.seek(offset_);
    while (names.size() < count) {
      const auto* const entry = reader_.next();
      if (entry == nullptr) {
        const auto ask = reader_.wanted();
        if (!ask) break;
        if (is_forgetful_ && ask->cookie != 0) {
          is_forgetful_ = false;
          first_ += 1000;
          if (reader_.restart() != 0) break;
          continue;
        }
        if (reader_.take(page_from(ask->cookie, 7)) != 0) break;
        continue;
      }
      names.push_back(entry->name);
      offset_ = entry->cookie;
      reader_.give();
    }
    return names;
  }

  std::vector<std::string> names_;
  std::uint64_t first_ = std::uint64_t{1} << 63U;
  bool is_forgetful_ = false;
  std::uint64_t offset_ = 0;
  DirectoryReader reader_;
};

TEST_F(DirectoryReaderTest, GivesEachNameOnceHoweverTheKernelAsks) {
  for (const std::size_t at_a_time : {1U, 3U, 7U, 100U}) {
    offset_ = 0;
    std::vector<std::string> all;
    for (auto some = read(at_a_time); !some.empty(); some = read(at_a_time)) {
      all.insert(all.end(), some.begin(), some.end());
    }
    EXPECT_EQ(all, names_);
  }
}

TEST_F(DirectoryReaderTest, GoesBackWithinAPageAndToOthers) {
  EXPECT_EQ(read(10).back(), "n9");
  offset_ = first_ + 7;
  EXPECT_EQ(read(1).front(), "n8");
  offset_ = first_ + 2;
  EXPECT_EQ(read(1).front(), "n3");
  offset_ = first_ + 40;
  EXPECT_EQ(read(1).front(), "n41");
  offset_ = 0;
  EXPECT_EQ(read(100), names_);
}

TEST_F(DirectoryReaderTest, BeginsAnewWithoutTheNamesThatWereGiven) {
  std::vector<std::string> all = read(10);
  is_forgetful_ = true;
  for (auto some = read(4); !some.empty(); some = read(4)) {
    all.insert(all.end(), some.begin(), some.end());
  }
  EXPECT_EQ(all, names_);
}

TEST_F(DirectoryReaderTest, DoesNotBeginAnewForEver) {
  reader_.seek(0);
  ASSERT_EQ(reader_.take(page_from(0, 7)), 0);
  EXPECT_EQ(reader_.restart(), 0);
  EXPECT_EQ(reader_.restart(), EIO);
}

TEST_F(DirectoryReaderTest, RefusesNamesThatNoDirectoryHas) {
  for (const std::string& name : {std::string("a/b"), std::string("/"), std::string("a\0b", 3),
                                  std::string(), std::string(256, 'x')}) {
    DirectoryReader reader;
    reader.seek(0);
    DirectoryReader::Page page;
    page.entries.push_back({name, 1, 1});
    EXPECT_EQ(reader.take(page), EIO) << name;
  }
  EXPECT_TRUE(is_possible_name("..."));
}

TEST_F(DirectoryReaderTest, RefusesPagesThatLeadNowhere) {
  reader_.seek(0);
  EXPECT_EQ(reader_.take({}), EIO);
  DirectoryReader::Page page;
  page.entries.push_back({"a", 1, 0});
  EXPECT_EQ(reader_.take(page), EIO);
}

TEST_F(DirectoryReaderTest, RefusesCookiesThatGoRoundInCircles) {
  for (const std::uint64_t period : {2U, 3U, 17U, 100U}) {
    DirectoryReader reader;
    reader.seek(0);
    int pages = 0;
    for (; pages < 1000; ++pages) {
      DirectoryReader::Page page;
      page.entries.push_back({"a", 1, 1 + static_cast<std::uint64_t>(pages) % period});
      if (reader.take(page) != 0) break;
      while (reader.next() != nullptr) reader.give();
    }
    EXPECT_LT(pages, 1000) << period;
  }
}

// A server need not list "." and "..".
TEST_F(DirectoryReaderTest, EmptyDirectoryIsReadAnewFromItsBeginning) {
  const auto all = std::exchange(names_, {});
  EXPECT_TRUE(read(100).empty());
  names_ = all;
  EXPECT_EQ(read(100).size(), all.size());
}

}  // namespace
}  // namespace mounts
