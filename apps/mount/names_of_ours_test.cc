// A file that was removed while it was open has a name of ours in its directory until the last
// close. A kernel that is busy reports that close behind the removal of the directory.
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <utility>

#include "mount/mounted_for_test.h"

namespace mounts {
namespace {

namespace fs = std::filesystem;
using FileId = FileOperations::FileId;

class NameOfOurs : public testing::Test {
 protected:
  NameOfOurs() {
    EXPECT_TRUE(mount_.run(mount_.names->make_directory(mount_.root(), "d", 0755, {})));
    directory_ = mount_.look_up("d");
  }
  FileId open_file() {  // d/file
    auto made = mount_.run(mount_.names->create(mount_.look_up("d"), "file", 0644, true, {}));
    EXPECT_TRUE(made);
    auto opened = mount_.run(mount_.files->open(std::move(made->entry.node), O_RDWR, {}));
    EXPECT_TRUE(opened);
    return opened->id;
  }
  // Makes d/file, and removes it while it is open.
  FileId removed_while_open() {
    const FileId file = open_file();
    EXPECT_TRUE(mount_.run(mount_.names->remove(mount_.look_up("d"), "file", {})));
    EXPECT_FALSE(fs::is_empty(folder())) << "it has a name of ours";
    return file;
  }
  // Begins a change of names, which waits for the server's reply then, has the file closed
  // meanwhile, and sees the change to its end.
  template <class Change>
  void close_during(Change change, FileId file) {
    bool is_over = false;
    mount_.turns.begin(note_end(std::move(change), is_over));
    EXPECT_FALSE(is_over);
    mount_.run(mount_.files->release(file));
    while (!is_over) mount_.run(pause());
  }
  template <class Change>
  static Task<void> note_end(Change change, bool& is_over) {
    EXPECT_TRUE(co_await std::move(change));
    is_over = true;
  }
  Task<void> pause() { co_await mount_.turns.pause(std::chrono::milliseconds(1)); }
  Task<void> release_late(FileId file, Clock::duration after = std::chrono::milliseconds(20)) {
    co_await mount_.turns.pause(after);
    co_await mount_.files->release(file);
  }
  int remove_directory() {
    const auto removed = mount_.run(mount_.names->remove_directory(mount_.root(), "d", {}));
    return removed ? 0 : removed.error();
  }
  fs::path folder() const { return fs::path(served_.folder()) / "d"; }

  nfs::Served served_;
  MountForTest mount_{served_.url("rdma", "/data")};
  Hold directory_;  // as the kernel has the directory of a file that is open
};

TEST_F(NameOfOurs, DoesNotKeepItsDirectoryWhenTheCloseIsReportedLate) {
  const FileId file = removed_while_open();
  mount_.turns.begin(release_late(file));
  EXPECT_EQ(remove_directory(), 0);
  EXPECT_FALSE(fs::exists(folder()));
}

TEST_F(NameOfOurs, GoesWhenTheLastCloseComesDuringTheRemoval) {
  const FileId file = open_file();
  close_during(mount_.names->remove(mount_.look_up("d"), "file", {}), file);
  EXPECT_TRUE(fs::is_empty(folder()));
  EXPECT_EQ(directory_->names_of_ours, 0U);
}

TEST_F(NameOfOurs, GoesWhenTheLastCloseComesWhileAnotherFileTakesItsName) {
  // The table keeps it as long as it is held here. So nobody looks it up first: the close would
  // come during that, and the file would need no name of ours.
  const auto other = mount_.run(mount_.names->create(mount_.look_up("d"), "other", 0644, true, {}));
  ASSERT_TRUE(other);
  const FileId file = open_file();
  close_during(mount_.names->rename(mount_.look_up("d"), "other", mount_.look_up("d"), "file", {}),
               file);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder()), {}), 1);
  EXPECT_EQ(directory_->names_of_ours, 0U);
}

// A second one would stay: the last close knows of one.
TEST_F(NameOfOurs, IsOneForAFileThatLosesTwoNamesAtOnce) {
  EXPECT_TRUE(mount_.run(mount_.names->make_directory(mount_.root(), "e", 0755, {})));
  const Hold other = mount_.look_up("e");
  served_.write_file("e/new", "x");
  const auto in_other = [&] { return mount_.tree->nodes().find(other->id); };
  for (const bool is_replaced : {false, true}) {
    const FileId file = open_file();
    const auto found = mount_.run(mount_.names->look_up(mount_.look_up("d"), "file", {}));
    EXPECT_TRUE(mount_.run(
        mount_.names->link(mount_.tree->nodes().find(found->node->id), in_other(), "link", {})));
    bool is_over = false;
    mount_.turns.begin(note_end(mount_.names->remove(mount_.look_up("d"), "file", {}), is_over));
    if (is_replaced) {
      EXPECT_TRUE(mount_.run(mount_.names->rename(in_other(), "new", in_other(), "link", {})));
    } else {
      EXPECT_TRUE(mount_.run(mount_.names->remove(in_other(), "link", {})));
    }
    while (!is_over) mount_.run(pause());
    EXPECT_EQ(found->node->ours.size(), 1U);
    mount_.run(mount_.files->release(file));
    EXPECT_TRUE(fs::is_empty(folder()));
    EXPECT_EQ(std::distance(fs::directory_iterator(served_.path("e")), {}), 1) << is_replaced;
    EXPECT_EQ(directory_->names_of_ours, 0U);
    EXPECT_EQ(other->names_of_ours, 0U);
  }
}

TEST_F(NameOfOurs, KeepsItsDirectoryAsLongAsAProgramHasTheFileOpen) {
  const FileId file = removed_while_open();
  EXPECT_EQ(remove_directory(), ENOTEMPTY);
  mount_.run(mount_.files->release(file));
  EXPECT_EQ(remove_directory(), 0);
}

// The server has found it there, and it goes before anybody asks what keeps the directory.
TEST_F(NameOfOurs, KeepsNoDirectoryWhenItGoesRightBehindTheServersRefusal) {
  const FileId file = removed_while_open();
  close_during(mount_.names->remove_directory(mount_.root(), "d", {}), file);
  EXPECT_FALSE(fs::exists(folder()));
}

// The server may be slow to remove it, or to take the bytes that were written before.
TEST_F(NameOfOurs, IsWaitedForAsLongAsItGoes) {
  const FileId file = open_file();
  const auto found = mount_.run(mount_.names->look_up(mount_.look_up("d"), "file", {}));
  EXPECT_TRUE(mount_.run(mount_.names->remove(mount_.look_up("d"), "file", {})));
  const GoingName going(*mount_.tree, *found->node);
  mount_.turns.begin(release_late(file, std::chrono::milliseconds(1500)));
  EXPECT_EQ(remove_directory(), 0);
}

TEST_F(NameOfOurs, GoesAlsoWhenItsDirectoryWasForgotten) {
  const FileId file = removed_while_open();
  directory_ = {};
  mount_.run(mount_.files->release(file));
  EXPECT_TRUE(fs::is_empty(folder()));
}

TEST_F(NameOfOurs, IsNoReasonToRemoveADirectoryThatHasOtherFiles) {
  served_.write_file("d/of-another-client", "x");
  const FileId file = removed_while_open();
  mount_.turns.begin(release_late(file));
  EXPECT_EQ(remove_directory(), ENOTEMPTY);
  EXPECT_TRUE(fs::exists(folder() / "of-another-client"));
}

TEST_F(NameOfOurs, IsCountedOnceWhenItIsRemovedItself) {
  const FileId file = removed_while_open();
  const std::string ours = fs::directory_iterator(folder())->path().filename();
  EXPECT_TRUE(mount_.run(mount_.names->remove(mount_.look_up("d"), ours, {})));
  mount_.run(mount_.files->release(file));
  EXPECT_EQ(directory_->names_of_ours, 0U);
  EXPECT_EQ(remove_directory(), 0);
}

// A program takes the file back, and removes it again; or gives the name to another file.
TEST_F(NameOfOurs, IsOursNoMoreWhenAProgramRenamesIt) {
  const auto rename = [&](const std::string& from, const std::string& to) {
    EXPECT_TRUE(
        mount_.run(mount_.names->rename(mount_.look_up("d"), from, mount_.look_up("d"), to, {})));
  };
  const FileId file = removed_while_open();
  rename(fs::directory_iterator(folder())->path().filename(), "taken-back");
  EXPECT_EQ(directory_->names_of_ours, 0U);
  EXPECT_TRUE(mount_.run(mount_.names->remove(mount_.look_up("d"), "taken-back", {})));
  ASSERT_FALSE(fs::is_empty(folder())) << "the file lost its bytes";
  EXPECT_EQ(directory_->names_of_ours, 1U);
  const std::string ours = fs::directory_iterator(folder())->path().filename();
  served_.write_file("d/other", "bytes of the other");
  rename("other", ours);
  mount_.run(mount_.files->release(file));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder()), {}), 1);
  EXPECT_TRUE(fs::exists(folder() / ours)) << "it is the other's";
  EXPECT_EQ(directory_->names_of_ours, 0U);
}

TEST_F(NameOfOurs, IsCountedInItsDirectoryUntilItHasGone) {
  const FileId file = removed_while_open();
  EXPECT_EQ(directory_->names_of_ours, 1U);
  mount_.run(mount_.files->release(file));
  EXPECT_EQ(directory_->names_of_ours, 0U);
  EXPECT_TRUE(fs::is_empty(folder()));
}

}  // namespace
}  // namespace mounts
