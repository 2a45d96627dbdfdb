#include "nfs/client/copier.h"

#include <fcntl.h>
#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "nfs/client/copying_for_test.h"
#include "nfs/client/temporary_name.h"
#include "nfs/file_size_limit_for_test.h"
#include "nfs/posix/disk_for_test.h"

namespace nfs {
namespace {

TEST(SafeName, IsOneNameOfAFile) {
  using std::string_view_literals::operator""sv;
  for (const auto good : {"a"sv, "..."sv, " "sv, "-r"sv, "a\nb"sv, "\xff"sv}) {
    EXPECT_TRUE(is_safe_name(good)) << good;
  }
  for (const auto bad : {""sv, "."sv, ".."sv, "/"sv, "a/b"sv, "../a"sv, "a\0b"sv, "\0"sv}) {
    EXPECT_FALSE(is_safe_name(bad)) << bad;
  }
}

TEST(TemporaryName, FitsAndHoldsWholeCharacters) {
  EXPECT_THAT(temporary_name("a"), testing::MatchesRegex("\\.a\\.rpcrdma-[a-z0-9]{12}"));
  EXPECT_NE(temporary_name("a"), temporary_name("a"));
  std::string umlauts = "x";
  while (umlauts.size() < 255) umlauts += "\xc3\xbc";
  const std::string name = temporary_name(umlauts);
  EXPECT_LE(name.size(), 255U);
  const std::string kept = name.substr(1, name.find(".rpcrdma-") - 1);
  EXPECT_EQ(kept, umlauts.substr(0, 199));
}

INSTANTIATE_TEST_SUITE_P(Over, Copying, testing::Values("rdma", "tcp"),
                         [](const auto& each) { return each.param; });

TEST_P(Copying, AsksForTheExportByTcpAtTheGivenPort) {
  const NfsUrl by_tcp = parse_nfs_url(served_->url("tcp", "/data")).value();
  mount(by_tcp.servers.front().port);
  write("file", "content");
  EXPECT_EQ(messages(up("file", "")), "");
  EXPECT_EQ(served_->read_file("file"), "content");
}

TEST_P(Copying, TakesATreeUpAndDownAgainAsItIs) {
  make_tree();
  const auto up_ended = up("tree", "", {.recursive = true, .keep = true, .verify = true});
  EXPECT_EQ(messages(up_ended), "");
  EXPECT_EQ(up_ended.files, 65U);
  EXPECT_EQ(up_ended.directories, 5U);
  EXPECT_EQ(up_ended.links, 2U);
  EXPECT_EQ(tree(served_->path("tree")), tree(here_ / "tree"));
  for (const char* each : {"back", "back"}) {  // as a new name, then into what is there
    const auto ended = down("tree", each, {.recursive = true, .keep = true, .verify = true});
    EXPECT_EQ(messages(ended), "");
    EXPECT_EQ(ended.bytes, up_ended.bytes);
  }
  const auto expected = tree(here_ / "tree");
  EXPECT_EQ(tree(here_ / "back/tree"), expected);
  remove_tree(here_ / "back/tree");
  EXPECT_EQ(tree(here_ / "back"), expected);
  // Again, onto what is there.
  EXPECT_EQ(messages(up("tree", "", {.recursive = true, .keep = true})), "");
  EXPECT_EQ(tree(served_->path("tree")), expected);
}

// Returns when the file was read last, and when it was written.
std::pair<time_t, time_t> times_of(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return {status.st_atim.tv_sec, status.st_mtim.tv_sec};
}

TEST_P(Copying, KeepsBothTimesOfAFile) {
  write("file", "");  // nobody reads it meanwhile
  const timespec times[2] = {{1'100'000'000, 0}, {1'000'000'000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (here_ / "file").c_str(), times, 0), 0);
  EXPECT_EQ(messages(up("file", "there", {.keep = true})), "");
  EXPECT_EQ(times_of(served_->path("there")), std::pair(1'100'000'000L, 1'000'000'000L));
  EXPECT_EQ(messages(down("there", "back", {.keep = true})), "");
  EXPECT_EQ(times_of(here_ / "back"), std::pair(1'100'000'000L, 1'000'000'000L));
}

TEST_P(Copying, WorksWithOneSlotAndTellsHowFarItIs) {
  make_tree();
  CopyProgress last;
  CopyOptions options{.recursive = true, .keep = true, .files = 1, .buffers = 1};
  options.progress = [&](const CopyProgress& now) { last = now; };
  const auto ended = up("tree", "one", options);
  EXPECT_EQ(messages(ended), "");
  EXPECT_EQ(last.files, 65U);
  EXPECT_EQ(last.bytes, ended.bytes);
  EXPECT_EQ(last.bytes_known, ended.bytes);
  EXPECT_EQ(messages(down("one", "one", options)), "");
  EXPECT_EQ(tree(here_ / "one"), tree(here_ / "tree"));
}

TEST_P(Copying, SkipsWhatIsNoFile) {
  fs::create_directory(here_ / "tree");
  ASSERT_EQ(::mkfifo((here_ / "tree/fifo").c_str(), 0600), 0);
  write("tree/file", "abc");
  const auto ended = up("tree", "", {.recursive = true});
  EXPECT_EQ(ended.skipped_count, 1U);
  EXPECT_THAT(ended.skipped, testing::ElementsAre((here_ / "tree/fifo").string()));
  EXPECT_EQ(ended.files, 1U);
  ASSERT_EQ(::mkfifo(served_->path("tree/other").c_str(), 0600), 0);
  const auto back = down("tree", "back", {.recursive = true});
  EXPECT_THAT(back.skipped, testing::ElementsAre("tree/other"));
  EXPECT_EQ(messages(back), "");
}

TEST_P(Copying, DirectoryThatCannotBeReadToItsEndIsAFailure) {
  fs::create_directory(here_ / "tree");
  for (int i = 0; i < 9; ++i) write("tree/" + std::to_string(i), "x");
  posix::DiskForTest::names_left = 5;
  const auto ended = up("tree", "", {.recursive = true});
  posix::DiskForTest::names_left = 1'000'000'000;
  EXPECT_EQ(ended.failure_count, 1U) << "its other files are missing there";
  EXPECT_THAT(messages(ended), testing::HasSubstr("it cannot be listed"));
}

TEST_P(Copying, FailureOfOneLeavesTheOthers) {
  write("a", "a");
  write("b", "b");
  fs::create_directory(served_->path("a"));  // in the way of the file
  fs::create_directory(here_ / "folder");
  const auto path = [this](const char* name) { return (here_ / name).string(); };
  const auto ended =
      Copier(*server_).upload({path("a"), path("none"), path("folder"), path("b")}, "");
  EXPECT_EQ(ended.failure_count, 3U);
  EXPECT_FALSE(ended.is_lost);
  EXPECT_EQ(served_->read_file("b"), "b");
  const std::string text = messages(ended);
  EXPECT_THAT(text, testing::HasSubstr(path("none") + ": it cannot be read: No such file"));
  EXPECT_THAT(text, testing::HasSubstr(path("folder") + ": it is a directory"));
}

TEST_P(Copying, SaysWhatIsMissing) {
  EXPECT_THAT(messages(down("none", "x")), testing::HasSubstr("none: no such file or directory"));
  EXPECT_THAT(messages(up("none", "x")), testing::HasSubstr("No such file"));
  write("file", "abc");
  EXPECT_THAT(messages(up("file", "no/where")), testing::HasSubstr("no such file or directory"));
  served_->write_file("file", "abc");
  EXPECT_THAT(messages(down("file", "no/where")), testing::HasSubstr("No such file"));
}

TEST_P(Copying, FollowsNoLinkOfThisMachineBelowTheTarget) {
  fs::create_directories(served_->path("tree/sub"));
  served_->write_file("tree/sub/file", "from the server");
  fs::create_directories(here_ / "back/tree");
  fs::create_directory(here_ / "outside");
  fs::create_symlink(here_ / "outside", here_ / "back/tree/sub");
  const auto ended = down("tree", "back", {.recursive = true});
  EXPECT_EQ(ended.failure_count, 1U);
  EXPECT_TRUE(fs::is_empty(here_ / "outside"));
}

TEST_P(Copying, ReplacesFilesAndLinksThatAreThere) {
  write("file", "new");
  fs::create_symlink("new", here_ / "link");
  served_->write_file("file", "something longer");
  fs::create_symlink("old", served_->path("link"));
  EXPECT_EQ(messages(up("file", "")), "");
  EXPECT_EQ(served_->read_file("file"), "new");
  EXPECT_EQ(messages(up("link", "", {.recursive = true})), "");
  EXPECT_EQ(fs::read_symlink(served_->path("link")), "new");
  served_->write_file("file", "newer");
  EXPECT_EQ(messages(down("file", "file")), "");
  EXPECT_EQ(fs::file_size(here_ / "file"), 5U);
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& each : fs::directory_iterator(folder)) names.push_back(each.path().filename());
  std::ranges::sort(names);
  return names;
}

TEST_P(Copying, UploadThatFailsLeavesWhatWasThere) {
  write("file", bytes_of(3 << 20));
  fs::create_directory(served_->path("in"));
  served_->write_file("in/file", "what was there");
  for (const char* target : {"in/file", "in/new"}) {
    const FileSizeLimit limit(1 << 20);
    const auto ended = up("file", target);
    EXPECT_THAT(messages(ended), testing::HasSubstr("the file would be too large"));
    EXPECT_EQ(ended.parts_left, 0U);
  }
  EXPECT_EQ(served_->read_file("in/file"), "what was there");
  EXPECT_THAT(names_in(served_->path("in")), testing::ElementsAre("file")) << "something is left";
}

TEST_P(Copying, UploadHasItsNameWhenItIsWhole) {
  write("file", bytes_of(9 << 20));
  fs::create_directory(served_->path("in"));
  served_->write_file("in/file", "what was there");
  CopyOptions options{.buffers = 1};
  int seen = 0;
  options.progress = [&](const CopyProgress& now) {
    if (now.bytes == 0 || now.files > 0) return;
    ++seen;
    EXPECT_EQ(served_->read_file("in/file"), "what was there");
    const auto names = names_in(served_->path("in"));
    ASSERT_EQ(names.size(), 2U);
    EXPECT_THAT(names.front(), testing::MatchesRegex("\\.file\\.rpcrdma-[a-z0-9]{12}"));
  };
  EXPECT_EQ(messages(up("file", "in", options)), "");
  EXPECT_GE(seen, 2);
  EXPECT_EQ(served_->read_file("in/file"), bytes_of(9 << 20));
  EXPECT_THAT(names_in(served_->path("in")), testing::ElementsAre("file"));
}

TEST_P(Copying, InterruptedUploadLeavesWhatWasThere) {
  write("file", bytes_of(9 << 20));
  write("other", "abc");
  fs::create_directory(served_->path("in"));
  served_->write_file("in/file", "what was there");
  bool is_interrupted = false;
  CopyOptions options{.files = 1, .buffers = 1};
  options.progress = [&](const CopyProgress& now) { is_interrupted = now.bytes > 0; };
  options.is_interrupted = [&] { return is_interrupted; };
  const auto path = [this](const char* name) { return (here_ / name).string(); };
  const auto ended = Copier(*server_, options).upload({path("file"), path("other")}, "in");
  EXPECT_TRUE(ended.is_interrupted);
  EXPECT_EQ(messages(ended), "");
  EXPECT_EQ(served_->read_file("in/file"), "what was there");
  EXPECT_THAT(names_in(served_->path("in")), testing::ElementsAre("file"));
}

TEST_P(Copying, ReplacedLinkIsNeverMissing) {
  fs::create_symlink("new", here_ / "link");
  fs::create_directory(served_->path("in"));
  fs::create_directory(served_->path("in/link"));
  EXPECT_EQ(up("link", "in", {.recursive = true}).failure_count, 1U) << "a directory stays";
  EXPECT_THAT(names_in(served_->path("in")), testing::ElementsAre("link"));
  fs::remove(served_->path("in/link"));
  fs::create_symlink("old", served_->path("in/link"));
  EXPECT_EQ(messages(up("link", "in", {.recursive = true})), "");
  EXPECT_THAT(names_in(served_->path("in")), testing::ElementsAre("link"));
}

TEST_P(Copying, UploadLeavesDevicesAndTheLikeWhereTheyAre) {
  write("fifo", "abc");
  fs::create_directory(served_->path("in"));
  ASSERT_EQ(::mkfifo(served_->path("in/fifo").c_str(), 0600), 0);
  EXPECT_EQ(up("fifo", "in").failure_count, 1U);
  EXPECT_TRUE(fs::is_fifo(served_->path("in/fifo")));
  EXPECT_THAT(names_in(served_->path("in")), testing::ElementsAre("fifo"));
}

TEST_P(Copying, LeavesDevicesAndTheLikeWhereTheyAre) {
  served_->write_file("fifo", "abc");
  ASSERT_EQ(::mkfifo((here_ / "fifo").c_str(), 0600), 0);
  EXPECT_THAT(messages(down("fifo", "fifo")),
              testing::HasSubstr("is not a regular file and is not replaced"));
  EXPECT_TRUE(fs::is_fifo(here_ / "fifo"));
  fs::create_symlink(here_ / "fifo", here_ / "to-fifo");
  EXPECT_THAT(messages(down("fifo", "to-fifo")), testing::HasSubstr("is not replaced"));
  EXPECT_TRUE(fs::is_symlink(here_ / "to-fifo") && fs::is_fifo(here_ / "fifo"));
  fs::create_directory(here_ / "in");
  ASSERT_EQ(::mkfifo((here_ / "in/link").c_str(), 0600), 0);
  fs::create_symlink("file", served_->path("link"));
  EXPECT_EQ(down("link", "in", {.recursive = true}).failure_count, 1U);
  EXPECT_TRUE(fs::is_fifo(here_ / "in/link"));
  EXPECT_EQ(std::distance(fs::directory_iterator(here_ / "in"), {}), 1) << "something is left";
}

TEST_P(Copying, NamedLinkStaysAndWhatItLeadsToIsReplaced) {
  served_->write_file("file", "new");
  write("old", "old");
  fs::create_symlink("old", here_ / "link");
  EXPECT_EQ(messages(down("file", "link")), "");
  EXPECT_TRUE(fs::is_symlink(here_ / "link"));
  EXPECT_EQ(fs::file_size(here_ / "old"), 3U);
  fs::create_symlink("none", here_ / "dangling");
  EXPECT_THAT(messages(down("file", "dangling")), testing::HasSubstr("a symbolic link to nothing"));
}

TEST_P(Copying, FailsWhereWhatIsNamedIsNoFile) {
  ASSERT_EQ(::mkfifo((here_ / "fifo").c_str(), 0600), 0);
  EXPECT_THAT(messages(up("fifo", "")), testing::HasSubstr("no file, directory or symbolic link"));
  ASSERT_EQ(::mkfifo(served_->path("other").c_str(), 0600), 0);
  EXPECT_THAT(messages(down("other", "x")),
              testing::HasSubstr("no file, directory or symbolic link"));
}

TEST_P(Copying, DirectoryDoesNotReplaceAFile) {
  fs::create_directories(here_ / "tree/in");
  write("file", "abc");
  served_->write_file("file", "abc");
  fs::create_directory(served_->path("tree"));
  served_->write_file("tree/in", "abc");
  const CopyOptions recursive{.recursive = true};
  const std::string tree = (here_ / "tree").string();
  EXPECT_EQ(messages(up("tree", "file", recursive)),
            "file: it is no directory, and " + tree + " is one\n");
  EXPECT_EQ(messages(up("tree", "", recursive)),
            "tree/in: it is no directory, and " + tree + "/in is one\n");
  EXPECT_EQ(messages(down("tree", "file", recursive)),
            (here_ / "file").string() + ": it is no directory, and tree is one\n");
}

TEST_P(Copying, DirectoryIsNotCopiedIntoItself) {
  fs::create_directories(served_->path("a/b/c"));
  fs::create_directory(served_->path("other"));
  served_->write_file("other/file", "abc");
  const CopyOptions recursive{.recursive = true};
  const auto up_from = [&](const std::string& source, const std::string& target) {
    return messages(Copier(*server_, recursive).upload({served_->path(source)}, target));
  };
  const auto down_to = [&](const std::string& source, const std::string& target) {
    return messages(Copier(*server_, recursive).download({source}, served_->path(target)));
  };
  const auto made = [&](const char* path) {  // is there, and goes
    EXPECT_TRUE(fs::exists(served_->path(path))) << path;
    EXPECT_FALSE(fs::exists(served_->path(std::string(path) + "/a/b")));
    fs::remove_all(served_->path(path));
  };
  const std::string itself = ": a directory cannot be copied into itself\n";
  EXPECT_EQ(up_from(".", "a/b"), served_->path("./a/b") + itself);
  made("a/b/a");
  made("a/b/other");
  EXPECT_EQ(up_from(".", "a/b/new"), served_->path("./a/b") + itself);
  made("a/b/new");
  EXPECT_EQ(up_from(".", "a/b/c/new"), served_->path("./a/b/c") + itself);
  EXPECT_TRUE(fs::exists(served_->path("a/b/c/new/other/file"))) << "the rest is copied";
  fs::remove_all(served_->path("a/b/c/new"));
  EXPECT_EQ(down_to("", "a/b"), "a/b" + itself);
  made("a/b/data");
  EXPECT_EQ(down_to("", "a/b/new"), "a/b" + itself);
  made("a/b/new");
  EXPECT_THAT(up_from("a", ""), testing::HasSubstr("the directory that it would be copied to"));
  EXPECT_THAT(down_to("a", ""), testing::HasSubstr("the directory that it would be copied to"));
  EXPECT_THAT(up_from("a", "a"), testing::HasSubstr("cannot be copied into itself"));
  EXPECT_THAT(down_to("a", "a/new"), testing::HasSubstr("cannot be copied into itself"));
}

TEST_P(Copying, FileIsNotCopiedOntoItself) {
  if (Served::is_elsewhere())
    GTEST_SKIP() << "it looks at inodes of this machine, and CephFS serves elsewhere";
  served_->write_file("file", "abc");
  const std::string path = served_->path("file");
  EXPECT_EQ(messages(Copier(*server_).upload({path}, "")),
            path + ": it and file are the same file\n");
  EXPECT_EQ(messages(Copier(*server_).download({"file"}, path)),
            "file: it and " + path + " are the same file\n");
  EXPECT_EQ(messages(Copier(*server_).download({"file"}, served_->folder())),
            "file: it and " + path + " are the same file\n");
  EXPECT_EQ(served_->read_file("file"), "abc");
}

TEST_P(Copying, WithoutReconnectionALostConnectionEndsItAndIsSaidOnce) {
  may_reconnect_ = false;
  mount();
  write("big", bytes_of(40 << 20));
  write("other", "abc");
  bool is_first = true;
  CopyOptions options{.buffers = 2};
  options.progress = [&](const CopyProgress& now) {
    if (now.bytes > 0 && std::exchange(is_first, false)) served_->restart();
  };
  const auto path = [this](const char* name) { return (here_ / name).string(); };
  const auto ended = Copier(*server_, options).upload({path("big"), path("other")}, "");
  EXPECT_TRUE(ended.is_lost);
  EXPECT_LE(ended.failure_count, 1U);
  EXPECT_NE(messages(ended), "");
}

TEST_P(Copying, WritesAFileAgainWhenTheServerWasRestarted) {
  write("big", bytes_of(40 << 20));
  bool is_first = true;
  CopyOptions options{.verify = true, .buffers = 2};
  options.progress = [&](const CopyProgress& now) {
    if (now.bytes > 0 && std::exchange(is_first, false)) served_->restart();
  };
  const auto ended = up("big", "", options);
  EXPECT_EQ(messages(ended), "");
  EXPECT_EQ(ended.rewritten, 1U);
  EXPECT_EQ(served_->read_file("big"), bytes_of(40 << 20));
}

}  // namespace
}  // namespace nfs
