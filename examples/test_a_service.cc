// Tests a service and a client on a simulated network, which loses connections: in virtual time,
// and the same way each time that the seed is the same.
#include <rpcrdma/testing.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "greeting.h"

namespace {

constexpr int kCalls = 100;

// How many calls a client that reconnects gets answered while connections are lost.
int answered(std::uint64_t seed) {
  rpcrdma::testing::NetworkOptions faults;
  faults.connection_lost_every = 80;  // events, for example that a message arrives
  rpcrdma::testing::Network network(seed, faults);
  rpcrdma::FunctionService service;
  service.on(greeting::kGreet,
             [](rpcrdma::CallContext& call) { return greeting::answer(call, "hello, "); });
  auto server = greeting::must(network.listen("greeter"));
  greeting::must(server.add(greeting::kProgram, greeting::kVersion, service));
  rpcrdma::ClientOptions options;
  options.reconnect.enabled = true;
  options.reconnect.losses_max = 100;
  auto client = greeting::must(network.connect(server.address(), options));
  if (!network.run_until([&] { return client.connected(); }, server, client)) return -1;
  int ended = 0;
  int good = 0;
  const auto start = [&](int number) {
    auto call = greeting::greet(client, "caller " + std::to_string(number));
    const auto started =
        client.start(std::move(call), [&](rpcrdma::Expected<rpcrdma::Reply, rpcrdma::Error> reply) {
          ++ended;
          if (!reply) return;
          const auto text = reply->decode([](rpcrdma::MessageReader& results) {
            return std::string(results.xdr().string(300, "greeting"));
          });
          good += text && text->find("hello, caller ") == 0 ? 1 : 0;
        });
    if (!started) ++ended;
  };
  int number = 0;
  network.run_until(
      [&] {
        while (number < kCalls && number < ended + 4) start(number++);
        return ended == kCalls;
      },
      server, client);
  return network.violations().empty() ? good : -1;
}

}  // namespace

int main() {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const int good = answered(seed);
    if (good == kCalls) continue;
    std::printf("seed %d: %d of %d calls were answered\n", static_cast<int>(seed), good, kCalls);
    return 1;
  }
  std::printf("20 networks that lose connections: all calls were answered\n");
}
