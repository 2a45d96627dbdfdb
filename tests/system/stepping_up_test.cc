// Dynamic enabling (RFC 5666 §3) through the public headers: a service over tcp:// lets the
// connection of a Call go on as RDMA behind its reply; and the bounds of connections that never do.
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rpcrdma/client.h"
#include "rpcrdma/server.h"
#include "rpcrdma/take_over.h"
#include "support/checked_reply.h"
#include "support/raw_peer.h"
#include "support/raw_rpc.h"
#include "support/rpc_fixture.h"
#include "tcp/record.h"

namespace rpcrdma::test {
namespace {

using Words = std::vector<std::uint32_t>;

constexpr std::uint32_t kLast = tcp::kLastFragment;
constexpr std::uint32_t kSteppingUpProgram = TestService::kProgram;
constexpr std::uint32_t kSteppingUpVersion = TestService::kVersion;
constexpr std::uint32_t kXid = 7;

// The program of a test agrees with its clients on this.
class AgreeingService final : public Service {
 public:
  enum Procedure : std::uint32_t {
    kStepUp = 1,  // () -> u32: what step_up() said
    kLater = 2,   // the same, answered when the test says so
    kFail = 3,    // step_up(), and then SYSTEM_ERR
    kHold = 4,    // () -> (): answered when the test says so
    kLarge = 5,   // () -> bulk, more than a socket takes
  };
  static constexpr std::uint32_t kLargeSize = 16U << 20U;  // bytes

  const ProcedureTraits* traits(std::uint32_t procedure) const noexcept override {
    static constexpr ProcedureTraits kAny{};
    return procedure <= kLarge ? &kAny : nullptr;
  }
  void call(CallContext& context) override {
    const std::uint32_t procedure = context.procedure().number;
    if (procedure == kLarge) {
      context.results().bulk(context.result_memory(kLargeSize));
      return context.succeed();
    }
    if (procedure != kHold) {
      said = context.step_up();
      context.results().xdr().u32(static_cast<std::uint32_t>(*said));
    }
    if (procedure == kFail) return context.fail(AcceptStatus::kSystemErr);
    if (procedure == kStepUp) return context.succeed();
    held.push_back(&context);
  }

  std::optional<StepUp> said;
  std::vector<CallContext*> held;
};

Message call_of(std::uint32_t procedure, std::uint32_t xid = kXid) {
  return record(raw_call(xid, procedure));
}
const Words kYes = {kLast | 28, kXid, 1, 0, 0, 0, 0, 0};
const Words kNullReply = {kLast | 24, kXid, 1, 0, 0, 0, 0};

class SteppingUp : public ::testing::Test {
 protected:
  void start(ServerOptions options = {}, bool with_rdma = true) {
    options.provider.name = "siwarp";
    options.on_connection = [this](const ConnectionEvent& event) {
      if (event.kind == ConnectionEvent::Kind::kOpened) ++opened;
      if (event.kind == ConnectionEvent::Kind::kRefused) causes.push_back(event.error->cause);
      if (event.kind != ConnectionEvent::Kind::kEnded) return;
      causes.push_back(event.error == nullptr ? "in order" : event.error->cause);
    };
    auto made = Server::listen(with_rdma ? "rdma://127.0.0.1:0" : "tcp://127.0.0.1:0", options);
    ASSERT_TRUE(made) << made.error().message();
    server.emplace(std::move(*made));
    tcp_address = with_rdma ? *server->add_listener("tcp://127.0.0.1:0") : server->address();
    ASSERT_TRUE(server->add(kSteppingUpProgram, kSteppingUpVersion, service));
  }
  ~SteppingUp() override {
    for (CallContext* context : service.held) context->succeed();
  }
  std::unique_ptr<RawPeer> connect() {
    auto peer = RawPeer::connect(tcp_address, [this] { server->progress(); });
    EXPECT_NE(peer, nullptr);
    return peer;
  }
  static Words ask(RawPeer& peer, const Message& call, std::size_t size) {
    EXPECT_TRUE(peer.send(call));
    return to_words(peer.receive(size));
  }
  void run_until(const std::function<bool()>& condition) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition()) {
      server->progress();
      ASSERT_LT(std::chrono::steady_clock::now(), limit) << "the condition never held";
    }
  }
  // Serves while a client, which blocks, does something.
  void beside(const std::function<void()>& clients) {
    std::atomic<bool> done = false;
    std::thread thread([&] {
      clients();
      done = true;
    });
    while (!done) {
      pollfd entry{server->wait_fd(), POLLIN, 0};
      ::poll(&entry, 1, 5);
      server->progress();
    }
    thread.join();
  }
  static Expected<std::uint32_t, Error> call(Client& client, std::uint32_t procedure) {
    auto call = client.prepare({kSteppingUpProgram, kSteppingUpVersion, procedure});
    if (!call) return Unexpected<Error>(call.error());
    auto reply = client.call(std::move(*call));
    if (!reply) return Unexpected<Error>(reply.error());
    return read(*reply)->xdr().u32("said");
  }
  std::string last_cause() const { return causes.empty() ? "none" : causes.back(); }

  AgreeingService service;
  std::optional<Server> server;
  std::string tcp_address;
  std::size_t opened = 0;
  std::vector<std::string> causes;  // of refusals and ends
};

// --- Peers that do as they should --------------------------------------------------------------

TEST_F(SteppingUp, ClientGoesOnOverRdmaOnTheSameConnection) {
  start();
  beside([this] {
    auto plain = Client::connect("tcp://" + tcp_address);
    ASSERT_TRUE(plain) << plain.error().message();
    EXPECT_EQ(call(*plain, AgreeingService::kStepUp).value(), 0U);
    auto client = TakeOver::step_up(*plain);
    ASSERT_TRUE(client) << client.error().message();
    EXPECT_EQ(client->connection().peer_address, tcp_address) << "the port that was TCP's";
    EXPECT_EQ(client->connection().provider_name, "siwarp");
    EXPECT_EQ(call(*client, AgreeingService::kStepUp).value(),
              static_cast<std::uint32_t>(StepUp::kAlready));
    EXPECT_TRUE(plain->ended());
    EXPECT_FALSE(plain->connected());
    const auto over = call(*plain, AgreeingService::kStepUp);
    ASSERT_FALSE(over);
    EXPECT_EQ(over.error().code, Errc::kConnectionLost);
    EXPECT_NE(over.error().cause.find("stepped up"), std::string::npos);
  });
  ASSERT_FALSE(causes.empty());
  EXPECT_EQ(causes[0], "in order") << "of the connection over TCP";
  EXPECT_EQ(opened, 2U) << "it counts anew as one of RDMA";
}

TEST_F(SteppingUp, ClientThatReconnectsEndsToo) {
  start();
  beside([this] {
    ClientOptions options;
    options.reconnect.enabled = true;
    auto plain = Client::connect("tcp://" + tcp_address, options);
    ASSERT_TRUE(plain) << plain.error().message();
    EXPECT_EQ(call(*plain, AgreeingService::kStepUp).value(), 0U);
    auto client = TakeOver::step_up(*plain);
    ASSERT_TRUE(client) << client.error().message();
    for (int i = 0; i < 3; ++i) plain->progress();
    EXPECT_TRUE(plain->ended());
    EXPECT_EQ(call(*plain, AgreeingService::kStepUp).error().code, Errc::kConnectionLost);
    EXPECT_TRUE(call(*client, AgreeingService::kStepUp));
  });
}

TEST_F(SteppingUp, AnswerMayComeFromAnotherThread) {
  start();
  const auto peer = connect();
  ASSERT_TRUE(peer->send(call_of(AgreeingService::kLater)));
  run_until([this] { return !service.held.empty(); });
  std::thread answering([this] { std::exchange(service.held, {}).front()->succeed(); });
  EXPECT_EQ(to_words(peer->receive(32)), kYes);
  answering.join();
  EXPECT_FALSE(peer->initiate({}).empty());
  run_until([this] { return opened == 2; });
}

TEST_F(SteppingUp, RepliesBeforeItGoOutFirst) {
  start();
  const auto peer = connect();
  ASSERT_TRUE(peer->send(join({call_of(0), call_of(0), call_of(AgreeingService::kStepUp)})));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(to_words(peer->receive(28)), kNullReply);
  EXPECT_EQ(to_words(peer->receive(32)), kYes);
  EXPECT_FALSE(peer->initiate({}).empty());
}

TEST_F(SteppingUp, CallThatFailsChangesNothing) {
  start();
  const auto peer = connect();
  EXPECT_EQ(ask(*peer, call_of(AgreeingService::kFail), 28).at(6), 5U) << "SYSTEM_ERR";
  EXPECT_EQ(service.said, StepUp::kNow);
  EXPECT_EQ(ask(*peer, call_of(0), 28), kNullReply) << "it goes on by TCP";
  EXPECT_EQ(ask(*peer, call_of(AgreeingService::kStepUp), 32), kYes);
}

TEST_F(SteppingUp, ServerWithoutRdmaSaysSo) {
  start({}, false);
  const auto peer = connect();
  EXPECT_EQ(ask(*peer, call_of(AgreeingService::kStepUp), 32).at(7),
            static_cast<std::uint32_t>(StepUp::kUnable));
  EXPECT_EQ(ask(*peer, call_of(0), 28), kNullReply);
}

TEST_F(SteppingUp, ConnectionsOfUnixSocketsCannot) {
  start();
  std::string folder = ::testing::TempDir() + "rpcrdma.XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const auto path = server->add_listener("unix://" + folder + "/socket");
  ASSERT_TRUE(path) << path.error().message();
  beside([&] {
    auto client = Client::connect("unix://" + *path);
    ASSERT_TRUE(client) << client.error().message();
    EXPECT_EQ(call(*client, AgreeingService::kStepUp).value(),
              static_cast<std::uint32_t>(StepUp::kUnable));
  });
  server.reset();
  EXPECT_EQ(::rmdir(folder.c_str()), 0);
}

// --- Peers that do not -------------------------------------------------------------------------

class HostileToStepUp : public SteppingUp {};

TEST_F(HostileToStepUp, PeerThatTalksOnBeforeTheAnswerIsClosed) {
  start();
  for (const Message& behind : {words({0}), call_of(0), raw_mpa_frame(false, {})}) {
    const auto peer = connect();
    ASSERT_TRUE(peer->send(join({call_of(AgreeingService::kStepUp), behind})));
    const auto answer = peer->receive_to_end();
    ASSERT_TRUE(answer);
    EXPECT_TRUE(answer->empty());
    run_until([this] { return server->connections() == 0; });
    EXPECT_NE(last_cause().find("talked on"), std::string::npos) << last_cause();
  }
}

TEST_F(HostileToStepUp, PeerThatEndsBeforeTheAnswerIsNotSaidToTalk) {
  start();
  for (const bool by_reset : {false, true}) {
    const auto peer = connect();
    ASSERT_TRUE(peer->send(call_of(AgreeingService::kLater)));
    run_until([this] { return !service.held.empty(); });
    if (by_reset) {
      peer->reset();
    } else {
      peer->finish();
    }
    std::exchange(service.held, {}).front()->succeed();
    run_until([this] { return server->connections() == 0; });
    EXPECT_EQ(last_cause(), by_reset ? "Connection reset by peer" : "in order");
  }
}

TEST_F(HostileToStepUp, PeerThatTalksOnWhileTheServiceThinksIsClosed) {
  start();
  for (const Message& behind : {words({0}), call_of(0), call_of(AgreeingService::kHold)}) {
    const auto peer = connect();
    ASSERT_TRUE(peer->send(call_of(AgreeingService::kLater)));
    run_until([this] { return service.held.size() == 1; });
    ASSERT_TRUE(peer->send(behind));
    const std::size_t before = peer->waiting();
    // A NULL is answered at once; then it is the peer that has not waited for the other reply.
    if (behind == call_of(AgreeingService::kHold)) {
      run_until([this] { return service.held.size() == 2; });
    } else if (behind == call_of(0)) {
      EXPECT_EQ(to_words(peer->receive(28)), kNullReply);
      ASSERT_TRUE(peer->send(words({0})));
    }
    EXPECT_EQ(before, 0U);
    for (int i = 0; i < 50; ++i) server->progress();
    for (CallContext* context : std::exchange(service.held, {})) context->succeed();
    const auto answer = peer->receive_to_end();
    ASSERT_TRUE(answer);
    EXPECT_TRUE(answer->empty());
  }
}

TEST_F(HostileToStepUp, RecordsBehindAnAnswerThatIsStillOnItsWayAreNotServed) {
  ServerOptions options;
  options.tcp.unsent_max = 4 * std::size_t{AgreeingService::kLargeSize};
  start(options);
  const auto peer = connect();
  ASSERT_TRUE(
      peer->send(join({call_of(AgreeingService::kLarge), call_of(AgreeingService::kStepUp)})));
  run_until([this] { return service.said.has_value(); });
  ASSERT_TRUE(peer->send(call_of(0)));
  for (int i = 0; i < 50; ++i) server->progress();
  EXPECT_EQ(peer->receive(32 + AgreeingService::kLargeSize).size(),
            32 + AgreeingService::kLargeSize);
  EXPECT_EQ(to_words(peer->receive(32)), kYes);
  const auto rest = peer->receive_to_end();
  ASSERT_TRUE(rest);
  EXPECT_TRUE(rest->empty()) << "the set-up of RDMA refuses it";
}

TEST_F(HostileToStepUp, PeerThatIsSilentAfterTheAnswerIsClosed) {
  ServerOptions options;
  options.provider.setup_timeout_server = std::chrono::milliseconds(50);
  start(options);
  const auto peer = connect();
  EXPECT_EQ(ask(*peer, call_of(AgreeingService::kStepUp), 32), kYes);
  EXPECT_EQ(server->connections(), 0U) << "a set-up counts only when it is complete";
  const auto rest = peer->receive_to_end();
  ASSERT_TRUE(rest);
  EXPECT_TRUE(rest->empty());
}

TEST_F(HostileToStepUp, ServerThatStopsMeanwhileClosesInstead) {
  start();
  const auto peer = connect();
  ASSERT_TRUE(peer->send(call_of(AgreeingService::kLater)));
  run_until([this] { return !service.held.empty(); });
  server->stop();
  server->progress();
  std::exchange(service.held, {}).front()->succeed();
  const auto answer = peer->receive_to_end();
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->empty());
  EXPECT_TRUE(server->drained());
}

TEST_F(HostileToStepUp, ServerThatStopsAgreesNoMore) {
  start();
  const auto peer = connect();
  ASSERT_TRUE(peer->send(call_of(AgreeingService::kHold)));
  run_until([this] { return !service.held.empty(); });
  server->stop();
  server->progress();
  CallContext& held = *std::exchange(service.held, {}).front();
  EXPECT_EQ(held.step_up(), StepUp::kUnable);
  held.succeed();
  EXPECT_EQ(to_words(peer->receive(28)), kNullReply);
}

// --- The client's side -------------------------------------------------------------------------

TEST_F(SteppingUp, ClientRefusesWhileCallsAreUnderWayAndStaysAsItIs) {
  start();
  beside([this] {
    auto client = Client::connect("tcp://" + tcp_address);
    ASSERT_TRUE(client);
    auto held = client->prepare({kSteppingUpProgram, kSteppingUpVersion, AgreeingService::kHold});
    ASSERT_TRUE(client->start(std::move(*held), [](Expected<Reply, Error>) {}));
    const auto refused = TakeOver::step_up(*client);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::kUnsupported);
    EXPECT_NE(refused.error().cause.find("under way"), std::string::npos);
    EXPECT_EQ(call(*client, AgreeingService::kFail).error().code, Errc::kServerFault);
  });
}

TEST_F(SteppingUp, ClientOfRdmaRefuses) {
  start();
  beside([this] {
    auto client = Client::connect("rdma://" + std::string(server->address()));
    ASSERT_TRUE(client);
    const auto refused = TakeOver::step_up(*client);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::kUnsupported);
    EXPECT_TRUE(call(*client, AgreeingService::kStepUp));
  });
}

TEST(SteppingUpClient, RefusesWhenTheServerTalksBehindItsAnswer) {
  std::optional<Client> client;
  RawListener listener([&] {
    if (client) client->progress();
  });
  client.emplace(std::move(*Client::begin_connect("tcp://" + listener.address())));
  const auto server = listener.accept();
  ASSERT_TRUE(server && server->pump_until([&] { return client->connected(); }));
  auto call = client->prepare({kSteppingUpProgram, kSteppingUpVersion, 1});
  ASSERT_TRUE(call);
  bool ended = false;
  ASSERT_TRUE(
      client->start(std::move(*call), [&](const auto& reply) { ended = reply.has_value(); }));
  const Words asked = to_words(server->receive(44));
  ASSERT_EQ(asked.size(), 11U);
  // Half of a mark stands behind the reply.
  ASSERT_TRUE(server->send(
      join({words({kLast | 28, asked[1], 1, 0, 0, 0, 0, 0}), Message(2, std::byte{0})})));
  ASSERT_TRUE(server->pump_until([&] { return ended; }));
  const auto refused = TakeOver::step_up(*client);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kUnsupported);
  EXPECT_NE(refused.error().cause.find("behind its answers"), std::string::npos);
}

// --- Connections that never step up ------------------------------------------------------------

TEST_F(HostileToStepUp, IdleConnectionsAreClosedInOrder) {
  ServerOptions options;
  options.tcp.idle_timeout = std::chrono::milliseconds(300);
  start(options);
  auto silent = connect();
  const auto held = connect();
  ASSERT_TRUE(held->send(call_of(AgreeingService::kHold)));
  run_until([this] { return !service.held.empty(); });
  EXPECT_TRUE(silent->receive_to_end());
  silent.reset();
  run_until([this] { return server->connections() == 1; });
  EXPECT_EQ(last_cause(), "in order");
  std::exchange(service.held, {}).front()->succeed();
  EXPECT_EQ(to_words(held->receive(28)), kNullReply) << "a Call in service is no idleness";
  EXPECT_EQ(ask(*held, call_of(0), 28), kNullReply) << "its time begins behind the reply";
  EXPECT_TRUE(held->receive_to_end()) << "now it is idle";
}

TEST_F(HostileToStepUp, HalfARecordIsSubjectToThePeerTimeout) {
  ServerOptions options;
  options.tcp.idle_timeout = std::chrono::hours(1);
  options.peer_timeout = std::chrono::milliseconds(50);
  start(options);
  const auto slow = connect();
  ASSERT_TRUE(slow->send(first(call_of(AgreeingService::kStepUp), 30)));
  EXPECT_TRUE(slow->receive_to_end());
}

TEST_F(HostileToStepUp, WaitFdIsReadableWhenAConnectionHasBeenIdle) {
  ServerOptions options;
  options.tcp.idle_timeout = std::chrono::milliseconds(50);
  start(options);
  bool waited_in_vain = false;
  const auto silent = RawPeer::connect(tcp_address, [&] {
    pollfd entry{server->wait_fd(), POLLIN, 0};
    waited_in_vain = waited_in_vain || ::poll(&entry, 1, 10'000) != 1;
    server->progress();
  });
  ASSERT_NE(silent, nullptr);
  EXPECT_TRUE(silent->receive_to_end());
  EXPECT_FALSE(waited_in_vain);
}

TEST_F(HostileToStepUp, ConnectionOverTheBoundTakesThePlaceOfTheOneThatCalledLongestAgo) {
  ServerOptions options;
  options.tcp.connections_max = 3;
  start(options);
  const auto held = connect();
  ASSERT_TRUE(held->send(call_of(AgreeingService::kHold)));
  run_until([this] { return !service.held.empty(); });
  const auto first = connect();
  run_until([this] { return opened == 2; });
  const auto second = connect();
  run_until([this] { return opened == 3; });
  EXPECT_EQ(ask(*first, call_of(0), 28), kNullReply);
  const auto third = connect();
  EXPECT_EQ(ask(*third, call_of(0), 28), kNullReply);
  EXPECT_TRUE(second->receive_to_end()) << "it has called longest ago";
  EXPECT_NE(last_cause().find("made room"), std::string::npos) << last_cause();
  EXPECT_EQ(ask(*first, call_of(0), 28), kNullReply);
  EXPECT_EQ(server->connections(), 3U);
  // One over RDMA does not count.
  beside([this] { EXPECT_TRUE(Client::connect("rdma://" + std::string(server->address()))); });
}

// There may be a mount behind it, which is silent for hours and must find its connection again.
TEST_F(HostileToStepUp, ConnectionThatHasMadeCallsIsKept) {
  ServerOptions options;
  options.tcp.connections_max = 2;
  start(options);
  const auto mount = connect();
  ASSERT_TRUE(mount->send(call_of(AgreeingService::kHold)));
  run_until([this] { return !service.held.empty(); });
  std::exchange(service.held, {}).front()->succeed();
  EXPECT_EQ(to_words(mount->receive(28)), kNullReply);
  const auto silent = connect();
  run_until([this] { return opened == 2; });
  const auto other = connect();
  ASSERT_TRUE(other->send(call_of(AgreeingService::kHold)));
  EXPECT_TRUE(silent->receive_to_end()) << "it has made no call, and makes room";
  run_until([this] { return !service.held.empty(); });
  std::exchange(service.held, {}).front()->succeed();
  EXPECT_EQ(to_words(other->receive(28)), kNullReply);
  const auto refused = connect();
  EXPECT_TRUE(refused->receive_to_end());
  EXPECT_NE(last_cause().find("all are in use"), std::string::npos) << last_cause();
  EXPECT_EQ(ask(*mount, call_of(0), 28), kNullReply);
  EXPECT_EQ(ask(*other, call_of(0), 28), kNullReply);
}

// Neither transport takes the connections of the other.
TEST_F(HostileToStepUp, ConnectionsOverTcpCountApartWhereTheyHaveABound) {
  ServerOptions options;
  options.connections_max = 1;
  options.tcp.connections_max = 2;
  start(options);
  const auto first = connect(), second = connect();
  EXPECT_EQ(ask(*first, call_of(0), 28), kNullReply);
  EXPECT_EQ(ask(*second, call_of(0), 28), kNullReply);
  beside([this] { EXPECT_TRUE(Client::connect("rdma://" + std::string(server->address()))); });
}

TEST_F(HostileToStepUp, PeersThatLeaveTheirRepliesMakeRoomToo) {
  ServerOptions options;
  options.tcp.connections_max = 1;
  start(options);
  const auto deaf = connect();
  ASSERT_TRUE(deaf->send(call_of(AgreeingService::kLarge)));
  run_until([this] { return server->memory_in_use() >= AgreeingService::kLargeSize; });
  // For a moment every reply is where it is.
  std::vector<std::uint32_t> answer;
  for (int left = 1'000'000; left > 0 && answer != kNullReply; --left) {
    const auto honest = connect();
    answer = honest->send(call_of(0)) ? to_words(honest->receive(28)) : Words();
  }
  EXPECT_EQ(answer, kNullReply);
  EXPECT_LT(server->memory_in_use(), AgreeingService::kLargeSize);
}

TEST_F(HostileToStepUp, WhenAllAreBeingAnsweredAFurtherOneIsRefused) {
  ServerOptions options;
  options.tcp.connections_max = 1;
  start(options);
  const auto held = connect();
  ASSERT_TRUE(held->send(call_of(AgreeingService::kHold)));
  run_until([this] { return !service.held.empty(); });
  const auto refused = connect();
  EXPECT_TRUE(refused->receive_to_end());
  EXPECT_NE(last_cause().find("all are in use"), std::string::npos) << last_cause();
  std::exchange(service.held, {}).front()->succeed();
  EXPECT_EQ(to_words(held->receive(28)), kNullReply);
}

}  // namespace
}  // namespace rpcrdma::test
