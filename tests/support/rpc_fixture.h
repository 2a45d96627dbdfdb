// A client and a server in one process, on one thread, over any provider: what end-to-end tests
// use.
#ifndef RPCRDMA_TESTS_SUPPORT_RPC_FIXTURE_H_
#define RPCRDMA_TESTS_SUPPORT_RPC_FIXTURE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rdma/sim/options.h"
#include "rpcrdma/client.h"
#include "rpcrdma/provider.h"
#include "rpcrdma/server.h"

namespace rpcrdma::test {

// Two providers that can reach each other, and a way to let time pass.
class Network {
 public:
  virtual ~Network() = default;
  virtual rdma::Provider& server_side() = 0;
  virtual rdma::Provider& client_side() = 0;
  virtual std::string listen_address() const = 0;
  // A further node, for a third party; lives as long as the network.
  virtual rdma::Provider& add_provider(const std::string& name) = 0;
  // Lets something happen on either side; bounded, never for ever.
  virtual void wait() = 0;
  // The device that the server listens on goes; its connections stay. Only the simulator can do it.
  virtual void remove_listening_device() {}
  // Which side can do its part in remote invalidation, on connections made from now on: the server
  // sends with it, the client gets the handle. Only the simulator can choose.
  virtual void set_remote_invalidation(bool /*server*/, bool /*client*/) {}
  // Returns what our own side did that a correct stack never does; empty is the expectation.
  virtual std::vector<std::string> violations() const { return {}; }
};

std::unique_ptr<Network> make_sim(std::uint64_t seed, const rdma::sim::Options& options = {});
// In the lab (RPCRDMA_LAB_ADDRESS) the RDMA device at that address takes its place.
// `shares_receives`: as providers are made for Profile::kRfc8166.
std::unique_ptr<Network> make_siwarp(bool crc, bool shares_receives = true);

// Answers whatever the tests ask; see the .cc for the procedures.
class TestService final : public Service {
 public:
  static constexpr std::uint32_t kProgram = 0x20010001;
  static constexpr std::uint32_t kVersion = 3;
  enum Procedure : std::uint32_t {
    kNull = 0,
    kEcho = 1,     // bulk -> bulk
    kLength = 2,   // bulk -> u32
    kProduce = 3,  // u32 size -> opaque in the stream (never a chunk of its own)
    kSwap = 4,     // u32, bulk, string, bulk -> bulk, string, bulk: in the opposite order
    kHold = 5,     // () -> (): answered when the test says so
    kGarbage = 6,  // fails with GARBAGE_ARGS
    kWhoAmI = 7,   // () -> u32: uid of AUTH_SYS, or 0xffffffff
    kAbsorb = 8,   // opaque in the stream -> u32
    kOnce = 9,     // u32 id, u32 size -> u32 times executed, bulk; not idempotent
    kGather = 10,  // up to kBulkItemsMax bulk -> u32: how many bytes they have
    kProcedures = 11,
  };
  static constexpr std::uint32_t kBulkMax = 1U << 20U;
  static constexpr std::uint32_t kTextMax = 8000;  // of kSwap
  // One item of kGather, and all of them: neither is a multiple of four, so that both have padding.
  static constexpr std::uint32_t kGatherItemMax = kBulkMax - 3, kGatherMax = 3 * kGatherItemMax + 2;

  const ProcedureTraits* traits(std::uint32_t procedure) const noexcept override {
    static constexpr auto kTable = [] {
      std::array<ProcedureTraits, kProcedures> table{};
      for (std::uint32_t i = 0; i < kProcedures; ++i) {
        const bool has_bulk = i == kEcho || i == kLength || i == kSwap || i == kGather;
        table[i] = {.number = i,
                    .bulk_argument_size_max = i == kGather ? kGatherItemMax
                                              : has_bulk   ? kBulkMax
                                                           : 0,
                    .bulk_arguments_max = i == kGather ? std::uint32_t{kBulkItemsMax}
                                          : i == kSwap ? 2U
                                                       : 1U,
                    .bulk_arguments_size_max =
                        i == kGather ? std::uint64_t{kGatherMax} : ProcedureTraits::kNoBound,
                    .is_idempotent = i != kOnce,
                    .may_answer_by_read = true};
      }
      return table;
    }();
    return find_traits(kTable, procedure);
  }
  void call(CallContext& context) override;

  std::vector<CallContext*> held;
  std::uint64_t calls = 0;
  std::map<std::uint32_t, std::uint32_t> executed;  // kOnce, by id

 private:
  void echo(CallContext& context);
  void swap(CallContext& context);
  void produce(CallContext& context);
  void execute_once(CallContext& context);
};

// The sizes in the tests are around messages of 4 KiB, from which items of 1 KiB and more are
// taken: what is as the library has it by default becomes that.
template <class Options>
Options with_small_messages(Options options) {
  const ConnectionOptions usual;
  ConnectionOptions& connection = options.connection;
  if (connection.inline_size == usual.inline_size) connection.inline_size = 4096;
  if (connection.reduce_size_min == usual.reduce_size_min) connection.reduce_size_min = 1024;
  return options;
}

// One server, one client, connected; with small messages.
class RpcPair {
 public:
  explicit RpcPair(std::unique_ptr<Network> network, ClientOptions client_options = {},
                   ServerOptions server_options = {});
  ~RpcPair();

  // The server dies with all its connections; calls in service are forgotten.
  void kill_server();
  // A new one at the same address; the second with other options from then on.
  void start_server();
  void start_server(const ServerOptions& options) {
    server_options_ = with_small_messages(options);
    start_server();
  }

  // A further client of the same server, connected.
  static Client connect_another(RpcPair& pair);

  // Lets both sides run until the condition holds; false (and a test failure) when it never does.
  bool run_until(const std::function<bool()>& condition);
  // Waits for a call that is under way: its reply, copied, or its error.
  struct Outcome {
    std::optional<Error> error;
    std::vector<std::byte> bulk;  // of the first bulk result
    std::uint32_t number = 0;     // of a u32 result
  };

  Expected<Call, Error> prepare(std::uint32_t procedure, std::uint32_t arguments_size_max = 2048) {
    return client->prepare({TestService::kProgram, TestService::kVersion, procedure},
                           arguments_size_max);
  }
  // Starts the call and waits for its end; `read` looks at the results of a successful one.
  std::optional<Error> finish(Call call, const std::function<void(Reply&)>& read);

  std::unique_ptr<Network> network;
  TestService service;
  std::optional<Server> server;
  std::optional<Client> client;

 private:
  ServerOptions server_options_;
  std::string address_;  // of the server, once it has one
};

// Bytes that differ by place and seed.
std::vector<std::byte> pattern(std::size_t size, std::uint32_t seed);
// Returns what std::ranges::equal does, which looks at megabytes byte by byte.
bool are_equal(Bytes one, Bytes other);

}  // namespace rpcrdma::test

#endif  // RPCRDMA_TESTS_SUPPORT_RPC_FIXTURE_H_
