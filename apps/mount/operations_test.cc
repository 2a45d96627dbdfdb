// The operations against a server, without FUSE. The files of the server's directory are changed
// behind this client's back, as a second client would.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mount/mounted_for_test.h"
#include "nfs/relay_for_test.h"
#include "nfs/served_for_test.h"

namespace mounts {
namespace {

namespace fs = std::filesystem;
using FileId = FileOperations::FileId;

TreeOptions always_asking() {
  using std::chrono::milliseconds;
  TreeOptions options;
  options.time_outs = {milliseconds(0), milliseconds(0), milliseconds(0), milliseconds(0)};
  return options;
}

class Operations : public testing::TestWithParam<std::string> {
 protected:
  std::string url() const { return served_.url(GetParam(), "/data"); }

  nfs::Served served_;
};
INSTANTIATE_TEST_SUITE_P(Over, Operations, testing::Values("rdma", "tcp"),
                         [](const auto& each) { return each.param; });

TEST_P(Operations, NamesAreCachedAlsoThatThereIsNone) {
  served_.write_file("file", "");
  MountForTest mount(url());
  EXPECT_TRUE(mount.look_up("file"));
  EXPECT_FALSE(mount.look_up("nothing"));
  const auto asked = mount.tree->statistics().names_asked;
  EXPECT_FALSE(mount.look_up("nothing"));
  EXPECT_EQ(mount.tree->statistics().names_asked, asked);
  MountForTest other(url(), always_asking());
  served_.write_file("later", "");
  EXPECT_FALSE(other.look_up("nothing"));
  EXPECT_TRUE(other.look_up("later"));
}

TEST_P(Operations, DirectoryInAnExportIsARoot) {
  fs::create_directory(served_.path("sub"));
  served_.write_file("sub/file", "inside");
  MountForTest mount(url() + "/sub");
  EXPECT_EQ(mount.read(mount.open("file").id, 0, 10), "inside");
}

TEST_P(Operations, OwnNamesAreSeenAtOnce) {
  MountForTest mount(url());
  EXPECT_FALSE(mount.look_up("a"));
  (void)mount.create("a");
  EXPECT_TRUE(mount.look_up("a"));
  EXPECT_TRUE(mount.run(mount.names->rename(mount.root(), "a", mount.root(), "b", {})));
  EXPECT_FALSE(mount.look_up("a"));
  EXPECT_TRUE(mount.look_up("b"));
}

TEST_P(Operations, OpenSeesWhatWasClosedElsewhere) {
  served_.write_file("file", "one");
  MountForTest mount(url());
  const Hold node = mount.look_up("file");  // as the kernel has it
  auto opened = mount.open("file");
  EXPECT_EQ(mount.read(opened.id, 0, 100), "one");
  mount.run(mount.files->release(opened.id));
  opened = mount.open("file");
  EXPECT_TRUE(opened.is_unchanged);
  mount.run(mount.files->release(opened.id));
  served_.write_file("file", "another");
  opened = mount.open("file");
  EXPECT_FALSE(opened.is_unchanged);
  EXPECT_EQ(mount.size("file"), 7U);
  EXPECT_EQ(mount.read(opened.id, 0, 100), "another");
}

TEST_P(Operations, OwnWritesKeepTheKernelsPages) {
  MountForTest mount(url());
  const FileId file = mount.create("file");
  const Hold node = mount.look_up("file");
  EXPECT_EQ(mount.write(file, 0, "hello"), 0);
  EXPECT_EQ(mount.flush("file"), 0);
  mount.run(mount.files->release(file));
  EXPECT_EQ(served_.read_file("file"), "hello");
  (void)mount.open("file");
  EXPECT_TRUE(mount.open("file").is_unchanged);
}

TEST_P(Operations, ReadsAndAttributesSeeBytesThatAreOnTheirWay) {
  MountForTest mount(url());
  const FileId file = mount.create("file");
  std::string expected;
  for (int i = 0; i < 200; ++i) {
    const std::string piece(1000, static_cast<char>('a' + i % 26));
    EXPECT_EQ(mount.write(file, expected.size(), piece), 0);
    expected += piece;
  }
  EXPECT_EQ(mount.size("file"), expected.size());
  EXPECT_EQ(mount.read(file, 100, 150'000), expected.substr(100, 150'000));
  EXPECT_EQ(mount.flush("file"), 0);
  EXPECT_EQ(served_.read_file("file"), expected);
  EXPECT_EQ(mount.files->writes().dirty_count(), 0U);
}

TEST_P(Operations, ServerThatWasRestartedGetsUncommittedBytesAgain) {
  MountForTest mount(url());
  const FileId file = mount.create("file");
  EXPECT_EQ(mount.write(file, 0, "first"), 0);
  mount.run(Tree::wait_until_written(mount.look_up("file")));
  // It loses what it did not commit.
  served_.end();
  fs::resize_file(served_.path("file"), 0);
  served_.begin();
  EXPECT_EQ(mount.write(file, 5, "second"), 0);
  EXPECT_EQ(mount.flush("file"), 0);
  EXPECT_EQ(served_.read_file("file"), "firstsecond");
  EXPECT_GE(mount.tree->statistics().bytes_written_twice, 5U);
}

TEST_P(Operations, NewSizeIsNotUndoneByBytesThatGoAgain) {
  MountForTest mount(url());
  const FileId file = mount.create("file");
  EXPECT_EQ(mount.write(file, 0, "0123456789"), 0);
  nfs3::sattr3 cut;
  cut.size.set_size(3);
  EXPECT_TRUE(mount.run(mount.attributes->set(mount.look_up("file"), cut, {})));
  EXPECT_EQ(mount.files->writes().dirty_count(), 0U);
  served_.restart();
  EXPECT_EQ(mount.flush("file"), 0);
  EXPECT_EQ(served_.read_file("file"), "012");
  EXPECT_EQ(mount.read(file, 0, 100), "012");
}

// As cp, tar and rsync do before they close a file.
TEST_P(Operations, TimeThatWasSetOutlastsARestartOfTheServer) {
  MountForTest mount(url());
  const FileId file = mount.create("file");
  EXPECT_EQ(mount.write(file, 0, "hello"), 0);
  nfs3::sattr3 old;
  old.mtime.set_mtime_({1'000'000, 5});
  EXPECT_TRUE(mount.run(mount.attributes->set(mount.look_up("file"), old, {})));
  served_.restart();
  EXPECT_EQ(mount.flush("file"), 0);
  struct stat seen {};
  ASSERT_EQ(::stat(served_.path("file").c_str(), &seen), 0);
  EXPECT_EQ(seen.st_mtim.tv_sec, 1'000'000);
}

template <class T>
Task<void> end_of(Task<T> task, bool& has_ended) {
  (void)co_await std::move(task);
  has_ended = true;
}

// The kernel lets nobody write to a file whose size it is setting, unless it has given that up.
TEST_P(Operations, NewSizeThatWasGivenUpDoesNotComeBehindLaterWrites) {
  MountForTest mount(url());
  const FileId file = mount.create("file");
  const Hold node = mount.look_up("file");
  const auto write_all = [&](char letter) -> Task<void> {
    Buffer buffer = co_await mount.files->take_buffer();
    std::ranges::fill(buffer.memory().first(10), static_cast<std::byte>(letter));
    (void)co_await mount.files->write(file, 0, buffer, 0, 10);
  };
  nfs3::sattr3 cut;
  cut.size.set_size(3);
  bool has_ended = false;
  mount.turns.begin(write_all('a'));
  mount.turns.begin(
      end_of(mount.attributes->set(mount.tree->nodes().find(node->id), cut, {}), has_ended));
  mount.run(write_all('b'));
  EXPECT_TRUE(has_ended);
  EXPECT_EQ(mount.flush("file"), 0);
  EXPECT_EQ(served_.read_file("file"), "bbbbbbbbbb");
}

TEST_P(Operations, MemoryIsBoundedWhateverIsWritten) {
  TreeOptions narrow;
  narrow.memory = 1;  // the least
  MountForTest mount(url(), narrow);
  const FileId file = mount.create("file");
  const std::string piece(100'000, 'x');
  for (int i = 0; i < 100; ++i) {
    Buffer buffer = mount.run(mount.files->take_buffer());
    std::ranges::copy(nfs::bytes_of(piece), buffer.memory().begin());
    const auto offset = static_cast<std::uint64_t>(i) * piece.size();
    EXPECT_TRUE(mount.run(mount.files->write(file, offset, buffer, 0, piece.size())));
  }
  EXPECT_EQ(mount.flush("file"), 0);
  EXPECT_EQ(fs::file_size(served_.path("file")), 100 * piece.size());
  EXPECT_EQ(mount.tree->buffers().free_count(), mount.tree->buffers().count());
}

TEST_P(Operations, CallsWaitWhileTheConnectionHasAsManyAsItMayHave) {
  MountForTest mount(url(), {}, 2);
  const FileId file = mount.create("file");
  std::string expected;
  for (int i = 0; i < 30; ++i) {
    // Buffers of their own, each with a call of its own.
    const std::string piece(100'000, static_cast<char>('a' + i % 26));
    EXPECT_EQ(mount.write(file, expected.size(), piece), 0);
    expected += piece;
  }
  EXPECT_EQ(mount.flush("file"), 0);
  EXPECT_TRUE(served_.read_file("file") == expected);
}

// The pieces wait for each other, 16 at a time, and have one deadline all the same.
TEST_P(Operations, BytesForAServerThatIsGoneFailTogether) {
  constexpr auto kPatience = std::chrono::seconds(2);
  MountForTest mount(url(), {}, 128, kPatience);
  const FileId file = mount.create("file");
  served_.end();
  const auto begun = Clock::now();
  const auto write_all = [&]() -> Task<Outcome<void>> {
    for (std::uint64_t i = 0; i < 100; ++i) {
      // Buffers of their own, each with a call of its own.
      Buffer buffer = mount.tree->buffers().take();
      auto done = co_await mount.files->write(file, i << 20U, buffer, 0, 70'000);
      if (!done) co_return failed(done.error());
    }
    EXPECT_EQ(mount.files->writes().dirty_count(), 1U);
    co_return co_await mount.files->flush(file);
  };
  EXPECT_FALSE(mount.run(write_all()));
  EXPECT_EQ(mount.tree->buffers().free_count(), mount.tree->buffers().count());
  EXPECT_LT(Clock::now() - begun, 4 * kPatience);
  served_.begin();
}

TEST_P(Operations, CallWhoseRequestHasEndedIsNotBegun) {
  MountForTest mount(url());
  const auto late =
      mount.run(mount.names->make_directory(mount.root(), "d", 0755, {.deadline = Clock::now()}));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error(), ETIMEDOUT);
  EXPECT_FALSE(fs::exists(served_.path("d")));
}

TEST_P(Operations, LargeFileIsReadAheadInOrder) {
  std::string content;
  for (int i = 0; i < 300'000; ++i) content += std::to_string(i) + "\n";
  served_.write_file("file", content);
  MountForTest mount(url());
  const FileId file = mount.open("file").id;
  std::string got;
  while (got.size() < content.size()) {
    const std::string piece = mount.read(file, got.size(), 128U << 10U);
    ASSERT_FALSE(piece.empty());
    got += piece;
  }
  EXPECT_TRUE(got == content);
  EXPECT_EQ(mount.read(file, content.size(), 100), "");
  EXPECT_EQ(mount.tree->statistics().bytes_read_ahead, content.size()) << "nothing comes twice";
  mount.run(mount.files->release(file));
  EXPECT_EQ(mount.files->open_count(), 0U);
  EXPECT_EQ(mount.tree->buffers().free_count(), mount.tree->buffers().count());
}

// The kernel does not keep it from writing, as it does for a size that is set otherwise.
TEST_P(Operations, FileIsCutWhenItIsOpenedThoughAnotherProgramWritesToIt) {
  MountForTest mount(url());
  const FileId file = mount.create("log");
  bool ends = false;
  std::uint64_t lines = 0;
  const auto write_on = [&]() -> Task<void> {
    while (!ends) {
      Buffer buffer = co_await mount.files->take_buffer();
      EXPECT_TRUE(co_await mount.files->write(file, lines++ << 20U, buffer, 0, 100'000));
      co_await mount.turns.pause(std::chrono::milliseconds(1));
    }
    EXPECT_TRUE(co_await mount.files->flush(file));
  };
  Hold node = mount.look_up("log");
  const auto open = [&]() -> Task<Outcome<FileOperations::Opened>> {
    auto opened = co_await mount.files->open(std::move(node), O_WRONLY | O_TRUNC, {});
    ends = true;
    co_return opened;
  };
  mount.turns.begin(write_on());
  const auto cut = mount.run(open());
  ASSERT_TRUE(cut) << cut.error();
  for (const FileId each : {file, cut->id}) mount.run(mount.files->release(each));
}

TEST_P(Operations, OpenFileKeepsItsBytesUnderANameOfOursUntilItsLastClose) {
  MountForTest mount(url());
  const FileId file = mount.create("file");
  EXPECT_EQ(mount.write(file, 0, "kept"), 0);
  EXPECT_TRUE(mount.run(mount.names->remove(mount.root(), "file", {})));
  EXPECT_FALSE(mount.look_up("file"));
  std::vector<std::string> left;
  for (const auto& each : fs::directory_iterator(served_.folder()))
    left.push_back(each.path().filename());
  ASSERT_EQ(left.size(), 1U);
  EXPECT_THAT(left[0], testing::StartsWith(".nfs"));
  EXPECT_TRUE(mount.look_up(left[0]));  // somebody lists the directory
  EXPECT_EQ(mount.read(file, 0, 10), "kept");
  mount.run(mount.files->release(file));
  EXPECT_TRUE(fs::is_empty(served_.folder()));
}

TEST_P(Operations, OpenFileThatLosesAllItsNamesLeavesNoneOfOurs) {
  MountForTest mount(url());
  const FileId file = mount.create("a");
  EXPECT_EQ(mount.write(file, 0, "kept"), 0);
  auto linked = mount.run(mount.names->link(mount.look_up("a"), mount.root(), "b", {}));
  ASSERT_TRUE(linked);
  served_.write_file("c", "new");
  EXPECT_TRUE(mount.run(mount.names->remove(mount.root(), "a", {})));
  EXPECT_TRUE(mount.run(mount.names->rename(mount.root(), "c", mount.root(), "b", {})));
  EXPECT_EQ(mount.read(file, 0, 10), "kept");
  const auto names = [&] {
    std::vector<std::string> all;
    for (const auto& each : fs::directory_iterator(served_.folder()))
      all.push_back(each.path().filename());
    return all;
  };
  EXPECT_THAT(names(), testing::UnorderedElementsAre("b", testing::StartsWith(".nfs")));
  mount.run(mount.files->release(file));
  EXPECT_THAT(names(), testing::ElementsAre("b"));
}

TEST_P(Operations, RenameOverAnOpenFileLeavesItItsBytes) {
  MountForTest mount(url());
  const FileId file = mount.create("old");
  EXPECT_EQ(mount.write(file, 0, "old"), 0);
  served_.write_file("new", "new");
  EXPECT_TRUE(mount.run(mount.names->rename(mount.root(), "new", mount.root(), "old", {})));
  EXPECT_EQ(mount.read(file, 0, 10), "old");
  EXPECT_EQ(served_.read_file("old"), "new");
  mount.run(mount.files->release(file));
  EXPECT_EQ(std::distance(fs::directory_iterator(served_.folder()), {}), 1);
}

TEST_P(Operations, RenameThatFailsGivesTheNameBack) {
  MountForTest mount(url());
  const FileId file = mount.create("file");
  served_.write_file("source", "");
  // The name is gone between the lookup and the call.
  EXPECT_TRUE(mount.look_up("source"));
  fs::remove(served_.path("source"));
  EXPECT_FALSE(mount.run(mount.names->rename(mount.root(), "source", mount.root(), "file", {})));
  EXPECT_TRUE(fs::exists(served_.path("file")));
  mount.run(mount.files->release(file));
  EXPECT_TRUE(fs::exists(served_.path("file")));
}

TEST_P(Operations, CreationThatIsNotExclusiveLeavesAFileAlone) {
  served_.write_file("file", "kept");
  ASSERT_EQ(::chmod(served_.path("file").c_str(), 0604), 0);
  MountForTest mount(url());
  const auto made = mount.run(mount.names->create(mount.root(), "file", 0777, false, {}));
  ASSERT_TRUE(made);
  EXPECT_FALSE(made->was_made);
  EXPECT_EQ(made->entry.attributes.mode & 07777U, 0604U);
  EXPECT_EQ(served_.read_file("file"), "kept");
  const auto refused = mount.run(mount.names->create(mount.root(), "file", 0777, true, {}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), EEXIST);
}

// The kernel gets no such file, and never gives it back.
TEST_P(Operations, FilesThatStandInTheWayTakeNoNodes) {
  fs::create_directory(served_.path("directory"));
  MountForTest mount(url());
  const auto made = mount.run(mount.names->create(mount.root(), "directory", 0644, false, {}));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error(), ESTALE);
  EXPECT_EQ(mount.tree->nodes().size(), 1U);
}

// The kernel knows nothing of the size that a rename sees on its way.
TEST_P(Operations, ProgramThatAppendsBehindARenameThatFailsKeepsWhatWasWrittenElsewhere) {
  served_.write_file("file", "");
  fs::create_directory(served_.path("directory"));
  MountForTest mount(url(), always_asking());
  const auto found = mount.run(mount.names->look_up(mount.root(), "file", {}));
  ASSERT_TRUE(found);
  mount.show(*found);
  served_.write_file("file", "written elsewhere");
  EXPECT_FALSE(mount.run(mount.names->rename(mount.root(), "file", mount.root(), "directory", {})));
  const auto opened = mount.run(
      mount.files->open(mount.tree->nodes().find(found->node->id), O_WRONLY | O_APPEND, {}));
  ASSERT_TRUE(opened);
  // Programs of other PID namespaces are all of thread 0.
  for (const int thread : {1, 0}) {
    EXPECT_TRUE(mount.files->has_unknown_end(opened->id, thread)) << thread;
    EXPECT_FALSE(mount.files->has_unknown_end(opened->id, thread)) << thread;
  }
  // The kernel tries once more for each program alone.
  for (const int thread : {1, 2}) {
    EXPECT_TRUE(mount.files->has_unknown_end(opened->id, thread)) << thread;
  }
  for (const int thread : {1, 2}) {
    EXPECT_FALSE(mount.files->has_unknown_end(opened->id, thread)) << thread;
  }
}

TEST_P(Operations, ErrorOfAWriteIsReportedByTheFlushAndOnce) {
  MountForTest mount(url());
  const FileId file = mount.create("file");
  EXPECT_EQ(mount.write(file, std::uint64_t{1} << 62U, "too far"), 0);
  EXPECT_NE(mount.flush("file"), 0);
  EXPECT_EQ(mount.flush("file"), 0);
  EXPECT_EQ(mount.write(file, 0, "again"), 0);
  EXPECT_EQ(mount.flush("file"), 0);
}

TEST_P(Operations, CloseByAnotherProgramTakesNoErrorAway) {
  MountForTest mount(url());
  const FileId file = mount.create("file");
  const FileId other = mount.open("file", O_WRONLY).id;
  EXPECT_EQ(mount.write(file, std::uint64_t{1} << 62U, "too far"), 0);
  const auto flushed = [&](FileId id) { return bool(mount.run(mount.files->flush(id))); };
  EXPECT_FALSE(flushed(other));
  EXPECT_TRUE(flushed(other));
  const FileId later = mount.open("file", O_WRONLY).id;
  EXPECT_FALSE(flushed(file));
  EXPECT_TRUE(flushed(file));
  EXPECT_TRUE(flushed(later));
  EXPECT_EQ(mount.write(file, 0, "again"), 0);
  EXPECT_TRUE(flushed(file));
  EXPECT_TRUE(mount.run(mount.files->end_all()));
}

// Writes on and on, so that there are always bytes on their way.
Task<void> write_until(MountForTest& mount, FileId file, Hold node, bool& has_ended, int& writes) {
  constexpr int kMost = 5000;
  for (writes = 0; writes < kMost && !has_ended; ++writes) {
    Buffer buffer = co_await mount.files->take_buffer();
    const auto offset = static_cast<std::uint64_t>(writes % 100) * 8192;
    (void)co_await mount.files->write(file, offset, buffer, 0, 100);
    while (node->writes->under_way() >= 16 && !has_ended) co_await node->news;
  }
}

TEST_P(Operations, ProgramThatGoesOnWritingKeepsNobodyWaiting) {
  MountForTest mount(url());
  const FileId file = mount.create("file");
  const Hold node = mount.look_up("file");
  const auto held = [&] { return mount.tree->nodes().find(node->id); };
  for (int i = 0; i < 2; ++i) {
    bool has_ended = false;
    int writes = 0;
    mount.turns.begin(write_until(mount, file, held(), has_ended, writes));
    if (i == 0) {
      mount.run(end_of(mount.attributes->get(held(), {}), has_ended));
    } else {
      mount.run(end_of(mount.files->flush(file), has_ended));
    }
    EXPECT_TRUE(has_ended);
    EXPECT_LT(writes, 5000) << i;
  }
}

TEST_P(Operations, BlocksThatWereReadAheadMakeRoom) {
  TreeOptions narrow;
  narrow.memory = 1;  // the least
  served_.write_file("file", std::string(3U << 20U, 'x'));
  MountForTest mount(url(), narrow);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(mount.read(mount.open("file").id, 0, 1000).size(), 1000U);
  EXPECT_LT(mount.tree->buffers().free_count(), mount.tree->buffers().count());
  std::vector<Buffer> all;
  for (std::size_t i = 0; i < mount.tree->buffers().count(); ++i) {
    all.push_back(mount.run(mount.files->take_buffer()));
  }
  EXPECT_EQ(mount.tree->buffers().free_count(), 0U);
}

TEST_P(Operations, ErrorThatNobodyAskedForIsReportedAtTheEnd) {
  MountForTest mount(url());
  const FileId file = mount.create("file");
  EXPECT_EQ(mount.write(file, std::uint64_t{1} << 62U, "too far"), 0);
  EXPECT_EQ(mount.files->writes().dirty_count(), 0U);
  EXPECT_FALSE(mount.run(mount.files->end_all()));
}

TEST_P(Operations, HandleThatIsStaleIsAnErrorAndItsNameIsFoundAnew) {
  MountForTest mount(url());
  served_.write_file("file", "one");
  const FileId file = mount.open("file").id;
  fs::remove(served_.path("file"));
  served_.write_file("file", "two");
  BytesForTest sink;
  const auto stale = mount.run(mount.files->read(file, 0, 10, sink));
  if (!stale) {
    EXPECT_EQ(stale.error(), ESTALE);
  }
  MountForTest other(url(), always_asking());
  EXPECT_EQ(other.read(other.open("file").id, 0, 10), "two");
}

TEST_P(Operations, ServerThatIsTooBusyIsAskedAgain) {
  served_.write_file("file", "");
  MountForTest mount(url(), always_asking());
  served_.stop_workers();
  const auto begun = Clock::now();
  auto making = mount.names->make_directory(mount.root(), "d", 0755, {});
  making.start();
  // The first answer is that it is too busy: the task waits for its time, not for a reply.
  while (!mount.turns.next_time()) {
    ASSERT_FALSE(making.done());
    ASSERT_LT(Clock::now() - begun, std::chrono::seconds(60));
    mount.server->connections().wait();
    mount.server->connections().progress();
  }
  served_.restart();
  while (!making.done()) {
    ASSERT_LT(Clock::now() - begun, std::chrono::seconds(60));
    mount.server->connections().wait(mount.turns.next_time());
    mount.server->connections().progress();
    mount.turns.resume_ready();
  }
  const auto made = std::move(making).result();
  ASSERT_TRUE(made) << made.error();
  EXPECT_TRUE(fs::is_directory(served_.path("d")));
}

TEST_P(Operations, DirectoriesAreReadInPieces) {
  for (int i = 0; i < 500; ++i) served_.write_file("name" + std::to_string(i), "");
  MountForTest mount(url());
  for (const bool with_nodes : {false, true}) {
    const auto id = mount.directories->open(mount.root());
    std::set<std::string> all;
    std::uint64_t offset = 0;
    for (;;) {
      NamesForTest some(7);
      ASSERT_TRUE(mount.run(mount.directories->read(id, offset, with_nodes, some, {})));
      if (some.names.empty()) break;
      for (const std::string& each : some.names) EXPECT_TRUE(all.insert(each).second) << each;
      offset = some.last;
    }
    EXPECT_EQ(all.size(), 502U);  // with "." and ".."
    mount.directories->release(id);
  }
  EXPECT_EQ(mount.tree->nodes().size(), 1U);  // listing keeps nothing
}

TEST_P(Operations, AccessIsAskedOncePerUserAndFile) {
  served_.write_file("file", "");
  ASSERT_EQ(::chmod(served_.path("file").c_str(), 0640), 0);
  MountForTest mount(url());
  rpcrdma::AuthSys somebody;
  somebody.machine_name = "test";
  somebody.uid = somebody.gid = 12345;
  const Who other{12345, &somebody};
  const auto allowed = [&](Who who, int mask) {
    const auto answer = mount.run(mount.attributes->check_access(mount.look_up("file"), mask, who));
    return answer ? 0 : answer.error();
  };
  const Hold node = mount.look_up("file");
  EXPECT_EQ(allowed({}, R_OK | W_OK), 0);
  EXPECT_EQ(allowed(other, R_OK), EACCES);
  served_.end();
  EXPECT_EQ(allowed({}, R_OK), 0);
  EXPECT_EQ(allowed(other, R_OK), EACCES);
  served_.begin();
}

// The kernel has such a bit taken away before a program writes, in the program's name.
TEST_P(Operations, UserWhoIsNotTheOwnerWritesToAFileWithSetUserId) {
  served_.write_file("file", "abc");
  ASSERT_EQ(::chmod(served_.path("file").c_str(), 04777), 0);
  MountForTest mount(url());
  rpcrdma::AuthSys somebody;
  somebody.machine_name = "test";
  somebody.uid = somebody.gid = 12345;
  const Who writer{.uid = 12345, .credential = &somebody};
  const Hold node = mount.look_up("file");
  const auto changed_to = [&](std::uint32_t mode) {
    nfs3::sattr3 changes;
    changes.mode.set_mode(mode);
    const auto done =
        mount.run(mount.attributes->set(mount.tree->nodes().find(node->id), changes, writer));
    return done ? 0 : done.error();
  };
  EXPECT_EQ(changed_to(0777), EPERM);
  const auto opened =
      mount.run(mount.files->open(mount.tree->nodes().find(node->id), O_WRONLY, writer));
  ASSERT_TRUE(opened);
  EXPECT_EQ(changed_to(0777), 0);
  EXPECT_EQ(changed_to(0755), EPERM);
  EXPECT_EQ(mount.write(opened->id, 0, "x"), 0);
  EXPECT_EQ(mount.flush("file"), 0);
  struct stat seen {};
  ASSERT_EQ(::stat(served_.path("file").c_str(), &seen), 0);
  EXPECT_EQ(seen.st_mode & 07777U, 0777U);
}

// An answer for one user, with these groups, says nothing of another.
TEST_P(Operations, OpeningWithoutAskingIsForUsersWhomTheServerHasAnswered) {
  served_.write_file("file", "secret");
  ASSERT_EQ(::chmod(served_.path("file").c_str(), 0640), 0);
  TreeOptions options;
  options.asks_at_open = false;
  MountForTest mount(url(), options);
  const Hold node = mount.look_up("file");
  const auto opened_by = [&](std::uint32_t uid, std::uint32_t gid, int flags = O_RDONLY) {
    rpcrdma::AuthSys somebody;
    somebody.machine_name = "test";
    somebody.uid = uid;
    somebody.gid = gid;
    const auto opened = mount.run(mount.files->open(mount.tree->nodes().find(node->id), flags,
                                                    {.uid = uid, .credential = &somebody}));
    return opened ? 0 : opened.error();
  };
  EXPECT_EQ(opened_by(0, 0), 0);
  EXPECT_EQ(opened_by(12345, 12345), EACCES);
  EXPECT_EQ(opened_by(12345, 0), 0);
  EXPECT_EQ(opened_by(12345, 0, O_WRONLY), EACCES);
  EXPECT_EQ(opened_by(12345, 12345), EACCES);
  served_.end();
  EXPECT_EQ(opened_by(0, 0), 0);
  EXPECT_EQ(opened_by(12345, 0), 0);
  served_.begin();
}

TEST(RepeatedOperations, FindTheirOwnWorkWhenAnAnswerWasLost) {
  nfs::Served served;
  nfs::Relay relay(served.address("tcp"));
  MountForTest mount("nfs+tcp://" + relay.address() + "/data");
  const auto losing = [&](auto task) {
    relay.lose_after(0);
    auto done = mount.run(std::move(task));
    EXPECT_TRUE(done) << done.error();
    EXPECT_TRUE(relay.has_lost_it());
  };
  losing(mount.names->make_directory(mount.root(), "d", 0755, {}));
  losing(mount.names->make_symbolic_link(mount.root(), "link", "target", {}));
  losing(mount.names->make_node(mount.root(), "fifo", S_IFIFO | 0600, {}, {}));
  losing(mount.names->create(mount.root(), "file", 0644, true, {}));
  const Hold file = mount.look_up("file");
  losing(mount.names->link(mount.tree->nodes().find(file->id), mount.root(), "other", {}));
  losing(mount.names->remove_directory(mount.root(), "d", {}));
  (void)mount.look_up("other");
  (void)mount.look_up("file");
  (void)mount.look_up("moved");
  losing(mount.names->rename(mount.root(), "file", mount.root(), "moved", {}));
  (void)mount.look_up("other");
  losing(mount.names->remove(mount.root(), "other", {}));
  std::set<std::string> left;
  for (const auto& each : fs::directory_iterator(served.folder()))
    left.insert(each.path().filename());
  EXPECT_THAT(left, testing::ElementsAre("fifo", "link", "moved"));
}

}  // namespace
}  // namespace mounts
