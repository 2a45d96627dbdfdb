// A connection is lost, and calls go on over the next one: on both providers, in virtual time on
// `sim`.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "rdma/sim/options.h"
#include "rpc/call/backoff.h"
#include "rpc/call/connecting_client.h"
#include "support/checked_reply.h"
#include "support/rpc_fixture.h"

namespace rpcrdma::test {
namespace {

using std::chrono::milliseconds;

struct Kind {
  const char* name;
  std::unique_ptr<Network> (*make)();
  Profile profile = Profile::kRfc8166;
};
void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

ClientOptions reconnecting(Profile profile = Profile::kRfc8166) {
  ClientOptions options;
  options.connection.profile = profile;
  options.reconnect.enabled = true;
  options.reconnect.delay_max = milliseconds(50);
  return options;
}
ServerOptions serving(Profile profile) {
  ServerOptions options;
  options.connection.profile = profile;
  return options;
}

class Reconnect : public ::testing::TestWithParam<Kind> {
 protected:
  // Starts a call whose end is noted under its number.
  void start(std::size_t number, Call call) {
    if (ends_.size() <= number) ends_.resize(number + 1);
    auto started =
        pair_.client->start(std::move(call), [this, number](Expected<Reply, Error> reply) {
          End& end = ends_[number];
          ++end.times;
          if (!reply) {
            end.error = reply.error();
            return;
          }
          const Bytes bulk = read(*reply)->bulk(TestService::kBulkMax, "data");
          end.data.assign(bulk.begin(), bulk.end());
        });
    ASSERT_TRUE(started) << started.error().message();
  }
  void start_echo(std::size_t number, std::size_t size) {
    auto call = pair_.prepare(TestService::kEcho);
    ASSERT_TRUE(call) << call.error().message();
    if (sources_.size() <= number) {
      sources_.resize(number + 1);
      places_.resize(number + 1);
    }
    sources_[number] = pattern(size, static_cast<std::uint32_t>(number));
    places_[number].resize(size);
    call->arguments().bulk(sources_[number]);
    call->place_result(places_[number]);
    start(number, std::move(*call));
  }
  void start_hold(std::size_t number, std::chrono::nanoseconds timeout = std::chrono::seconds(60)) {
    auto call = pair_.prepare(TestService::kHold);
    ASSERT_TRUE(call) << call.error().message();
    call->time_out_after(timeout);
    start(number, std::move(*call));
  }
  bool ended(std::size_t number) const { return ends_.at(number).times > 0; }
  void expect_echoed(std::size_t number) {
    EXPECT_EQ(ends_[number].times, 1) << number;
    EXPECT_FALSE(ends_[number].error) << number << ends_[number].error->message();
    EXPECT_EQ(ends_[number].data, sources_[number]) << number;
  }
  void lose_connection() {
    pair_.kill_server();
    pair_.run_until([&] { return !pair_.client->connected(); });
  }

  struct End {
    int times = 0;
    std::optional<Error> error;
    std::vector<std::byte> data;
  };
  RpcPair pair_{GetParam().make(), reconnecting(GetParam().profile), serving(GetParam().profile)};
  std::vector<End> ends_;
  std::vector<std::vector<std::byte>> sources_, places_;
};

TEST_P(Reconnect, CallsUnderWayAreMadeAgainOverTheNextConnection) {
  constexpr std::size_t kSizes[] = {1, 100, 5000, 200'000, 1U << 20U};
  start_hold(0);
  pair_.run_until([&] { return pair_.service.held.size() == 1; });
  for (std::size_t i = 0; i < std::size(kSizes); ++i) start_echo(i + 1, kSizes[i]);
  lose_connection();
  EXPECT_FALSE(ended(0)) << "nobody hears of the loss";
  EXPECT_FALSE(pair_.client->ended());
  EXPECT_EQ(pair_.client->calls_in_flight(),
            static_cast<std::size_t>(
                std::ranges::count_if(ends_, [](const End& end) { return end.times == 0; })));
  pair_.start_server();
  pair_.run_until([&] { return pair_.service.held.size() == 1; });
  pair_.service.held[0]->succeed();
  pair_.service.held.clear();
  pair_.run_until([&] { return pair_.client->calls_in_flight() == 0; });
  EXPECT_EQ(ends_[0].times, 1);
  EXPECT_FALSE(ends_[0].error);
  for (std::size_t i = 0; i < std::size(kSizes); ++i) expect_echoed(i + 1);
}

TEST_P(Reconnect, WithoutRepetitionALossEndsCallsAtOnceAndTheNextConnectionTakesNewOnes) {
  ClientOptions options = reconnecting(GetParam().profile);
  options.reconnect.repeats_calls = false;
  RpcPair pair{GetParam().make(), options, serving(GetParam().profile)};
  auto call = pair.prepare(TestService::kHold);
  ASSERT_TRUE(call) << call.error().message();
  std::optional<Error> end;
  ASSERT_TRUE(pair.client->start(std::move(*call), [&](Expected<Reply, Error> reply) {
    if (!reply) end = reply.error();
  }));
  pair.run_until([&] { return pair.service.held.size() == 1; });
  pair.kill_server();
  pair.run_until([&] { return end.has_value(); });
  EXPECT_EQ(end->code, Errc::kConnectionLost);
  EXPECT_FALSE(pair.client->ended());
  EXPECT_EQ(pair.client->calls_in_flight(), 0U);
  const auto refused = pair.prepare(TestService::kHold);
  ASSERT_FALSE(refused) << "there is no connection";
  EXPECT_EQ(refused.error().code, Errc::kConnectionLost);
  pair.start_server();
  pair.run_until([&] { return pair.client->connected(); });
  auto next = pair.prepare(TestService::kHold);
  ASSERT_TRUE(next) << next.error().message();
  bool is_answered = false;
  ASSERT_TRUE(pair.client->start(
      std::move(*next), [&](Expected<Reply, Error> reply) { is_answered = reply.has_value(); }));
  pair.run_until([&] { return pair.service.held.size() == 1; });
  pair.service.held[0]->succeed();
  pair.service.held.clear();
  pair.run_until([&] { return is_answered; });
}

TEST_P(Reconnect, TriesTheFirstConnectionAgainAndCallsWaitForIt) {
  const std::string address(pair_.server->address());
  lose_connection();
  ClientOptions options = reconnecting(GetParam().profile);
  options.reconnect.retries_first = true;
  auto client = ConnectingClient::connect_on(pair_.network->client_side(), address, options);
  ASSERT_TRUE(client) << client.error().message();
  std::vector<std::optional<Error>> ends;
  const auto start_call = [&](std::chrono::nanoseconds timeout) {
    auto call = client->prepare({TestService::kProgram, TestService::kVersion, TestService::kNull});
    ASSERT_TRUE(call) << call.error().message();
    call->time_out_after(timeout);
    ASSERT_TRUE(client->start(std::move(*call), [&](Expected<Reply, Error> reply) {
      ends.push_back(reply ? std::nullopt : std::optional(reply.error()));
    }));
  };
  start_call(std::chrono::seconds(60));
  start_call(milliseconds(60));
  const auto run_until_ended = [&](std::size_t count) {
    pair_.run_until([&] {
      client->progress();
      return ends.size() == count;
    });
  };
  run_until_ended(1);
  EXPECT_EQ(ends[0]->code, Errc::kTimedOut);
  EXPECT_TRUE(ends[0]->cause.starts_with("no connection to the server within the call's time: "))
      << ends[0]->cause;
  EXPECT_FALSE(client->ended());
  pair_.start_server();
  run_until_ended(2);
  EXPECT_EQ(ends[1], std::nullopt);
}

TEST_P(Reconnect, SurvivesManyLossesInARow) {
  start_echo(0, 300'000);
  pair_.run_until([&] { return ended(0); });
  for (std::size_t round = 1; round <= 10; ++round) {
    for (std::size_t i = 0; i < 5; ++i) start_echo(5 * round + i, 300'000);
    lose_connection();
    pair_.start_server();
    pair_.run_until([&] { return pair_.client->calls_in_flight() == 0; });
    for (std::size_t i = 0; i < 5; ++i) expect_echoed(5 * round + i);
  }
}

TEST_P(Reconnect, CallsMadeWithoutAConnectionWaitForOne) {
  lose_connection();
  start_echo(0, 5000);
  pair_.start_server();
  pair_.run_until([&] { return ended(0); });
  expect_echoed(0);
}

TEST_P(Reconnect, CallPreparedBeforeTheLossCanBeMadeAfterIt) {
  auto call = pair_.prepare(TestService::kEcho);
  ASSERT_TRUE(call);
  sources_.push_back(pattern(100, 0));
  call->arguments().bulk(sources_[0]);
  lose_connection();
  pair_.start_server();
  pair_.run_until([&] { return pair_.client->connected(); });
  start(0, std::move(*call));
  pair_.run_until([&] { return ended(0); });
  expect_echoed(0);
}

TEST_P(Reconnect, TimeOfACallEndsAlsoWithoutAConnection) {
  start_hold(0, milliseconds(200));
  lose_connection();
  start_hold(1, milliseconds(100));
  pair_.run_until([&] { return ended(0) && ended(1); });
  for (const End& end : ends_) {
    EXPECT_EQ(end.times, 1);
    ASSERT_TRUE(end.error);
    EXPECT_EQ(end.error->code, Errc::kTimedOut);
    EXPECT_NE(end.error->cause.find("no connection to the server"), std::string::npos)
        << end.error->message();
  }
}

TEST_P(Reconnect, CloseEndsWaitingCalls) {
  start_hold(0);
  lose_connection();
  pair_.client->close();
  EXPECT_TRUE(pair_.client->ended());
  pair_.run_until([&] { return ended(0); });
  ASSERT_TRUE(ends_[0].error);
  EXPECT_EQ(ends_[0].error->code, Errc::kCanceled);
  EXPECT_FALSE(pair_.prepare(TestService::kEcho));
}

TEST_P(Reconnect, CallPreparedBeforeTheEndIsRefusedAtItsStart) {
  auto call = pair_.prepare(TestService::kEcho);
  ASSERT_TRUE(call);
  lose_connection();
  pair_.client->close();
  bool called = false;
  const auto started = pair_.client->start(std::move(*call), [&](auto) { called = true; });
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, Errc::kCanceled);
  for (int i = 0; i < 3; ++i) pair_.client->progress();
  EXPECT_FALSE(called) << "the error came back at once";
}

TEST_P(Reconnect, DestroyingTheClientEndsWaitingCalls) {
  start_hold(0);
  lose_connection();
  pair_.client.reset();
  EXPECT_EQ(ends_[0].times, 1);
  ASSERT_TRUE(ends_[0].error);
  EXPECT_EQ(ends_[0].error->code, Errc::kCanceled);
}

TEST_P(Reconnect, ReplyOfALostConnectionStaysReadable) {
  std::optional<Reply> kept;
  auto call = pair_.prepare(TestService::kProduce);
  ASSERT_TRUE(call);
  call->arguments().xdr().u32(500);
  call->expect_results(504);
  ASSERT_TRUE(pair_.client->start(std::move(*call), [&](Expected<Reply, Error> reply) {
    ASSERT_TRUE(reply);
    kept.emplace(std::move(*reply));
  }));
  pair_.run_until([&] { return kept.has_value(); });
  for (std::size_t round = 0; round < 2; ++round) {
    lose_connection();
    pair_.start_server();
    start_echo(round, 5000);
    pair_.run_until([&] { return ended(round); });
    expect_echoed(round);
  }
  const Bytes data = read(*kept)->xdr().opaque(500, "data");
  EXPECT_TRUE(are_equal(data, pattern(500, 500)));
  kept.reset();
}

TEST_P(Reconnect, RegisteredMemoryIsRegisteredWithTheNextConnection) {
  std::vector<std::byte> source = pattern(100'000, 1);
  std::vector<std::byte> place(100'000);
  const auto registered = pair_.client->register_memory(source);
  const auto registered_place = pair_.client->register_memory(place);
  ASSERT_TRUE(registered && registered_place);
  const auto echo = [&] {
    std::ranges::fill(place, std::byte{});
    auto call = pair_.prepare(TestService::kEcho);
    ASSERT_TRUE(call);
    call->arguments().bulk(source);
    call->place_result(place);
    EXPECT_FALSE(pair_.finish(std::move(*call), [](Reply& reply) {
      (void)reply.results().bulk(TestService::kBulkMax, "data");
    }));
    EXPECT_EQ(place, source);
  };
  echo();
  lose_connection();
  pair_.start_server();
  pair_.run_until([&] { return pair_.client->connected(); });
  const auto before = pair_.client->counters().registrations;
  echo();
  EXPECT_EQ(pair_.client->counters().registrations, before);
}

TEST_P(Reconnect, CallThatIsMadeAgainHasTheCredentialOfThatTime) {
  lose_connection();
  std::optional<std::uint32_t> uid;
  auto call = pair_.prepare(TestService::kWhoAmI);
  ASSERT_TRUE(call);
  ASSERT_TRUE(pair_.client->start(std::move(*call), [&](Expected<Reply, Error> reply) {
    ASSERT_TRUE(reply) << reply.error().message();
    uid = read(*reply)->xdr().u32("uid");
  }));
  AuthSys sys;  // its header is longer than that of AUTH_NONE
  sys.machine_name = "host";
  sys.uid = 1234;
  pair_.client->identity().use(sys);
  pair_.start_server();
  pair_.run_until([&] { return uid.has_value(); });
  EXPECT_EQ(uid, 1234U);
}

TEST_P(Reconnect, MemoryWhoseRegistrationHasEndedIsNotRegisteredAgain) {
  const auto of_a_connection = pair_.client->counters().registrations;
  std::vector<std::byte> source(100'000);
  ASSERT_TRUE(pair_.client->register_memory(source));  // and its end
  const auto before = pair_.client->counters().registrations;
  lose_connection();
  pair_.start_server();
  pair_.run_until([&] { return pair_.client->connected(); });
  EXPECT_EQ(pair_.client->counters().registrations - before, of_a_connection);
}

TEST_P(Reconnect, CallThatTheServerCannotStandFailsAloneAndOthersGoOn) {
  start_hold(0);
  for (std::size_t i = 1; i <= 4; ++i) start_echo(i, 20'000);
  pair_.run_until([&] {
    // The held call is what this server dies of, each time.
    if (pair_.server && !pair_.service.held.empty()) {
      pair_.kill_server();
      pair_.start_server();
    }
    return pair_.client->calls_in_flight() == 0;
  });
  ASSERT_TRUE(ends_[0].error);
  EXPECT_EQ(ends_[0].error->code, Errc::kConnectionLost);
  EXPECT_NE(ends_[0].error->cause.find("the only call under way"), std::string::npos)
      << ends_[0].error->message();
  for (std::size_t i = 1; i <= 4; ++i) expect_echoed(i);
}

// ADR 17: on a fresh connection one lost reply holds the only credit.
TEST_P(Reconnect, LostReplyEndsTheConnectionWhenItsCallTimesOutAndOthersGoOn) {
  start_hold(0, milliseconds(200));
  pair_.run_until([&] { return pair_.service.held.size() == 1; });
  start_echo(1, 5000);  // waits for the credit
  pair_.run_until([&] { return ended(0) && ended(1); });
  ASSERT_TRUE(ends_[0].error);
  EXPECT_EQ(ends_[0].error->code, Errc::kTimedOut);
  expect_echoed(1);
  for (std::size_t i = 2; i < 5; ++i) start_echo(i, 5000);
  pair_.run_until([&] { return pair_.client->calls_in_flight() == 0; });
  for (std::size_t i = 2; i < 5; ++i) expect_echoed(i);
  pair_.service.held[0]->succeed();
  pair_.service.held.clear();
}

TEST_P(Reconnect, SlowCallOnAConnectionThatAnswersOthersCostsNobodyElseAnything) {
  start_echo(0, 10);  // brings credits
  pair_.run_until([&] { return ended(0); });
  start_hold(1, milliseconds(100));
  std::size_t echoes = 2;
  while (!ended(1)) {
    start_echo(echoes, 5000);
    pair_.run_until([&] { return ended(echoes) || ended(1); });
    ++echoes;
  }
  EXPECT_EQ(ends_[1].error->code, Errc::kTimedOut);
  EXPECT_TRUE(pair_.client->connected());
  pair_.run_until([&] { return pair_.client->calls_in_flight() == 0; });
  for (std::size_t i = 2; i < echoes; ++i) expect_echoed(i);
  EXPECT_EQ(pair_.server->connections(), 1U);
  pair_.service.held[0]->succeed();
  pair_.service.held.clear();
}

// Answered when the test says so; not to be executed twice.
class HoldOnce final : public Service {
 public:
  const ProcedureTraits* traits(std::uint32_t /*procedure*/) const noexcept override {
    static constexpr ProcedureTraits kAny{.is_idempotent = false};
    return &kAny;
  }
  void call(CallContext& context) override {
    ++calls;
    held = &context;
  }

  int calls = 0;
  CallContext* held = nullptr;
};

TEST_P(Reconnect, CallThatIsMadeAgainWhileItIsExecutedGetsTheReplyOfTheFirst) {
  HoldOnce once;
  ASSERT_TRUE(pair_.server->add(78, 1, once));
  start_echo(0, 10);  // brings credits
  pair_.run_until([&] { return ended(0); });
  auto call = pair_.client->prepare({78, 1, 1});
  ASSERT_TRUE(call);
  start(1, std::move(*call));
  start_hold(2, milliseconds(100));  // ends the connection, on which nothing comes
  pair_.run_until([&] { return once.held != nullptr && pair_.service.held.size() == 1; });
  const bool is_configured = GetParam().profile == Profile::kRfc5666;  // by a call each time
  const std::uint64_t again = pair_.server->counters().short_calls + (is_configured ? 2 : 1);
  pair_.run_until([&] { return pair_.server->counters().short_calls == again; });
  EXPECT_FALSE(ended(1));
  once.held->succeed();
  pair_.run_until([&] { return ended(1); });
  EXPECT_FALSE(ends_[1].error) << ends_[1].error->message();
  EXPECT_EQ(once.calls, 1);
  EXPECT_EQ(pair_.server->counters().cached_replies, 1U);
  pair_.kill_server();
}

TEST_P(Reconnect, CountersGoOnFromOneConnectionToTheNext) {
  start_echo(0, 100);
  pair_.run_until([&] { return ended(0); });
  lose_connection();
  pair_.start_server();
  start_echo(1, 100);
  pair_.run_until([&] { return ended(1); });
  const bool is_configured = GetParam().profile == Profile::kRfc5666;  // by a call each time
  EXPECT_EQ(pair_.client->counters().calls, is_configured ? 4U : 2U);
}

INSTANTIATE_TEST_SUITE_P(Providers, Reconnect,
                         ::testing::Values(Kind{"Sim", [] { return make_sim(1); }},
                                           Kind{"SimOtherSeed", [] { return make_sim(77); }},
                                           Kind{"SimRfc5666", [] { return make_sim(5); },
                                                Profile::kRfc5666},
                                           Kind{"Siwarp", [] { return make_siwarp(true); }}),
                         [](const auto& given) { return std::string(given.param.name); });

// --- Calls that must not be executed twice -----------------------------------------------------

// Connections break at any moment, before and after the execution of calls; in virtual time.
std::unique_ptr<Network> make_breaking(std::uint64_t seed) {
  rdma::sim::Options options;
  options.disconnect_every = 40 + seed % 160;
  options.completes_before_arrival = seed % 2 == 0;
  return make_sim(seed, options);
}

class Once {
 public:
  static constexpr std::uint32_t kCalls = 60;

  explicit Once(std::uint64_t seed) : pair_(make_breaking(seed), options()) {}
  void run() {
    for (int i = 0; i < 6; ++i) start_one();
    pair_.run_until([&] { return ended_ == kCalls; });
    EXPECT_EQ(pair_.service.executed.size(), kCalls);
    for (const auto& [id, times] : pair_.service.executed) EXPECT_EQ(times, 1U) << id;
  }
  std::uint64_t cached() const { return pair_.server->counters().cached_replies; }
  std::uint64_t lost() const { return pair_.client->counters().calls - kCalls; }

 private:
  static ClientOptions options() {
    ClientOptions options = reconnecting();
    options.reconnect.losses_max = 1000;
    return options;
  }
  void start_one() {
    const std::uint32_t id = next_++;
    const std::uint32_t size = id % 3 == 0 ? 20'000 : id % 3 == 1 ? 50 : 3;
    auto call = pair_.prepare(TestService::kOnce);
    ASSERT_TRUE(call) << call.error().message();
    call->arguments().xdr().u32(id);
    call->arguments().xdr().u32(size);
    places_[id].resize(size);
    const bool placed = id % 2 == 0;
    if (placed) call->place_result(places_[id]);
    call->expect_results(12 + (placed ? 0 : static_cast<std::uint32_t>(xdr::padded(size))));
    auto started = pair_.client->start(
        std::move(*call), [this, id](Expected<Reply, Error> reply) { end(id, std::move(reply)); });
    ASSERT_TRUE(started) << started.error().message();
  }
  void end(std::uint32_t id, Expected<Reply, Error> reply) {
    ++ended_;
    ASSERT_TRUE(reply) << reply.error().message();
    EXPECT_EQ(read(*reply)->xdr().u32("times"), 1U) << id;
    const Bytes data = read(*reply)->bulk(TestService::kBulkMax, "data");
    EXPECT_TRUE(are_equal(data, pattern(places_[id].size(), id))) << id;
    EXPECT_EQ(read(*reply)->xdr().u32("id"), id);
    EXPECT_FALSE(reply->finish());
    if (next_ < kCalls) start_one();
  }

  std::map<std::uint32_t, std::vector<std::byte>> places_;
  RpcPair pair_;
  std::uint32_t next_ = 0, ended_ = 0;
};

TEST(Reconnection, EachCallIsExecutedOnceAndAnsweredOnceWhateverBreaks) {
  std::uint64_t cached = 0, lost = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Once once(seed);
    once.run();
    cached += once.cached();
    lost += once.lost();
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_GT(cached, 20U) << "hardly any reply was lost: this shows nothing";
  EXPECT_GT(lost, 100U);
}

// --- What belongs to a connection (V1-C10, PD-9, PD-R8) -----------------------------------------

class EachConnection : public ::testing::Test {
 protected:
  EachConnection() : EachConnection(ProtocolVersion::kOne) {}
  explicit EachConnection(ProtocolVersion version) : pair{make_sim(1), reconnecting_in(version)} {}
  static ClientOptions reconnecting_in(ProtocolVersion version) {
    ClientOptions options = reconnecting();
    options.version = version;
    return options;
  }
  void connect() {
    pair.kill_server();
    pair.run_until([&] { return !pair.client->connected(); });
    pair.start_server();
    pair.run_until([&] { return pair.client->connected(); });
  }
  // A call with one handle, which the server may invalidate.
  void call() {
    const auto data = pattern(20'000, 1);
    auto call = pair.prepare(TestService::kLength);
    ASSERT_TRUE(call);
    call->arguments().bulk(data);
    const auto error = pair.finish(std::move(*call),
                                   [](Reply& reply) { (void)reply.results().xdr().u32("size"); });
    EXPECT_FALSE(error) << error->message();
  }
  void expect_invalidation_by_the_flags_of_both_sides();
  RpcPair pair;
};

void EachConnection::expect_invalidation_by_the_flags_of_both_sides() {
  std::uint64_t by_peer = 0, by_us = 0;
  for (const auto& [server, client] :
       {std::pair(true, true), std::pair(false, true), std::pair(true, false),
        std::pair(false, false), std::pair(true, true)}) {
    pair.network->set_remote_invalidation(server, client);
    connect();
    call();
    ++(server && client ? by_peer : by_us);
    EXPECT_EQ(pair.client->counters().handles_invalidated_remotely, by_peer) << server << client;
    EXPECT_EQ(pair.client->counters().handles_revoked, by_us) << server << client;
    // A server whose device cannot invalidate does not announce it either, if the version has a
    // word for that.
    const auto terms = pair.client->connection().terms;
    EXPECT_EQ(terms->remote_invalidation, terms->protocol_version == 1 && server && client);
  }
}
TEST_F(EachConnection, NegotiatesRemoteInvalidationAnewByTheFlagsOfBothSides) {
  expect_invalidation_by_the_flags_of_both_sides();
}
class EachConnectionOfVersionTwo : public EachConnection {
 protected:
  EachConnectionOfVersionTwo() : EachConnection(ProtocolVersion::kTwo) {}
};
TEST_F(EachConnectionOfVersionTwo, NegotiatesRemoteInvalidationAnewByTheFlagsOfBothSides) {
  expect_invalidation_by_the_flags_of_both_sides();
}

// RFC 8166 §3.3.3: credits belong to a connection, and begin with one Call.
TEST_F(EachConnection, BeginsWithOneCallWhateverWasGrantedBefore) {
  call();  // brings credits
  int ended = 0;
  for (int i = 0; i < 3; ++i) {
    auto held = pair.prepare(TestService::kHold);
    ASSERT_TRUE(held);
    ASSERT_TRUE(pair.client->start(std::move(*held), [&](auto) { ++ended; }));
  }
  pair.run_until([&] { return pair.service.held.size() == 3; });
  connect();
  pair.run_until([&] { return pair.service.held.size() == 1; });
  rdma::Provider& clock = pair.network->add_provider("clock");
  const Instant later = clock.now() + std::chrono::seconds(1);
  clock.arm_timer(later);
  pair.run_until([&] { return clock.now() >= later; });
  ASSERT_EQ(pair.service.held.size(), 1U) << "the others wait for its reply";
  pair.service.held[0]->succeed();
  pair.run_until([&] { return pair.service.held.size() == 3; });
  pair.service.held[1]->succeed();
  pair.service.held[2]->succeed();
  pair.service.held.clear();
  pair.run_until([&] { return ended == 3; });
}

TEST_F(EachConnection, HasTheMessageSizesOfItsOwnSetUp) {
  const auto data = pattern(2500, 1);
  std::uint64_t long_calls = 0;
  for (const std::uint32_t size : {4096U, 1024U, 8192U, 1024U}) {
    ServerOptions options;
    options.connection.inline_size = size;
    pair.kill_server();
    pair.run_until([&] { return !pair.client->connected(); });
    pair.start_server(options);
    pair.run_until([&] { return pair.client->connected(); });
    auto call = pair.prepare(TestService::kAbsorb, 3000);
    ASSERT_TRUE(call);
    call->arguments().xdr().opaque(data);
    EXPECT_FALSE(pair.finish(std::move(*call), [](Reply& reply) {
      EXPECT_EQ(reply.results().xdr().u32("size"), 2500U);
    }));
    long_calls += size == 1024 ? 1 : 0;
    EXPECT_EQ(pair.client->counters().long_calls, long_calls) << size;
  }
}

TEST(ReplyCacheOfAServer, CanBeSwitchedOff) {
  ServerOptions options;
  options.reply_cache_entries = 0;
  RpcPair pair(make_sim(1), {}, options);
  auto call = pair.prepare(TestService::kOnce);
  ASSERT_TRUE(call);
  call->arguments().xdr().u32(1);
  call->arguments().xdr().u32(0);
  EXPECT_FALSE(pair.finish(std::move(*call), [](Reply& reply) {
    EXPECT_EQ(reply.results().xdr().u32("times"), 1U);
    (void)reply.results().bulk(0, "data");
    EXPECT_EQ(reply.results().xdr().u32("id"), 1U);
  }));
}

TEST(Backoff, DoublesUpToItsLimitShortenedAtRandomByUpToHalf) {
  ReconnectOptions options;
  options.first_delay = milliseconds(10);
  options.delay_max = milliseconds(100);
  bool differs = false;
  rpc::Backoff other(options, 2);
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    rpc::Backoff backoff(options, seed);
    for (int round = 0; round < 2; ++round) {
      for (const int full : {10, 20, 40, 80, 100, 100, 100}) {
        const auto delay = backoff.next();
        EXPECT_LE(delay, milliseconds(full));
        EXPECT_GE(delay, milliseconds(full) / 2);
        differs = differs || delay != other.next();
      }
      backoff.reset();
      other.reset();
    }
  }
  EXPECT_TRUE(differs) << "clients come back at the same time";
}

}  // namespace
}  // namespace rpcrdma::test
