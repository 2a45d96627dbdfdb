#include "rpc/serve/server_loop.h"

#include <gtest/gtest.h>

#include <memory>

#include "rdma/siwarp/provider.h"
#include "tests/support/forwarding_provider.h"

namespace rpcrdma::rpc {
namespace {

class WaitsForItselfAlone final : public test::ForwardingProvider {
 public:
  using ForwardingProvider::ForwardingProvider;
  bool wait_also_for(int /*descriptor*/) override { return false; }
};

class ServerLoopTest : public ::testing::Test {
 protected:
  std::unique_ptr<rdma::Provider> inner_ = std::move(*rdma::siwarp::make_provider({}));
  WaitsForItselfAlone provider_{*inner_};
};

TEST_F(ServerLoopTest, RefusesAProviderThatCannotWaitForItsSocketsAndGoesOnWithThese) {
  ServerLoop loop(nullptr);
  const auto reactor = loop.reactor();
  ASSERT_TRUE(reactor);
  const auto refused = loop.set_provider(provider_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kUnsupported);
  ASSERT_EQ(loop.provider(), nullptr);
  EXPECT_EQ(loop.wait_fd(), (*reactor)->fd());
  loop.wake();
  loop.wait();  // wake() wakes the reactor, since the provider was refused
}

TEST_F(ServerLoopTest, RefusesSocketsForWhichItsProviderCannotWait) {
  ServerLoop loop(&provider_);
  const auto refused = loop.reactor();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kUnsupported);
  EXPECT_EQ(loop.wait_fd(), provider_.wait_fd());
}

}  // namespace
}  // namespace rpcrdma::rpc
