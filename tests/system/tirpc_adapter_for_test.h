// Tests of the adapter for programs of libtirpc share these: calls of its clients, and a table of a
// program for direct placement.
#ifndef RPCRDMA_TESTS_SYSTEM_TIRPC_ADAPTER_FOR_TEST_H_
#define RPCRDMA_TESTS_SYSTEM_TIRPC_ADAPTER_FOR_TEST_H_

#include <gtest/gtest.h>
#include <rpc/rpc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "rpcrdma-tirpc.h"
#include "support/rpc_fixture.h"
#include "support/tirpc_data.h"

namespace rpcrdma::test {

inline constexpr timeval kLong{60, 0};       // nothing takes as long
inline constexpr timeval kShort{0, 20'000};  // of a call that nobody answers

// They are set before anything reads the adapter's settings.
inline constexpr u_int kReplyMax = 600'000, kCallMax = 1'000'000;
inline const bool kAreSet = [] {
  ::setenv("RPCRDMA_TIRPC_REPLY_MAX", std::to_string(kReplyMax).c_str(), 1);
  ::setenv("RPCRDMA_TIRPC_CALL_MAX", std::to_string(kCallMax).c_str(), 1);
  return true;
}();

inline clnt_stat call(CLIENT* client, rpcproc_t procedure, const timeval& limit = kLong,
                      xdrproc_t encode = coder(xdr_void), void* arguments = nullptr,
                      xdrproc_t decode = coder(xdr_void), void* results = nullptr) {
  return client->cl_ops->cl_call(client, procedure, encode, arguments, decode, results, limit);
}

inline void expect_echo(CLIENT* client, u_int size) {
  std::vector<std::byte> data = pattern(size, size);
  Data arguments{size, reinterpret_cast<char*>(data.data())};
  Data results{0, nullptr};
  ASSERT_EQ(call(client, TestService::kEcho, kLong, coder(xdr_data), &arguments, coder(xdr_data),
                 &results),
            RPC_SUCCESS)
      << clnt_sperror(client, "echo");
  EXPECT_TRUE(std::ranges::equal(
      Bytes(reinterpret_cast<const std::byte*>(results.bytes), results.size), data));
  EXPECT_TRUE(clnt_freeres(client, coder(xdr_data), &results));
}

inline rpc_err error_of(CLIENT* client) {
  rpc_err error{};
  clnt_geterr(client, &error);
  return error;
}

struct ClientEnd {
  void operator()(CLIENT* client) const {
    if (client->cl_auth != nullptr) auth_destroy(client->cl_auth);
    clnt_destroy(client);
  }
};
using TirpcClient = std::unique_ptr<CLIENT, ClientEnd>;

inline TirpcClient connect(const std::string& url, rpcvers_t version = TestService::kVersion) {
  TirpcClient client(clnt_rdma_create(url.c_str(), TestService::kProgram, version, nullptr));
  EXPECT_TRUE(client) << clnt_spcreateerror(url.c_str());
  return client;
}

// The TestService's programs under another number, of which there is a table.
inline constexpr rpcprog_t kBoundProgram = TestService::kProgram + 7;
enum : rpcproc_t { kMany = 40, kMade = 41, kMeasured = 42 };
inline constexpr std::size_t kManyItems = 12;  // every other is placed
inline constexpr u_int kManySize = 6'000;
inline constexpr std::array<rpcrdma_tirpc_procedure, 5> kBoundProcedures = {{
    {TestService::kEcho, 1, 1, TestService::kBulkMax, 8},
    {TestService::kWhoAmI, 0, 0, 0, 4},
    {kMany, 0xaaa, 0xaaa, kManySize, kManyItems*(kManySize + 4)},
    {kMade, 0, 1, TestService::kBulkMax, 8},
    {kMeasured, 0, 1, TestService::kBulkMax, 16},
}};
inline constexpr rpcrdma_tirpc_table kTable = {kBoundProgram, TestService::kVersion,
                                               kBoundProcedures.data(), kBoundProcedures.size()};

inline void add_table() {
  static const bool is_added = [] {
    rpcrdma_tirpc_add(&kTable);
    return true;
  }();
  (void)is_added;
}

using Many = std::array<Data, kManyItems>;
inline bool_t xdr_many(XDR* stream, Many* many) {
  return std::ranges::all_of(*many, [&](Data& each) { return xdr_data(stream, &each) == TRUE; });
}

}  // namespace rpcrdma::test

#endif  // RPCRDMA_TESTS_SYSTEM_TIRPC_ADAPTER_FOR_TEST_H_
