#include "oncrpc/registry.h"

#include <gtest/gtest.h>

#include "rpcrdma/service.h"

namespace rpcrdma::oncrpc {
namespace {

// The registry only keeps where a service is.
class NoProcedures final : public Service {
 public:
  const ProcedureTraits* traits(std::uint32_t) const noexcept override { return nullptr; }
  void call(CallContext&) override {}
};

TEST(ServiceRegistry, FindsTheServiceOfTheVersionAsked) {
  ServiceRegistry registry;
  NoProcedures three;
  NoProcedures four;
  NoProcedures other;
  ASSERT_TRUE(registry.add(100003, 4, four).has_value());
  ASSERT_TRUE(registry.add(100005, 3, other).has_value());
  ASSERT_TRUE(registry.add(100003, 3, three).has_value());
  EXPECT_EQ(registry.find(100003, 3).service, &three);
  EXPECT_EQ(registry.find(100003, 4).service, &four);
  EXPECT_EQ(registry.find(100005, 3).service, &other);
  EXPECT_EQ(registry.find(100003, 3).status, AcceptStatus::kSuccess);
}

TEST(ServiceRegistry, UnknownProgramIsUnavailable) {
  ServiceRegistry registry;
  EXPECT_EQ(registry.find(1, 1).status, AcceptStatus::kProgUnavail);
  NoProcedures service;
  ASSERT_TRUE(registry.add(100003, 3, service).has_value());
  const auto found = registry.find(100004, 3);
  EXPECT_EQ(found.status, AcceptStatus::kProgUnavail);
  EXPECT_EQ(found.service, nullptr);
}

TEST(ServiceRegistry, UnknownVersionTellsTheRealRangeOfThatProgramOnly) {
  ServiceRegistry registry;
  NoProcedures service;
  ASSERT_TRUE(registry.add(100003, 4, service).has_value());
  ASSERT_TRUE(registry.add(100003, 2, service).has_value());
  ASSERT_TRUE(registry.add(100002, 1, service).has_value());
  ASSERT_TRUE(registry.add(100004, 9, service).has_value());
  for (const std::uint32_t version : {0U, 1U, 3U, 5U, 0xffffffffU}) {
    const auto found = registry.find(100003, version);
    EXPECT_EQ(found.status, AcceptStatus::kProgMismatch);
    EXPECT_EQ(found.service, nullptr);
    EXPECT_EQ(found.versions, (VersionRange{2, 4}));
  }
}

TEST(ServiceRegistry, SecondServiceForTheSameVersionIsRefusedAndTheFirstStays) {
  ServiceRegistry registry;
  NoProcedures first;
  NoProcedures second;
  ASSERT_TRUE(registry.add(100003, 3, first).has_value());
  EXPECT_EQ(registry.add(100003, 3, second).error(), RegistryError::kDuplicate);
  EXPECT_EQ(registry.find(100003, 3).service, &first);
}

}  // namespace
}  // namespace rpcrdma::oncrpc
