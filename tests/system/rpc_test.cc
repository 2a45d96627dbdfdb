// Calls end to end, in every transfer form, over every provider.
#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "oncrpc/message.h"
#include "support/checked_reply.h"
#include "support/fabric.h"
#include "support/rpc_fixture.h"
#include "transport/buffer_pool.h"

namespace rpcrdma::test {
namespace {

rdma::sim::Options slow_and_jumpy() {
  rdma::sim::Options options;
  options.completion_delay_max = std::chrono::microseconds(50);
  options.granularity = std::chrono::microseconds(3);
  return options;
}

class Rpc : public ::testing::TestWithParam<Fabric> {
 protected:
  RpcPair make(ClientOptions client = {}, ServerOptions server = {}) {
    return RpcPair(GetParam().make(), client, server);
  }
  // Echoes `size` bytes and checks what came back, and where.
  static void echo(RpcPair& pair, std::size_t size, bool offer_place, bool expect_placed) {
    const auto sent = pattern(size, static_cast<std::uint32_t>(size) + 7);
    std::vector<std::byte> place(size + 5, std::byte{0xee});
    auto call = pair.prepare(TestService::kEcho);
    ASSERT_TRUE(call) << call.error().message();
    call->arguments().bulk(sent);
    if (offer_place) {
      call->place_result(MutableBytes(place).first(size));
      call->expect_results(4);
    } else {
      call->expect_results(static_cast<std::uint32_t>(size) + 8);
    }
    std::vector<std::byte> got;
    bool placed = false;
    const auto error = pair.finish(std::move(*call), [&](Reply& reply) {
      const Bytes data = reply.results().bulk(TestService::kBulkMax, "data");
      placed = reply.results().last_was_placed();
      if (placed) {
        EXPECT_EQ(data.data(), place.data());
      }
      got.assign(data.begin(), data.end());
    });
    ASSERT_FALSE(error) << error->message();
    EXPECT_EQ(got, sent);
    EXPECT_EQ(placed, expect_placed);
    EXPECT_EQ(place[size], std::byte{0xee}) << "written beyond the place";
  }
};

TEST_P(Rpc, ResultsAreInTheirPlacesHoweverTheyCame) {
  RpcPair pair = make();
  for (const std::size_t size : {std::size_t{5}, std::size_t{100'000}}) {
    const auto sent = pattern(size, 3);
    std::vector<std::byte> place(size);
    auto call = pair.prepare(TestService::kEcho);
    ASSERT_TRUE(call) << call.error().message();
    call->arguments().bulk(sent);
    call->place_result(place);
    call->expect_results(4);
    const auto error = pair.finish(std::move(*call), [&](Reply& reply) {
      EXPECT_EQ(reply.results().bulk(TestService::kBulkMax, "data").data(), place.data()) << size;
    });
    ASSERT_FALSE(error) << error->message();
    EXPECT_EQ(place, sent) << size;
  }
}

TEST_P(Rpc, ResultsThatCameInTheMessageMayBeLookedAtThere) {
  RpcPair pair = make();
  const auto sent = pattern(5, 3);
  std::vector<std::byte> place(5);
  auto call = pair.prepare(TestService::kEcho);
  ASSERT_TRUE(call) << call.error().message();
  call->arguments().bulk(sent);
  call->place_result(place);
  call->expect_results(4);
  const auto error = pair.finish(std::move(*call), [&](Reply& reply) {
    reply.view_results();
    const Bytes data = reply.results().bulk(TestService::kBulkMax, "data");
    EXPECT_EQ(data.data() == place.data(), reply.results().last_was_placed());
    EXPECT_TRUE(std::ranges::equal(data, sent));
  });
  ASSERT_FALSE(error) << error->message();
}

TEST_P(Rpc, ResultsThatDoNotDecodeAreNoSuccess) {
  RpcPair pair = make();
  const auto sent = pattern(5, 3);
  std::vector<std::byte> place(5);
  const auto decoded = [&](auto decode) {
    std::optional<Error> error;
    auto call = pair.prepare(TestService::kEcho);
    call->arguments().bulk(sent);
    call->place_result(place);
    (void)pair.finish(std::move(*call), [&](Reply& reply) {
      const auto value = reply.decode(decode);
      if (!value) error = value.error();
    });
    return error;
  };
  EXPECT_FALSE(decoded([](MessageReader& results) { return results.bulk(5, "data").size(); }));
  EXPECT_FALSE(decoded([](MessageReader& results) { (void)results.bulk(5, "data"); }));
  const auto short_one =
      decoded([](MessageReader& results) { return results.xdr().string(4, "greeting").size(); });
  ASSERT_TRUE(short_one);
  EXPECT_EQ(short_one->code, Errc::kBadReply);
  EXPECT_NE(short_one->message().find("greeting"), std::string::npos) << short_one->message();
  EXPECT_TRUE(decoded([](MessageReader& results) { return results.xdr().u32("size"); }))
      << "something is behind it";
}

TEST_P(Rpc, NullProcedureAlwaysAnswers) {
  RpcPair pair = make();
  auto call = pair.prepare(TestService::kNull);
  ASSERT_TRUE(call);
  EXPECT_FALSE(pair.finish(std::move(*call), [](Reply&) {}));
  EXPECT_EQ(pair.service.calls, 0U);
}

TEST_P(Rpc, ShortMessageCarriesSmallItemsInline) {
  RpcPair pair = make();
  for (const std::size_t size : {0U, 1U, 3U, 4U, 500U}) echo(pair, size, false, false);
  EXPECT_EQ(pair.client->counters().short_calls, 5U);
  EXPECT_EQ(pair.client->counters().read_chunks, 0U);
}

TEST_P(Rpc, ReadChunkAndWriteChunkOfEverySizeAroundTheLimits) {
  RpcPair pair = make();
  for (const std::size_t size : {1024U, 1025U, 1026U, 1027U, 4095U, 4096U, 4097U, 8191U, 65519U,
                                 65520U, 65521U, 65536U, 131073U, 1048575U, 1048576U}) {
    SCOPED_TRACE(size);
    echo(pair, size, true, true);
  }
  const TransferCounters counters = pair.client->counters();
  EXPECT_EQ(counters.read_chunks, 15U);
  EXPECT_EQ(counters.write_chunks, 15U);
  EXPECT_EQ(counters.long_calls, 0U);
  EXPECT_EQ(counters.long_replies, 0U);
  EXPECT_EQ(pair.server->counters().read_chunks, 15U);
}

TEST_P(Rpc, SmallItemsStayInlineByTheMinimumSize) {
  ClientOptions options;
  options.connection.reduce_size_min = 2000;
  RpcPair pair = make(options);
  echo(pair, 1500, true, false);
  EXPECT_EQ(pair.client->counters().read_chunks, 0U);
  echo(pair, 2000, true, true);
  EXPECT_EQ(pair.client->counters().read_chunks, 1U);
}

TEST_P(Rpc, LongCallAndLongReplyWhenNothingIsReduced) {
  ClientOptions options;
  options.connection.reduce = false;
  ServerOptions server;
  server.long_call_size_max = (1U << 20U) + 4096;
  RpcPair pair = make(options, server);
  for (const std::size_t size : {5000U, 5001U, 65536U, 1000003U}) {
    SCOPED_TRACE(size);
    echo(pair, size, false, false);
  }
  EXPECT_EQ(pair.client->counters().long_calls, 4U);
  EXPECT_EQ(pair.client->counters().long_replies, 4U);
  EXPECT_EQ(pair.client->counters().read_chunks, 0U);
}

TEST_P(Rpc, LongReplyOfWhatIsNotBulk) {
  RpcPair pair = make();
  for (const std::uint32_t size : {100U, 3900U, 4100U, 65001U}) {
    auto call = pair.prepare(TestService::kProduce);
    ASSERT_TRUE(call);
    call->arguments().xdr().u32(size);
    call->expect_results(size + 8);
    const auto error = pair.finish(std::move(*call), [&](Reply& reply) {
      const Bytes data = reply.results().xdr().opaque(size, "data");
      EXPECT_TRUE(std::ranges::equal(data, pattern(size, size)));
    });
    EXPECT_FALSE(error) << error->message();
  }
  EXPECT_EQ(pair.client->counters().long_replies, 2U);
}

TEST_P(Rpc, LongCallOfWhatIsNotBulk) {
  RpcPair pair = make();
  const auto data = pattern(9001, 1);
  auto call = pair.prepare(TestService::kAbsorb, 10000);
  ASSERT_TRUE(call);
  call->arguments().xdr().opaque(data);
  std::uint32_t size = 0;
  const auto error = pair.finish(std::move(*call),
                                 [&](Reply& reply) { size = reply.results().xdr().u32("size"); });
  EXPECT_FALSE(error) << error->message();
  EXPECT_EQ(size, 9001U);
  EXPECT_EQ(pair.client->counters().long_calls, 1U);
}

TEST_P(Rpc, ErrorOfRefusedChunksNamesEachBoundThatMayBeTooLow) {
  RpcPair pair = make();
  const auto sent = pattern(2U << 20U, 1);
  std::vector<std::byte> place(50'000);
  const auto cause_of = [&](std::uint32_t procedure, std::size_t argument, MutableBytes room,
                            std::uint32_t results_max) {
    auto call = pair.prepare(procedure);
    if (procedure == TestService::kProduce) {
      call->arguments().xdr().u32(static_cast<std::uint32_t>(argument));
    } else {
      call->arguments().bulk(Bytes(sent).first(argument));
    }
    if (!room.empty()) call->place_result(room);
    call->expect_results(results_max);
    const auto error = pair.finish(std::move(*call), [](Reply& reply) { reply.ignore_rest(); });
    EXPECT_TRUE(error);
    if (error) {
      EXPECT_EQ(error->code, Errc::kChunk) << error->message();
    }
    return error ? error->cause : std::string();
  };
  EXPECT_THAT(cause_of(TestService::kLength, sent.size(), {}, 4),
              ::testing::HasSubstr("an argument of 2097152 bytes may be more than it takes "
                                   "(ServerOptions::bulk_size_max"));
  EXPECT_THAT(cause_of(TestService::kEcho, 100'000, place, 4),
              ::testing::HasSubstr("larger than its place, 50000 bytes (place_result())"));
  EXPECT_THAT(cause_of(TestService::kProduce, 100'000, {}, 20'000),
              ::testing::HasSubstr("larger than the 20000 bytes that this call has for them "
                                   "(Call::expect_results()"));
}

TEST_P(Rpc, MisuseIsCalledSo) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  RpcPair pair = make();
  EXPECT_DEATH(
      {
        auto call = pair.prepare(TestService::kNull);
        (void)pair.client->start(std::move(*call), [](auto) {});
        (void)pair.client->start(std::move(*call), [](auto) {});
      },
      "misuse: a Call is started twice");
  EXPECT_DEATH(
      {
        auto call = pair.prepare(TestService::kNull);
        const Call other(std::move(*call));
        call->expect_results(1);
      },
      "misuse: a Call that was started or moved from is used");
  EXPECT_DEATH(
      {
        const Client other(std::move(*pair.client));
        (void)pair.client->connected();
      },
      "misuse: a Client that was moved from is used");
#ifndef NDEBUG
  EXPECT_DEATH(
      {
        (void)pair.client->connected();
        std::thread([&] { (void)pair.client->connected(); }).join();
      },
      "misuse: two threads use one Client");
#endif
  // Not a misuse: another thread gets it for itself.
  Client other(std::move(*pair.client));
  std::thread([&] { EXPECT_TRUE(other.connected()); }).join();
}

// A Position-Zero Read chunk together with further Read chunks, and several Write chunks.
// Two items each way around a text that is part of the stream: where it is long, the Call has a
// Position-Zero Read chunk beside the items', and the reply a Reply chunk beside its Write chunks.
TEST_P(Rpc, LongCallWithReadChunksAndTwoWriteChunks) {
  for (const bool is_long : {false, true}) {
    SCOPED_TRACE(is_long);
    RpcPair pair = make();
    const auto first = pattern(10001, 1);
    const auto second = pattern(70002, 2);
    const std::string text(is_long ? 6000 : 20, 'x');
    // Larger than the results: what is not used may have changed, and nobody looks at it.
    std::vector<std::byte> place1(second.size() + 100), place2(first.size() + 5000);
    auto call = pair.prepare(TestService::kSwap, 8000);
    ASSERT_TRUE(call);
    call->arguments().xdr().u32(9);
    call->arguments().bulk(first);
    call->arguments().xdr().string(text);
    call->arguments().bulk(second);
    call->place_result(place1);
    call->place_result(place2);
    call->expect_results(static_cast<std::uint32_t>(text.size()) + 24);
    const auto error = pair.finish(std::move(*call), [&](Reply& reply) {
      EXPECT_TRUE(std::ranges::equal(reply.results().bulk(1U << 20U, "second"), second));
      EXPECT_TRUE(reply.results().last_was_placed());
      EXPECT_EQ(reply.results().xdr().string(8000, "text"), text);
      EXPECT_TRUE(std::ranges::equal(reply.results().bulk(1U << 20U, "first"), first));
      EXPECT_TRUE(reply.results().last_was_placed());
    });
    EXPECT_FALSE(error) << error->message();
    const auto counters = pair.server->counters();
    EXPECT_EQ(counters.read_chunks, 2U);
    EXPECT_EQ(counters.write_chunks, 2U);
    EXPECT_EQ(counters.long_calls, is_long ? 1U : 0U);
    EXPECT_EQ(counters.long_replies, is_long ? 1U : 0U);
  }
}

TEST_P(Rpc, WriteListsAreReturnedInBothForms) {
  for (const bool full : {false, true}) {
    SCOPED_TRACE(full);
    ServerOptions options;
    options.return_full_write_lists = full;
    RpcPair pair = make({}, options);
    echo(pair, 5000, true, true);
    echo(pair, 200'001, true, true);
    // Room that stays unused: a result that is far shorter than its place, and a second place.
    const auto sent = pattern(3, 1);
    std::vector<std::byte> place(50'000), spare(8000, std::byte{0xee});
    auto call = pair.prepare(TestService::kEcho);
    ASSERT_TRUE(call);
    call->arguments().bulk(sent);
    call->place_result(place);
    call->place_result(spare);
    const auto error = pair.finish(std::move(*call), [&](Reply& reply) {
      EXPECT_TRUE(std::ranges::equal(reply.results().bulk(TestService::kBulkMax, "data"), sent));
    });
    EXPECT_FALSE(error) << error->message();
  }
}

TEST_P(Rpc, ManyCallsInFlightEndOnceEach) {
  ClientOptions options;
  options.calls_max = 100;
  RpcPair pair = make(options);
  int ended = 0;
  std::vector<std::vector<std::byte>> data;
  for (int i = 0; i < 100; ++i) data.push_back(pattern(1 + 977U * static_cast<unsigned>(i), 3));
  for (int i = 0; i < 100; ++i) {
    auto call = pair.prepare(TestService::kLength);
    ASSERT_TRUE(call);
    const auto& bytes = data[static_cast<std::size_t>(i)];
    call->arguments().bulk(bytes);
    const auto expected = static_cast<std::uint32_t>(bytes.size());
    ASSERT_TRUE(pair.client->start(std::move(*call), [&ended, expected](auto reply) {
      ASSERT_TRUE(reply) << reply.error().message();
      EXPECT_EQ(read(*reply)->xdr().u32("size"), expected);
      ++ended;
    }));
  }
  EXPECT_FALSE(pair.prepare(TestService::kNull)) << "calls_max is 100";
  pair.run_until([&] { return ended == 100; });
  EXPECT_EQ(pair.client->calls_in_flight(), 0U);
  pair.run_until([&] { return pair.server->memory_in_use() == 0; });
}

TEST_P(Rpc, TellsWhatTheServerDoesNotHave) {
  RpcPair pair = make();
  const auto ask = [&](const Procedure& procedure) {
    auto call = pair.client->prepare(procedure);
    return pair.finish(std::move(*call), [](Reply&) {});
  };
  auto error = ask({1, 1, 0});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::kNotAvailable);
  error = ask({TestService::kProgram, 9, 0});
  ASSERT_TRUE(error);
  EXPECT_NE(error->cause.find("versions 3 to 3"), std::string::npos) << error->cause;
  error = ask({TestService::kProgram, TestService::kVersion, 77});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::kNotAvailable);
  error = ask({TestService::kProgram, TestService::kVersion, TestService::kGarbage});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::kBadArguments);
}

TEST_P(Rpc, TimeLimitsMayBeForEver) {
  ClientOptions client;
  client.call_timeout = decltype(client.call_timeout)::max();
  ServerOptions server;
  server.peer_timeout = server.pull_timeout = server.drain_timeout =
      std::chrono::milliseconds::max();
  RpcPair pair = make(client, server);
  const auto data = pattern(100'000, 1);
  for (const bool has_its_own : {false, true}) {
    auto call = pair.prepare(TestService::kEcho);
    ASSERT_TRUE(call);
    if (has_its_own) call->time_out_after(std::chrono::nanoseconds::max());
    call->arguments().bulk(data);
    call->expect_results(200'000);
    const auto error = pair.finish(std::move(*call), [&](Reply& reply) {
      EXPECT_TRUE(are_equal(reply.results().bulk(1U << 20U, "data"), data));
    });
    EXPECT_FALSE(error) << error->message();
  }
}

TEST_P(Rpc, BulkArgumentThatTheProcedureDoesNotTakeIsRefusedBeforeItMoves) {
  RpcPair pair = make();
  const auto data = pattern(50000, 5);
  auto call = pair.prepare(TestService::kProduce);
  ASSERT_TRUE(call);
  call->arguments().bulk(data);
  const auto error = pair.finish(std::move(*call), [](Reply&) {});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::kBadArguments);
  EXPECT_EQ(pair.server->counters().read_chunk_bytes, 0U);
  echo(pair, 100, false, false);  // the connection lives
}

TEST_P(Rpc, ReplyThatFitsNowhereIsAnErrorAndTheConnectionLives) {
  RpcPair pair = make();
  auto call = pair.prepare(TestService::kProduce);
  ASSERT_TRUE(call);
  call->arguments().xdr().u32(50000);
  call->expect_results(100);
  const auto error = pair.finish(std::move(*call), [](Reply&) {});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::kChunk);
  EXPECT_EQ(pair.server->counters().errors_sent, 1U);
  echo(pair, 100000, true, true);
}

TEST_P(Rpc, CallTimesOutAndItsMemoryIsItsOwnersAgain) {
  RpcPair pair = make();
  echo(pair, 10, false, false);  // brings credits: the call without an answer keeps one
  std::vector<std::byte> place(100000);
  auto call = pair.prepare(TestService::kHold);
  ASSERT_TRUE(call);
  call->place_result(place);
  call->time_out_after(std::chrono::milliseconds(50));
  std::optional<Error> error;
  ASSERT_TRUE(pair.client->start(std::move(*call),
                                 [&](Expected<Reply, Error> reply) { error = reply.error(); }));
  echo(pair, 5000, true, true);  // the server answers others
  pair.run_until([&] { return error.has_value(); });
  EXPECT_EQ(error->code, Errc::kTimedOut);
  EXPECT_EQ(pair.client->calls_in_flight(), 0U);
  echo(pair, 5000, true, true);  // the connection lives
}

// ADR 17. Without reconnection the others fail at once, and say why.
TEST_P(Rpc, SilenceSinceACallThatTimesOutEndsTheConnectionAndSaysSo) {
  RpcPair pair = make();
  echo(pair, 10, false, false);
  std::vector<std::optional<Error>> errors(2);
  for (std::size_t i = 0; i < errors.size(); ++i) {
    auto call = pair.prepare(TestService::kHold);
    ASSERT_TRUE(call);
    if (i == 0) call->time_out_after(std::chrono::milliseconds(50));
    ASSERT_TRUE(pair.client->start(
        std::move(*call), [&, i](Expected<Reply, Error> reply) { errors[i] = reply.error(); }));
  }
  pair.run_until([&] { return errors[0] && errors[1]; });
  EXPECT_EQ(errors[0]->code, Errc::kTimedOut);
  EXPECT_EQ(errors[1]->code, Errc::kConnectionLost);
  EXPECT_NE(errors[1]->cause.find("nothing had arrived since"), std::string::npos)
      << errors[1]->message();
  const auto after = pair.prepare(TestService::kEcho);
  ASSERT_FALSE(after);
  EXPECT_NE(after.error().cause.find("nothing had arrived since"), std::string::npos)
      << after.error().message();
  for (CallContext* held : pair.service.held) held->succeed();
  pair.service.held.clear();
}

TEST_P(Rpc, LateAnswerIsDroppedAndItsCreditComesBack) {
  ServerOptions server;
  server.connection.credits = 2;
  RpcPair pair = make({}, server);
  echo(pair, 10, false, false);
  auto call = pair.prepare(TestService::kHold);
  ASSERT_TRUE(call);
  call->time_out_after(std::chrono::milliseconds(20));
  bool ended = false;
  ASSERT_TRUE(pair.client->start(std::move(*call), [&](auto) { ended = true; }));
  echo(pair, 10, false, false);
  pair.run_until([&] { return ended; });
  ASSERT_EQ(pair.service.held.size(), 1U);
  pair.service.held[0]->succeed();
  pair.service.held.clear();
  echo(pair, 10, false, false);  // would hang without the credit
  EXPECT_EQ(pair.client->counters().messages_dropped, 1U);
}

// Each of four calls has two Read chunks, and there is memory for those of one: each waits until it
// has room for both, and none fails for want of memory.
TEST_P(Rpc, CallsThatHoldMemoryDoNotWaitForEachOther) {
  ServerOptions server;
  server.memory_max = 3U << 20U;
  RpcPair pair = make({}, server);
  echo(pair, 10, false, false);  // brings credits
  const auto data = pattern(TestService::kGatherItemMax, 1);
  int ended = 0;
  for (int i = 0; i < 4; ++i) {
    auto call = pair.prepare(TestService::kGather);
    ASSERT_TRUE(call);
    call->arguments().bulk(data);
    call->arguments().bulk(data);
    call->time_out_after(std::chrono::hours(1));
    ASSERT_TRUE(pair.client->start(std::move(*call), [&](auto reply) {
      ASSERT_TRUE(reply) << reply.error().message();
      EXPECT_EQ(read(*reply)->xdr().u32("size"), 2 * data.size());
      ++ended;
    }));
  }
  pair.run_until([&] { return ended == 4; });
  pair.run_until([&] { return pair.server->memory_in_use() == 0; });
  echo(pair, 1U << 20U, true, true);
}

// The stream of a Long Call says what the Call is, but it must not be held while the rest waits.
TEST_P(Rpc, LongCallsWithReadChunksWaitForMemoryWithoutHoldingAny) {
  ServerOptions server;
  server.memory_max = 2U << 20U;
  RpcPair pair = make({}, server);
  echo(pair, 10, false, false);  // brings credits
  const auto data = pattern(1U << 20U, 1);
  const std::string text(6000, 'x');
  int ended = 0;
  for (int i = 0; i < 6; ++i) {
    auto call = pair.prepare(TestService::kLength, 8000);
    ASSERT_TRUE(call);
    call->arguments().bulk(data);
    call->arguments().xdr().string(text);
    call->time_out_after(std::chrono::hours(1));
    ASSERT_TRUE(pair.client->start(std::move(*call), [&](auto reply) {
      ASSERT_FALSE(reply);
      EXPECT_EQ(reply.error().code, Errc::kBadArguments) << "it was read to its end";
      ++ended;
    }));
  }
  pair.run_until([&] { return ended == 6; });
  EXPECT_EQ(pair.server->counters().long_calls, 6U);
  pair.run_until([&] { return pair.server->memory_in_use() == 0; });
}

TEST_P(Rpc, CallLargerThanAllMemoryIsRefusedAtOnce) {
  ServerOptions server;
  server.memory_max = 3U << 20U;
  RpcPair pair = make({}, server);
  echo(pair, 10, false, false);  // brings credits
  // Others hold some memory for long.
  auto hold = pair.prepare(TestService::kHold);
  ASSERT_TRUE(hold);
  bool ended = false;
  ASSERT_TRUE(pair.client->start(std::move(*hold), [&](auto) { ended = true; }));
  pair.run_until([&] { return pair.service.held.size() == 1; });
  ASSERT_FALSE(pair.service.held[0]->result_memory(5000).empty());
  const auto data = pattern(TestService::kGatherItemMax, 1);
  auto call = pair.prepare(TestService::kGather);
  ASSERT_TRUE(call);
  for (int i = 0; i < 3; ++i) call->arguments().bulk(data);
  const auto error = pair.finish(std::move(*call), [](Reply&) {});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::kServerFault) << error->message();
  echo(pair, 1U << 20U, true, true);
  pair.service.held[0]->succeed();
  pair.service.held.clear();
  pair.run_until([&] { return ended; });
}

TEST_P(Rpc, ResultsStartedAnewUseTheMemoryThatTheyHave) {
  RpcPair pair = make();
  auto call = pair.prepare(TestService::kHold);
  ASSERT_TRUE(call);
  bool ended = false;
  ASSERT_TRUE(pair.client->start(std::move(*call), [&](auto) { ended = true; }));
  pair.run_until([&] { return pair.service.held.size() == 1; });
  CallContext* const context = pair.service.held[0];
  constexpr std::uint32_t kFillsItsBuffer = 8192 - oncrpc::kReplyHeaderSizeMax;
  ASSERT_TRUE(context->reserve_results(kFillsItsBuffer));
  EXPECT_EQ(pair.server->memory_in_use(), 8192U);
  ASSERT_TRUE(context->reserve_results(kFillsItsBuffer));
  EXPECT_EQ(pair.server->memory_in_use(), 8192U);
  context->succeed();
  pair.service.held.clear();
  pair.run_until([&] { return ended; });
}

TEST_P(Rpc, AnswersFromOutsideOfTheServersProgressGoOut) {
  RpcPair pair = make();
  auto call = pair.prepare(TestService::kHold);
  ASSERT_TRUE(call);
  bool ended = false;
  ASSERT_TRUE(pair.client->start(std::move(*call), [&](auto reply) {
    EXPECT_TRUE(reply);
    ended = true;
  }));
  pair.run_until([&] { return pair.service.held.size() == 1; });
  EXPECT_FALSE(ended);
  pair.service.held[0]->succeed();
  pair.service.held.clear();
  pair.run_until([&] { return ended; });
}

TEST_P(Rpc, ServerSeesTheCredential) {
  RpcPair pair = make();
  const auto ask = [&] {
    std::uint32_t uid = 0;
    auto call = pair.prepare(TestService::kWhoAmI);
    EXPECT_FALSE(pair.finish(std::move(*call),
                             [&](Reply& reply) { uid = reply.results().xdr().u32("uid"); }));
    return uid;
  };
  EXPECT_EQ(ask(), 0xffffffffU);
  AuthSys sys;
  sys.machine_name = "host";
  sys.uid = 1234;
  pair.client->identity().use(sys);
  EXPECT_EQ(ask(), 1234U);
}

TEST_P(Rpc, PlaceForAResultThatIsEmptyIsRefused) {
  RpcPair pair = make();
  auto call = pair.prepare(TestService::kNull);
  ASSERT_TRUE(call);
  call->place_result({});
  const auto error = pair.finish(std::move(*call), [](Reply&) {});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::kTooLarge);
}

TEST_P(Rpc, SeveralProgramsShareAConnection) {
  RpcPair pair = make();
  TestService other;
  ASSERT_TRUE(pair.server->add(0x20010002, 1, other));
  EXPECT_FALSE(pair.server->add(0x20010002, 1, other));
  auto call = pair.client->prepare({0x20010002, 1, TestService::kWhoAmI});
  EXPECT_FALSE(pair.finish(std::move(*call), [](Reply& reply) {
    EXPECT_EQ(reply.results().xdr().u32("uid"), 0xffffffffU);
  }));
  EXPECT_EQ(other.calls, 1U);
  EXPECT_EQ(pair.service.calls, 0U);
}

TEST_P(Rpc, CallsEndWhenTheServerGoesAway) {
  RpcPair pair = make();
  int ended = 0;
  for (int i = 0; i < 10; ++i) {
    auto call = pair.prepare(TestService::kHold);
    ASSERT_TRUE(call);
    ASSERT_TRUE(pair.client->start(std::move(*call), [&](auto reply) {
      EXPECT_FALSE(reply);
      EXPECT_EQ(reply.error().code, Errc::kConnectionLost);
      ++ended;
    }));
  }
  // Only one credit until the first reply: one call is held, the others wait.
  pair.run_until([&] { return pair.service.held.size() == 1; });
  pair.client->progress();
  for (CallContext* context : pair.service.held) (void)context;
  pair.server->stop();
  pair.service.held.clear();  // the server goes away with the call unanswered
  pair.server.reset();
  for (int round = 0; round < 100000 && ended < 10; ++round) {
    pair.client->progress();
    if (ended < 10) pair.network->wait();
  }
  EXPECT_EQ(ended, 10);
}

TEST_P(Rpc, ClosingTheClientCancelsItsCalls) {
  RpcPair pair = make();
  int canceled = 0;
  auto call = pair.prepare(TestService::kHold);
  ASSERT_TRUE(call);
  ASSERT_TRUE(pair.client->start(std::move(*call), [&](auto reply) {
    EXPECT_FALSE(reply);
    EXPECT_EQ(reply.error().code, Errc::kCanceled);
    ++canceled;
  }));
  pair.run_until([&] { return pair.service.held.size() == 1; });
  pair.client->close();
  pair.run_until([&] { return canceled == 1; });
  pair.service.held[0]->succeed();
  pair.service.held.clear();
  pair.run_until([&] { return pair.server->connections() == 0; });
  EXPECT_EQ(pair.server->memory_in_use(), 0U);
}

TEST_P(Rpc, StopAnswersWhatIsInServiceThenCloses) {
  RpcPair pair = make();
  bool answered = false;
  auto call = pair.prepare(TestService::kHold);
  ASSERT_TRUE(call);
  ASSERT_TRUE(
      pair.client->start(std::move(*call), [&](auto reply) { answered = reply.has_value(); }));
  pair.run_until([&] { return pair.service.held.size() == 1; });
  pair.server->stop();
  pair.server->progress();
  EXPECT_FALSE(pair.server->drained());
  pair.service.held[0]->succeed();
  pair.service.held.clear();
  pair.run_until([&] { return answered && pair.server->drained(); });
  pair.run_until([&] { return !pair.client->connected(); });
}

TEST_P(Rpc, RemoteInvalidationSparesTheClientItsOwn) {
  RpcPair pair = make();
  const auto data = pattern(20000, 1);
  auto call = pair.prepare(TestService::kLength);
  call->arguments().bulk(data);
  EXPECT_FALSE(pair.finish(std::move(*call), [](Reply& r) { r.results().xdr().u32("size"); }));
  EXPECT_EQ(pair.client->counters().handles_invalidated_remotely, 1U);
  EXPECT_EQ(pair.client->counters().handles_revoked, 0U);
  echo(pair, 20000, true, true);  // two handles: both are the client's to revoke
  EXPECT_EQ(pair.client->counters().handles_revoked, 2U);
}

// Violations of the simulator are looked for when the pair goes.
TEST(RpcOverAProviderThatCannotInvalidate, ClientRevokesItsHandleItself) {
  rdma::sim::Options world;
  world.remote_invalidation = false;
  RpcPair pair(test::make_sim(1, world));
  const auto data = pattern(20000, 1);
  auto call = pair.prepare(TestService::kLength);
  ASSERT_TRUE(call);
  call->arguments().bulk(data);
  EXPECT_FALSE(pair.finish(std::move(*call), [](Reply& r) { r.results().xdr().u32("size"); }));
  EXPECT_EQ(pair.client->counters().handles_invalidated_remotely, 0U);
  EXPECT_EQ(pair.client->counters().handles_revoked, 1U);
}

// A Revoke that is refused because the connection is about to end is not done: until the end the
// peer may still write. The simulator asserts when memory is given back too early (I3).
TEST(RpcAtTheEnd, ClosingAtAnyMomentKeepsMemoryUntilNobodyWritesToIt) {
  for (int steps = 0; steps < 200; ++steps) {
    SCOPED_TRACE(steps);
    RpcPair pair(test::make_sim(static_cast<std::uint64_t>(steps) + 1));
    const auto data = pattern(20000, 1);
    std::vector<std::byte> place(data.size());
    auto call = pair.prepare(TestService::kEcho);
    ASSERT_TRUE(call);
    call->arguments().bulk(data);
    call->place_result(place);
    int ended = 0;
    ASSERT_TRUE(pair.client->start(std::move(*call), [&](auto) { ++ended; }));
    for (int step = 0; step < steps && ended == 0; ++step) {
      pair.server->progress();
      pair.client->progress();
      pair.network->wait();
    }
    pair.client->close();
    pair.run_until([&] { return ended == 1; });
  }
}

TEST(RpcWithoutResources, CallThatCannotBeRegisteredSaysSo) {
  rdma::sim::Options world;
  world.regions_max = 3;  // headers, Receives, and one for the call
  RpcPair pair(test::make_sim(1, world));
  const auto data = pattern(5000, 1);
  auto call = pair.prepare(TestService::kLength);
  ASSERT_TRUE(call);
  call->arguments().bulk(data);
  const auto error = pair.finish(std::move(*call), [](Reply&) {});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::kNoResources) << error->message();
}

TEST(RpcWithoutResources, CallThatCannotBeExposedSaysWhy) {
  rdma::sim::Options world;
  world.expose_fails_one_in = 1;
  RpcPair pair(test::make_sim(1, world));
  const auto data = pattern(5000, 1);
  auto call = pair.prepare(TestService::kLength);
  ASSERT_TRUE(call);
  call->arguments().bulk(data);
  const auto error = pair.finish(std::move(*call), [](Reply&) {});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::kNoResources) << error->message();
  EXPECT_NE(error->cause.find("(exposing memory)"), std::string::npos) << error->message();
}

TEST(RpcWithoutResources, CallWhoseReplyHasNoMemorySaysSo) {
  ClientOptions options;
  options.memory_max = 32U << 10U;
  RpcPair pair(test::make_sim(1), options);
  constexpr std::uint32_t kLargest = transport::BufferPool::kSizeMax - oncrpc::kReplyHeaderSizeMax;
  for (const std::uint32_t results_max : {100'000U, kLargest}) {
    auto call = pair.prepare(TestService::kProduce);
    ASSERT_TRUE(call);
    call->arguments().xdr().u32(5);
    call->expect_results(results_max);
    const auto error = pair.finish(std::move(*call), [](Reply&) {});
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code, Errc::kNoResources) << error->message();
  }
}

// In virtual time two calls time out at the same moment: one is out and keeps its slot, the other
// is not and gives its slot to what the first one's callback starts.
TEST(RpcAtOneMoment, CallStartedByACallbackIsNotMistakenForOneThatEndsBehindIt) {
  ClientOptions options;
  options.calls_max = 3;
  ServerOptions server;
  server.connection.credits = 2;
  RpcPair pair(test::make_sim(1), options, server);
  const auto now = [&] { return pair.network->client_side().now(); };
  const auto quick = [&] {
    EXPECT_FALSE(pair.finish(std::move(*pair.prepare(TestService::kNull)), [](Reply&) {}));
  };
  quick();  // brings credits
  constexpr auto kTimeout = std::chrono::milliseconds(50);
  const Instant deadline = now() + kTimeout;
  int ended[3] = {};
  const auto start = [&](std::uint32_t procedure, std::chrono::nanoseconds timeout,
                         ReplyCallback callback) {
    auto call = pair.prepare(procedure);
    ASSERT_TRUE(call);
    call->time_out_after(timeout);
    ASSERT_TRUE(pair.client->start(std::move(*call), std::move(callback)));
  };
  start(TestService::kHold, kTimeout, [&](auto reply) {
    EXPECT_FALSE(reply);
    ++ended[0];
    start(TestService::kNull, std::chrono::seconds(10), [&](auto later) {
      EXPECT_TRUE(later) << later.error().message();
      ++ended[2];
    });
  });
  quick();  // the connection is not silent
  bool other_ended = false;
  start(TestService::kHold, std::chrono::seconds(10), [&](auto) { other_ended = true; });
  start(TestService::kNull, deadline - now(), [&](auto reply) {  // waits for a credit
    EXPECT_FALSE(reply);
    ++ended[1];
  });
  pair.run_until([&] { return ended[0] == 1 && ended[1] == 1; });
  EXPECT_EQ(ended[2], 0);
  for (CallContext* context : pair.service.held) context->succeed();
  pair.service.held.clear();
  pair.run_until([&] { return ended[2] == 1 && other_ended; });
}

INSTANTIATE_TEST_SUITE_P(
    Providers, Rpc,
    ::testing::Values(Fabric{"Sim", [] { return test::make_sim(1); }},
                      Fabric{"SimDelayed", [] { return test::make_sim(2, slow_and_jumpy()); }},
                      Fabric{"Siwarp", [] { return test::make_siwarp(false); }},
                      Fabric{"SiwarpCrc", [] { return test::make_siwarp(true); }}),
    name_of_fabric);

}  // namespace
}  // namespace rpcrdma::test
