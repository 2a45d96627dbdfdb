// Client and server count calls in each form (RFC 8166 §3.5), errors and connections. All counters
// of both sides are compared where a call has few, so that one which moves without cause is seen.
#include "rpcrdma/counters.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "rpc/call/connecting_client.h"
#include "rpcrdma/statistics.h"
#include "support/rpc_fixture.h"

namespace rpcrdma::test {
namespace {

// Returns those that are not 0, without what the provider alone decides: bytes on the wire are
// compared by tests/conformance and with each other below.
using Counts = std::map<std::string_view, std::uint64_t>;
Counts difference(const TransferCounters& before, const TransferCounters& after) {
  Counts found;
  for (const TransferCounter& each : kTransferCounters) {
    if (after.*each.value != before.*each.value) {
      found[each.name] = after.*each.value - before.*each.value;
    }
  }
  for (const auto name : {"wire_bytes_sent", "wire_bytes_received", "payload_bytes", "bytes_copied",
                          "registrations"}) {
    found.erase(name);
  }
  return found;
}

class CountersOfCalls : public ::testing::Test {
 protected:
  CountersOfCalls() {
    call(TestService::kNull, [](Call&) {});  // the first one of a connection
    look();
  }
  void look() {
    client_before_ = pair.client->counters();
    server_before_ = pair.server->counters();
  }
  void call(std::uint32_t procedure, const std::function<void(Call&)>& fill, bool succeeds = true) {
    auto call = pair.prepare(procedure, 20'000);
    ASSERT_TRUE(call);
    fill(*call);
    const auto error = pair.finish(std::move(*call), [&](Reply& reply) { read(procedure, reply); });
    EXPECT_EQ(!error.has_value(), succeeds) << (error ? error->message() : "");
    // The server is done with a call when its reply has been sent.
    const auto calls = pair.client->counters().calls;
    ASSERT_TRUE(pair.run_until([&] {
      return pair.server->counters().calls >= calls && pair.server->memory_in_use() == 0;
    }));
  }
  // Offers room for 10,000 bytes by a Reply chunk, and asks for so many.
  void produce(std::uint32_t size) {
    call(TestService::kProduce, [size](Call& call) {
      call.arguments().xdr().u32(size);
      call.expect_results(10'008);
    });
  }
  static void read(std::uint32_t procedure, Reply& reply) {
    switch (procedure) {
      case TestService::kEcho:
        reply.results().bulk(TestService::kBulkMax, "data");
        break;
      case TestService::kLength:
      case TestService::kAbsorb:
        reply.results().xdr().u32("length");
        break;
      case TestService::kProduce:
        reply.results().xdr().opaque(TestService::kBulkMax, "data");
        break;
      default:
        break;
    }
  }
  Counts by_client() const { return difference(client_before_, pair.client->counters()); }
  Counts by_server() const { return difference(server_before_, pair.server->counters()); }

  RpcPair pair{make_sim(7)};
  TransferCounters client_before_, server_before_;
};

TEST_F(CountersOfCalls, CountAShortCallOnBothSides) {
  call(TestService::kNull, [](Call&) {});
  EXPECT_EQ(by_client(), (Counts{{"calls", 1}, {"short_calls", 1}, {"messages_received", 1}}));
  EXPECT_EQ(by_server(), (Counts{{"calls", 1}, {"short_calls", 1}, {"messages_received", 1}}));
}

TEST_F(CountersOfCalls, CountAReadChunkWithItsBytesAndTheReadThatTheServerPosts) {
  const auto data = pattern(50'000, 1);
  call(TestService::kLength, [&](Call& call) { call.arguments().bulk(data); });
  EXPECT_EQ(by_client(), (Counts{{"calls", 1},
                                 {"read_chunks", 1},
                                 {"read_chunk_bytes", data.size()},
                                 {"handles_invalidated_remotely", 1},
                                 {"messages_received", 1}}));
  EXPECT_EQ(by_server(), (Counts{{"calls", 1},
                                 {"read_chunks", 1},
                                 {"read_chunk_bytes", data.size()},
                                 {"rdma_reads", 1},
                                 {"messages_received", 1}}));
}

TEST_F(CountersOfCalls, CountAWriteChunkWhereItIsOfferedAndWhereItIsFilled) {
  const auto data = pattern(50'000, 1);
  std::vector<std::byte> place(data.size());
  call(TestService::kEcho, [&](Call& call) {
    call.arguments().bulk(data);
    call.place_result(place);
    call.expect_results(4);
  });
  EXPECT_EQ(place, data);
  Counts client = by_client();
  EXPECT_EQ(client["handles_invalidated_remotely"] + client["handles_revoked"], 2U);
  client.erase("handles_invalidated_remotely");
  client.erase("handles_revoked");
  EXPECT_EQ(client, (Counts{{"calls", 1},
                            {"read_chunks", 1},
                            {"read_chunk_bytes", data.size()},
                            {"write_chunks", 1},
                            {"write_chunk_bytes", data.size()},
                            {"messages_received", 1}}));
  EXPECT_EQ(by_server(), (Counts{{"calls", 1},
                                 {"read_chunks", 1},
                                 {"read_chunk_bytes", data.size()},
                                 {"write_chunks", 1},
                                 {"write_chunk_bytes", data.size()},
                                 {"rdma_reads", 1},
                                 {"rdma_writes", 1},
                                 {"messages_received", 1}}));
}

TEST_F(CountersOfCalls, CountALongCallAsReadWithoutAReadChunkOfItsOwn) {
  const auto data = pattern(10'000, 1);
  call(TestService::kAbsorb, [&](Call& call) { call.arguments().xdr().opaque(data); });
  const Counts client = by_client();
  EXPECT_EQ(client.at("long_calls"), 1U);
  EXPECT_EQ(client.count("short_calls"), 0U);
  const Counts server = by_server();
  EXPECT_EQ(server.at("long_calls"), 1U);
  EXPECT_EQ(server.at("rdma_reads"), 1U);
  EXPECT_EQ(server.count("rdma_writes"), 0U);
}

TEST_F(CountersOfCalls, CountAReplyChunkThatIsUsedAsALongReply) {
  produce(10'000);
  EXPECT_EQ(by_client().at("reply_chunks"), 1U);
  EXPECT_EQ(by_client().at("long_replies"), 1U);
  EXPECT_EQ(by_server().at("reply_chunks"), 1U);
  EXPECT_EQ(by_server().at("long_replies"), 1U);
  EXPECT_EQ(by_server().at("rdma_writes"), 1U);
}

TEST_F(CountersOfCalls, CountAReplyChunkThatIsNotUsedWhereItIsOfferedAlone) {
  produce(10);
  EXPECT_EQ(by_client().at("reply_chunks"), 1U);
  EXPECT_EQ(by_client().count("long_replies"), 0U);
  EXPECT_EQ(by_server().count("reply_chunks"), 0U);
  EXPECT_EQ(by_server().count("long_replies"), 0U);
  EXPECT_EQ(by_server().count("rdma_writes"), 0U);
}

TEST_F(CountersOfCalls, CountAnRdmaErrorAsSentAndAsReceived) {
  call(
      TestService::kProduce,
      [&](Call& call) {
        call.arguments().xdr().u32(10'000);
        call.expect_results(16);  // a Reply that fits nowhere: ERR_CHUNK (RFC 8166 §4.5.3)
      },
      false);
  EXPECT_EQ(by_client().at("errors_received"), 1U);
  EXPECT_EQ(by_client().count("errors_sent"), 0U);
  EXPECT_EQ(by_server().at("errors_sent"), 1U);
  EXPECT_EQ(by_server().count("errors_received"), 0U);
  EXPECT_EQ(by_server().count("versions_refused"), 0U);
}

TEST_F(CountersOfCalls, CountBytesOnTheWireOfBothDirectionsAlikeAtBothEnds) {
  const auto data = pattern(50'000, 1);
  call(TestService::kLength, [&](Call& call) { call.arguments().bulk(data); });
  const TransferCounters client = pair.client->counters();
  const TransferCounters server = pair.server->counters();
  EXPECT_EQ(client.wire_bytes_sent, server.wire_bytes_received);
  EXPECT_EQ(server.wire_bytes_sent, client.wire_bytes_received);
  EXPECT_EQ(client.payload_bytes, server.payload_bytes);
  EXPECT_GE(client.wire_bytes_sent - client_before_.wire_bytes_sent, data.size());
  EXPECT_GE(client.payload_bytes - client_before_.payload_bytes, data.size());
}

// --- Figures of a whole server ----------------------------------------------------------------

// A server shows its figures as they were after its last round.
class StatisticsOfAServer : public ::testing::Test {
 protected:
  static bool show(RpcPair& pair, const std::function<bool(const ServerStatistics&)>& condition) {
    return pair.run_until([&] { return condition(pair.server->statistics()); });
  }
};

TEST_F(StatisticsOfAServer, CountConnectionsThatWereOpenedAndNoneAsLostThatGoesInOrder) {
  RpcPair pair(make_sim(8));
  ASSERT_TRUE(show(pair, [](const auto& now) { return now.rdma_connections == 1; }));
  {
    Client another = RpcPair::connect_another(pair);
    ASSERT_TRUE(show(pair, [](const auto& now) { return now.rdma_connections == 2; }));
  }
  ASSERT_TRUE(show(pair, [](const auto& now) { return now.rdma_connections == 1; }));
  const ServerStatistics found = pair.server->statistics();
  EXPECT_EQ(found.connections_opened, 2U);
  EXPECT_EQ(found.connections_lost, 0U);
  EXPECT_EQ(found.connections_refused, 0U);
  EXPECT_EQ(found.tcp_connections, 0U);
  EXPECT_GT(found.memory_registered, 0U);
  EXPECT_GT(found.receives_posted, 0U);
}

TEST_F(StatisticsOfAServer, CountAConnectionBeyondTheMostAsRefused) {
  ServerOptions options;
  options.connections_max = 1;
  RpcPair pair(make_sim(9), {}, options);
  auto another =
      ConnectingClient::connect_on(pair.network->client_side(), pair.server->address(), {});
  ASSERT_TRUE(another);
  ASSERT_TRUE(pair.run_until([&] {
    another->progress();
    return pair.server->statistics().connections_refused == 1;
  }));
  EXPECT_EQ(pair.server->statistics().rdma_connections, 1U);
  EXPECT_EQ(pair.server->statistics().connections_opened, 1U);
}

TEST_F(StatisticsOfAServer, CountAReplyThatIsRememberedWithItsBytes) {
  RpcPair pair(make_sim(10));
  EXPECT_EQ(pair.server->statistics().replies_remembered, 0U);
  auto call = pair.prepare(TestService::kOnce);
  ASSERT_TRUE(call);
  call->arguments().xdr().u32(1);
  call->arguments().xdr().u32(300);
  std::vector<std::byte> place(300);
  call->place_result(place);
  call->expect_results(8);
  const auto error = pair.finish(std::move(*call), [](Reply& reply) {
    reply.results().xdr().u32("times");
    reply.results().bulk(300, "data");
    reply.results().xdr().u32("id");
  });
  ASSERT_FALSE(error) << error->message();
  ASSERT_TRUE(show(pair, [](const auto& now) { return now.replies_remembered == 1; }));
  EXPECT_GE(pair.server->statistics().reply_bytes_remembered, 300U);
}

TEST_F(StatisticsOfAServer, CountACallThatIsHeldUntilItIsAnswered) {
  RpcPair pair(make_sim(11));
  auto call = pair.prepare(TestService::kHold);
  ASSERT_TRUE(call);
  bool has_ended = false;
  ASSERT_TRUE(pair.client->start(std::move(*call), [&](Expected<Reply, Error> reply) {
    EXPECT_TRUE(reply.has_value());
    has_ended = true;
  }));
  ASSERT_TRUE(show(pair, [](const auto& now) { return now.calls_in_service == 1; }));
  ASSERT_EQ(pair.service.held.size(), 1U);
  pair.service.held.front()->succeed();
  pair.service.held.clear();
  ASSERT_TRUE(pair.run_until([&] { return has_ended; }));
  ASSERT_TRUE(show(pair, [](const auto& now) { return now.calls_in_service == 0; }));
  EXPECT_EQ(pair.server->statistics().memory_in_use, 0U);
  EXPECT_EQ(pair.server->statistics().calls_waiting_for_memory, 0U);
}

}  // namespace
}  // namespace rpcrdma::test
