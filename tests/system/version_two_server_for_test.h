// Runs a VersionTwoPeer as the server of one of our clients; the tests of such servers share it.
#ifndef RPCRDMA_TESTS_SYSTEM_VERSION_TWO_SERVER_FOR_TEST_H_
#define RPCRDMA_TESTS_SYSTEM_VERSION_TWO_SERVER_FOR_TEST_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rdma/sim/provider.h"
#include "rpcrdma/client.h"
#include "system/version_two_peer.h"

namespace rpcrdma::test {

// The error that ended a call of our client; nullopt: it succeeded.
using CallEnd = std::optional<Errc>;

class VersionTwoServer : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kProgram = 0x20010088;
  static constexpr std::uint32_t kReceives = 16;

  // Treats each message that the peer receives. The default, serve(), answers each Call by a reply
  // without results, and no option.
  using Handler = std::function<void(VersionTwoPeer& peer, const draft::Seen& seen)>;

  VersionTwoServer() : provider_(time_.world(), "server") {
    listener_ = std::move(provider_.listen("server:0").value());
    time_.attend([this] { progress(); });
  }
  ~VersionTwoServer() override {
    client_.reset();
    time_.settle();
    for (const auto& peer : peers_) EXPECT_EQ(peer->faults(), std::vector<std::string>());
    time_.forget();
    peers_.clear();
    listener_.reset();
    if (!breaks_rules_) {
      EXPECT_EQ(time_.world().violations(), std::vector<std::string>());
    }
  }

  static ClientOptions options(ProtocolVersion version = ProtocolVersion::kTwo) {
    ClientOptions options;
    options.version = version;
    options.connection.inline_size = 4096;
    options.connection.credits = 8;
    options.call_timeout = std::chrono::seconds(60);
    return options;
  }
  // Begins to connect. The peer of each connection has `receives_` Receives.
  void begin(const ClientOptions& options = VersionTwoServer::options()) {
    client_ = std::move(
        Client::begin_connect(
            {std::make_unique<rdma::sim::Provider>(time_.world(), "client"), listener_->address()},
            options)
            .value());
  }
  // Connects to a server that has version two.
  void connect(const ClientOptions& options = VersionTwoServer::options()) {
    begin(options);
    ASSERT_TRUE(time_.run_until([this] { return client_->connected() || client_->ended(); }));
    ASSERT_TRUE(client_->connected());
    ASSERT_EQ(client_->connection().protocol_version, 2U);
    time_.settle();
  }
  // Runs until the client is connected, or has given up.
  void wait_for_setup() {
    time_.run_until([this] { return client_->connected() || client_->ended(); });
    time_.settle();
  }

  // Starts a call, whose ends go to the back of `ends_`.
  void start(std::uint32_t procedure = 1, std::uint32_t argument_words = 0) {
    const std::size_t index = ends_.size();
    ends_.emplace_back();
    auto call = client_->prepare({kProgram, 1, procedure}, 70'000);
    ASSERT_TRUE(call) << call.error().message();
    for (std::uint32_t i = 0; i < argument_words; ++i) call->arguments().xdr().u32(i);
    const auto started = client_->start(std::move(*call), [this, index](auto reply) {
      ends_[index].push_back(reply ? std::nullopt : CallEnd(reply.error().code));
    });
    EXPECT_TRUE(started) << started.error().message();
  }
  // Expects that a call succeeds at once.
  void expect_served() {
    const Instant before = time_.now();
    start();
    EXPECT_TRUE(time_.run_until([this] { return !ends_.back().empty(); }));
    EXPECT_EQ(ends_.back(), std::vector<CallEnd>{std::nullopt});
    EXPECT_LT(time_.now() - before, std::chrono::seconds(1)) << "nothing waits for a time-out";
  }
  std::vector<CallEnd> end_of(std::size_t index) const { return ends_.at(index); }
  // Expects that each call has ended exactly once.
  void expect_ends() const {
    for (const auto& ends : ends_) EXPECT_EQ(ends.size(), 1U);
  }

  static draft::Words reply_to(const draft::Seen& call, std::uint32_t credit = kReceives) {
    return draft::msg(call.xid, credit, draft::kReply, draft::rpc_reply(call.xid));
  }
  static bool is_call(const draft::Seen& seen) {
    return seen.is_msg(draft::kCall) || seen.is(draft::kNomsg);
  }
  static void serve(VersionTwoPeer& peer, const draft::Seen& seen) {
    if (is_call(seen)) peer.send(reply_to(seen));
  }
  // Returns a handler that keeps the messages for the test to answer.
  Handler keep() {
    return [this](VersionTwoPeer&, const draft::Seen& seen) {
      (is_call(seen) ? calls_ : others_).push_back(seen);
    };
  }
  // Starts a call and returns its Call, which the test answers.
  draft::Seen started() {
    handle_ = keep();
    start();
    time_.settle();
    EXPECT_EQ(calls_.size(), 1U);
    const draft::Seen call = calls_.empty() ? draft::Seen{} : calls_.front();
    calls_.clear();
    return call;
  }
  void send(const draft::Words& message) {
    peer().send(message);
    time_.settle();
  }
  VersionTwoPeer& peer() { return *peers_.back(); }

  PeerWorld time_;
  rdma::sim::Provider provider_;
  std::unique_ptr<rdma::Listener> listener_;
  std::vector<std::unique_ptr<VersionTwoPeer>> peers_;
  Handler handle_ = &serve;
  std::uint32_t receives_ = kReceives;  // of each new connection
  bool reposts_ = true;
  std::optional<Client> client_;
  std::vector<std::vector<CallEnd>> ends_;
  std::vector<draft::Seen> calls_, others_;  // kept by keep()
  bool breaks_rules_ = false;

 private:
  void progress() {
    if (client_) client_->progress();
    while (auto incoming = listener_->poll_incoming()) {
      peers_.push_back(
          std::make_unique<VersionTwoPeer>(provider_.accept(std::move(incoming), {}).value()));
      peers_.back()->post(receives_);
      peers_.back()->repost(reposts_);
    }
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      peers_[i]->progress();
      while (const auto seen = peers_[i]->take()) handle_(*peers_[i], *seen);
    }
  }
};

}  // namespace rpcrdma::test

#endif  // RPCRDMA_TESTS_SYSTEM_VERSION_TWO_SERVER_FOR_TEST_H_
