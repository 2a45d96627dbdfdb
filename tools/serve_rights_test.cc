#include "tools/serve_rights.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace rpcrdma::tools {
namespace {

const ServiceUser kUser{1000, {1000, 50}};

TEST(ServiceUser, HasTheRightsOfOthersWhereItIsNeitherOwnerNorMember) {
  EXPECT_FALSE(has_rights(kUser, {0, 0, 0755}, W_OK));
  EXPECT_TRUE(has_rights(kUser, {0, 0, 0755}, R_OK | X_OK));
  EXPECT_TRUE(has_rights(kUser, {0, 0, 01777}, R_OK | W_OK | X_OK));
  EXPECT_FALSE(has_rights(kUser, {65534, 65534, 0755}, R_OK | W_OK | X_OK));
}

TEST(ServiceUser, HasTheRightsOfItsGroups) {
  EXPECT_TRUE(has_rights(kUser, {0, 50, 0070}, R_OK | W_OK | X_OK));
  EXPECT_FALSE(has_rights(kUser, {0, 51, 0070}, X_OK));
  EXPECT_FALSE(has_rights(kUser, {0, 50, 0707}, X_OK)) << "others' bits are not for a member";
}

TEST(ServiceUser, HasAsOwnerTheOwnersRightsAlone) {
  EXPECT_TRUE(has_rights(kUser, {1000, 0, 0700}, R_OK | W_OK | X_OK));
  EXPECT_FALSE(has_rights(kUser, {1000, 1000, 0577}, W_OK));
}

}  // namespace
}  // namespace rpcrdma::tools
