// Bulk arguments that stay in their Call, since the server's Receives hold them.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rpcrdma/client.h"
#include "rpcrdma/server.h"
#include "rpcrdma/terms.h"
#include "support/rpc_fixture.h"

namespace rpcrdma::test {
namespace {

constexpr std::uint32_t kReceive = 65'536 + 4096;  // what a server's Receives are by default

// A server over siwarp, in its own thread.
class Served {
 public:
  explicit Served(ServerOptions options) {
    options.provider.name = "siwarp";
    server_.emplace(std::move(*Server::listen("rdma://127.0.0.1:0", options)));
    EXPECT_TRUE(server_->add(TestService::kProgram, TestService::kVersion, service_));
    url = "rdma://" + std::string(server_->address());
    thread_ = std::thread([this] { server_->run(); });
  }
  ~Served() {
    server_->stop();
    thread_.join();
  }

  std::string url;

 private:
  TestService service_;
  std::optional<Server> server_;
  std::thread thread_;
};

// Sends `size` bytes; returns how many Read chunks it took, or nullopt if the call failed.
std::optional<std::uint64_t> read_chunks_of(Client& client, std::uint32_t size) {
  const std::uint64_t before = client.counters().read_chunks;
  const std::vector<std::byte> data = pattern(size, size);
  auto call =
      client.prepare({TestService::kProgram, TestService::kVersion, TestService::kLength}, 64);
  EXPECT_TRUE(call);
  call->arguments().bulk(data);
  call->expect_results(8);
  auto reply = client.call(std::move(*call));
  EXPECT_TRUE(reply) << reply.error().message();
  if (!reply) return std::nullopt;
  EXPECT_EQ(reply->results().xdr().u32("length"), size);
  EXPECT_FALSE(reply->finish());
  return client.counters().read_chunks - before;
}

Client connect(const std::string& url, ClientOptions options = {}) {
  options.provider.name = "siwarp";
  auto client = Client::connect(url, options);
  EXPECT_TRUE(client) << client.error().message();
  // In version two both sides tell their sizes behind the first call.
  for (int i = 0; i < 2; ++i) EXPECT_EQ(read_chunks_of(*client, 100), 0U);
  return std::move(*client);
}

class InlineArguments : public ::testing::TestWithParam<ProtocolVersion> {
 protected:
  static ClientOptions options() {
    ClientOptions options;
    options.version = GetParam();
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Version, InlineArguments,
                         ::testing::Values(ProtocolVersion::kOne, ProtocolVersion::kTwo),
                         [](const auto& each) {
                           return each.param == ProtocolVersion::kOne ? "One" : "Two";
                         });

TEST_P(InlineArguments, GoWithTheCallUpTo64KiB) {
  Served served({});
  Client client = connect(served.url, options());
  EXPECT_EQ(read_chunks_of(client, 100), 0U);
  EXPECT_EQ(read_chunks_of(client, 65'533), 0U);
  EXPECT_EQ(read_chunks_of(client, 65'536), 0U);
  EXPECT_EQ(read_chunks_of(client, 65'537), 1U);
  EXPECT_EQ(client.connection().terms->inline_sent, kReceive);
}

TEST_P(InlineArguments, GoByReadsWhereEitherSideWantsNone) {
  ServerOptions none;
  none.connection.inline_arguments_max = 0;
  Served without(none);
  Client client = connect(without.url, options());
  EXPECT_EQ(read_chunks_of(client, 20'000), 1U);
  EXPECT_EQ(client.connection().terms->inline_sent, 8192U);
  Served with({});
  ClientOptions short_ones = options();
  short_ones.connection.inline_arguments_max = 0;
  Client other = connect(with.url, short_ones);
  EXPECT_EQ(read_chunks_of(other, 20'000), 1U);
}

TEST_P(InlineArguments, GoByReadsWhereAnotherSizeBoundsAllMessages) {
  Served served({});
  ClientOptions small = options();
  small.connection.inline_size = 5000;
  Client client = connect(served.url, small);
  EXPECT_EQ(read_chunks_of(client, 20'000), 1U);
  EXPECT_LE(client.connection().terms->inline_sent, 5000U);
}

TEST_P(InlineArguments, LeaveTheReceivesOfOthersToThem) {
  ServerOptions one;
  one.connection.credits = 8;
  one.memory_max = 8 * std::size_t{(8 + 4) * kReceive};
  Served served(one);
  ClientOptions sends_little = options();
  sends_little.connection.inline_arguments_max = 0;
  Client first = connect(served.url, sends_little);
  EXPECT_EQ(read_chunks_of(first, 20'000), 1U);
  Client second = connect(served.url, options());
  EXPECT_EQ(read_chunks_of(second, 65'536), 0U);
}

TEST_P(InlineArguments, AreOfAllShardsTogether) {
  ServerOptions sharded;
  sharded.shards = 2;
  sharded.connection.credits = 8;
  sharded.memory_max = 8 * std::size_t{2 * (8 + 4) * kReceive};
  Served served(sharded);
  Client first = connect(served.url, options());
  EXPECT_EQ(read_chunks_of(first, 65'536), 0U);
  Client second = connect(served.url, options());  // of the other shard
  EXPECT_EQ(read_chunks_of(second, 65'536), 1U);
}

TEST_P(InlineArguments, GoWithTheCallAsFarAsBothSidesWant) {
  ServerOptions large;
  large.connection.inline_arguments_max = 131'072;
  Served served(large);
  Client client = connect(served.url, options());
  EXPECT_EQ(read_chunks_of(client, 65'536), 0U);
  EXPECT_EQ(read_chunks_of(client, 65'537), 1U);
  ClientOptions same = options();
  same.connection.inline_arguments_max = 131'072;
  Client other = connect(served.url, same);
  EXPECT_EQ(read_chunks_of(other, 131'072), 0U);
  EXPECT_EQ(read_chunks_of(other, 131'073), 1U);
}

TEST_P(InlineArguments, GoByReadsOnConnectionsBeyondThoseThatTheServersMemoryIsFor) {
  ServerOptions little;
  little.connection.credits = 8;
  little.memory_max = 8 * std::size_t{2 * (8 + 4) * kReceive};  // 4 Receives are of version two
  Served served(little);
  std::optional<Client> first = connect(served.url, options());
  EXPECT_EQ(read_chunks_of(*first, 65'536), 0U);
  Client second = connect(served.url, options());
  EXPECT_EQ(read_chunks_of(second, 65'536), 1U) << "a host leaves one for another";
  first.reset();
  bool is_given_back = false;
  for (int i = 0; i < 1000 && !is_given_back; ++i) {  // until the server has noticed the end
    Client third = connect(served.url, options());
    is_given_back = read_chunks_of(third, 65'536) == 0U;
  }
  EXPECT_TRUE(is_given_back);
}

}  // namespace
}  // namespace rpcrdma::test
