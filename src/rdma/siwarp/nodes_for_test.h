// Helpers for tests of this module: two providers and the connection between them.
#ifndef RPCRDMA_RDMA_SIWARP_NODES_FOR_TEST_H_
#define RPCRDMA_RDMA_SIWARP_NODES_FOR_TEST_H_

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rdma/siwarp/provider.h"

namespace rpcrdma::rdma::siwarp::test {

using Buffer = std::vector<std::byte>;

inline std::unique_ptr<Provider> provider(const Options& options = {}) {
  auto made = make_provider(options);
  EXPECT_TRUE(made.has_value());
  return made ? std::move(*made) : nullptr;
}

// A queue pair with one region of memory.
struct End {
  void start(std::unique_ptr<rdma::QueuePair> made) {
    queue_pair = std::move(made);
    const auto attached = queue_pair->attach(memory);
    ASSERT_TRUE(attached.has_value());
    region = *attached;
  }
  Slice slice(std::uint64_t offset, std::uint32_t size) const { return {region, size, offset}; }
  bool post(std::uint64_t id, decltype(work::Request::work) work, bool signaled = true) {
    work::Request request{id, signaled, std::move(work)};
    return queue_pair->post({&request, 1}).has_value();
  }
  std::optional<Completion> poll() {
    Completion completion;
    if (queue_pair->poll({&completion, 1}) == 0) return std::nullopt;
    return completion;
  }
  Remote expose(std::uint64_t offset, std::uint32_t size, RemoteAccess access) {
    EXPECT_TRUE(post(0, Expose{slice(offset, size), access}));
    const auto completion = poll();
    EXPECT_TRUE(completion && completion->tag);
    return {*completion->tag, size, completion->address};
  }

  std::unique_ptr<rdma::QueuePair> queue_pair;
  Buffer memory = Buffer(1U << 20U);
  RegionId region{};
};

// An active and a passive provider in one thread.
struct Nodes {
  explicit Nodes(const Options& client_options = {}, const Options& server_options = {})
      : client_provider(provider(client_options)), server_provider(provider(server_options)) {
    auto listening = server_provider->listen("127.0.0.1:0");
    EXPECT_TRUE(listening.has_value());
    listener = std::move(*listening);
  }
  void pump() {
    client_provider->progress();
    server_provider->progress();
  }
  bool pump_until(const std::function<bool()>& condition,
                  std::chrono::milliseconds patience = std::chrono::seconds(5)) {
    const auto end = std::chrono::steady_clock::now() + patience;
    do {
      if (condition()) return true;
      pump();
    } while (std::chrono::steady_clock::now() < end);
    return condition();
  }
  std::unique_ptr<Incoming> incoming() {
    std::unique_ptr<Incoming> request;
    pump_until([&] { return (request = listener->poll_incoming()) != nullptr; });
    return request;
  }
  std::optional<LinkEvent> event(End& end) {
    std::optional<LinkEvent> happened;
    pump_until([&] { return (happened = end.queue_pair->poll_link()).has_value(); });
    return happened;
  }
  std::optional<Completion> completion(End& end) {
    std::optional<Completion> done;
    pump_until([&] { return (done = end.poll()).has_value(); });
    return done;
  }
  void connect(End& client, End& server, Bytes ask = {}, Bytes answer = {}) {
    auto connecting = client_provider->connect(listener->address(), ask);
    ASSERT_TRUE(connecting.has_value());
    client.start(std::move(*connecting));
    auto request = incoming();
    ASSERT_NE(request, nullptr);
    auto accepted = server_provider->accept(std::move(request), answer);
    ASSERT_TRUE(accepted.has_value());
    server.start(std::move(*accepted));
    ASSERT_EQ(event(client), LinkEvent::kConnected);
    ASSERT_EQ(event(server), LinkEvent::kConnected);
  }
  // A message from one end to the other; what is posted before it has arrived then.
  void say(End& from, End& to) {
    ASSERT_TRUE(to.post(900, Receive{}));
    ASSERT_TRUE(from.post(901, Send{}, false));
    const auto done = completion(to);
    ASSERT_TRUE(done);
    EXPECT_EQ(done->id, 900U);
    EXPECT_EQ(done->status, Status::kOk);
  }

  std::unique_ptr<Provider> client_provider, server_provider;
  std::unique_ptr<Listener> listener;
};

}  // namespace rpcrdma::rdma::siwarp::test

#endif  // RPCRDMA_RDMA_SIWARP_NODES_FOR_TEST_H_
