#include "rpc/serve/call_name.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <vector>

#include "rpcrdma/xdr.h"

namespace rpcrdma::rpc {
namespace {

using Message = std::vector<std::byte>;

Message words(std::initializer_list<std::uint32_t> values) {
  Message bytes(values.size() * xdr::kWordSize);
  std::size_t at = 0;
  for (const std::uint32_t each : values) {
    xdr::store_word(&bytes[at], each);
    at += xdr::kWordSize;
  }
  return bytes;
}

std::uint64_t name(const Message& inline_part, std::uint64_t host = 5, std::uint64_t chunks = 6,
                   std::uint32_t xid = 7) {
  return name_of_call(host, chunks, Xid{xid}, inline_part);
}

// A Call with RPCSEC_GSS: the sequence number and the verifier are those of one transmission.
Message gss_call(std::uint32_t sequence, std::uint32_t service,
                 std::initializer_list<std::uint32_t> arguments, std::uint32_t handle = 99,
                 std::uint32_t procedure = 1) {
  Message call = words({7, 0, 2, 100'003, 3, procedure, 6, 24, 1, 0, sequence, service, 4, handle,
                        6, 4, sequence * 77});
  const Message behind = words(arguments);
  call.insert(call.end(), behind.begin(), behind.end());
  return call;
}

TEST(NameOfCall, DependsOnHostAndXidAndChunksAndArguments) {
  const Message call = words({7, 0, 2, 100'003, 3, 1, 0, 0, 0, 0, 11, 12});
  EXPECT_EQ(name(call), name(call));
  EXPECT_NE(name(call), name(call, 1));
  EXPECT_NE(name(call), name(call, 5, 1));
  EXPECT_NE(name(call), name(call, 5, 6, 1));
  EXPECT_NE(name(call), name(words({7, 0, 2, 100'003, 3, 2, 0, 0, 0, 0, 11, 12}))) << "procedure";
  EXPECT_NE(name(call), name(words({7, 0, 2, 100'003, 3, 1, 0, 0, 0, 0, 11, 13}))) << "arguments";
  EXPECT_NE(name(call), name(words({7, 0, 2, 100'003, 3, 1, 1, 4, 1, 0, 0, 11, 12}))) << "caller";
  EXPECT_NE(name({}), 0U);
  EXPECT_NE(name(words({7, 0, 2})), 0U) << "cut off";
}

TEST(NameOfCall, IsThatOfEachTransmissionUnderRpcsecGss) {
  EXPECT_EQ(name(gss_call(1, 1, {11, 12})), name(gss_call(2, 1, {11, 12})));
  EXPECT_NE(name(gss_call(1, 1, {11, 12})), name(gss_call(1, 1, {11, 13}))) << "arguments";
  EXPECT_NE(name(gss_call(1, 1, {11, 12})), name(gss_call(1, 1, {11, 12}, 98))) << "context";
  EXPECT_NE(name(gss_call(1, 1, {11, 12})), name(gss_call(1, 1, {11, 12}, 99, 2))) << "procedure";
}

TEST(NameOfCall, LeavesOutWhatProtectionChangesInEachTransmission) {
  // Integrity: length, sequence number, arguments, checksum.
  EXPECT_EQ(name(gss_call(1, 2, {8, 1, 11, 4, 500})), name(gss_call(2, 2, {8, 2, 11, 4, 600})));
  EXPECT_NE(name(gss_call(1, 2, {8, 1, 11, 4, 500})), name(gss_call(2, 2, {8, 2, 12, 4, 500})))
      << "arguments";
  EXPECT_EQ(name(gss_call(1, 3, {8, 1, 2})), name(gss_call(2, 3, {8, 3, 4}))) << "enciphered";
}

}  // namespace
}  // namespace rpcrdma::rpc
