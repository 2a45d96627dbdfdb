// Generated clients and services against each other, over every provider.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "every_random.h"
#include "rpc/call/client_impl.h"
#include "rpcrdma/coroutine.h"
#include "support/checked_reply.h"
#include "support/rpc_fixture.h"

namespace rpcrdma {
namespace {

using test::pattern;
using test::RpcPair;

// Answers with what it was asked, and misbehaves when told to.
class EveryService final : public every::EVERY_V1_Service {
 public:
  enum class Mood : std::uint8_t { kFine, kDrop, kThrow, kOtherThread, kReserved };

  void EVERY_ECHO(Answer<every::everything> answer, every::everything arg1) override {
    switch (mood) {
      case Mood::kDrop:
        return;
      case Mood::kThrow:
        throw std::runtime_error("of the service's own");
      case Mood::kReserved:
        ASSERT_TRUE(answer.reserve(1U << 20U));
        [[fallthrough]];
      case Mood::kOtherThread:
        std::thread([&] { answer.succeed(arg1); }).join();
        return;
      case Mood::kFine:
        break;
    }
    answer.succeed(arg1);
  }
  void EVERY_ADD(Answer<std::int32_t> answer, std::int32_t arg1, std::int32_t arg2) override {
    answer.succeed(arg1 + arg2);
  }
  void EVERY_TEXT(Answer<std::string> answer, std::string arg1) override {
    answer.succeed(arg1 + arg1);
  }
  void EVERY_CHAIN(Answer<every::chain> answer, every::chain arg1) override {
    answer.succeed(arg1);
  }
  // The data comes back shortened to arg2 bytes, from memory of the call.
  void EVERY_PLACED(Answer<every::maybe_placed> answer, every::placed arg1,
                    std::uint32_t arg2) override {
    every::maybe_placed results;
    if (arg2 == 0) return answer.succeed(results);
    every::placed& placed = results.set_all(arg1);
    placed.data = answer.keep(arg1.data.first(std::min<std::size_t>(arg2, arg1.data.size())));
    const Bytes text = answer.keep(std::as_bytes(std::span(arg1.text)));
    placed.text = {reinterpret_cast<const char*>(text.data()), text.size()};
    answer.succeed(results);
  }
  void EVERY_NOTHING(Answer<void> answer, every::everything /*arg1*/) override { answer.succeed(); }
  void EVERY_TREE(Answer<every::tree> answer) override { answer.succeed(tree); }
  void EVERY_BOOL(Answer<every::plain_bool> answer, every::plain_color arg1) override {
    answer.succeed(arg1 == every::color::RED);
  }
  void EVERY_NAMED(Answer<every::named_like_ours> answer, std::int32_t arg1) override {
    every::named_like_ours named;
    if (arg1 == 0) named.set_value(answer.keep(pattern(64, 1)));
    if (arg1 == 1) named.set_reply(41);
    answer.succeed(named);
  }
  // EVERY_MIXED and EVERY_BYTES are not served.

  Mood mood = Mood::kFine;
  every::tree tree;
};

struct Fabric {
  const char* name;
  std::function<std::unique_ptr<test::Network>()> make;
};
void PrintTo(const Fabric& fabric, std::ostream* out) {
  *out << fabric.name;
}

class GeneratedProgram : public ::testing::TestWithParam<Fabric> {
 protected:
  GeneratedProgram() : pair_(GetParam().make()), client_(*pair_.client) {
    const auto added = pair_.server->add(EveryService::kProgram, EveryService::kVersion, service_);
    EXPECT_TRUE(added);
  }

  // Starts a call by `start`, which is given a callback, and waits for what that is called with.
  template <class R, class Start>
  Expected<R, Error> result_of(Start start) {
    std::optional<Expected<R, Error>> result;
    const auto started =
        start([&result](Expected<R, Error> given) { result.emplace(std::move(given)); });
    if (!started) return Unexpected<Error>(started.error());
    EXPECT_TRUE(pair_.run_until([&] { return result.has_value(); }));
    return std::move(*result);
  }
  Expected<every::everything, Error> echo(const every::everything& value,
                                          const CallOptions& options = {}) {
    return result_of<every::everything>(
        [&](auto callback) { return client_.EVERY_ECHO_start(value, callback, options); });
  }
  using Placed = WithReply<every::maybe_placed>;
  Expected<Placed, Error> placed(const every::placed& value, std::uint32_t size, Places places,
                                 const CallOptions& options = {}) {
    return result_of<Placed>([&](auto callback) {
      return client_.EVERY_PLACED_start(value, size, places, callback, options);
    });
  }
  static every::everything large_value() {
    std::mt19937_64 random(5);
    every::everything value;
    do {
      every::randomize(value, random, 4);
    } while (encoded_size(value) < 3000);
    return value;
  }

  EveryService service_;
  RpcPair pair_;
  every::EVERY_V1_Client client_;
};

TEST_P(GeneratedProgram, CarriesArgumentsAndResults) {
  const auto sum = result_of<std::int32_t>(
      [&](auto callback) { return client_.EVERY_ADD_start(40, 2, callback); });
  ASSERT_TRUE(sum) << sum.error().message();
  EXPECT_EQ(*sum, 42);
  const auto text = result_of<std::string>(
      [&](auto callback) { return client_.EVERY_TEXT_start("twice ", callback); });
  ASSERT_TRUE(text) << text.error().message();
  EXPECT_EQ(*text, "twice twice ");
  const auto is_red = result_of<bool>(
      [&](auto callback) { return client_.EVERY_BOOL_start(every::color::RED, callback); });
  ASSERT_TRUE(is_red) << is_red.error().message();
  EXPECT_TRUE(*is_red);
  const auto nothing = result_of<void>(
      [&](auto callback) { return client_.EVERY_NOTHING_start(every::everything{}, callback); });
  EXPECT_TRUE(nothing) << nothing.error().message();
}

TEST_P(GeneratedProgram, CarriesRandomValuesOfAnySize) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 60; ++i) {
    every::everything value;
    every::randomize(value, random, i % 5);
    const auto back = echo(value, {.results_size_max = 1U << 20U});
    ASSERT_TRUE(back) << back.error().message();
    EXPECT_EQ(*back, value) << to_string(value);
  }
}

// Results without a bound in the file get room for 64 KiB, or for what the caller says.
TEST_P(GeneratedProgram, ResultsWithoutABoundHaveRoom) {
  every::chain chain(3000);
  for (std::size_t i = 0; i < chain.size(); ++i) {
    chain[i].values.assign(i % 4, static_cast<std::int32_t>(i));
  }
  const auto call = [&](const CallOptions& options) {
    return result_of<every::chain>(
        [&](auto callback) { return client_.EVERY_CHAIN_start(chain, callback, options); });
  };
  const auto back = call({});
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(*back, chain);
  chain.resize(20000);
  EXPECT_FALSE(call({}));
  const auto larger = call({.results_size_max = 1U << 20U});
  ASSERT_TRUE(larger) << larger.error().message();
  EXPECT_EQ(*larger, chain);
}

// Two programs with different bindings on one connection: they share its credits and thresholds,
// and what one takes the other may refuse.
TEST_P(GeneratedProgram, SharesItsConnectionWithAnotherProgram) {
  const auto data = pattern(20'000, 6);
  int ended = 0, started = 0;
  for (int i = 0; i < 60; ++i) {
    ASSERT_TRUE(client_.EVERY_ADD_start(i, 1, [&ended, i](Expected<std::int32_t, Error> sum) {
      ++ended;
      EXPECT_EQ(sum.value(), i + 1);
    }));
    auto call = pair_.prepare(test::TestService::kEcho);
    ASSERT_TRUE(call);
    call->arguments().bulk(data);
    call->expect_results(30'000);
    ASSERT_TRUE(pair_.client->start(std::move(*call), [&](Expected<Reply, Error> reply) {
      ++ended;
      ASSERT_TRUE(reply) << reply.error().message();
      EXPECT_TRUE(std::ranges::equal(test::read(*reply)->bulk(1U << 20U, "data"), data));
    }));
    started += 2;
  }
  EXPECT_TRUE(pair_.run_until([&] { return ended == started; }));
  EXPECT_EQ(pair_.server->connections(), 1U);
  // EVERY_TEXT has no DDP-eligible argument.
  auto call = pair_.client->prepare({EveryService::kProgram, EveryService::kVersion, 4});
  ASSERT_TRUE(call);
  call->arguments().bulk(data);
  const auto error = pair_.finish(std::move(*call), [](Reply&) { FAIL() << "it was answered"; });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::kBadArguments);
}

// --- DDP-eligible items

TEST_P(GeneratedProgram, PlacesDataInTheCallersMemory) {
  const auto data = pattern(100'000, 1);
  const std::string text(30'000, 't');
  every::placed value{.count = 5, .data = data, .between = "b", .text = text, .behind = -7};
  std::vector<std::byte> data_room(100'000), text_room(65536);
  const auto before = pair_.client->counters();
  const auto back = placed(value, 100'000, {data_room, text_room});
  ASSERT_TRUE(back) << back.error().message();
  const every::placed* all = back->all();
  ASSERT_NE(all, nullptr);
  EXPECT_EQ(*all, value);
  EXPECT_EQ(all->data.data(), data_room.data()) << "where the caller wants it";
  EXPECT_EQ(static_cast<const void*>(all->text.data()), text_room.data());
  const auto after = pair_.client->counters();
  EXPECT_EQ(after.read_chunks - before.read_chunks, 2U);
  EXPECT_EQ(after.write_chunks - before.write_chunks, 2U);
}

// Results that the server leaves in its message are brought to their place.
TEST_P(GeneratedProgram, SmallResultsAreInTheirPlacesToo) {
  const auto data = pattern(40, 2);
  every::placed value{.count = 5, .data = data, .between = "b", .text = "text", .behind = -7};
  std::vector<std::byte> data_room(1000), text_room(65536);
  const auto back = placed(value, 40, {data_room, text_room});
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(*back->all(), value);
  EXPECT_EQ(back->all()->data.data(), data_room.data());
  EXPECT_EQ(static_cast<const void*>(back->all()->text.data()), text_room.data());
}

TEST_P(GeneratedProgram, PlacesMayStayUnused) {
  std::vector<std::byte> data_room(1000), text_room(1000);
  const auto back = placed({}, 0, {data_room, text_room});
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_FALSE(back->there());
  EXPECT_EQ(back->all(), nullptr);
}

// Without places, data is a view of the reply, which the result keeps. The bound follows from the
// argument: "unbounded <= arg2 + SMALL".
TEST_P(GeneratedProgram, WithoutPlacesResultsAreViewsOfTheReply) {
  const auto data = pattern(200'000, 3);
  every::placed value{.count = 1, .data = data, .between = {}, .text = "t", .behind = 0};
  const auto back = placed(value, 200'000, {});
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(*back->all(), value);
  const auto none = placed(value, 200'000, {}, {.results_size_max = 64});
  EXPECT_FALSE(none) << "the caller's bound counts";
}

// A result with its reply has all members of the result, whatever their names are.
TEST_P(GeneratedProgram, ArmsMayHaveAnyName) {
  using Named = WithReply<every::named_like_ours>;
  const auto named = [&](std::int32_t which, Places places) {
    return result_of<Named>(
        [&](auto callback) { return client_.EVERY_NAMED_start(which, places, callback); });
  };
  std::vector<std::byte> room(64);
  const auto first = named(0, room);
  ASSERT_TRUE(first) << first.error();
  ASSERT_NE(first->value(), nullptr);
  EXPECT_EQ(first->value()->data(), room.data());
  auto second = named(1, {});
  ASSERT_TRUE(second) << second.error();
  ASSERT_NE(second->reply(), nullptr);
  EXPECT_EQ(*second->reply(), 41);
  EXPECT_FALSE(reply_of(*second).finish());
}

TEST_P(GeneratedProgram, RefusesMorePlacesThanACallMayHave) {
  std::vector<std::byte> room(16);
  const auto back = placed({}, 0, {room, room, room, room, room, room, room, room, room});
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().code, Errc::kTooLarge);
}

// --- What goes wrong

TEST_P(GeneratedProgram, ArgumentsOverTheirBoundAreNotSent) {
  every::everything value;
  value.b.bounded.resize(11);  // opaque bounded<10>
  auto back = echo(value);
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().code, Errc::kTooLarge);
  EXPECT_EQ(back.error().cause, "'bytes_and_text.bounded' has a size of 11, and its bound is 10");
  value.b.bounded.clear();
  value.a.h = static_cast<every::color>(77);
  back = echo(value);
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().cause, "'color' has a value that the interface does not define");
}

TEST_P(GeneratedProgram, ResultsOverTheirBoundAreTheServersFault) {
  service_.tree.left.emplace();
  for (every::tree* at = &service_.tree; encoded_size(service_.tree) < 8000;) {
    at = &at->left.emplace();
  }
  const auto back =
      result_of<every::tree>([&](auto callback) { return client_.EVERY_TREE_start(callback); });
  EXPECT_FALSE(back) << "unbounded <= 4096";
}

TEST_P(GeneratedProgram, AnAnswerThatIsDroppedIsSystemErr) {
  for (const auto mood : {EveryService::Mood::kDrop, EveryService::Mood::kThrow}) {
    service_.mood = mood;
    const auto back = echo({});
    ASSERT_FALSE(back);
    EXPECT_EQ(back.error().code, Errc::kServerFault);
  }
}

TEST_P(GeneratedProgram, ProceduresThatAreNotServedAreUnavailable) {
  const auto back = result_of<every::any_bytes>(
      [&](auto callback) { return client_.EVERY_BYTES_start({}, {}, callback); });
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().code, Errc::kNotAvailable);
}

TEST_P(GeneratedProgram, ArgumentsThatAreNoneAreGarbage) {
  auto call = pair_.client->prepare({EveryService::kProgram, EveryService::kVersion, 2});
  ASSERT_TRUE(call);
  call->arguments().xdr().u32(1);  // EVERY_ADD wants two
  const auto error = pair_.finish(std::move(*call), [](Reply&) { FAIL() << "it was answered"; });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::kBadArguments);
}

// Where a thread can wake the server: not in virtual time.
class GeneratedThreads : public GeneratedProgram {};

TEST_P(GeneratedThreads, AnswersFromOtherThreadsNeedRoomForLargeResults) {
  service_.mood = EveryService::Mood::kOtherThread;
  const auto small = echo({});
  EXPECT_TRUE(small) << small.error().message();
  const every::everything large = large_value();
  const auto refused = echo(large);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kServerFault);
  service_.mood = EveryService::Mood::kReserved;
  const auto back = echo(large, {.results_size_max = 1U << 20U});
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(*back, large);
}

// --- Coroutines

Task<Expected<std::int32_t, Error>> add_three(every::EVERY_V1_Client& client, std::int32_t a,
                                              std::int32_t b, std::int32_t c) {
  const auto first = co_await client.EVERY_ADD_async(a, b);
  if (!first) co_return Unexpected<Error>(first.error());
  co_return co_await client.EVERY_ADD_async(*first, c);
}
Task<bool> fetch(every::EVERY_V1_Client& client, const every::placed& value, MutableBytes room) {
  const auto back =
      co_await client.EVERY_PLACED_async(value, 1000, room, {.timeout = std::chrono::seconds(5)});
  co_return back && back->all() != nullptr && back->all()->data.data() == room.data();
}

// Braces within the awaited expression, where they are allowed: GCC 12 must neither refuse them nor
// destroy what they make twice (tests/gen/await_test.py has those that are refused).
Task<bool> fetch_into_braces(every::EVERY_V1_Client& client, const every::placed& value,
                             MutableBytes data, MutableBytes text) {
  const auto back = co_await client.EVERY_PLACED_async(value, 1000, {data, text});
  const every::any_bytes bytes;
  const every::by_enum choice;
  const auto unserved = co_await client.EVERY_BYTES_async(bytes, {std::byte{1}, std::byte{2}});
  const auto neither = co_await client.EVERY_MIXED_async("text", 5, choice);
  co_return back && back->all()->data.data() == data.data() && !unserved && !neither;
}

TEST_P(GeneratedProgram, CoroutinesTakeBracesWhereTheyAreHarmless) {
  const auto data = pattern(1000, 4);
  std::vector<std::byte> room(1000), text(100);
  const every::placed value{.count = 0, .data = data, .between = {}, .text = "text", .behind = 0};
  auto fetched = fetch_into_braces(client_, value, room, text);
  fetched.start();
  ASSERT_TRUE(pair_.run_until([&] { return fetched.done(); }));
  EXPECT_TRUE(std::move(fetched).result());
  EXPECT_EQ(room, data);
}

TEST_P(GeneratedProgram, CoroutinesAwaitCalls) {
  auto sum = add_three(client_, 1, 2, 3);
  sum.start();
  const auto data = pattern(1000, 4);
  std::vector<std::byte> room(1000);
  const every::placed value{.count = 0, .data = data, .between = {}, .text = {}, .behind = 0};
  auto fetched = fetch(client_, value, room);
  fetched.start();
  ASSERT_TRUE(pair_.run_until([&] { return sum.done() && fetched.done(); }));
  EXPECT_EQ(std::move(sum).result().value(), 6);
  EXPECT_TRUE(std::move(fetched).result());
  EXPECT_EQ(room, data);
}

TEST_P(GeneratedProgram, CoroutinesSeeCallsThatCannotBeMade) {
  pair_.client->close();
  auto sum = add_three(client_, 1, 2, 3);
  sum.start();
  ASSERT_TRUE(pair_.run_until([&] { return sum.done(); }));
  EXPECT_FALSE(std::move(sum).result());
}

std::string name_of(const ::testing::TestParamInfo<Fabric>& tested) {
  return tested.param.name;
}
const Fabric kSim{"sim", [] { return test::make_sim(1); }};
const Fabric kSiwarp{"siwarp", [] { return test::make_siwarp(true); }};
INSTANTIATE_TEST_SUITE_P(Fabrics, GeneratedProgram, ::testing::Values(kSim, kSiwarp), name_of);
INSTANTIATE_TEST_SUITE_P(Fabrics, GeneratedThreads, ::testing::Values(kSiwarp), name_of);

TEST(GeneratedErrors, ArePrintedAsTheirMessages) {
  std::ostringstream text;
  text << Error{Errc::kTimedOut, "a call", "192.0.2.1:20049", "no reply in 1 s"};
  EXPECT_EQ(text.str(),
            (Error{Errc::kTimedOut, "a call", "192.0.2.1:20049", "no reply in 1 s"}.message()));
}

// --- The binding

using EveryBinding = every::EVERY_V1_Binding;
static_assert(EveryBinding::kProgram == 0x20000099 && EveryBinding::kVersion == 1);
static_assert(EveryBinding::kProcedures.size() == 12);
static_assert(find_traits(EveryBinding::kProcedures, 6)->name == "EVERY_PLACED");
static_assert(find_traits(EveryBinding::kProcedures, 12) == nullptr);

TEST(GeneratedBinding, FindsProceduresOfATableWithGaps) {
  static constexpr std::array<ProcedureTraits, 3> kTable{
      {{.number = 1}, {.number = 5}, {.number = 0xffffffff}}};
  EXPECT_EQ(find_traits(kTable, 0), nullptr);
  EXPECT_EQ(find_traits(kTable, 1), &kTable[0]);
  EXPECT_EQ(find_traits(kTable, 2), nullptr);
  EXPECT_EQ(find_traits(kTable, 5), &kTable[1]);
  EXPECT_EQ(find_traits(kTable, 0xffffffff), &kTable[2]);
  EXPECT_EQ(find_traits({}, 0), nullptr);
}

TEST(GeneratedBinding, SaysWhatTheFileSays) {
  const EveryService service;
  EXPECT_EQ(EveryService::kProgram, 0x20000099U);
  EXPECT_EQ(EveryService::kVersion, 1U);
  ASSERT_NE(service.traits(0), nullptr);
  ASSERT_NE(service.traits(11), nullptr);
  EXPECT_EQ(service.traits(12), nullptr);
  EXPECT_EQ(service.traits(11)->name, "EVERY_NAMED");
  EXPECT_TRUE(service.traits(6)->may_answer_by_read);
  EXPECT_FALSE(service.traits(1)->may_answer_by_read);
  EXPECT_FALSE(service.traits(6)->is_idempotent) << "non-idempotent";
  EXPECT_TRUE(service.traits(5)->is_idempotent);
  EXPECT_EQ(service.traits(6)->bulk_argument_size_max, 0xffffffffU) << "opaque<> without a bound";
  EXPECT_EQ(service.traits(1)->bulk_argument_size_max, 0U) << "nothing in it is DDP-eligible";
  EXPECT_EQ(service.traits(6)->bulk_arguments_size_max, ProcedureTraits::kNoBound);
  EXPECT_EQ(service.traits(1)->bulk_arguments_max, 0U);
  EXPECT_EQ(service.traits(0)->results_size_max, 0U);
  EXPECT_EQ(service.traits(2)->results_size_max, 4U);
  EXPECT_EQ(service.traits(4)->results_size_max, ProcedureTraits::kNoBound);
  EXPECT_EQ(service.traits(8)->results_size_max, 12U + 3U + 4096U) << "unbounded <= 4096";
  EXPECT_EQ(service.traits(11)->results_size_max, 4U + 4U + 64U);
}

}  // namespace
}  // namespace rpcrdma
