// Memory that the application registers once, beside memory that each call registers.
#include <gtest/gtest.h>

#include <cstring>

#include "support/rpc_fixture.h"

namespace rpcrdma::test {
namespace {

// Answers with memory of its own: procedure 1, u32 offset, u32 size -> bulk.
class FileService final : public Service {
 public:
  explicit FileService(Bytes file) : file_(file) {}
  const ProcedureTraits* traits(std::uint32_t procedure) const noexcept override {
    static constexpr ProcedureTraits kTraits{};
    return procedure <= 1 ? &kTraits : nullptr;
  }
  void call(CallContext& context) override {
    const std::uint32_t offset = context.arguments().xdr().u32("offset");
    const std::uint32_t size = context.arguments().xdr().u32("size");
    if (!context.arguments().finish()) return context.fail(AcceptStatus::kGarbageArgs);
    context.results().bulk(file_.subspan(offset, size));
    context.succeed();
  }

 private:
  const Bytes file_;
};

class RegisteredMemoryTest : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr std::size_t kSize = 64 * 1024;
  static constexpr int kCalls = 20;

  RegisteredMemoryTest()
      : memory_(test::pattern(4 * kSize, 7)),
        pair_(GetParam() ? test::make_siwarp(true) : test::make_sim(1)) {}

  // Echoes the bytes at `from` into `to`, both in memory_.
  void echo(std::size_t from, std::size_t to) {
    const Bytes data = Bytes(memory_).subspan(from, kSize);
    const MutableBytes place = MutableBytes(memory_).subspan(to, kSize);
    auto call = pair_.prepare(TestService::kEcho);
    ASSERT_TRUE(call);
    call->arguments().bulk(data);
    call->place_result(place);
    const auto error = pair_.finish(std::move(*call), [&](Reply& reply) {
      const Bytes result = reply.results().bulk(kSize, "data");
      EXPECT_EQ(result.data(), place.data());
      EXPECT_TRUE(std::ranges::equal(result, data));
    });
    EXPECT_FALSE(error) << error->message();
  }
  std::uint64_t registrations() const { return pair_.client->counters().registrations; }

  std::vector<std::byte> memory_;  // these outlive the server
  FileService service_{memory_};
  test::RpcPair pair_;
};

TEST_P(RegisteredMemoryTest, CallsInItRegisterNothing) {
  const std::uint64_t at_first = registrations();
  for (int i = 0; i < kCalls; ++i) echo(0, kSize);
  EXPECT_EQ(registrations() - at_first, 2U * kCalls) << "each call registers its own memory";
  const auto registered = pair_.client->register_memory(memory_);
  ASSERT_TRUE(registered);
  const std::uint64_t before = registrations();
  for (int i = 0; i < kCalls; ++i) echo(kSize + 128, 2 * kSize + 4096);
  EXPECT_EQ(registrations(), before);
  EXPECT_TRUE(pair_.network->violations().empty());
}

TEST_P(RegisteredMemoryTest, PlacesAreNotInMemoryThatIsOnlyRead) {
  const auto registered = pair_.client->register_read_only(Bytes(memory_).first(2 * kSize));
  ASSERT_TRUE(registered);
  const std::uint64_t before = registrations();
  echo(0, kSize);
  EXPECT_EQ(registrations() - before, 1U) << "the place of the result";
}

TEST_P(RegisteredMemoryTest, EndsWithItsHandle) {
  auto registered = pair_.client->register_memory(memory_);
  ASSERT_TRUE(registered);
  EXPECT_EQ(registered->memory().size(), memory_.size());
  const auto overlapping = pair_.client->register_memory(MutableBytes(memory_).first(10));
  ASSERT_FALSE(overlapping);
  EXPECT_EQ(overlapping.error().code, Errc::kUnsupported);
  *registered = RegisteredMemory();
  const std::uint64_t before = registrations();
  echo(0, kSize);
  EXPECT_EQ(registrations() - before, 2U);
  EXPECT_TRUE(pair_.client->register_memory(memory_));
}

TEST_P(RegisteredMemoryTest, OnlyTheBytesOfACallAreExposed) {
  const auto registered = pair_.client->register_memory(memory_);
  ASSERT_TRUE(registered);
  const std::vector<std::byte> before = memory_;
  echo(0, kSize);
  EXPECT_TRUE(std::equal(before.begin() + 2 * kSize, before.end(), memory_.begin() + 2 * kSize));
}

TEST_P(RegisteredMemoryTest, ServerRegistersResultsOnceForEachConnection) {
  ASSERT_TRUE(pair_.server->add(77, 1, service_));
  const auto read = [&](std::uint32_t offset) {
    auto call = pair_.client->prepare({77, 1, 1});
    ASSERT_TRUE(call);
    std::vector<std::byte> place(kSize);
    call->arguments().xdr().u32(offset);
    call->arguments().xdr().u32(kSize);
    call->place_result(place);
    const auto error = pair_.finish(std::move(*call), [&](Reply& reply) {
      EXPECT_TRUE(std::ranges::equal(reply.results().bulk(kSize, "data"),
                                     Bytes(memory_).subspan(offset, kSize)));
    });
    EXPECT_FALSE(error) << error->message();
  };
  const auto count = [&] { return pair_.server->counters().registrations; };
  std::uint64_t before = count();
  for (int i = 0; i < kCalls; ++i) read(100);
  EXPECT_EQ(count() - before, std::uint64_t{kCalls});
  ASSERT_TRUE(pair_.server->register_read_only(memory_));
  EXPECT_FALSE(pair_.server->register_read_only(memory_)) << "it overlaps itself";
  before = count();
  for (int i = 0; i < kCalls; ++i) read(1000);
  EXPECT_EQ(count() - before, 1U);
}

// Buffers for arguments, of a server whose provider locks memory by a system call.
TEST(KeptLeases, AServersBuffersStayRegisteredUntilItsPoolFreesThem) {
  rdma::sim::Options options;
  options.registering_is_costly = true;
  ServerOptions server_options;
  server_options.memory_max = 4U << 20U;
  test::RpcPair pair(test::make_sim(3, options), {}, server_options);
  const auto registrations = [&] { return pair.server->counters().registrations; };
  const auto send = [&](std::uint32_t size) {
    const auto data = test::pattern(size, size);
    auto call = pair.prepare(TestService::kLength);
    ASSERT_TRUE(call);
    call->arguments().bulk(data);
    const auto error = pair.finish(std::move(*call), [&](Reply& reply) {
      EXPECT_EQ(reply.results().xdr().u32("length"), size);
    });
    EXPECT_FALSE(error) << error->message();
  };
  send(64 * 1024);
  std::uint64_t before = registrations();
  for (int i = 0; i < 20; ++i) send(64 * 1024);
  EXPECT_LE(registrations() - before, 1U) << "the reply may overtake the end of the call";
  // Buffers of other sizes drive those out of the pool, and their registrations with them; what the
  // simulator has in its own tables shows in its violations.
  for (int round = 0; round < 4; ++round) {
    for (std::uint32_t size = 8 * 1024; size <= TestService::kBulkMax; size *= 2) send(size);
  }
  EXPECT_TRUE(pair.network->violations().empty());
}

INSTANTIATE_TEST_SUITE_P(Providers, RegisteredMemoryTest, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Siwarp" : "Sim"; });

}  // namespace
}  // namespace rpcrdma::test
