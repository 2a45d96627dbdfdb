// Two connected queue pairs of one World with a region of memory each, for the tests of this
// folder.
#ifndef RPCRDMA_RDMA_SIM_PAIR_FOR_TEST_H_
#define RPCRDMA_RDMA_SIM_PAIR_FOR_TEST_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "rdma/sim/provider.h"
#include "rdma/sim/world.h"

namespace rpcrdma::rdma::sim {

struct End {
  std::unique_ptr<rdma::QueuePair> queue_pair{};
  std::vector<std::byte> memory = std::vector<std::byte>(65536);
  RegionId region{};

  Slice slice(std::uint64_t offset, std::uint32_t size) const { return {region, size, offset}; }
  std::span<std::byte> at(std::size_t offset, std::size_t size) {
    return std::span(memory).subspan(offset, size);
  }
  Expected<void, Error> post(std::uint64_t id, decltype(work::Request::work) work,
                             bool signaled = true) {
    work::Request request{id, signaled, std::move(work)};
    return queue_pair->post({&request, 1});
  }
  std::optional<Completion> poll() {
    Completion completion;
    if (queue_pair->poll({&completion, 1}) == 0) return std::nullopt;
    return completion;
  }
};

class SimPair {
 public:
  explicit SimPair(std::uint64_t seed = 1, const Options& options = {})
      : world(seed, options), left_node(world, "left"), right_node(world, "right") {
    auto listener = right_node.listen("127.0.0.1:0").value();
    left.queue_pair = left_node.connect(listener->address(), {}).value();
    std::unique_ptr<rdma::Incoming> incoming;
    step_until([&] { return (incoming = listener->poll_incoming()) != nullptr; });
    right.queue_pair = right_node.accept(std::move(incoming), {}).value();
    step_until([&] { return right.queue_pair->poll_link().has_value(); });
    EXPECT_EQ(left.queue_pair->poll_link(), LinkEvent::kConnected);
    for (End* end : {&left, &right}) end->region = end->queue_pair->attach(end->memory).value();
  }

  // False: nothing is going to happen, or not within reason.
  bool step_until(const std::function<bool()>& condition) {
    for (int i = 0; i < 100'000; ++i) {
      if (condition()) return true;
      if (!world.step()) return condition();
    }
    return false;
  }
  // The next completion of an end, or a failure of the test.
  Completion next(End& end) {
    std::optional<Completion> completion;
    EXPECT_TRUE(step_until([&] { return (completion = end.poll()).has_value(); }));
    return completion.value_or(Completion{});
  }
  void run_dry() {
    while (world.step()) {
    }
  }
  // Exposes memory of an end to the other; its tag and address.
  Remote expose(End& end, std::uint64_t offset, std::uint32_t size, RemoteAccess access) {
    EXPECT_TRUE(end.post(900, Expose{end.slice(offset, size), access}).has_value());
    const Completion completion = next(end);
    EXPECT_EQ(completion.status, Status::kOk);
    return {completion.tag.value(), size, completion.address};
  }

  World world;
  Provider left_node, right_node;
  End left, right;
};

}  // namespace rpcrdma::rdma::sim

#endif  // RPCRDMA_RDMA_SIM_PAIR_FOR_TEST_H_
