// The tests of the suite share this: two connected queue pairs with memory, and ways to say things
// briefly.
#ifndef RPCRDMA_TESTS_CONFORMANCE_FIXTURE_H_
#define RPCRDMA_TESTS_CONFORMANCE_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "conformance/fabric.h"
#include "rpcrdma/provider.h"

namespace rpcrdma::test {

inline constexpr std::size_t kMemorySize = 2 * 1024 * 1024 + 4096;  // bytes, of each end

inline constexpr std::uint64_t kInternalId = 0xfeed;  // of work that the fixture posts

// One queue pair, with memory that is attached to it.
class End {
 public:
  // Keeps the memory it has, if any.
  void start(std::unique_ptr<rdma::QueuePair> queue_pair);
  rdma::QueuePair& queue_pair() { return *queue_pair_; }
  void destroy() { queue_pair_.reset(); }

  work::Slice slice(std::uint64_t offset, std::uint32_t size) const {
    return {region_, size, offset};
  }
  std::span<std::byte> memory(std::size_t offset, std::size_t size) {
    return std::span(memory_).subspan(offset, size);
  }
  // Bytes that differ from place to place and from salt to salt.
  void fill(std::size_t offset, std::size_t size, unsigned salt);

  Expected<void, rdma::Error> post(std::uint64_t id, decltype(work::Request::work) work,
                                   bool signaled = true);
  std::optional<rdma::Completion> poll();
  // A Receive of kInternalId for a message of no bytes, however Receives are posted here.
  Expected<void, rdma::Error> post_empty_receive();

 private:
  std::unique_ptr<rdma::QueuePair> queue_pair_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(kMemorySize);
  work::RegionId region_{};
};

// The two sides tell each other this in the set-up.
struct PrivateData {
  std::vector<std::byte> client{}, server{};
};

class ProviderTest : public testing::TestWithParam<FabricKind> {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Connects two ends. The client has then said hello: on iWARP the accepting side may not speak
  // before it has heard the other (RFC 5044 §7.1.2).
  void connect(End& client, End& server, const PrivateData& private_data = {});
  // Only until both sides report kConnected.
  void connect_silently(End& client, End& server, const PrivateData& private_data);

  // The next completion; a failure of the test if there is none.
  rdma::Completion next(End& end);
  // Waits for `count` completions.
  std::vector<rdma::Completion> next(End& end, std::size_t count);
  bool pump_until(const std::function<bool()>& condition) { return fabric->pump_until(condition); }
  // Exposes memory of an end. The other one of `client` and `server` has had a message behind it:
  // only then a tag is sure to be good.
  work::Remote expose(End& end, std::uint64_t offset, std::uint32_t size,
                      work::RemoteAccess access);
  void revoke(End& end, SteeringTag tag);
  // A Send of no bytes arrives at `to`: everything that `from` posted before it has arrived too.
  void barrier(End& from, End& to);
  // Both ends report kDisconnected, once.
  void expect_disconnected(End& a, End& b);
  std::optional<rdma::LinkEvent> next_link_event(End& end);
  // Exactly these bytes; or with zeros behind them, where the set-up has no size for them.
  void expect_private_data(Bytes received, Bytes sent);

  std::unique_ptr<Fabric> fabric;
  std::unique_ptr<rdma::Listener> listener;
  End client, server;
};

std::vector<std::byte> copy_of(std::span<const std::byte> bytes);
std::string fabric_name(const testing::TestParamInfo<FabricKind>& info);

}  // namespace rpcrdma::test

#endif  // RPCRDMA_TESTS_CONFORMANCE_FIXTURE_H_
