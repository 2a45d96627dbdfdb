// A network that is simulated, for tests of your own services and clients: no sockets, no threads,
// no real time. The same seed gives the same run, faults included.
//
//   rpcrdma::testing::Network network(seed);
//   auto server = network.listen("storage");
//   server->add(kProgram, kVersion, service);
//   auto client = network.connect(server->address());
//   network.run_until([&] { return client->connected(); }, *server, *client);
//   client->start(std::move(call), [&](auto reply) { … done = true; });
//   network.run_until([&] { return done; }, *server, *client);
//
// Time passes in run_until() and step() only. Client::call(), drain() and wait() and Server::run()
// let it pass as well, but without the others: use start() or coroutines.
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
  // Each step of a message lasts 1 ns up to this, drawn by the seed. So does each of a connection.
  std::chrono::nanoseconds latency_max = std::chrono::microseconds(10);
  // Faults. On average one in so many; 0: none.
  std::uint32_t refused_one_in = 0;         // connections are refused
  std::uint32_t no_memory_one_in = 0;       // memory cannot be registered
  std::uint64_t connection_lost_every = 0;  // events of the network
};

// Belongs to one thread, and outlives the servers and clients that it made.
class RPCRDMA_EXPORT Network {
 public:
  explicit Network(std::uint64_t seed, const NetworkOptions& options = {});
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // A server on a node of its own; `address` is any name, with a port (":2049") or without, which
  // asks for a free one. What ServerOptions say of providers and loops means nothing here.
  Expected<Server, Error> listen(std::string_view address, const ServerOptions& options = {});
  // A client on a node of its own, which is only starting to connect.
  Expected<Client, Error> connect(std::string_view address, const ClientOptions& options = {});

  // The virtual time, which begins at one second.
  Instant now() const noexcept;
  // Lets each of `ends`, servers and clients, make progress, and the time pass to the next event,
  // until the condition holds. False: nothing is going to happen any more, or the bound on the
  // number of steps was reached.
  template <class Condition, class... Ends>
  bool run_until(Condition&& condition, Ends&... ends) {
    for (std::uint64_t left = kStepsMax; left > 0; --left) {
      (ends.progress(), ...);
      if (condition()) return true;
      if (!step()) return false;
    }
    return false;
  }
  // Lets the time pass to the next event or time limit. False: there is neither.
  bool step();
  // No fault happens any more: for checks that everything ends well then.
  void stop_faults();
  // What this library did that no correct stack does, one sentence each. Anything here is an error
  // of the library's: please report it.
  std::vector<std::string> violations() const;

 private:
  static constexpr std::uint64_t kStepsMax = 10'000'000;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rpcrdma::testing

#endif  // RPCRDMA_TESTING_H_
