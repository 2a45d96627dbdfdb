#include "posix/users.h"

#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>

namespace rpcrdma::posix {
namespace {

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
