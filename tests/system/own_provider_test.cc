// Clients and servers over a provider that is the user's, and over one that does not do its part.
#include "examples/own_provider.h"

#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rpcrdma/client.h"
#include "rpcrdma/function_service.h"
#include "rpcrdma/server.h"
#include "support/checked_reply.h"
#include "support/forwarding_provider.h"

namespace rpcrdma::test {
namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t kOwnProviderProgram = 0x20010031, kOwnProviderVersion = 1;
enum OwnProcedure : std::uint32_t { kDouble = 1, kCopy = 2 };
constexpr std::uint32_t kCopyMax = 1U << 20U;

// Names what a provider refuses from now on.
struct Faults {
  bool connect = false, listen = false, accept = false;
  std::uint32_t attaches_left = std::numeric_limits<std::uint32_t>::max();
  std::optional<rdma::Errc> post_sends, post_receives;
  bool expose = false;
};

rdma::Error refusal(rdma::Errc code) {
  return {code, 0, "the test's refusal"};
}

class FaultyQueuePair final : public test::ForwardingQueuePair {
 public:
  FaultyQueuePair(std::unique_ptr<rdma::QueuePair> inner, Faults& faults)
      : ForwardingQueuePair(std::move(inner)), faults_(faults) {}

  Expected<work::RegionId, rdma::Error> attach(MutableBytes memory) override {
    if (!may_attach()) return Unexpected<rdma::Error>(refusal(rdma::Errc::kNoResources));
    return ForwardingQueuePair::attach(memory);
  }
  Expected<work::RegionId, rdma::Error> attach_read_only(Bytes memory) override {
    if (!may_attach()) return Unexpected<rdma::Error>(refusal(rdma::Errc::kNoResources));
    return ForwardingQueuePair::attach_read_only(memory);
  }
  Expected<void, rdma::Error> post_receives(const rdma::ReceiveBuffers& buffers,
                                            std::span<const std::uint16_t> numbers) override {
    if (faults_.post_receives) return Unexpected<rdma::Error>(refusal(*faults_.post_receives));
    return ForwardingQueuePair::post_receives(buffers, numbers);
  }
  Expected<void, rdma::Error> post(std::span<work::Request> batch) override {
    std::vector<work::Request> taken;
    for (const work::Request& request : batch) {
      if (std::holds_alternative<work::Send>(request.work) && faults_.post_sends) {
        return Unexpected<rdma::Error>(refusal(*faults_.post_sends));
      }
      if (!std::holds_alternative<work::Expose>(request.work) || !faults_.expose) {
        taken.push_back(request);
      }
    }
    auto posted = ForwardingQueuePair::post(taken);
    if (!posted) return posted;
    for (const work::Request& request : batch) {
      if (std::holds_alternative<work::Expose>(request.work) && faults_.expose) {
        failed_.push_back({.id = request.id, .status = rdma::Status::kLocalError});
      }
    }
    return posted;
  }
  std::size_t poll(std::span<rdma::Completion> out) override {
    if (failed_.empty() || out.empty()) return ForwardingQueuePair::poll(out);
    out[0] = failed_.front();
    failed_.pop_front();
    return 1;
  }
  rdma::Error exposure_failure() const noexcept override {
    return refusal(rdma::Errc::kNoResources);
  }

 private:
  bool may_attach() {
    if (faults_.attaches_left == 0) return false;
    --faults_.attaches_left;
    return true;
  }

  Faults& faults_;
  std::deque<rdma::Completion> failed_;
};

class FaultyProvider final : public test::ForwardingProvider {
 public:
  FaultyProvider(std::unique_ptr<own::Provider> inner, Faults& faults)
      : ForwardingProvider(*inner), inner_(std::move(inner)), faults_(faults) {}

  std::string_view name() const noexcept override { return "faulty"; }
  Expected<std::unique_ptr<rdma::QueuePair>, rdma::Error> accept(
      std::unique_ptr<rdma::Incoming> request, Bytes private_data) override {
    if (faults_.accept) return Unexpected<rdma::Error>(refusal(rdma::Errc::kNoResources));
    return ForwardingProvider::accept(std::move(request), private_data);
  }
  Expected<std::unique_ptr<rdma::QueuePair>, rdma::Error> connect(std::string_view address,
                                                                  Bytes private_data) override {
    if (faults_.connect) return Unexpected<rdma::Error>(refusal(rdma::Errc::kTimedOut));
    return ForwardingProvider::connect(address, private_data);
  }
  Expected<std::unique_ptr<rdma::Listener>, rdma::Error> listen(std::string_view address) override {
    if (faults_.listen) return Unexpected<rdma::Error>(refusal(rdma::Errc::kBadAddress));
    return ForwardingProvider::listen(address);
  }
  std::string remedy(const rdma::Error& /*error*/) const override { return "ask the test"; }

 private:
  std::unique_ptr<rdma::QueuePair> wrap(std::unique_ptr<rdma::QueuePair> inner) override {
    return std::make_unique<FaultyQueuePair>(std::move(inner), faults_);
  }

  const std::unique_ptr<own::Provider> inner_;
  Faults& faults_;
};

class OwnProvider : public ::testing::Test {
 protected:
  OwnProvider() {
    service_.on(kDouble, [](CallContext& call) {
      const std::uint32_t number = call.arguments().xdr().u32("number");
      if (!call.arguments().finish()) return AcceptStatus::kGarbageArgs;
      call.results().xdr().u32(2 * number);
      return AcceptStatus::kSuccess;
    });
    service_.on(kCopy,
                [](CallContext& call) {
                  const Bytes data = call.arguments().bulk(kCopyMax, "data");
                  if (!call.arguments().finish()) return AcceptStatus::kGarbageArgs;
                  call.results().bulk(data);
                  return AcceptStatus::kSuccess;
                },
                {kCopyMax});
    server_options_.on_connection = [this](const ConnectionEvent& event) {
      if (event.error != nullptr) server_errors_.push_back(*event.error);
    };
    client_options_.call_timeout = std::chrono::seconds(5);
  }

  std::unique_ptr<rdma::Provider> faulty(Faults& faults) {
    return std::make_unique<FaultyProvider>(std::make_unique<own::Provider>(wire_), faults);
  }
  void listen() {
    server_.emplace(Server::listen(faulty(of_server_), "here:0", server_options_).value());
    ASSERT_TRUE(server_->add(kOwnProviderProgram, kOwnProviderVersion, service_));
  }
  // False: not within ten seconds.
  bool pump_until(const std::function<bool()>& condition) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < limit) {
      if (condition()) return true;
      if (server_) server_->progress();
      if (client_) client_->progress();
    }
    return false;
  }
  // Returns whether the connection came up; else first_error() says why.
  bool connect() {
    auto client = Client::begin_connect({faulty(of_client_), server_->address()}, client_options_);
    if (!client) {
      connect_error_ = client.error();
      return false;
    }
    client_.emplace(std::move(*client));
    EXPECT_TRUE(pump_until([&] { return client_->connected() || client_->ended(); }));
    return client_->connected();
  }
  Expected<std::uint32_t, Error> double_of(std::uint32_t number) {
    auto call = client_->prepare({kOwnProviderProgram, kOwnProviderVersion, kDouble});
    if (!call) return Unexpected<Error>(call.error());
    call->arguments().xdr().u32(number);
    return end_of<std::uint32_t>(std::move(*call),
                                 [](Reply& reply) { return reply.results().xdr().u32("number"); });
  }
  // The copy lands in place_.
  Expected<bool, Error> copy_of(Bytes data) {
    place_.assign(data.size(), std::byte{});
    auto call = client_->prepare({kOwnProviderProgram, kOwnProviderVersion, kCopy});
    if (!call) return Unexpected<Error>(call.error());
    call->arguments().bulk(data);
    call->place_result(place_);
    return end_of<bool>(std::move(*call), [](Reply& reply) {
      (void)reply.results().bulk(kCopyMax, "data");
      return reply.results().last_was_placed();
    });
  }

  own::Wire wire_;
  Faults of_client_, of_server_;
  ServerOptions server_options_;
  ClientOptions client_options_;
  FunctionService service_;
  std::optional<Server> server_;
  std::optional<Client> client_;
  std::optional<Error> connect_error_;
  std::vector<Error> server_errors_;
  std::vector<std::byte> place_;

 private:
  template <class T>
  Expected<T, Error> end_of(Call call, const std::function<T(Reply&)>& take) {
    std::optional<Expected<T, Error>> end;
    int ends = 0;
    auto started = client_->start(std::move(call), [&](Expected<Reply, Error> reply) {
      ++ends;
      if (reply) {
        end.emplace(take(*reply));
        reply->ignore_rest();
      } else {
        end.emplace(Unexpected<Error>(reply.error()));
      }
    });
    if (!started) return Unexpected<Error>(started.error());
    EXPECT_TRUE(pump_until([&] { return ends > 0; })) << "the call has no end";
    EXPECT_LE(ends, 1);
    if (!end) return Unexpected<Error>(Error{Errc::kCanceled, "", "", "no end"});
    return *end;
  }
};

TEST_F(OwnProvider, CarriesCallsAndPlacesBulkData) {
  listen();
  ASSERT_TRUE(connect());
  EXPECT_EQ(client_->connection().provider_name, "faulty");
  EXPECT_EQ(server_->provider_name(), "faulty");
  EXPECT_EQ(client_->connection().peer_address, server_->address());
  EXPECT_EQ(double_of(21).value(), 42U);
  std::vector<std::byte> data(700'001);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7);
  EXPECT_TRUE(copy_of(data).value()) << "placed by RDMA";
  EXPECT_EQ(place_, data);
  const TransferCounters counters = server_->counters();
  EXPECT_EQ(counters.read_chunks, 1U);
  EXPECT_EQ(counters.write_chunks, 1U);
}

TEST_F(OwnProvider, BlocksWhereTheServerIsOnAnotherThread) {
  listen();
  const std::string address(server_->address());
  std::thread serving([&] { server_->run(); });
  {
    auto client = Client::connect({std::make_unique<own::Provider>(wire_), address});
    ASSERT_TRUE(client) << client.error().message();
    for (std::uint32_t i = 0; i < 100; ++i) {
      auto call = client->prepare({kOwnProviderProgram, kOwnProviderVersion, kDouble});
      call->arguments().xdr().u32(i);
      auto reply = client->call(std::move(*call));
      ASSERT_TRUE(reply) << reply.error().message();
      EXPECT_EQ(read(*reply)->xdr().u32("number"), 2 * i);
    }
  }
  server_->stop();
  serving.join();
}

TEST_F(OwnProvider, IsAnErrorIfItIsNull) {
  for (const auto& error : {Client::connect({nullptr, "here:1"}).error(),
                            Client::begin_connect({nullptr, "here:1"}).error(),
                            Server::listen(nullptr, "here:1").error()}) {
    EXPECT_EQ(error.code, Errc::kUnsupported);
    EXPECT_THAT(error.message(), HasSubstr("here:1"));
  }
}

TEST_F(OwnProvider, HasItsOwnAddresses) {
  EXPECT_EQ(Client::connect({std::make_unique<own::Provider>(wire_), "nowhere"}).error().code,
            Errc::kBadUrl);
  EXPECT_EQ(Client::connect({std::make_unique<own::Provider>(wire_), "here:1"}).error().code,
            Errc::kRefused);
  EXPECT_EQ(Server::listen(std::make_unique<own::Provider>(wire_), "nowhere").error().code,
            Errc::kBadUrl);
}

TEST_F(OwnProvider, CannotListenOnTcpBesideUnlessItWaitsForIt) {
  listen();
  const auto refused = server_->add_listener("tcp://127.0.0.1:0");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kUnsupported);
  ASSERT_TRUE(connect()) << "the server goes on";
  EXPECT_EQ(double_of(1).value(), 2U);
}

TEST_F(OwnProvider, SaysItsErrorAndRemedyIfItDoesNotListenOrConnect) {
  of_server_.listen = true;
  const auto listening = Server::listen(faulty(of_server_), "here:0");
  ASSERT_FALSE(listening);
  EXPECT_THAT(listening.error().message(), HasSubstr("the test's refusal"));
  EXPECT_THAT(listening.error().message(), HasSubstr("ask the test"));
  of_server_ = {};
  listen();
  of_client_.connect = true;
  EXPECT_FALSE(connect());
  ASSERT_TRUE(connect_error_);
  EXPECT_EQ(connect_error_->code, Errc::kTimedOut);
  EXPECT_THAT(connect_error_->message(), HasSubstr("the test's refusal"));
  EXPECT_THAT(connect_error_->message(), HasSubstr("ask the test"));
}

TEST_F(OwnProvider, RefusesClientsIfItAcceptsNothing) {
  listen();
  of_server_.accept = true;
  EXPECT_FALSE(connect());
  EXPECT_EQ(client_->prepare({kOwnProviderProgram, kOwnProviderVersion, kDouble}).error().code,
            Errc::kConnectionLost);
  ASSERT_EQ(server_errors_.size(), 1U);
  EXPECT_EQ(server_errors_[0].code, Errc::kNoResources);
  client_.reset();
  of_server_.accept = false;
  ASSERT_TRUE(connect());
  EXPECT_EQ(double_of(1).value(), 2U);
}

// The n-th registration fails, for each n until a connection and a call with bulk data want no
// more.
TEST_F(OwnProvider, IsAnErrorOfTheConnectionOrTheCallIfItRegistersNothing) {
  listen();
  const std::vector<std::byte> data(100'000, std::byte{5});
  for (Faults* const faults : {&of_client_, &of_server_}) {
    std::uint32_t good = 0;
    int failures = 0;
    for (; good < 100; ++good) {
      *faults = {};
      faults->attaches_left = good;
      client_.reset();
      connect_error_.reset();
      const auto copied = connect() ? std::optional(copy_of(data)) : std::nullopt;
      if (copied && *copied) break;
      ++failures;
      if (copied) {
        EXPECT_NE(copied->error().code, Errc::kTimedOut) << copied->error().message();
      }
      if (copied || faults != &of_client_) continue;
      ASSERT_TRUE(connect_error_);
      EXPECT_EQ(connect_error_->code, Errc::kNoResources);
    }
    EXPECT_LT(good, 100U) << "no call ever succeeded";
    EXPECT_GT(failures, 2);
    *faults = {};
  }
}

TEST_F(OwnProvider, EndsTheConnectionIfItTakesNoReceives) {
  listen();
  of_client_.post_receives = rdma::Errc::kNoResources;
  EXPECT_FALSE(connect());
  of_client_ = {};
  client_.reset();
  of_server_.post_receives = rdma::Errc::kUnsupported;
  EXPECT_FALSE(connect() && double_of(1).has_value());
  of_server_ = {};
  client_.reset();
  ASSERT_TRUE(connect());
  EXPECT_EQ(double_of(1).value(), 2U);
}

TEST_F(OwnProvider, EndsTheConnectionOrLetsCallsTimeOutIfItTakesNoSends) {
  listen();
  ASSERT_TRUE(connect());
  of_client_.post_sends = rdma::Errc::kUnsupported;
  EXPECT_EQ(double_of(1).error().code, Errc::kConnectionLost);
  EXPECT_TRUE(client_->ended());
  of_client_ = {};
  client_.reset();
  client_options_.call_timeout = std::chrono::milliseconds(20);
  ASSERT_TRUE(connect());
  of_client_.post_sends = rdma::Errc::kNoResources;  // as if a completion were to come
  EXPECT_EQ(double_of(1).error().code, Errc::kTimedOut);
  of_client_ = {};
}

TEST_F(OwnProvider, FailsTheCallAndNotTheConnectionIfItExposesNothing) {
  listen();
  ASSERT_TRUE(connect());
  of_client_.expose = true;
  const std::vector<std::byte> data(100'000, std::byte{5});
  const auto copied = copy_of(data);
  ASSERT_FALSE(copied);
  EXPECT_EQ(copied.error().code, Errc::kNoResources);
  EXPECT_THAT(copied.error().message(), HasSubstr("the test's refusal"));
  EXPECT_EQ(double_of(3).value(), 6U) << "a call that exposes nothing";
  of_client_.expose = false;
  EXPECT_TRUE(copy_of(data).has_value());
}

TEST_F(OwnProvider, IsConnectedAgainWhenReconnectionIsOn) {
  client_options_.reconnect.enabled = true;
  listen();
  ASSERT_TRUE(connect());
  EXPECT_EQ(double_of(1).value(), 2U);
  of_client_.post_sends = rdma::Errc::kUnsupported;
  std::optional<Expected<Reply, Error>> end;
  auto call = client_->prepare({kOwnProviderProgram, kOwnProviderVersion, kDouble});
  call->arguments().xdr().u32(2);
  ASSERT_TRUE(client_->start(std::move(*call), [&](auto reply) { end.emplace(std::move(reply)); }));
  client_->progress();
  of_client_ = {};
  ASSERT_TRUE(pump_until([&] { return end.has_value(); }));
  ASSERT_TRUE(*end) << end->error().message();
  EXPECT_EQ(read(**end)->xdr().u32("number"), 4U);
  end.reset();
}

}  // namespace
}  // namespace rpcrdma::test
