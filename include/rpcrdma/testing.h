// A simulated network for tests of your own services and clients: no sockets, no threads, no real
// time. The same seed gives the same run, faults included.
//
//   rpcrdma::testing::Network network(seed);
//   auto server = network.listen("storage");
//   server->add(kProgram, kVersion, service);
//   auto client = network.connect(server->address());
//   network.run_until([&] { return client->connected(); }, *server, *client);
//   client->start(std::move(call), [&](auto reply) { … done = true; });
//   network.run_until([&] { return done; }, *server, *client);
//
// Time passes only in run_until() and step(). Client::call(), drain() and wait() and Server::run()
// also advance it, but without the other ends: use start() or coroutines.
#ifndef RPCRDMA_TESTING_H_
#define RPCRDMA_TESTING_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rpcrdma/client.h"
#include "rpcrdma/export.h"
#include "rpcrdma/options.h"
#include "rpcrdma/server.h"
#include "rpcrdma/types.h"

namespace rpcrdma::testing {

struct NetworkOptions {
  // Each step of a message or connection takes 1 ns up to this, drawn from the seed.
  std::chrono::nanoseconds latency_max = std::chrono::microseconds(10);
  // Faults: on average one in this many; 0: none.
  std::uint32_t refused_one_in = 0;         // connections are refused
  std::uint32_t no_memory_one_in = 0;       // memory cannot be registered
  std::uint64_t connection_lost_every = 0;  // events of the network
};

// Belongs to one thread, and outlives the servers and clients created from it.
class RPCRDMA_EXPORT Network {
 public:
  explicit Network(std::uint64_t seed, const NetworkOptions& options = {});
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // A server on its own node. `address` is any name, with a port (":2049") or without, which
  // requests a free one. The provider and event-loop settings of ServerOptions are ignored.
  Expected<Server, Error> listen(std::string_view address, const ServerOptions& options = {});
  // A client on its own node, which has only started to connect.
  Expected<Client, Error> connect(std::string_view address, const ClientOptions& options = {});

  // The virtual time, which starts at one second.
  Instant now() const noexcept;
  // Lets each of `ends` (servers and clients) make progress and advances the time to the next
  // event, until the condition holds. False: nothing more will happen, or the bound on the number
  // of steps was reached.
  template <class Condition, class... Ends>
  bool run_until(Condition&& condition, Ends&... ends) {
    for (std::uint64_t left = kStepsMax; left > 0; --left) {
      (ends.progress(), ...);
      if (condition()) return true;
      if (!step()) return false;
    }
    return false;
  }
  // Advances the time to the next event or time limit. False: there is neither.
  bool step();
  // Stops all faults: for checks that everything then ends well.
  void stop_faults();
  // Violations of the rules by this library, one sentence each. Any entry is a bug of the library:
  // please report it.
  std::vector<std::string> violations() const;

 private:
  static constexpr std::uint64_t kStepsMax = 10'000'000;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rpcrdma::testing

#endif  // RPCRDMA_TESTING_H_
