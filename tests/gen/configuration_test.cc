// The library's own messages of the Connection Configuration Protocol, which are written by hand.
#include "oncrpc/configuration.h"

#include <gtest/gtest.h>

#include <array>

#include "ccp.h"

namespace rpcrdma {
namespace {

TEST(ConfigurationProtocol, IsWhatTheGeneratorMakesOfItsInterface) {
  EXPECT_EQ(oncrpc::kConfigureConnection,
            (Procedure{ccp::CONFIG_RDMA_PROG, ccp::VERS1, ccp::CONF_RDMA}));
  const ccp::config_rdma_req request{8192, 4096, 7};
  const ccp::config_rdma_reply reply{2048, 512, 9};
  std::array<std::byte, 12> ours;
  xdr::Writer writer(ours);
  oncrpc::encode(oncrpc::ConfigurationRequest{8192, 4096, 7}, writer);
  EXPECT_EQ(to_bytes(request), std::vector(ours.begin(), ours.end()));
  xdr::Reader reader(ours);
  EXPECT_EQ(oncrpc::decode_configuration_request(reader),
            (oncrpc::ConfigurationRequest{8192, 4096, 7}));
  writer = xdr::Writer(ours);
  oncrpc::encode(oncrpc::ConfigurationReply{2048, 512, 9}, writer);
  EXPECT_EQ(to_bytes(reply), std::vector(ours.begin(), ours.end()));
  reader = xdr::Reader(ours);
  EXPECT_EQ(oncrpc::decode_configuration_reply(reader), (oncrpc::ConfigurationReply{2048, 512, 9}));
}

}  // namespace
}  // namespace rpcrdma
