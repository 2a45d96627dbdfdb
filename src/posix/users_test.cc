#include "posix/users.h"

#include <gmock/gmock-matchers.h>
#include <grp.h>
#include <gtest/gtest.h>

namespace {

bool knows_groups = true;

}  // namespace

// In place of the system's: root is in its own group, or there is no memory to say so.
extern "C" int getgrouplist(const char* /*name*/, gid_t group, gid_t* groups, int* count) {
  if (!knows_groups) return -1;
  groups[0] = group;
  *count = 1;
  return 1;
}

namespace rpcrdma::posix {
namespace {

TEST(Users, AreNotFoundWhereTheirGroupsAreNotKnown) {
  knows_groups = false;
  EXPECT_FALSE(find_user("root"));
  knows_groups = true;
}

TEST(Users, AreThoseOfTheMachine) {
  const auto root = find_user("root");
  ASSERT_TRUE(root);
  EXPECT_EQ(root->uid, 0U);
  EXPECT_EQ(root->gid, 0U);
  EXPECT_THAT(root->gids, testing::Contains(0U));
}

TEST(Users, AreNotFoundIfTheyDoNotExist) {
  EXPECT_FALSE(find_user(""));
  EXPECT_FALSE(find_user("nobody of this name"));
}

}  // namespace
}  // namespace rpcrdma::posix
