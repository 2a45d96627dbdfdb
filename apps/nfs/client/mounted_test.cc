#include "nfs/client/mounted.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "nfs/served_for_test.h"

namespace nfs {
namespace {

MountOptions software() {
  MountOptions options;
  options.client.provider.name = "siwarp";
  options.credential.emplace().machine_name = "test";
  return options;
}

Failure refused(const std::string& url, const MountOptions& options) {
  auto opened = Mounted::open(parse_nfs_url(url).value(), options);
  EXPECT_FALSE(opened) << url;
  return opened ? Failure() : opened.error();
}

class MountedTest : public testing::TestWithParam<std::string> {
 protected:
  std::string url(std::string_view below) const { return served_.url(GetParam(), below); }

  Served served_;
};

TEST_P(MountedTest, SaysThatNoExportHasTheName) {
  const Failure why = refused(url("/nothing"), software());
  EXPECT_EQ(why.refusal, MountRefusal::kNoExport);
  EXPECT_THAT(why.message(), testing::HasSubstr("/data"));
}

TEST_P(MountedTest, ListsTheClientsOfAnExportThatRefusesThisOne) {
  const Failure why = refused(url("/elsewhere"), software());
  EXPECT_EQ(why.refusal, MountRefusal::kClient);
  EXPECT_FALSE(why.clients.empty());
}

TEST_P(MountedTest, SaysThatMountCannotBeAsked) {
  MountOptions options = software();
  options.mount_port = 1;
  const Failure why = refused(url("/data"), options);
  EXPECT_EQ(why.refusal, MountRefusal::kNotAsked);
  EXPECT_TRUE(why.error);
}

TEST_P(MountedTest, EndsAListThatHasEnoughNames) {
  constexpr std::size_t kNames = 600;  // more than one reply has room for
  for (std::size_t i = 0; i < kNames; ++i) {
    served_.write_file(std::string(100, 'x') + std::to_string(i), "");
  }
  auto server = Mounted::open(parse_nfs_url(url("/data")).value(), software()).value();
  EXPECT_EQ(server->wait_for(server->list(server->root()))->size(), kNames);
  const std::size_t some = server->wait_for(server->list(server->root(), 5))->size();
  EXPECT_GE(some, 5U);
  EXPECT_LT(some, kNames);
}

INSTANTIATE_TEST_SUITE_P(Over, MountedTest, testing::Values("rdma", "tcp"),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace nfs
