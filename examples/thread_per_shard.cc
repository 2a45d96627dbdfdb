// One server for each thread, all on one port: nothing is shared between threads but the address,
// and the system spreads the connections.
#include <atomic>
#include <deque>
#include <thread>
#include <vector>

#include "greeting.h"

namespace {

// The objects of one thread.
struct Shard {
  rpcrdma::Server server;
  rpcrdma::FunctionService service{};
  std::atomic<int> calls = 0;
  std::thread thread{};

  explicit Shard(const std::string& url)
      : server(greeting::must(rpcrdma::Server::listen(url, options()))) {
    service.on(greeting::kGreet, [this](rpcrdma::CallContext& call) {
      ++calls;
      return greeting::answer(call, "hello, ");
    });
    greeting::must(server.add(greeting::kProgram, greeting::kVersion, service));
    thread = std::thread([this] { server.run(); });
  }
  ~Shard() {
    server.stop();
    thread.join();
  }
  static rpcrdma::ServerOptions options() {
    rpcrdma::ServerOptions options;
    options.share_port = true;
    return options;
  }
};

}  // namespace

int main() {
  std::deque<Shard> shards;
  shards.emplace_back("rdma://127.0.0.1:0");
  const std::string url = greeting::url(shards.front().server);
  shards.emplace_back(url);

  constexpr int kClients = 32;
  for (int i = 0; i < kClients; ++i) {
    auto client = greeting::must(rpcrdma::Client::connect(url));
    auto reply = greeting::must(client.call(greeting::greet(client, std::to_string(i))));
    if (greeting::text(reply) != "hello, " + std::to_string(i)) return 1;
  }
  int sum = 0;
  for (const Shard& shard : shards) {
    std::printf("a shard answered %d calls\n", shard.calls.load());
    sum += shard.calls;
  }
  std::printf("together %d\n", sum);
  return sum == kClients ? 0 : 1;
}
