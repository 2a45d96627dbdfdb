#include "nfs/posix/listing.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>

namespace nfs::posix {
namespace {

class ListingsTest : public testing::Test {
 protected:
  ListingsTest() {
    std::string name = (std::filesystem::temp_directory_path() / "listing-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~ListingsTest() override { std::filesystem::remove_all(path_); }

  void make(const std::string& name) { std::ofstream(path_ / name) << name; }
  // Lists by a new object, as after a restart.
  Listings::Page page(std::uint64_t cookie, std::size_t count) {
    Listings listings;
    return page(listings, cookie, count).value();
  }
  std::optional<Listings::Page> page(Listings& listings, std::uint64_t cookie, std::size_t count) {
    const files::File directory(path_.c_str(), O_RDONLY | O_DIRECTORY);
    struct stat status {};
    EXPECT_EQ(::fstat(directory.descriptor(), &status), 0);
    return listings.page({}, directory, status, cookie, count);
  }

  std::filesystem::path path_;
};

TEST_F(ListingsTest, GoOnBehindTheirCookieWhereEntriesCameAndWent) {
  for (int i = 0; i < 40; ++i) make("old" + std::to_string(i));
  const Listings::Page first = page(0, 12);
  ASSERT_EQ(first.entries.size(), 12U);
  EXPECT_FALSE(first.is_last);
  std::map<std::string, int> seen;
  for (const DirectoryEntry& each : first.entries) {
    ++seen[each.name];
    if (each.name.starts_with("old")) std::filesystem::remove(path_ / each.name);
  }
  for (int i = 0; i < 40; ++i) make("new" + std::to_string(i));
  const Listings::Page rest = page(first.entries.back().cookie, 1000);
  EXPECT_TRUE(rest.is_last);
  for (const DirectoryEntry& each : rest.entries) ++seen[each.name];
  for (int i = 0; i < 40; ++i) {
    const std::string name = "old" + std::to_string(i);
    EXPECT_EQ(seen[name], 1) << name;
  }
  for (const char* each : {".", ".."}) EXPECT_EQ(seen[each], 1) << each;
}

// Whoever reads one has memory for all of it.
TEST_F(ListingsTest, AreMadeForOneLongDirectoryAtATime) {
  for (int i = 0; i < 20; ++i) make(std::to_string(i));
  Listings listings({.long_min = 10});
  listings.long_one().acquire();
  EXPECT_FALSE(page(listings, 0, 5));
  EXPECT_EQ(errno, EAGAIN) << "the client asks again";
  listings.long_one().release();
  EXPECT_EQ(page(listings, 0, 5)->entries.size(), 5U);
  EXPECT_TRUE(listings.long_one().try_acquire()) << "it was given back";
  Listings patient({.long_min = 30});
  patient.long_one().acquire();
  EXPECT_TRUE(page(patient, 0, 5)) << "it is not long";
}

// The room for those that are read page by page is not for others, of which nobody asks for more.
TEST_F(ListingsTest, AreKeptForTheNextPageAlone) {
  for (int i = 0; i < 20; ++i) make(std::to_string(i));
  const files::File directory(path_.c_str(), O_RDONLY | O_DIRECTORY);
  struct stat status {};
  ASSERT_EQ(::fstat(directory.descriptor(), &status), 0);
  status.st_ctim = {1, 0};  // long past, so that nothing has changed since
  Listings listings({.directories_max = 1});
  const std::array<std::byte, 1> of_small{std::byte{1}};
  const auto small = InnerHandle::of(of_small);
  ASSERT_FALSE(listings.page({}, directory, status, 0, 5)->is_last);
  ASSERT_TRUE(listings.page(small, directory, status, 0, 100)->is_last);
  for (int i = 0; i < 20; ++i) std::filesystem::remove(path_ / std::to_string(i));
  EXPECT_EQ(listings.page({}, directory, status, 0, 100)->entries.size(), 22U) << "it is read anew";
  EXPECT_EQ(listings.page(small, directory, status, 0, 100)->entries.size(), 2U) << "it was kept";
}

TEST_F(ListingsTest, BeginWithTheDirectoryItselfAndTheOneAbove) {
  for (int i = 0; i < 10; ++i) make(std::to_string(i));
  const Listings::Page first = page(0, 2);
  ASSERT_EQ(first.entries.size(), 2U);
  EXPECT_EQ(first.entries[0].name, ".");
  EXPECT_EQ(first.entries[1].name, "..");
}

}  // namespace
}  // namespace nfs::posix
