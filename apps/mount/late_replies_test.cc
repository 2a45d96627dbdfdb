// Replies that overtake each other: what a later call has found stays, and the operation whose
// reply comes late answers its program as well as it can. Attributes are as old as their call.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "mount/hostile_server_for_test.h"

namespace mounts {
namespace {

template <class T>
Task<void> note_end(Task<T> task, std::optional<T>& into) {
  into.emplace(co_await std::move(task));
}

// Each GETATTR finds the file, and each its directory, as somebody has just changed it.
class LateReplies : public Lied {
 protected:
  void SetUp() override {
    Lied::SetUp();
    liar_.is_honest = true;
    liar_.attributes = [this](const nfs3::nfs_fh3& of) {
      auto made = of.data == handle_of(0).data ? attributes_of(ftype3::NF3DIR, 1)
                                               : attributes_of(ftype3::NF3REG, 7);
      made.size = made.mtime.seconds = made.ctime.seconds = ++changes_;
      return made;
    };
  }
  // Begins an operation, which waits for its reply then, and lets another call overtake that.
  template <class T>
  T overtaken(Task<T> task, Node& by_call_about) {
    std::optional<T> result;
    mount_->turns.begin(note_end(std::move(task), result));
    EXPECT_TRUE(mount_->run(mount_->tree->ask_attributes(by_call_about, {})));
    EXPECT_TRUE(result);
    return std::move(*result);
  }

  std::uint32_t changes_ = 0;
};

TEST_F(LateReplies, AttributesOfALaterCallStay) {
  const Hold node = mount_->look_up("name");
  node->attributes.expire();
  liar_.holds_attributes = true;
  const auto late =
      overtaken(mount_->attributes->get(mount_->tree->nodes().find(node->id), {}), *node);
  ASSERT_NE(node->attributes.fresh(Tree::now()), nullptr);
  EXPECT_EQ(node->attributes.last()->size, 2U);
  // The program gets no older ones, which the kernel would keep.
  ASSERT_TRUE(late);
  EXPECT_EQ(late->attributes.size, 2U);
  EXPECT_EQ(late->version, node->attributes.version());
  const auto asked = mount_->tree->statistics().attributes_asked;
  EXPECT_EQ(mount_->size("name"), 2U);
  EXPECT_EQ(mount_->tree->statistics().attributes_asked, asked);
}

TEST_F(LateReplies, NameThatWasNotFoundBeforeAChangeElsewhereIsNotRemembered) {
  liar_.is_found = false;
  liar_.holds_lookup = true;
  const Hold root = mount_->root();
  const auto late = overtaken(mount_->names->look_up(mount_->root(), "name", {}), *root);
  ASSERT_TRUE(late);
  EXPECT_FALSE(late->node);
  EXPECT_EQ(late->left, Clock::duration{}) << "the kernel would remember it";
  liar_.holds_lookup = false;
  liar_.is_found = true;
  EXPECT_TRUE(mount_->look_up("name"));
}

TEST_F(LateReplies, NameThatWasFoundBeforeAChangeElsewhereIsNotRemembered) {
  liar_.holds_lookup = true;
  const Hold root = mount_->root();
  const auto late = overtaken(mount_->names->look_up(mount_->root(), "name", {}), *root);
  ASSERT_TRUE(late);
  EXPECT_TRUE(late->node);
  EXPECT_EQ(late->left, Clock::duration{}) << "the kernel would remember it";
  EXPECT_EQ(mount_->tree->names().size(), 0U);
}

// A file that lost a name has one link less, which only a later call shows.
TEST_F(LateReplies, AttributesFromBeforeARemovalAreNotShownBehindIt) {
  const Hold node = mount_->look_up("name");
  node->attributes.expire();
  liar_.holds_attributes = true;
  std::optional<Outcome<AttributeOperations::Shown>> late;
  mount_->turns.begin(
      note_end(mount_->attributes->get(mount_->tree->nodes().find(node->id), {}), late));
  EXPECT_TRUE(mount_->run([&]() -> Task<Outcome<void>> {
    auto removed = co_await mount_->names->remove(mount_->root(), "name", {});
    (void)co_await mount_->tree->ask_attributes(*mount_->root(), {});  // ends the held one
    co_return removed;
  }()));
  ASSERT_TRUE(late && *late);
  EXPECT_EQ((*late)->left, Clock::duration{});
  EXPECT_EQ((*late)->version, AttributeCache::kNoVersion);
  EXPECT_EQ(node->attributes.fresh(Tree::now()), nullptr);
}

// The answer is of before the change, and another program's would come from it.
TEST_F(LateReplies, RightsFromBeforeAChangeOfTheModeAreNotRemembered) {
  liar_.attributes = [](const nfs3::nfs_fh3&) { return attributes_of(ftype3::NF3REG, 7); };
  const Hold node = mount_->look_up("name");
  liar_.holds_access = true;
  std::optional<Outcome<void>> late;
  mount_->turns.begin(note_end(
      mount_->attributes->check_access(mount_->tree->nodes().find(node->id), R_OK, {}), late));
  liar_.after_change = attributes_of(ftype3::NF3REG, 7);
  liar_.changed_at = UINT32_MAX;  // SETATTR without a guard
  nfs3::sattr3 mode;
  mode.mode.set_mode(0);
  EXPECT_TRUE(mount_->run([&]() -> Task<Outcome<AttributeOperations::Shown>> {
    co_return co_await mount_->attributes->set(mount_->tree->nodes().find(node->id), mode, {});
  }()));
  ASSERT_TRUE(late);
  EXPECT_TRUE(*late);
  EXPECT_NE(node->attributes.fresh(Tree::now()), nullptr);
  EXPECT_EQ(node->access.find(0, nullptr, nfs3::ACCESS3_READ, Tree::now()), std::nullopt);
}

// The server may have looked at the file as soon as the call began, however late its reply comes.
class Age : public LateReplies {
 protected:
  void SetUp() override {
    LateReplies::SetUp();
    node_ = mount_->look_up("name");
    node_->attributes.expire();
  }
  void TearDown() override {
    node_ = {};
    LateReplies::TearDown();
  }
  // Runs an operation that brings attributes of the node by its first call. Returns whether they
  // are believed from the beginning of the call on, and not from the reply.
  template <class T>
  bool counts_from_the_call(Task<T> task) {
    const Time before = Tree::now();
    std::optional<T> result;
    mount_->turns.begin(note_end(std::move(task), result));
    const Time asked = Tree::now();
    while (!result) mount_->progress();
    EXPECT_TRUE(*result);
    const auto time_out = TimeOuts().file_min;
    const auto least = time_out - Clock::duration(1);
    EXPECT_NE(node_->attributes.fresh(before + least), nullptr) << "the reply brings none";
    return node_->attributes.fresh(asked + time_out) == nullptr;
  }
  Hold node() { return mount_->tree->nodes().find(node_->id); }

  Hold node_;
};

TEST_F(Age, CountsFromTheQuestionForAttributes) {
  EXPECT_TRUE(counts_from_the_call(mount_->attributes->get(node(), {})));
}

TEST_F(Age, CountsFromTheLookupOfAName) {
  EXPECT_TRUE(counts_from_the_call(mount_->names->look_up(mount_->root(), "name", {})));
}

TEST_F(Age, CountsFromTheQuestionForAPageOfNames) {
  liar_.list = [](nfs3::cookie3, nfs3::READDIRPLUS3resok& ok) {
    nfs3::entryplus3& entry = ok.reply.entries.emplace_back();
    entry.cookie = 1;
    entry.name = "name";
    entry.name_handle.set_handle(handle_of(7));
    entry.name_attributes.set_attributes(attributes_of(ftype3::NF3REG, 7));
    ok.reply.eof = true;
  };
  NamesForTest names;
  const auto id = mount_->directories->open(mount_->root());
  EXPECT_TRUE(counts_from_the_call(mount_->directories->read(id, 0, true, names, {})));
  mount_->directories->release(id);
}

TEST_F(Age, CountsFromTheBeginningOfAChange) {
  liar_.after_change = attributes_of(ftype3::NF3REG, 7);
  liar_.changed_at = UINT32_MAX;  // SETATTR without a guard
  nfs3::sattr3 mode;
  mode.mode.set_mode(0);
  EXPECT_TRUE(counts_from_the_call(mount_->attributes->set(node(), mode, {})));
}

TEST_F(Age, CountsFromTheBeginningOfTheMountForItsRoot) {
  const auto time_out = TimeOuts().directory_min;
  Tree tree(*mount_->server, mount_->turns, TreeOptions());
  std::optional<Outcome<void>> begun;
  const Time before = Tree::now();
  mount_->turns.begin(note_end(tree.begin(), begun));
  const Time asked = Tree::now();
  while (!begun) mount_->progress();
  ASSERT_TRUE(*begun);
  const Hold root = tree.nodes().find(kRootNode);
  EXPECT_NE(root->attributes.fresh(before + time_out - Clock::duration(1)), nullptr);
  EXPECT_EQ(root->attributes.fresh(asked + time_out), nullptr);
}

}  // namespace
}  // namespace mounts
