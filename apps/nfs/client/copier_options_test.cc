#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <ctime>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "nfs/client/copying_for_test.h"

namespace nfs {
namespace {

class OptionsOfCopying : public Copying {
 protected:
  static std::uint32_t mode_of(const fs::path& path) { return status_of(path).st_mode & 07777U; }
  static bool is_old(const fs::path& path) {
    return status_of(path).st_mtim.tv_sec < ::time(nullptr) - 1'000'000;
  }

 private:
  static struct stat status_of(const fs::path& path) {
    struct stat status {};
    EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
    return status;
  }
};
INSTANTIATE_TEST_SUITE_P(Over, OptionsOfCopying, testing::Values("rdma", "tcp"),
                         [](const auto& each) { return each.param; });

TEST_P(OptionsOfCopying, NewFilesHaveTheModeThatTheUmaskLeavesAndTheTimeOfNow) {
  fs::create_directory(here_ / "tree");
  fs::create_directory(here_ / "tree/closed");
  write("tree/all", "abc", 0777);
  write("tree/closed/read-only", "abc", 0444);
  age(here_ / "tree/closed", 900'000'000);
  EXPECT_EQ(::chmod((here_ / "tree/closed").c_str(), 0575), 0);
  const CopyOptions options{.recursive = true, .umask = 027};
  EXPECT_EQ(messages(up("tree", "", options)), "");
  EXPECT_EQ(messages(down("tree", "back", options)), "");
  for (const fs::path& top : {fs::path(served_->path("tree")), here_ / "back"}) {
    EXPECT_EQ(mode_of(top / "all"), 0750U);
    EXPECT_EQ(mode_of(top / "closed/read-only"), 0440U);
    EXPECT_EQ(mode_of(top / "closed"), 0550U);
    for (const char* each : {"all", "closed/read-only", "closed"}) EXPECT_FALSE(is_old(top / each));
  }
}

TEST_P(OptionsOfCopying, KeepTheModeOfAnExistingFile) {
  fs::create_directories(here_ / "tree/folder");
  write("tree/file", "abc", 0777);
  fs::create_directories(served_->path("tree/folder"));
  served_->write_file("tree/file", "other");
  EXPECT_EQ(::chmod(served_->path("tree/file").c_str(), 0400), 0);
  EXPECT_EQ(::chmod(served_->path("tree/folder").c_str(), 0700), 0);
  EXPECT_EQ(messages(up("tree", "", {.recursive = true})), "");
  EXPECT_EQ(served_->read_file("tree/file"), "abc");
  EXPECT_EQ(mode_of(served_->path("tree/file")), 0400U);
  EXPECT_EQ(mode_of(served_->path("tree/folder")), 0700U);
  EXPECT_EQ(::chmod((here_ / "tree/folder").c_str(), 0711), 0);
  EXPECT_EQ(messages(down("tree", "", {.recursive = true})), "");
  EXPECT_EQ(mode_of(here_ / "tree/file"), 0777U);
  EXPECT_EQ(mode_of(here_ / "tree/folder"), 0711U);
  // Unless those of the source are to be kept.
  EXPECT_EQ(messages(up("tree", "", {.recursive = true, .keep = true})), "");
  EXPECT_EQ(mode_of(served_->path("tree/file")), 0777U);
  EXPECT_EQ(mode_of(served_->path("tree/folder")), 0711U);
}

TEST_P(OptionsOfCopying, KeepExistingFilesWithoutClobbering) {
  fs::create_directory(here_ / "tree");
  for (const char* each : {"tree/new", "tree/there"}) write(each, "from here");
  fs::create_symlink("from-here", here_ / "tree/link");
  fs::create_directory(served_->path("tree"));
  served_->write_file("tree/there", "from there");
  served_->write_file("tree/newer", "from there");
  fs::create_symlink("from-there", served_->path("tree/link"));
  CopyProgress last;
  CopyOptions options{.recursive = true, .no_clobber = true};
  options.progress = [&](const CopyProgress& now) { last = now; };
  const auto up_ended = up("tree", "", options);
  EXPECT_EQ(messages(up_ended), "");
  EXPECT_EQ(std::pair(up_ended.files, up_ended.stayed), std::pair(1UL, 2UL));
  EXPECT_EQ(last.bytes, last.bytes_known);
  EXPECT_EQ(served_->read_file("tree/there"), "from there");
  EXPECT_EQ(served_->read_file("tree/new"), "from here");
  EXPECT_EQ(fs::read_symlink(served_->path("tree/link")), "from-there");
  const auto down_ended = down("tree", "", options);
  EXPECT_EQ(messages(down_ended), "");
  EXPECT_EQ(std::pair(down_ended.files, down_ended.stayed), std::pair(1UL, 3UL));
  EXPECT_EQ(content_of(here_ / "tree/there"), "from here");
  EXPECT_EQ(content_of(here_ / "tree/newer"), "from there");
  EXPECT_EQ(fs::read_symlink(here_ / "tree/link"), "from-here");
}

TEST_P(OptionsOfCopying, FileThatAppearsDuringADownloadStaysWithoutClobbering) {
  served_->write_file("file", bytes_of(3 << 20));
  CopyOptions options{.no_clobber = true};
  options.progress = [&](const CopyProgress& now) {
    if (now.bytes > 0 && now.files == 0) write("file", "of another one");
  };
  const auto ended = down("file", "file", options);
  EXPECT_EQ(messages(ended), "");
  EXPECT_EQ(ended.stayed, 1U);
  EXPECT_EQ(content_of(here_ / "file"), "of another one");
}

TEST_P(OptionsOfCopying, FileThatAppearsDuringAnUploadStaysWithoutClobbering) {
  write("file", bytes_of(3 << 20));
  CopyOptions options{.no_clobber = true};
  options.progress = [&](const CopyProgress& now) {
    if (now.bytes > 0 && now.files == 0) served_->write_file("file", "of another one");
  };
  const auto ended = up("file", "file", options);
  EXPECT_EQ(messages(ended), "");
  EXPECT_EQ(std::pair(ended.stayed, ended.files), std::pair(1UL, 0UL));
  EXPECT_EQ(ended.parts_left, 0U);
  EXPECT_EQ(served_->read_file("file"), "of another one");
  EXPECT_EQ(std::distance(fs::directory_iterator(served_->folder()), {}), 1);
}

TEST_P(OptionsOfCopying, EachThatIsCopiedIsNamedOnBothSides) {
  fs::create_directory(here_ / "tree");
  write("tree/file", "abc");
  fs::create_symlink("file", here_ / "tree/link");
  std::vector<std::string> names;
  CopyOptions options{.recursive = true};
  options.copied = [&](const std::string& from, const std::string& to) {
    names.push_back(from + " -> " + to);
  };
  const std::string here = here_.string();
  EXPECT_EQ(messages(up("tree", "new", options)), "");
  EXPECT_THAT(names,
              testing::UnorderedElementsAre(here + "/tree -> new", here + "/tree/file -> new/file",
                                            here + "/tree/link -> new/link"));
  names.clear();
  EXPECT_EQ(messages(down("new", "tree", options)), "");
  EXPECT_THAT(names, testing::UnorderedElementsAre("new -> " + here + "/tree/new",
                                                   "new/file -> " + here + "/tree/new/file",
                                                   "new/link -> " + here + "/tree/new/link"));
}

}  // namespace
}  // namespace nfs
