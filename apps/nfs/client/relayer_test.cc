#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <memory>
#include <string>
#include <utility>

#include "nfs/client/copying_for_test.h"

namespace nfs {
namespace {

// From a server by the other transport to the one of the fixture.
class RelayCopying : public Copying {
 protected:
  void SetUp() override {
    Copying::SetUp();
    source_ = open(from_, GetParam() == "tcp" ? "rdma" : "tcp");
  }
  std::unique_ptr<Mounted> open(const Served& served, const std::string& scheme) const {
    MountOptions options;
    options.client.provider.name = "siwarp";
    options.credential.emplace().machine_name = "test";
    options.client.reconnect.enabled = may_reconnect_;
    auto opened = Mounted::open(parse_nfs_url(served.url(scheme, "/data")).value(), options);
    EXPECT_TRUE(opened) << opened.error().message();
    return std::move(*opened);
  }
  CopyResult relay(const std::string& source, const std::string& target, CopyOptions options = {}) {
    return Copier(*server_, std::move(options)).relay(*source_, {source}, target);
  }

  Served from_;
  std::unique_ptr<Mounted> source_;
};
INSTANTIATE_TEST_SUITE_P(Over, RelayCopying, testing::Values("rdma", "tcp"),
                         [](const auto& each) { return each.param; });

TEST_P(RelayCopying, TreeIsTheSameAtTheOtherServer) {
  make_tree();
  const CopyOptions options{.recursive = true, .keep = true, .verify = true};
  EXPECT_EQ(messages(Copier(*source_, options).upload({(here_ / "tree").string()}, "")), "");
  for (const char* target : {"", "new"}) {
    CopyProgress last;
    CopyOptions watched = options;
    watched.progress = [&](const CopyProgress& now) { last = now; };
    const auto ended = relay("tree", target, watched);
    EXPECT_EQ(messages(ended), "");
    EXPECT_EQ(ended.files, 65U);
    EXPECT_EQ(ended.directories, 5U);
    EXPECT_EQ(ended.links, 2U);
    EXPECT_EQ(last.bytes, ended.bytes);
    EXPECT_EQ(last.bytes_known, ended.bytes);
  }
  const auto expected = tree(here_ / "tree");
  EXPECT_EQ(tree(served_->path("tree")), expected);
  EXPECT_EQ(tree(served_->path("new")), expected);
  // One slot is enough.
  CopyOptions narrow = options;
  narrow.files = narrow.buffers = 1;
  EXPECT_EQ(messages(relay("tree", "narrow", narrow)), "");
  EXPECT_EQ(tree(served_->path("narrow")), expected);
}

TEST_P(RelayCopying, ReplacesExistingFilesAndReportsMissingOnes) {
  from_.write_file("file", "new");
  served_->write_file("file", "something longer");
  EXPECT_EQ(messages(relay("file", "")), "");
  EXPECT_EQ(served_->read_file("file"), "new");
  EXPECT_THAT(messages(relay("none", "")), testing::HasSubstr("none: no such file"));
  EXPECT_THAT(messages(relay("file", "no/where")), testing::HasSubstr("no such file"));
  ASSERT_EQ(::mkfifo(from_.path("fifo").c_str(), 0600), 0);
  const auto skipped = relay("fifo", "");
  EXPECT_THAT(messages(skipped), testing::HasSubstr("no file, directory or symbolic"));
  EXPECT_EQ(skipped.failure_count, 1U) << "it is not read";
  EXPECT_FALSE(fs::exists(fs::symlink_status(served_->path("fifo"))));
}

TEST_P(RelayCopying, HolesStayHoles) {
  if (Served::is_elsewhere()) GTEST_SKIP() << "CephFS does not say how much room a file has";
  from_.write_file("file", bytes_of(5000));
  fs::resize_file(from_.path("file"), 20 << 20);
  EXPECT_EQ(messages(relay("file", "", {.verify = true})), "");
  EXPECT_EQ(served_->read_file("file"), from_.read_file("file"));
  struct stat status {};
  ASSERT_EQ(::stat(served_->path("file").c_str(), &status), 0);
  EXPECT_LE(status.st_blocks * 512, 1 << 20);
}

TEST_P(RelayCopying, ComparingFindsWhatIsDifferent) {
  from_.write_file("file", bytes_of((3 << 20) + 7));
  bool is_first = true;
  CopyOptions options{.verify = true};
  options.progress = [&](const CopyProgress& now) {
    if (now.bytes < (3 << 20) + 7 || !std::exchange(is_first, false)) return;
    std::fstream(from_.path("file"), std::ios::binary | std::ios::in | std::ios::out).seekp(2 << 20)
        << "other";
  };
  EXPECT_THAT(messages(relay("file", "", options)), testing::HasSubstr("have different data"));
  EXPECT_FALSE(fs::exists(served_->path("file")));
}

TEST_P(RelayCopying, GoesOnWhenEitherServerWasRestarted) {
  from_.write_file("big", bytes_of(24 << 20));
  for (Served* restarted : {&*served_, &from_}) {
    bool is_first = true;
    CopyOptions options{.verify = true, .buffers = 2};
    options.progress = [&](const CopyProgress& now) {
      if (now.bytes > 0 && std::exchange(is_first, false)) restarted->restart();
    };
    const auto ended = relay("big", "", options);
    EXPECT_EQ(messages(ended), "");
    EXPECT_EQ(ended.rewritten, restarted == &from_ ? 0U : 1U);
    EXPECT_EQ(served_->read_file("big"), bytes_of(24 << 20));
  }
}

TEST_P(RelayCopying, ALostSourceEndsIt) {
  may_reconnect_ = false;
  source_ = open(from_, GetParam());
  from_.write_file("big", bytes_of(24 << 20));
  bool is_first = true;
  CopyOptions options{.buffers = 2};
  options.progress = [&](const CopyProgress& now) {
    if (now.bytes > 0 && std::exchange(is_first, false)) from_.end();
  };
  const auto ended = relay("big", "", options);
  from_.begin();
  EXPECT_TRUE(ended.is_lost);
  EXPECT_EQ(ended.failure_count, 1U);
  EXPECT_TRUE(fs::is_empty(served_->folder())) << "the part went";
}

TEST_P(RelayCopying, FileIsNotCopiedOntoItself) {
  for (const char* const scheme : {"rdma", "tcp"}) {
    source_ = open(*served_, scheme);
    served_->write_file("a", "abc");
    fs::create_hard_link(served_->path("a"), served_->path("other"));
    EXPECT_EQ(messages(relay("a", "")), "a: it and a are the same file\n");
    EXPECT_EQ(messages(relay("a", "other")), "a: it and other are the same file\n");
    EXPECT_EQ(served_->read_file("a"), "abc");
    const auto ended = relay("a", "a", {.no_clobber = true});
    EXPECT_EQ(messages(ended), "");
    EXPECT_EQ(ended.stayed, 1U);
    EXPECT_EQ(messages(relay("a", "b")), "");
    fs::remove(served_->path("other"));
  }
}

TEST_P(RelayCopying, DirectoryIsNotCopiedIntoItself) {
  source_ = open(*served_, GetParam());
  fs::create_directories(served_->path("a/b"));
  served_->write_file("a/file", "abc");
  const CopyOptions recursive{.recursive = true};
  EXPECT_EQ(messages(relay("a", "a/b", recursive)),
            "a/b: a directory cannot be copied into itself\n");
  EXPECT_EQ(served_->read_file("a/b/a/file"), "abc");
  EXPECT_EQ(messages(relay("a", "", recursive)),
            "a: it is the directory that it would be copied to\n");
  EXPECT_EQ(messages(relay("a", "c", recursive)), "");
  EXPECT_EQ(served_->read_file("c/file"), "abc");
}

}  // namespace
}  // namespace nfs
