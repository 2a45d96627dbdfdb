#include "support/rpc_fixture.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>

#include "rdma/sim/provider.h"
#include "rdma/sim/world.h"
#include "rdma/siwarp/provider.h"
#include "rdma/verbs/loader.h"
#include "rpc/call/connecting_client.h"
#include "rpc/serve/server_impl.h"

namespace rpcrdma::test {
namespace {

class SimNetwork final : public Network {
 public:
  SimNetwork(std::uint64_t seed, const rdma::sim::Options& options)
      : world_(seed, options), server_(world_, "server"), client_(world_, "client") {}

  rdma::Provider& server_side() override { return server_; }
  rdma::Provider& client_side() override { return client_; }
  std::string listen_address() const override { return "server:0"; }
  rdma::Provider& add_provider(const std::string& name) override {
    return *further_.emplace_back(std::make_unique<rdma::sim::Provider>(world_, name));
  }
  void wait() override { world_.pass_time(); }
  void set_remote_invalidation(bool server, bool client) override {
    server_.set_remote_invalidation(server);
    client_.set_remote_invalidation(client);
  }
  void remove_listening_device() override { world_.remove_listening_devices(); }
  std::vector<std::string> violations() const override { return world_.violations(); }

 private:
  rdma::sim::World world_;
  rdma::sim::Provider server_, client_;
  std::vector<std::unique_ptr<rdma::Provider>> further_;
};

// Providers with descriptors, which `make` gives, at one address of this machine.
class RealNetwork final : public Network {
 public:
  using Make = std::function<std::unique_ptr<rdma::Provider>()>;

  RealNetwork(std::string address, Make make)
      : address_(std::move(address)), make_(std::move(make)), server_(make_()), client_(make_()) {}
  rdma::Provider& server_side() override { return *server_; }
  rdma::Provider& client_side() override { return *client_; }
  std::string listen_address() const override { return address_ + ":0"; }
  rdma::Provider& add_provider(const std::string&) override {
    return *further_.emplace_back(make_());
  }
  void wait() override {
    std::vector<pollfd> fds = {{server_->wait_fd(), POLLIN, 0}, {client_->wait_fd(), POLLIN, 0}};
    for (const auto& provider : further_) fds.push_back({provider->wait_fd(), POLLIN, 0});
    ::poll(fds.data(), fds.size(), 100);
  }

 private:
  const std::string address_;
  const Make make_;
  std::unique_ptr<rdma::Provider> server_, client_;
  std::vector<std::unique_ptr<rdma::Provider>> further_;
};

std::unique_ptr<rdma::Provider> siwarp_provider(bool crc, bool shares_receives) {
  rdma::siwarp::Options options;
  options.crc = crc;
  options.shares_receives = shares_receives;
  options.spin = std::chrono::microseconds(0);
  return std::move(rdma::siwarp::make_provider(options).value());
}

std::unique_ptr<rdma::Provider> verbs_provider() {
  rdma::verbs::Options options;
  options.spin = std::chrono::microseconds(0);
  options.exposures = 8192;  // of 128 calls with many segments each
  if (const char* const count = std::getenv("RPCRDMA_LAB_SHARED")) {
    // For whatever inline size a test may have.
    options.shared_receives = {static_cast<std::uint32_t>(std::atoi(count)), 65536, true};
  }
  return std::move(rdma::verbs::load().value()->make_provider(options).value());
}

}  // namespace

std::unique_ptr<Network> make_sim(std::uint64_t seed, const rdma::sim::Options& options) {
  return std::make_unique<SimNetwork>(seed, options);
}

std::unique_ptr<Network> make_siwarp(bool crc, bool shares_receives) {
  if (const char* const address = std::getenv("RPCRDMA_LAB_ADDRESS")) {
    return std::make_unique<RealNetwork>(address, verbs_provider);
  }
  return std::make_unique<RealNetwork>("127.0.0.1",
                                       [=] { return siwarp_provider(crc, shares_receives); });
}

// --- TestService -------------------------------------------------------------------------------

void TestService::call(CallContext& context) {
  ++calls;
  switch (context.procedure().number) {
    case kEcho:
      return echo(context);
    case kLength: {
      const Bytes data = context.arguments().bulk(kBulkMax, "data");
      if (!context.arguments().finish()) return context.fail(AcceptStatus::kGarbageArgs);
      context.results().xdr().u32(static_cast<std::uint32_t>(data.size()));
      return context.succeed();
    }
    case kProduce:
      return produce(context);
    case kSwap:
      return swap(context);
    case kHold:
      return held.push_back(&context);
    case kWhoAmI: {
      const auto sys = context.credential().flavor == AuthFlavor::kSys
                           ? parse_auth_sys(context.credential().body)
                           : std::nullopt;
      context.results().xdr().u32(sys ? sys->uid : 0xffffffffU);
      return context.succeed();
    }
    case kAbsorb: {
      const Bytes data = context.arguments().xdr().opaque(kBulkMax, "data");
      if (!context.arguments().finish()) return context.fail(AcceptStatus::kGarbageArgs);
      context.results().xdr().u32(static_cast<std::uint32_t>(data.size()));
      return context.succeed();
    }
    case kOnce:
      return execute_once(context);
    case kGather: {
      std::size_t size = 0;
      MessageReader& arguments = context.arguments();
      while (arguments.ok() && !arguments.xdr().rest().empty())
        size += arguments.bulk(kBulkMax, "data").size();
      if (!arguments.finish()) return context.fail(AcceptStatus::kGarbageArgs);
      context.results().xdr().u32(static_cast<std::uint32_t>(size));
      return context.succeed();
    }
    default:
      return context.fail(AcceptStatus::kGarbageArgs);
  }
}

void TestService::echo(CallContext& context) {
  const Bytes data = context.arguments().bulk(kBulkMax, "data");
  if (!context.arguments().finish()) return context.fail(AcceptStatus::kGarbageArgs);
  const MutableBytes copy = context.result_memory(static_cast<std::uint32_t>(data.size()));
  if (copy.size() != data.size()) return context.fail(AcceptStatus::kSystemErr);
  std::copy(data.begin(), data.end(), copy.begin());
  context.results().bulk(copy);
  context.succeed();
}

void TestService::swap(CallContext& context) {
  auto& arguments = context.arguments();
  arguments.xdr().u32("number");
  const Bytes first = arguments.bulk(kBulkMax, "first");
  const std::string text(arguments.xdr().string(kTextMax, "text"));
  const Bytes second = arguments.bulk(kBulkMax, "second");
  if (!arguments.finish()) return context.fail(AcceptStatus::kGarbageArgs);
  const auto text_size = static_cast<std::uint32_t>(text.size());
  if (text_size > 1000 && !context.reserve_results(text_size + 100)) {
    return context.fail(AcceptStatus::kSystemErr);
  }
  const MutableBytes a = context.result_memory(static_cast<std::uint32_t>(second.size()));
  const MutableBytes b = context.result_memory(static_cast<std::uint32_t>(first.size()));
  std::copy(second.begin(), second.end(), a.begin());
  std::copy(first.begin(), first.end(), b.begin());
  context.results().bulk(a);
  context.results().xdr().string(text);
  context.results().bulk(b);
  context.succeed();
}

void TestService::produce(CallContext& context) {
  const std::uint32_t size = context.arguments().xdr().u32("size");
  if (!context.arguments().finish() || size > kBulkMax || !context.reserve_results(size + 8)) {
    return context.fail(AcceptStatus::kGarbageArgs);
  }
  context.results().xdr().opaque(pattern(size, size));
  context.succeed();
}

void TestService::execute_once(CallContext& context) {
  const std::uint32_t id = context.arguments().xdr().u32("id");
  const std::uint32_t size = context.arguments().xdr().u32("size");
  if (!context.arguments().finish() || size > kBulkMax) {
    return context.fail(AcceptStatus::kGarbageArgs);
  }
  context.results().xdr().u32(++executed[id]);
  const MutableBytes memory = context.result_memory(size);
  const auto data = pattern(size, id);
  std::copy(data.begin(), data.end(), memory.begin());
  context.results().bulk(memory);
  context.results().xdr().u32(id);
  context.succeed();
}

// --- RpcPair -----------------------------------------------------------------------------------

RpcPair::RpcPair(std::unique_ptr<Network> net, ClientOptions client_options,
                 ServerOptions server_options)
    : network(std::move(net)), server_options_(with_small_messages(server_options)) {
  start_server();
  auto connecting = ConnectingClient::connect_on(network->client_side(), server->address(),
                                                 with_small_messages(client_options));
  EXPECT_TRUE(connecting) << (connecting ? "" : connecting.error().message());
  client = std::move(*connecting);
  run_until([this] { return client->connected() && server->connections() == 1; });
}

RpcPair::~RpcPair() {
  if (server) {
    for (CallContext* context : service.held) context->succeed();
    server->progress();
  }
  client.reset();
  server.reset();
  EXPECT_EQ(network->violations(), std::vector<std::string>{});
}

void RpcPair::kill_server() {
  service.held.clear();
  server.reset();
}

void RpcPair::start_server() {
  const std::string at = address_.empty() ? network->listen_address() : address_;
  auto listening = ServerImpl::listen_on(network->server_side(), at, server_options_);
  EXPECT_TRUE(listening) << (listening ? "" : listening.error().message());
  server = std::move(*listening);
  address_ = std::string(server->address());
  EXPECT_TRUE(server->add(TestService::kProgram, TestService::kVersion, service));
}

Client RpcPair::connect_another(RpcPair& pair) {
  auto connecting = ConnectingClient::connect_on(
      pair.network->client_side(), pair.server->address(), with_small_messages(ClientOptions{}));
  EXPECT_TRUE(connecting) << (connecting ? "" : connecting.error().message());
  pair.run_until([&] {
    connecting->progress();
    return connecting->connected();
  });
  return std::move(*connecting);
}

bool RpcPair::run_until(const std::function<bool()>& condition) {
  // On siwarp a round may wait up to 100 ms; what takes longer than this is a hang.
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (int round = 0; round < 1'000'000; ++round) {
    if (server) server->progress();
    if (client) client->progress();
    if (condition()) return true;
    if (std::chrono::steady_clock::now() > limit) break;
    network->wait();
  }
  ADD_FAILURE() << "the condition never held";
  return false;
}

std::optional<Error> RpcPair::finish(Call call, const std::function<void(Reply&)>& read) {
  std::optional<Error> error;
  bool ended = false;
  int times = 0;
  auto started = client->start(std::move(call), [&](Expected<Reply, Error> reply) {
    ended = true;
    ++times;
    if (!reply) {
      error = reply.error();
    } else {
      read(*reply);
      error = reply->finish();
    }
  });
  if (!started) return started.error();
  run_until([&] { return ended; });
  EXPECT_EQ(times, 1);
  return error;
}

std::vector<std::byte> pattern(std::size_t size, std::uint32_t seed) {
  std::vector<std::byte> bytes(size);
  std::uint32_t state = seed * 2654435761U + 1;
  for (std::byte *at = bytes.data(), *end = at + size; at != end; ++at) {
    state = state * 1664525U + 1013904223U;
    *at = static_cast<std::byte>(state >> 24U);
  }
  return bytes;
}

bool are_equal(Bytes one, Bytes other) {
  return one.size() == other.size() &&
         (one.empty() || std::memcmp(one.data(), other.data(), one.size()) == 0);
}

}  // namespace rpcrdma::test
