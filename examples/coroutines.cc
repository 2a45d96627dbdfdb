// A proxy: its service is a coroutine that awaits a call to another server. Everything runs on one
// thread, and no call waits for another.
#include <poll.h>
#include <rpcrdma/coroutine.h>

#include "greeting.h"

namespace {

using rpcrdma::AcceptStatus;
using rpcrdma::Task;

// Asks the other server and passes the answer on.
class Proxy final : public rpcrdma::CoroutineService {
 public:
  explicit Proxy(rpcrdma::Client& other) : other_(other) {}
  const rpcrdma::ProcedureTraits* traits(std::uint32_t procedure) const noexcept override {
    static constexpr rpcrdma::ProcedureTraits kGreetTraits{.number = greeting::kGreet};
    return procedure == greeting::kGreet ? &kGreetTraits : nullptr;
  }

  Task<AcceptStatus> serve(rpcrdma::CallContext& call) override {
    const std::string name(call.arguments().xdr().string(255, "name"));
    if (!call.arguments().finish()) co_return AcceptStatus::kGarbageArgs;
    auto reply = co_await other_.call_async(greeting::greet(other_, name));
    if (!reply) co_return AcceptStatus::kSystemErr;
    call.results().xdr().string("by proxy: " + greeting::text(*reply));
    co_return AcceptStatus::kSuccess;
  }

 private:
  rpcrdma::Client& other_;
};

Task<void> say_hello(rpcrdma::Client& client, int number, int& answers) {
  const std::string name = "caller " + std::to_string(number);
  auto reply = co_await client.call_async(greeting::greet(client, name));
  if (!reply) co_return std::fprintf(stderr, "%s\n", reply.error().message().c_str()), void();
  std::printf("%s\n", greeting::text(*reply).c_str());
  ++answers;
}

}  // namespace

int main() {
  rpcrdma::FunctionService service;
  service.on(greeting::kGreet,
             [](rpcrdma::CallContext& call) { return greeting::answer(call, "hello, "); });
  auto server = greeting::must(rpcrdma::Server::listen("rdma://127.0.0.1:0"));
  greeting::must(server.add(greeting::kProgram, greeting::kVersion, service));

  // Clients go before the servers whose services await them, so they stand below.
  auto proxy_server = greeting::must(rpcrdma::Server::listen("rdma://127.0.0.1:0"));
  auto other = greeting::connect_to(server);
  Proxy proxy(other);
  greeting::must(proxy_server.add(greeting::kProgram, greeting::kVersion, proxy));
  auto client = greeting::connect_to(proxy_server);

  constexpr int kCallers = 5;
  int answers = 0;
  for (int i = 1; i <= kCallers; ++i) start_detached(say_hello(client, i, answers));
  while (answers < kCallers) {
    pollfd fds[] = {{server.wait_fd(), POLLIN, 0},
                    {proxy_server.wait_fd(), POLLIN, 0},
                    {other.wait_fd(), POLLIN, 0},
                    {client.wait_fd(), POLLIN, 0}};
    if (::poll(fds, 4, 10'000) <= 0) return 1;
    server.progress();
    proxy_server.progress();
    other.progress();
    client.progress();
  }
}
