// Tests what only the provider on RDMA devices has; run in the lab, see docs/interop.md.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "conformance/fixture.h"
#include "rdma/verbs/loader.h"

namespace rpcrdma::test {
namespace {

using rdma::Errc;
using rdma::Status;
using work::Receive;
using work::RemoteAccess;
using work::Send;
using work::Slice;
using work::Write;

TEST(VerbsTest, RunsInTheLab) {
  if (std::getenv("RPCRDMA_LAB_ADDRESS") == nullptr) {
    GTEST_SKIP() << "RPCRDMA_LAB_ADDRESS names no address on an RDMA device: `make lab` does";
  }
  EXPECT_FALSE(verbs_fabrics().empty());
}

class VerbsDevice : public ProviderTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(ProviderTest::SetUp());
    connect(client, server);
  }
};
INSTANTIATE_TEST_SUITE_P(Provider, VerbsDevice, testing::ValuesIn(verbs_fabrics()), fabric_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(VerbsDevice);

TEST_P(VerbsDevice, IsListedWithItsAddress) {
  const auto plugin = rdma::verbs::load();
  ASSERT_TRUE(plugin.has_value()) << plugin.error();
  const std::string address = std::getenv("RPCRDMA_LAB_ADDRESS");
  const auto choice = (*plugin)->device_for(address + ":1", false);
  ASSERT_TRUE(choice.has_value()) << choice.error();
  EXPECT_EQ(choice->problem, "");
  bool found = false;
  for (const auto& device : (*plugin)->devices(rdma::verbs::Registration::kAuto)) {
    if (device.name != choice->name) continue;
    found = true;
    EXPECT_EQ(device.problem, "");
    EXPECT_NE(std::ranges::find(device.addresses, address), device.addresses.end());
    EXPECT_GT(device.reads_max, 0U);
  }
  EXPECT_TRUE(found);
}

TEST_P(VerbsDevice, LoopbackIsNoDevices) {
  const auto plugin = rdma::verbs::load();
  ASSERT_TRUE(plugin.has_value());
  EXPECT_FALSE((*plugin)->device_for("127.0.0.1:20049", false).has_value());
  EXPECT_FALSE((*plugin)->device_for("127.0.0.1:20049", true).has_value());
  EXPECT_TRUE((*plugin)->device_for("0.0.0.0:20049", true).has_value()) << "it is on each device";
}

// Whatever a child does with what it has of its parent; also with work of it under way.
TEST_P(VerbsDevice, AChildMakesNoProvidersAndTakesNoCompletions) {
  ASSERT_TRUE(server.post(1, Receive{}).has_value());
  ASSERT_TRUE(client.post(2, Send{}).has_value());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto plugin = rdma::verbs::load();
    const bool refused = !(*plugin)->make_provider({}).has_value();
    const bool silent = client.poll() == std::nullopt;
    client.queue_pair().disconnect();
    const bool ended = client.queue_pair().poll_link() == rdma::LinkEvent::kDisconnected;
    const auto flushed = client.poll();
    fabric->client().wait();
    _exit(refused && silent && ended && flushed && flushed->id == 2 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(next(client).id, 2U);
  EXPECT_EQ(next(server).id, 1U);
}

// The child has copies of all objects, and the descriptors behind them are its parent's too.
TEST_P(VerbsDevice, AChildNeitherUsesNorEndsTheConnectionsOfItsParent) {
  const work::Remote room = expose(server, 0, 64, RemoteAccess::kWrite);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool refused = client.post(1, Send{}).error().code == Errc::kClosed;
    const bool ended = client.queue_pair().poll_link() == rdma::LinkEvent::kDisconnected &&
                       client.queue_pair().cause().operation.find("fork") != std::string_view::npos;
    client.queue_pair().disconnect();
    fabric->client().progress();
    client.destroy();
    server.destroy();
    listener.reset();
    fabric.reset();
    _exit(refused && ended ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  client.fill(0, 64, 5);
  const Slice from = client.slice(0, 64);
  ASSERT_TRUE(client.post(1, Write{{&from, 1}, room}, false).has_value());
  barrier(client, server);
  barrier(server, client);
  EXPECT_EQ(copy_of(server.memory(0, 64)), copy_of(client.memory(0, 64)));
  EXPECT_EQ(client.queue_pair().poll_link(), std::nullopt);
}

TEST_P(VerbsDevice, WorkWhoseMemoryCannotBeRegisteredEndsTheConnectionAndCompletesWithTheRest) {
  void* const mapped = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  munmap(mapped, 4096);  // what no device can register
  const Bytes memory(static_cast<const std::byte*>(mapped), 4096);
  const auto region = client.queue_pair().attach_read_only(memory);
  ASSERT_TRUE(region.has_value());
  const Slice bad{*region, 1000, 0};
  const Slice good = client.slice(0, 1000);
  std::array<work::Request, 3> batch{work::Request{1, true, Send{{&good, 1}, {}}},
                                     work::Request{2, true, Send{{&bad, 1}, {}}},
                                     work::Request{3, true, Send{{&good, 1}, {}}}};
  if (client.queue_pair().post(batch).has_value()) {
    for (const rdma::Completion& ended : next(client, 3)) EXPECT_EQ(ended.status, Status::kFlushed);
    EXPECT_EQ(client.poll(), std::nullopt);
  }
  EXPECT_EQ(client.queue_pair().cause().code, Errc::kNoResources);
  expect_disconnected(client, server);
}

// Unlike the work above it costs one call, whose error names the reason.
TEST_P(VerbsDevice, AnExposureThatFailsSaysWhy) {
  void* const mapped = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  const auto region = client.queue_pair().attach({static_cast<std::byte*>(mapped), 4096});
  ASSERT_TRUE(region.has_value());
  ASSERT_TRUE(client.post(1, work::Expose{{*region, 1000, 0}, RemoteAccess::kWrite}).has_value());
  EXPECT_EQ(next(client).status, Status::kLocalError);
  const rdma::Error failure = client.queue_pair().exposure_failure();
  EXPECT_EQ(failure.code, Errc::kNoResources);
  EXPECT_NE(failure.provider_code, 0);
  munmap(mapped, 4096);
  barrier(client, server);
}

// Many exposures at once, as of many calls that begin together, whose Sends come behind them all.
TEST_P(VerbsDevice, AsManyExposuresAsFitLeaveRoomForTheSendBehindThem) {
  std::vector<work::Request> batch(1);
  std::uint32_t exposed = 0;
  while (exposed < 5000) {
    batch[0] = {1, true, work::Expose{server.slice(8 * exposed, 8), RemoteAccess::kWrite}};
    if (!server.queue_pair().post(batch).has_value()) break;
    EXPECT_EQ(next(server).status, Status::kOk);
    ++exposed;
  }
  EXPECT_GE(exposed, 64U);
  // At once, or when a device that takes its time has bound some of them: nothing else has to
  // happen.
  ASSERT_TRUE(client.post_empty_receive().has_value());
  ASSERT_TRUE(pump_until([&] { return server.post(2, Send{}, false).has_value(); }));
  EXPECT_EQ(next(client).status, Status::kOk);
}

// More slices than siw takes in a work request; nothing is lost of them, and nothing waits for the
// memory.
TEST_P(VerbsDevice, ASendOfManySlicesArrivesWhole) {
  std::vector<Slice> slices;
  for (std::uint32_t i = 0; i < work::kSlicesMax; ++i) slices.push_back(client.slice(100 * i, 50));
  client.fill(0, 4096, 3);
  const Slice into = server.slice(0, 4096);
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(server.post(1, Receive{{&into, 1}}).has_value());
    ASSERT_TRUE(client.post(2, Send{slices, {}}).has_value());
    const rdma::Completion received = next(server);
    ASSERT_EQ(received.status, Status::kOk);
    ASSERT_EQ(received.size, 50U * slices.size());
    EXPECT_EQ(next(client).id, 2U);
    for (std::size_t i = 0; i < slices.size(); ++i) {
      ASSERT_EQ(copy_of(server.memory(50 * i, 50)), copy_of(client.memory(100 * i, 50)));
    }
  }
}

// Doorbells and completions are what a device is paid in.
TEST_P(VerbsDevice, ABatchIsOneDoorbellAndOneCompletion) {
  const work::Remote room = expose(server, 0, 640, RemoteAccess::kWrite);
  const Slice from = client.slice(0, 64);
  std::array<work::Request, 11> batch;
  for (std::size_t i = 0; i < 10; ++i) {
    batch[i] = {i, false, Write{{&from, 1}, {room.tag, 64, room.address + 64 * i}}};
  }
  batch[10] = {10, true, Send{{&from, 1}, {}}};
  const Slice into = server.slice(1000, 64);
  ASSERT_TRUE(server.post(1, Receive{{&into, 1}}).has_value());
  const rdma::Counters before = client.queue_pair().counters();
  ASSERT_TRUE(client.queue_pair().post(batch).has_value());
  EXPECT_EQ(next(client).id, 10U);
  const rdma::Counters after = client.queue_pair().counters();
  EXPECT_EQ(after.doorbells - before.doorbells, 1U);
  EXPECT_EQ(after.completions - before.completions, 1U);
  EXPECT_EQ(next(server).status, Status::kOk);
}

}  // namespace
}  // namespace rpcrdma::test
