// Runs a VersionTwoPeer as the client of one of our servers; the tests of such clients share it.
#ifndef RPCRDMA_TESTS_SYSTEM_VERSION_TWO_CLIENT_FOR_TEST_H_
#define RPCRDMA_TESTS_SYSTEM_VERSION_TWO_CLIENT_FOR_TEST_H_

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rdma/sim/provider.h"
#include "rpcrdma/server.h"
#include "support/rpc_fixture.h"
#include "system/version_two_peer.h"

namespace rpcrdma::test {

class VersionTwoClient : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kXid = 0x77000001;
  static constexpr std::uint32_t kGrant = 4;
  static constexpr std::uint32_t kWanted = 8;  // credits that the peer asks for

  static ServerOptions options() {
    ServerOptions options;
    options.connection.inline_size = 4096;
    options.connection.receive_size_max = 16'384;
    options.connection.credits = kGrant;
    return options;
  }
  explicit VersionTwoClient(const ServerOptions& options = VersionTwoClient::options())
      : server_(Server::listen(std::make_unique<rdma::sim::Provider>(time_.world(), "server"),
                               "server:0", options)
                    .value()),
        provider_(time_.world(), "client") {
    EXPECT_TRUE(server_->add(TestService::kProgram, TestService::kVersion, service_));
    time_.attend([this] { server_->progress(); });
  }
  ~VersionTwoClient() override {
    expect_no_faults();
    time_.forget();
    release_held();
    server_.reset();
    peers_.clear();
    if (!breaks_rules_) {
      EXPECT_EQ(time_.world().violations(), std::vector<std::string>());
    }
  }
  void expect_no_faults() const {
    for (const auto& peer : peers_) EXPECT_EQ(peer->faults(), std::vector<std::string>());
  }

  VersionTwoPeer* make_peer() {
    peers_.push_back(
        std::make_unique<VersionTwoPeer>(provider_.connect(server_->address(), {}).value()));
    VersionTwoPeer* const peer = peers_.back().get();
    time_.attend([peer] { peer->progress(); });
    EXPECT_TRUE(time_.run_until([peer] { return peer->connected(); }));
    return peer;
  }
  // Connects with exactly so many Receives. If `reposts`, each one comes back once it was used.
  void connect(std::uint32_t receives = 16, bool reposts = true) {
    peer_ = make_peer();
    peer_->post(receives);
    peer_->repost(reposts);
  }
  draft::Words rpc_call(std::uint32_t xid, std::uint32_t procedure,
                        const draft::Words& arguments = {}) const {
    return draft::rpc_call(xid, TestService::kProgram, TestService::kVersion, procedure, arguments);
  }
  draft::Words call(std::uint32_t xid, std::uint32_t procedure = TestService::kNull,
                    const draft::Words& arguments = {}) const {
    return draft::msg(xid, kWanted, draft::kCall, rpc_call(xid, procedure, arguments));
  }

  // Returns everything that the server sends until it waits for the peer, without its INITXCH.
  std::vector<draft::Seen> heard() {
    time_.settle();
    std::vector<draft::Seen> messages;
    while (auto seen = peer_->take()) {
      if (seen->is_option(draft::kInitxch)) {
        announcements_.push_back(*seen);
      } else {
        messages.push_back(*seen);
      }
    }
    return messages;
  }
  // Names a message in a few words.
  static std::string name_of(const draft::Seen& seen, std::uint32_t xid) {
    std::string name;
    if (seen.is_msg(draft::kReply)) {
      name = "reply";
    } else if (seen.is_error(draft::kErrBadHeader)) {
      name = "BAD_HEADER";
    } else if (seen.is_error(draft::kErrInvalOption)) {
      name = "INVAL_OPTION";
    } else if (seen.is_error(draft::kErrVers)) {
      name = "ERR_VERS " + std::to_string(seen.low) + ".." + std::to_string(seen.high);
    } else if (seen.is_option(draft::kRespxch)) {
      name = "RESPXCH";
    } else {
      name = draft::to_string(seen);
    }
    if (seen.vers == 1 && seen.is(draft::kMsg)) name = "reply of version 1";
    return seen.xid == xid ? name : name + " of another XID";
  }
  std::vector<std::string> answers_to(const draft::Words& message) {
    return answers_to_bytes(draft::bytes_of(message), message.at(0));
  }
  std::vector<std::string> answers_to_bytes(Bytes message, std::uint32_t xid) {
    peer_->send_bytes(message);
    std::vector<std::string> names;
    for (const draft::Seen& seen : heard()) names.push_back(name_of(seen, xid));
    return names;
  }
  // Expects one reply to a Call on this connection, in the Call's version.
  void expect_served() {
    const std::uint32_t xid = ++next_xid_;
    EXPECT_EQ(answers_to(call(xid)), std::vector<std::string>{"reply"});
    EXPECT_FALSE(peer_->ended()) << "the connection has ended";
  }
  // Makes so many Calls, which stay under way until release_held().
  void hold(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) peer_->send(call(++next_xid_, TestService::kHold));
    EXPECT_TRUE(heard().empty());
    EXPECT_EQ(service_.held.size(), count);
  }
  void release_held() {
    for (CallContext* context : service_.held) context->succeed();
    service_.held.clear();
  }
  // Expects that another client is answered, whatever this one did.
  void expect_others_served() {
    VersionTwoPeer* const other = make_peer();
    other->post(8);
    other->send(call(kXid));
    EXPECT_TRUE(time_.run_until([other] { return other->received() > 0; }));
  }

  PeerWorld time_;
  TestService service_;
  std::optional<Server> server_;
  rdma::sim::Provider provider_;
  std::vector<std::unique_ptr<VersionTwoPeer>> peers_;
  VersionTwoPeer* peer_ = nullptr;
  std::vector<draft::Seen> announcements_;  // INITXCH of the server
  std::uint32_t next_xid_ = 0x66000000;
  bool breaks_rules_ = false;  // the peer sends more than it may, which the simulator notes
};

}  // namespace rpcrdma::test

#endif  // RPCRDMA_TESTS_SYSTEM_VERSION_TWO_CLIENT_FOR_TEST_H_
