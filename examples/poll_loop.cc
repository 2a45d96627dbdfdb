// A server and a client in one loop of poll(2), as a program has it that owns its event loop.
#include <poll.h>

#include "greeting.h"

int main() {
  auto server = greeting::must(rpcrdma::Server::listen("rdma://127.0.0.1:0"));
  rpcrdma::FunctionService service;
  service.on(greeting::kGreet,
             [](rpcrdma::CallContext& call) { return greeting::answer(call, "hello, "); });
  greeting::must(server.add(greeting::kProgram, greeting::kVersion, service));

  auto client = greeting::connect_to(server);
  int answers = 0;
  for (const char* name : {"Ada", "Grace", "Barbara"}) {
    greeting::must(client.start(greeting::greet(client, name),
                                [&](rpcrdma::Expected<rpcrdma::Reply, rpcrdma::Error> result) {
                                  rpcrdma::Reply reply = greeting::must(std::move(result));
                                  std::printf("%s\n", greeting::text(reply).c_str());
                                  ++answers;
                                }));
  }
  while (answers < 3) {
    pollfd fds[] = {{server.wait_fd(), POLLIN, 0}, {client.wait_fd(), POLLIN, 0}};
    if (::poll(fds, 2, 10'000) <= 0) return 1;
    if (fds[0].revents != 0) server.progress();
    if (fds[1].revents != 0) client.progress();
  }
}
