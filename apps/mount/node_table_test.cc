#include "mount/node_table.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace mounts
