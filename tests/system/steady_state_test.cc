// Measures what a call costs in steady state: no heap allocation, and no copy of its payload.
//
// operator new is replaced in this program (tools/bench/allocations.h), so that every allocation of
// either side is counted.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstdio>

#include "posix/address.h"
#include "posix/fd.h"
#include "rpcrdma/client.h"
#include "rpcrdma/coroutine.h"
#include "rpcrdma/server.h"
#include "support/rpc_fixture.h"
#include "tools/bench/allocations.h"

namespace rpcrdma::test {
namespace {

struct Case {
  const char* name;
  std::uint32_t procedure;
  std::size_t size;
  bool crc;
};
void PrintTo(const Case& value, std::ostream* out) {
  *out << value.name;
}

class SteadyState : public ::testing::TestWithParam<Case> {
 protected:
  SteadyState() : pair_(test::make_siwarp(GetParam().crc)), data_(test::pattern(1U << 20U, 1)) {
    for (auto& place : places_) place.resize(1U << 20U);
  }

  // Keeps kDepth calls in flight until `count` more have ended.
  void run(int count) {
    left_ = count;
    ended_ = 0;
    for (int i = 0; i < kDepth; ++i) start(i);
    while (ended_ < count) {
      pair_.client->progress();
      pair_.server->progress();
    }
  }
  void start(int index) {
    if (left_ == 0) return;
    --left_;
    auto call = pair_.prepare(GetParam().procedure);
    ASSERT_TRUE(call);
    if (GetParam().procedure != TestService::kNull) {
      call->arguments().bulk(Bytes(data_).first(GetParam().size));
    }
    if (GetParam().procedure == TestService::kEcho) {
      call->place_result(MutableBytes(places_[index]).first(GetParam().size));
      call->expect_results(4);
    }
    ASSERT_TRUE(pair_.client->start(std::move(*call), [this, index](auto reply) {
      ASSERT_TRUE(reply);
      ++ended_;
      start(index);
    }));
  }

  static constexpr int kDepth = 8;
  test::RpcPair pair_;
  std::vector<std::byte> data_;
  std::vector<std::byte> places_[kDepth];
  int left_ = 0, ended_ = 0;
};

TEST(AllocationCounter, CountsEveryNewOfThisProgram) {
  const std::uint64_t before = tools::bench::allocations();
  auto* volatile one = new int(1);
  std::vector<int> many(100);
  const void* volatile is_seen = many.data();  // or Clang leaves both of them out
  EXPECT_EQ(tools::bench::allocations() - before, 2U);
  EXPECT_NE(is_seen, nullptr);
  delete one;
}

TEST_P(SteadyState, AllocatesNothingAndCopiesNoPayload) {
  constexpr int kCalls = 300, kRounds = 6;
  TransferCounters client_before, server_before;
  std::uint64_t allocated = 0;
  // Pools and kernel buffers get their size in the first rounds. When each has it depends on how
  // calls meet: on a busy machine a pool may grow once more in the second. Every round shows what a
  // call allocates each time.
  for (int round = 0; round < kRounds; ++round) {
    client_before = pair_.client->counters();
    server_before = pair_.server->counters();
    const std::uint64_t allocations_before = tools::bench::allocations();
    run(kCalls);
    allocated = tools::bench::allocations() - allocations_before;
    if (allocated == 0) break;
  }
  EXPECT_EQ(allocated, 0U) << "heap allocations in the last of " << kRounds << " times " << kCalls
                           << " calls, both sides";
  if (GetParam().size == 0) return;
  // In each direction: what either side copied, over the payload that went that way.
  const double directions = GetParam().procedure == TestService::kEcho ? 2 : 1;
  const double payload = static_cast<double>(GetParam().size) * kCalls;
  const double client_copied =
      static_cast<double>(pair_.client->counters().bytes_copied - client_before.bytes_copied);
  const double server_copied =
      static_cast<double>(pair_.server->counters().bytes_copied - server_before.bytes_copied);
  const double ratio = (client_copied + server_copied) / (payload * directions);
  RecordProperty("copied_per_payload_byte", std::to_string(ratio));
  std::printf("%s: %.4f bytes copied per payload byte\n", GetParam().name, ratio);
  EXPECT_GT(client_copied, 0) << "the counter counts: headers are copied";
  EXPECT_LE(ratio, 0.03);
}

// The frame is there once; each call lives in it.
Task<void> null_calls(Client& client, int count, int& ended) {
  for (int i = 0; i < count; ++i) {
    auto call = client.prepare({TestService::kProgram, TestService::kVersion, TestService::kNull});
    auto reply = co_await client.call_async(std::move(*call));
    if (!reply) co_return;
    ++ended;
  }
}

TEST(SteadyStateOfCoroutines, AwaitingACallAllocatesNothing) {
  test::RpcPair pair(test::make_siwarp(true));
  int ended = 0;
  std::uint64_t allocations_before = 0;
  start_detached(null_calls(*pair.client, 400, ended));
  while (ended < 400 && pair.client->calls_in_flight() > 0) {
    if (ended < 100) allocations_before = tools::bench::allocations();
    pair.client->progress();
    pair.server->progress();
  }
  ASSERT_EQ(ended, 400);
  EXPECT_EQ(tools::bench::allocations() - allocations_before, 0U);
}

INSTANTIATE_TEST_SUITE_P(Siwarp, SteadyState,
                         ::testing::Values(Case{"Null", TestService::kNull, 0, true},
                                           Case{"Send64KiB", TestService::kLength, 65536, false},
                                           Case{"Send64KiBCrc", TestService::kLength, 65536, true},
                                           Case{"Send1MiB", TestService::kLength, 1048576, false},
                                           Case{"Echo64KiB", TestService::kEcho, 65536, false},
                                           Case{"Echo64KiBCrc", TestService::kEcho, 65536, true},
                                           Case{"Echo1MiB", TestService::kEcho, 1048576, false},
                                           Case{"Echo1MiBCrc", TestService::kEcho, 1048576, true}),
                         [](const auto& test) { return test.param.name; });

// The peer is a plain socket whose memory is there before.
TEST(SteadyStateOfTcp, ServerAllocatesNothing) {
  constexpr std::uint32_t kSize = 65536;
  TestService service;
  auto server = Server::listen("tcp://127.0.0.1:0");
  ASSERT_TRUE(server);
  ASSERT_TRUE(server->add(TestService::kProgram, TestService::kVersion, service));
  const auto address = posix::parse_address(server->address());
  const posix::Fd peer(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(peer.value(), address->pointer(), address->size), 0);
  std::vector<std::byte> call(4 + 40 + 4 + kSize), reply(4 + 24 + 4 + kSize);
  xdr::Writer writer(call);
  writer.words({0x80000000U | (44 + kSize), 1, 0, 2, TestService::kProgram, TestService::kVersion,
                TestService::kEcho, 0, 0, 0, 0, kSize});
  const auto echo = [&] {
    std::size_t sent = 0, received = 0;
    while (received < reply.size()) {
      const ssize_t out =
          ::send(peer.value(), call.data() + sent, call.size() - sent, MSG_DONTWAIT);
      if (out > 0) sent += static_cast<std::size_t>(out);
      server->progress();
      const ssize_t in =
          ::recv(peer.value(), reply.data() + received, reply.size() - received, MSG_DONTWAIT);
      if (in > 0) received += static_cast<std::size_t>(in);
    }
  };
  for (int i = 0; i < 50; ++i) echo();
  const std::uint64_t before = tools::bench::allocations();
  for (int i = 0; i < 500; ++i) echo();
  EXPECT_EQ(tools::bench::allocations() - before, 0U);
  EXPECT_EQ(service.calls, 550U);
}

}  // namespace
}  // namespace rpcrdma::test
