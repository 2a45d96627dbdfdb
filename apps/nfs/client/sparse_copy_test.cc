#include <fcntl.h>
#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "nfs/client/copying_for_test.h"

namespace nfs {
namespace {

constexpr std::size_t kMega = 1 << 20;

class SparseCopying : public Copying {
 protected:
  void SetUp() override {
    if (Served::is_elsewhere()) GTEST_SKIP() << "CephFS does not say how much room a file has";
    Copying::SetUp();
    make_holes(here_ / "probe", {});
    if (room_of(here_ / "probe") > 0) GTEST_SKIP() << "the file system here has no holes";
  }

  // A file of 24 MiB with data at some places.
  static void make_holes(const fs::path& path, const std::vector<std::size_t>& places) {
    std::ofstream file(path, std::ios::binary);
    for (const std::size_t each : places) {
      file.seekp(static_cast<std::streamoff>(each));
      file << bytes_of(100'000);
    }
    file.close();
    fs::resize_file(path, 24 * kMega);
  }
  static std::size_t room_of(const fs::path& path) {
    struct stat status {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
    return static_cast<std::size_t>(status.st_blocks) * 512;
  }
};
INSTANTIATE_TEST_SUITE_P(Over, SparseCopying, testing::Values("rdma", "tcp"),
                         [](const auto& each) { return each.param; });

TEST_P(SparseCopying, HolesStayHolesOnTheWayUpAndDown) {
  const std::vector<std::vector<std::size_t>> all = {
      {}, {0}, {3 * kMega + 4711}, {0, 9 * kMega, 24 * kMega - 100'000}};
  for (const auto& places : all) {
    make_holes(here_ / "file", places);
    CopyProgress last;
    CopyOptions options{.verify = true};
    options.progress = [&](const CopyProgress& now) { last = now; };
    const auto up_ended = up("file", "", options);
    EXPECT_EQ(messages(up_ended), "");
    EXPECT_EQ(up_ended.bytes, 24 * kMega);
    EXPECT_EQ(last.bytes, 24 * kMega) << "holes are done, too";
    const std::string content = content_of(here_ / "file");
    EXPECT_EQ(served_->read_file("file"), content);
    const std::size_t room_max = places.size() * kMega / 4;
    EXPECT_LE(room_of(served_->path("file")), room_max);
    EXPECT_EQ(messages(down("file", "back", options)), "");
    EXPECT_EQ(content_of(here_ / "back"), content);
    EXPECT_LE(room_of(here_ / "back"), room_max);
  }
}

TEST_P(SparseCopying, UploadOfHolesSendsOnlyTheData) {
  make_holes(here_ / "file", {12 * kMega});
  fs::resize_file(here_ / "file", std::size_t{1} << 40U);  // zeros of that many would take an hour
  EXPECT_EQ(messages(up("file", "")), "");
  EXPECT_EQ(fs::file_size(served_->path("file")), std::size_t{1} << 40U);
  EXPECT_LE(room_of(served_->path("file")), kMega);
}

TEST_P(SparseCopying, ZerosThatAreNoHolesAreWrittenUnlessAlwaysIsSaid) {
  write("zeros", std::string(4 * kMega, '\0'));
  EXPECT_EQ(messages(up("zeros", "")), "");
  EXPECT_GE(room_of(served_->path("zeros")), 4 * kMega);
  EXPECT_EQ(messages(down("zeros", "back")), "");
  EXPECT_GE(room_of(here_ / "back"), 4 * kMega);
  const CopyOptions always{.verify = true, .sparse = Sparse::kAlways};
  EXPECT_EQ(messages(down("zeros", "back", always)), "");
  EXPECT_EQ(room_of(here_ / "back"), 0U);
  EXPECT_EQ(messages(up("zeros", "", always)), "");
  EXPECT_EQ(room_of(served_->path("zeros")), 0U);
  EXPECT_EQ(served_->read_file("zeros"), std::string(4 * kMega, '\0'));
}

TEST_P(SparseCopying, AlwaysKeepsWhatIsBetweenZeros) {
  std::string content(3 * kMega + 5, '\0');
  for (const std::size_t each : {std::size_t{0}, std::size_t{8191}, kMega - 1, kMega + 4096}) {
    content.replace(each, 3, "abc");
  }
  content.back() = 'z';
  write("file", content);
  const CopyOptions always{.verify = true, .sparse = Sparse::kAlways};
  EXPECT_EQ(messages(up("file", "", always)), "");
  EXPECT_EQ(served_->read_file("file"), content);
  EXPECT_LE(room_of(served_->path("file")), 10 * 4096U);
  EXPECT_EQ(messages(down("file", "back", always)), "");
  EXPECT_EQ(content_of(here_ / "back"), content);
  EXPECT_LE(room_of(here_ / "back"), 10 * 4096U);
}

TEST_P(SparseCopying, NeverWritesHolesAsZeros) {
  make_holes(here_ / "file", {kMega});
  const CopyOptions never{.verify = true, .sparse = Sparse::kNever};
  EXPECT_EQ(messages(up("file", "", never)), "");
  EXPECT_GE(room_of(served_->path("file")), 24 * kMega);
  make_holes(served_->path("file"), {kMega});
  EXPECT_EQ(messages(down("file", "back", never)), "");
  EXPECT_GE(room_of(here_ / "back"), 24 * kMega);
}

TEST_P(SparseCopying, ComparingFindsWhatIsInAHole) {
  make_holes(here_ / "file", {kMega});
  CopyOptions options{.verify = true};
  bool is_first = true;
  options.progress = [&](const CopyProgress& now) {
    if (now.bytes < 24 * kMega || !std::exchange(is_first, false)) return;
    for (const auto& each : fs::directory_iterator(served_->folder())) {
      std::fstream file(each.path(), std::ios::binary | std::ios::in | std::ios::out);
      file.seekp(17 * kMega) << "x";
    }
  };
  EXPECT_THAT(messages(up("file", "", options)),
              testing::HasSubstr("the server's copy differs from the file here"));
}

TEST_P(SparseCopying, FileThatIsWrittenAgainBeginsEmpty) {
  write("big", bytes_of(24 * kMega));
  bool is_first = true;
  CopyOptions options{.verify = true, .buffers = 2};
  options.progress = [&](const CopyProgress& now) {
    if (now.bytes < 4 * kMega || !std::exchange(is_first, false)) return;
    make_holes(here_ / "big", {0, 12 * kMega});  // where there was data
    served_->restart();
  };
  const auto ended = up("big", "", options);
  EXPECT_EQ(messages(ended), "");
  EXPECT_EQ(ended.rewritten, 1U);
  EXPECT_EQ(served_->read_file("big"), content_of(here_ / "big"));
}

}  // namespace
}  // namespace nfs
