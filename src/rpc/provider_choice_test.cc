#include "rpc/provider_choice.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace rpcrdma::rpc {
namespace {

// plugin_for_test.cc has no device for the first address, one that it cannot use for the second,
// one to listen only for the third, and one with a problem for the fourth.
constexpr std::string_view kByTcp = "192.0.2.1:20049", kByDevice = "192.0.2.2:20049",
                           kToListen = "192.0.2.3:20049", kWithProblem = "192.0.2.4:20049";

class ProviderChoice : public testing::Test {
 protected:
  static void SetUpTestSuite() { ::setenv("RPCRDMA_PROVIDER_DIR", RPCRDMA_PLUGIN_FOR_TEST_DIR, 1); }
  // The name of the provider that is made, or is not.
  template <class Options = ClientOptions>
  static std::string chosen(const ProviderOptions& provider, std::string_view address) {
    Options options;
    options.provider = provider;
    const auto made = make_provider(options, address);
    return made ? std::string((*made)->name()) : made.error().peer;
  }
};

TEST_F(ProviderChoice, IsTheDeviceOfTheAddressUnlessAnotherIsNamed) {
  ProviderOptions options;
  EXPECT_EQ(chosen(options, kByDevice), "verbs");
  EXPECT_EQ(chosen(options, kByTcp), "siwarp");
  options.name = "siwarp";
  EXPECT_EQ(chosen(options, kByDevice), "siwarp");
  options.name = "verbs";
  EXPECT_EQ(chosen(options, kByTcp), "verbs");
}

TEST_F(ProviderChoice, IsTheDeviceThatListensWhereAServerAsks) {
  EXPECT_EQ(chosen<ServerOptions>({}, kToListen), "verbs");
  EXPECT_EQ(chosen<ClientOptions>({}, kToListen), "siwarp");
}

TEST_F(ProviderChoice, PassesOverADeviceThatCannotBeUsed) {
  EXPECT_EQ(chosen({}, kWithProblem), "siwarp");
}

TEST_F(ProviderChoice, IsTcpForWhatOnlyTcpHas) {
  ProviderOptions options;
  options.capture_file = testing::TempDir() + "rpcrdma_provider_choice.pcapng";
  EXPECT_EQ(chosen(options, kByDevice), "siwarp");
  std::remove(options.capture_file.c_str());
}

TEST_F(ProviderChoice, SaysWhyAProviderCannotBeMade) {
  ClientOptions options;
  options.provider.name = "siwarp";
  options.provider.capture_file = testing::TempDir() + "no such folder/file.pcapng";
  const auto made = make_provider(options, kByTcp);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().operation, "opening the provider");
  EXPECT_EQ(made.error().peer, "siwarp");
}

}  // namespace
}  // namespace rpcrdma::rpc
