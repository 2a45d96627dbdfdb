// Directories that this client has made: their names are known without asking, as long as nobody
// else adds one, and for a short time.
#include "mount/new_directory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <utility>

#include "mount/mounted_for_test.h"
#include "nfs/served_for_test.h"

namespace mounts {
namespace {

constexpr Time kMade{std::chrono::hours(1)};
constexpr auto kLife = NewDirectory::kLife;
constexpr std::uint32_t kUid = 7;

struct NewDirectoryTest : testing::Test {
  std::size_t total = 0;
  NewDirectory directory{3, kUid, kLife, kMade, total};
};

TEST_F(NewDirectoryTest, LacksAllNamesThatNobodyHasAdded) {
  EXPECT_TRUE(directory.lacks("a", kUid));
  EXPECT_TRUE(directory.add("a", kMade, 10));
  EXPECT_FALSE(directory.lacks("a", kUid));
  EXPECT_TRUE(directory.lacks("b", kUid));
  EXPECT_FALSE(directory.lacks("b", kUid + 1));
}

TEST_F(NewDirectoryTest, LacksNoNameThatTheServerMayHaveByItself) {
  EXPECT_TRUE(directory.add("ReadMe", kMade, 10));
  EXPECT_FALSE(directory.lacks("readme", kUid));
  EXPECT_FALSE(directory.lacks("README", kUid));
  EXPECT_FALSE(directory.lacks(".snapshot", kUid));
  EXPECT_FALSE(directory.lacks("\xc3\xa9", kUid));
}

TEST_F(NewDirectoryTest, HoldsForAWhileAfterTheLastNameAndUntilAChangeElsewhere) {
  EXPECT_TRUE(directory.holds(3, kMade));
  EXPECT_FALSE(directory.holds(4, kMade));
  EXPECT_FALSE(directory.holds(3, kMade + kLife));
  const Time later = kMade + kLife / 2;
  EXPECT_TRUE(directory.add("a", later, 10));
  EXPECT_TRUE(directory.holds(3, kMade + kLife));
  EXPECT_FALSE(directory.holds(3, later + kLife));
}

TEST_F(NewDirectoryTest, AllDirectoriesTogetherHaveABoundedNumberOfNames) {
  EXPECT_TRUE(directory.add("a", kMade, 3));
  {
    NewDirectory other(0, kUid, kLife, kMade, total);
    EXPECT_TRUE(other.add("a", kMade, 3));
    EXPECT_TRUE(other.add("a", kMade, 3));  // it has that one already
    EXPECT_TRUE(other.add("b", kMade, 3));
    EXPECT_EQ(total, 3U);
    EXPECT_FALSE(other.add("c", kMade, 3));
    EXPECT_FALSE(directory.add("b", kMade, 3));
  }
  EXPECT_EQ(total, 1U);
  EXPECT_TRUE(directory.add("b", kMade, 3));
}

// Long enough for a machine that is busy.
TreeOptions with_long_lives() {
  TreeOptions options;
  options.new_directory_life = std::chrono::hours(1);
  options.time_outs.directory_min = options.time_outs.directory_max = std::chrono::hours(1);
  return options;
}

class MadeHere : public testing::Test {
 protected:
  explicit MadeHere(const TreeOptions& options = with_long_lives())
      : mount_(served_.url("rdma", "/data"), options) {}

  Hold hold(const Hold& of) { return mount_.tree->nodes().find(of->id); }
  Hold make_directory() {
    auto made = mount_.run(mount_.names->make_directory(mount_.root(), "new", 0755, {}));
    EXPECT_TRUE(made);
    return std::move(made->node);
  }
  bool has(const Hold& directory, const std::string& name) {
    auto found = mount_.run(mount_.names->look_up(hold(directory), name, {}));
    EXPECT_TRUE(found) << name;
    return found && found->node;
  }
  Hold create(const Hold& directory, const std::string& name) {
    auto made = mount_.run(mount_.names->create(hold(directory), name, 0644, false, {}));
    EXPECT_TRUE(made) << name;
    return made ? std::move(made->entry.node) : Hold();
  }
  std::uint64_t asked() { return mount_.tree->statistics().names_asked; }

  nfs::Served served_;
  MountForTest mount_;
};

TEST_F(MadeHere, NamesThatNobodyHasMadeAreNotAskedFor) {
  const Hold directory = make_directory();
  const std::uint64_t before = asked();
  for (const std::string name : {"a", "b", "c"}) {
    EXPECT_FALSE(has(directory, name));
    const Hold file = create(directory, name);
    EXPECT_TRUE(has(directory, name));
  }
  EXPECT_EQ(asked(), before);
}

TEST_F(MadeHere, NamesOfAllKindsAreThereWhenTheyWereForgotten) {
  const Hold directory = make_directory();
  (void)create(mount_.root(), "file");
  auto& names = *mount_.names;
  const auto at = [&] { return hold(directory); };
  const auto expect_there = [&](const std::string& name, bool is_done) {
    EXPECT_TRUE(is_done) << name;
    mount_.tree->names().drop(directory->id, name);
    EXPECT_TRUE(has(directory, name)) << name;
  };
  expect_there("a", bool(mount_.run(names.create(at(), "a", 0644, false, {}))));
  expect_there("b", bool(mount_.run(names.make_directory(at(), "b", 0755, {}))));
  expect_there("c", bool(mount_.run(names.make_symbolic_link(at(), "c", "a", {}))));
  expect_there("d", bool(mount_.run(names.make_node(at(), "d", S_IFIFO | 0644, {}, {}))));
  expect_there("e", bool(mount_.run(names.link(mount_.look_up("file"), at(), "e", {}))));
  expect_there("f", bool(mount_.run(names.rename(mount_.root(), "file", at(), "f", {}))));
  expect_there("g", bool(mount_.run(names.rename(at(), "f", at(), "g", {}))));
}

TEST_F(MadeHere, NameThatWasMadeElsewhereIsSeenWithTheNextChangeOfOurs) {
  const Hold directory = make_directory();
  EXPECT_FALSE(has(directory, "theirs"));
  served_.write_file("new/theirs", "");
  (void)create(directory, "ours");  // its consistency data tells
  mount_.tree->names().drop(directory->id, "theirs");
  EXPECT_TRUE(has(directory, "theirs"));
}

TEST_F(MadeHere, FileThatWasPutAsideIsThere) {
  const Hold directory = make_directory();
  const Hold file = create(directory, "f");
  const auto opened = mount_.files->open_made(hold(file), {});
  EXPECT_TRUE(mount_.run(mount_.names->remove(hold(directory), "f", {})));
  EXPECT_TRUE(has(directory, file->ours.at(0).name));
  mount_.run(mount_.files->release(opened.id));
}

TEST_F(MadeHere, OtherUsersAskTheServer) {
  const Hold directory = make_directory();
  const std::uint64_t before = asked();
  EXPECT_TRUE(mount_.run(mount_.names->look_up(hold(directory), "a", {.uid = 1})));
  EXPECT_EQ(asked(), before + 1);
}

TEST_F(MadeHere, MakerAsksAgainBehindAChangeOfTheMode) {
  const Hold directory = make_directory();
  nfs3::sattr3 changes;
  changes.mode.set_mode(0700);
  EXPECT_TRUE(mount_.run(mount_.attributes->set(hold(directory), changes, {})));
  const std::uint64_t before = asked();
  EXPECT_FALSE(has(directory, "a"));
  EXPECT_EQ(asked(), before + 1);
}

// Whoever unpacks a tree leaves one directory after the other behind.
TEST_F(MadeHere, DirectoriesThatNobodyLooksIntoKeepNoNames) {
  const Hold directory = make_directory();
  (void)create(directory, "a");
  directory->attributes.expire();
  served_.write_file("new/theirs", "");
  EXPECT_TRUE(
      mount_.run(mount_.attributes->get(hold(directory), {})));  // sees the change elsewhere
  EXPECT_NE(directory->made_here, nullptr);
  EXPECT_TRUE(mount_.run(mount_.names->make_directory(mount_.root(), "next", 0755, {})));
  EXPECT_EQ(directory->made_here, nullptr);
}

class AlwaysAsking : public MadeHere {
 protected:
  AlwaysAsking()
      : MadeHere([] {
          TreeOptions options;
          options.time_outs = {};
          options.time_outs.directory_min = std::chrono::milliseconds(0);
          return options;
        }()) {}
};

TEST_F(AlwaysAsking, NewDirectoryIsAskedForItsNames) {
  const Hold directory = make_directory();
  served_.write_file("new/theirs", "");
  EXPECT_TRUE(has(directory, "theirs"));
}

}  // namespace
}  // namespace mounts
