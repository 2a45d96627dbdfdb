#include "nfs/lock_service.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nfs/served_for_test.h"

namespace nlm4 {
namespace {

class LockServiceTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    client_ = served_.connect(GetParam());
    locks_.emplace(*client_);
  }
  nlm4_lock lock() const { return {"host", cookie_, cookie_, 1, 0, 10}; }
  void expect_refusal(const rpcrdma::Expected<nlm4_res, rpcrdma::Error>& results) const {
    ASSERT_TRUE(results) << results.error().message();
    EXPECT_EQ(results->stat, nlm4_stats::NLM4_DENIED_NOLOCKS);
    EXPECT_EQ(results->cookie, cookie_);
  }

  nfs::Served served_;
  std::unique_ptr<rpcrdma::Client> client_;
  std::optional<NLM_V4_Client> locks_;
  const netobj cookie_{std::byte{1}, std::byte{2}, std::byte{3}};
};
INSTANTIATE_TEST_SUITE_P(Over, LockServiceTest, testing::Values("rdma", "tcp"),
                         [](const auto& test) { return test.param; });

TEST_P(LockServiceTest, RefusesEachLockAtOnce) {
  ASSERT_TRUE(locks_->NLMPROC4_NULL());
  expect_refusal(locks_->NLMPROC4_LOCK({cookie_, true, true, lock(), false, 1}));
  expect_refusal(locks_->NLMPROC4_NM_LOCK({cookie_, false, true, lock(), false, 1}));
  expect_refusal(locks_->NLMPROC4_CANCEL({cookie_, true, true, lock()}));
  expect_refusal(locks_->NLMPROC4_UNLOCK({cookie_, lock()}));
  expect_refusal(locks_->NLMPROC4_GRANTED({cookie_, true, lock()}));
  const auto tested = locks_->NLMPROC4_TEST({cookie_, true, lock()});
  ASSERT_TRUE(tested) << tested.error().message();
  EXPECT_EQ(tested->test_stat.stat(), nlm4_stats::NLM4_DENIED_NOLOCKS);
  EXPECT_EQ(tested->cookie, cookie_);
  const auto shared = locks_->NLMPROC4_SHARE({cookie_, {"host", cookie_, cookie_, 0, 1}, false});
  ASSERT_TRUE(shared) << shared.error().message();
  EXPECT_EQ(shared->stat, nlm4_stats::NLM4_DENIED_NOLOCKS);
  EXPECT_TRUE(locks_->NLMPROC4_FREE_ALL({"host", 1}));
}

// Their results would be calls to the client, which nobody here makes.
TEST_P(LockServiceTest, HasNoProceduresThatAreAnsweredByCalls) {
  for (std::uint32_t procedure = 6; procedure < 16; ++procedure) {
    auto call = client_->prepare({NLM_V4_Service::kProgram, NLM_V4_Service::kVersion, procedure});
    ASSERT_TRUE(call);
    const auto reply = client_->call(std::move(*call));
    ASSERT_FALSE(reply) << procedure;
    EXPECT_EQ(reply.error().code, rpcrdma::Errc::kNotAvailable) << procedure;
  }
}

}  // namespace
}  // namespace nlm4
