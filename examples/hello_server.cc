// Answers greetings; prints where it listens. Ends with SIGTERM, or after CALLS calls. usage:
// hello_server [URL [CALLS]]
#include <rpcrdma/function_service.h>
#include <rpcrdma/server.h>

#include <cstdio>
#include <cstdlib>
#include <string>

int main(int argc, char** argv) {
  auto server = rpcrdma::Server::listen(argc > 1 ? argv[1] : "rdma://127.0.0.1:0");
  if (!server) return std::fprintf(stderr, "%s\n", server.error().message().c_str()), 1;
  int calls_left = argc > 2 ? std::atoi(argv[2]) : -1;

  rpcrdma::FunctionService service;
  service.on(1, [&](rpcrdma::CallContext& call) {
    const std::string name(call.arguments().xdr().string(255, "name"));
    if (!call.arguments().finish()) return rpcrdma::AcceptStatus::kGarbageArgs;
    call.results().xdr().string("hello, " + name);
    if (--calls_left == 0) server->stop();
    return rpcrdma::AcceptStatus::kSuccess;
  });
  if (!server->add(0x20000001, 1, service)) return 1;
  std::printf("ready rdma://%s\n", std::string(server->address()).c_str());
  std::fflush(stdout);
  server->run();
  return server->failure() ? 1 : 0;  // its RDMA device may go
}
