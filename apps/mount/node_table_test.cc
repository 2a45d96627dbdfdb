#include "mount/node_table.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mounts {
namespace {

class NodeTableTest : public testing::Test {
 protected:
  NodeTableTest() { root_ = table_.add_root(handle_of(0), attributes_of(0)).operator->()->id; }
  static nfs3::nfs_fh3 handle_of(unsigned number) {
    return {{static_cast<std::byte>(number), std::byte{7}}};
  }
  static nfs3::fattr3 attributes_of(std::uint64_t fileid, std::uint64_t fsid = 1) {
    nfs3::fattr3 made;
    made.type = nfs3::ftype3::NF3REG;
    made.fileid = fileid;
    made.fsid = fsid;
    return made;
  }
  NodeId look_up(unsigned number, std::uint64_t fileid, std::uint64_t fsid = 1) {
    const auto node = table_.find_or_add(handle_of(number), attributes_of(fileid, fsid));
    table_.add_lookup(*node);
    return node->id;
  }

  TimeOuts time_outs_;
  NodeTable table_{time_outs_};
  NodeId root_{};
};

TEST_F(NodeTableTest, RootHasTheKernelsNumberAndStays) {
  EXPECT_EQ(root_, kRootNode);
  table_.forget(root_, 1'000);
  EXPECT_TRUE(table_.find(kRootNode));
}

TEST_F(NodeTableTest, LookupsOfOneHandleGiveOneNodeUntilAllAreForgotten) {
  const NodeId first = look_up(1, 11);
  EXPECT_EQ(look_up(1, 11), first);
  table_.forget(first, 1);
  EXPECT_TRUE(table_.find(first));
  table_.forget(first, 1);
  EXPECT_FALSE(table_.find(first));
  EXPECT_EQ(table_.size(), 1U);
}

TEST_F(NodeTableTest, NumberOfAForgottenNodeNamesNothingWhenItsPlaceIsTaken) {
  const NodeId old = look_up(1, 11);
  table_.forget(old, 1);
  const NodeId next = look_up(2, 12);
  EXPECT_NE(next, old);
  EXPECT_FALSE(table_.find(old));
  table_.forget(old, 100);
  EXPECT_TRUE(table_.find(next));
}

TEST_F(NodeTableTest, HandleOfAnotherFileGetsANewNode) {
  const NodeId old = look_up(1, 11);
  const NodeId other = look_up(1, 99);
  EXPECT_NE(other, old);
  EXPECT_TRUE(table_.find(old));
  table_.forget(old, 1);
  EXPECT_EQ(look_up(1, 99), other);
}

TEST_F(NodeTableTest, SameHandleOfAnotherFileSystemIsAnotherFile) {
  EXPECT_NE(look_up(1, 11, 1), look_up(1, 11, 2));
}

TEST_F(NodeTableTest, NodeLivesAsLongAsSomebodyHoldsIt) {
  const NodeId id = look_up(1, 11);
  auto hold = table_.find(id);
  table_.forget(id, 1);
  EXPECT_EQ(hold->fileid, 11U);
  EXPECT_TRUE(table_.find(id));
  hold = {};
  EXPECT_FALSE(table_.find(id));
}

TEST_F(NodeTableTest, DisownedHandleGetsANewNode) {
  const NodeId id = look_up(1, 11);
  table_.disown(*table_.find(id));
  EXPECT_NE(look_up(1, 11), id);
}

TEST_F(NodeTableTest, NumbersThatTheKernelCannotHaveNameNothing) {
  for (const std::uint64_t each : {std::uint64_t{0}, std::uint64_t{2}, ~std::uint64_t{0}}) {
    EXPECT_FALSE(table_.find(NodeId{each}));
    table_.forget(NodeId{each}, 1);
  }
}

class BoundedNodeTable : public testing::Test {
 protected:
  static constexpr unsigned kMost = 64;

  BoundedNodeTable() { add(0, nfs3::ftype3::NF3DIR, true); }
  NodeTable::Hold add(unsigned number, nfs3::ftype3 type = nfs3::ftype3::NF3REG,
                      bool is_root = false) {
    const nfs3::nfs_fh3 handle{{static_cast<std::byte>(number), std::byte{7}}};
    nfs3::fattr3 attributes;
    attributes.type = type;
    attributes.fileid = number;
    if (is_root) return table_.add_root(handle, attributes);
    auto node = table_.find_or_add(handle, attributes);
    table_.add_lookup(*node);
    table_.note_name(*node, kRootNode, std::to_string(number));
    ids_.resize(std::max<std::size_t>(ids_.size(), number + 1));
    ids_[number] = node->id;
    return node;
  }
  std::vector<std::string> forgettable(std::size_t most = 100) {
    std::vector<std::string> names;
    for (const NameOfNode& each : table_.take_forgettable(most)) names.push_back(each.name);
    return names;
  }
  bool has(const std::vector<std::string>& names, unsigned number) {
    return std::ranges::find(names, std::to_string(number)) != names.end();
  }

  TimeOuts time_outs_;
  NodeTable table_{time_outs_, kMost};
  std::vector<NodeId> ids_;
};

TEST_F(BoundedNodeTable, AsksForNothingWhileThereIsRoom) {
  for (unsigned i = 1; i < kMost / 2 - 1; ++i) add(i);
  EXPECT_FALSE(table_.is_nearly_full());
  EXPECT_TRUE(forgettable().empty());
}

TEST_F(BoundedNodeTable, NodesThatNobodyHasUsedTheLongestGoFirst) {
  for (unsigned i = 1; i < 60; ++i) add(i);
  EXPECT_TRUE(table_.is_nearly_full());
  (void)table_.find(ids_[1]);
  const auto names = forgettable();
  EXPECT_FALSE(has(names, 1));
  EXPECT_TRUE(has(names, 2));
  EXPECT_EQ(names.size(), 60 - kMost * 3 / 8);
  // The kernel may need a while, and may keep a file that is open.
  EXPECT_FALSE(has(forgettable(10), 2));
}

TEST_F(BoundedNodeTable, NodesInUseStay) {
  std::vector<NodeTable::Hold> held;
  for (unsigned i = 1; i < 60; ++i) held.push_back(add(i));
  EXPECT_TRUE(forgettable().empty());
  held.erase(held.begin());
  EXPECT_EQ(forgettable(), std::vector<std::string>{"1"});
}

TEST_F(BoundedNodeTable, DirectoriesGoLast) {
  add(1, nfs3::ftype3::NF3DIR);
  for (unsigned i = 2; i < 58; ++i) add(i);
  EXPECT_FALSE(has(forgettable(), 1));
  std::vector<NodeTable::Hold> held;  // the files
  for (unsigned i = 2; i < 58; ++i) held.push_back(table_.find(ids_[i]));
  EXPECT_EQ(forgettable(), std::vector<std::string>{"1"});
}

TEST_F(BoundedNodeTable, NamesOfADirectoryInUseWaitAsLongAsThereIsRoom) {
  for (unsigned i = 1; i < 40; ++i) add(i);
  {
    const auto busy = table_.find(kRootNode);
    EXPECT_TRUE(forgettable().empty());
    for (unsigned i = 40; i < 52; ++i) add(i);
    EXPECT_FALSE(forgettable().empty());
  }
}

TEST_F(BoundedNodeTable, ListingOfADirectoryKeepsNoNameWaiting) {
  for (unsigned i = 1; i < 40; ++i) add(i);
  const auto listed = table_.find(kRootNode);
  ++listed->opened;
  EXPECT_FALSE(forgettable().empty());
}

TEST_F(BoundedNodeTable, NamesBeyondThoseOfANodeGoAtOnce) {
  const auto node = add(1);
  for (const char* const each : {"a", "b", "c", "d", "a"}) table_.note_name(*node, kRootNode, each);
  EXPECT_EQ(forgettable(), std::vector<std::string>{"1"});
  EXPECT_EQ(node->names.size(), 4U);
  NodeTable::drop_name(*node, kRootNode, "d");
  EXPECT_EQ(node->names.size(), 3U);
  EXPECT_TRUE(forgettable().empty());
}

TEST_F(BoundedNodeTable, GreatestNumberIsRemembered) {
  for (unsigned i = 1; i < 10; ++i) add(i);
  for (unsigned i = 1; i < 10; ++i) table_.forget(ids_[i], 1);
  EXPECT_EQ(table_.size(), 1U);
  EXPECT_EQ(table_.most(), 10U);
}

}  // namespace
}  // namespace mounts
