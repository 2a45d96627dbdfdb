// A server and a client in the event loop of standalone Asio, next to whatever else runs there.
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <functional>

#include "greeting.h"

// Calls `progress` whenever the descriptor of a Client or a Server is readable.
class Driver {
 public:
  Driver(asio::io_context& loop, int wait_fd, std::function<void()> progress)
      : descriptor_(loop, wait_fd), progress_(std::move(progress)) {
    wait();
  }
  ~Driver() { descriptor_.release(); }  // it belongs to the Client or Server
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

 private:
  void wait() {
    descriptor_.async_wait(asio::posix::stream_descriptor::wait_read,
                           [this](const asio::error_code& error) {
                             if (error) return;
                             progress_();
                             wait();
                           });
  }

  asio::posix::stream_descriptor descriptor_;
  std::function<void()> progress_;
};

int main() {
  auto server = greeting::must(rpcrdma::Server::listen("rdma://127.0.0.1:0"));
  rpcrdma::FunctionService service;
  service.on(greeting::kGreet,
             [](rpcrdma::CallContext& call) { return greeting::answer(call, "hello, "); });
  greeting::must(server.add(greeting::kProgram, greeting::kVersion, service));
  auto client = greeting::connect_to(server);

  asio::io_context loop;
  const Driver serving(loop, server.wait_fd(), [&] { server.progress(); });
  const Driver calling(loop, client.wait_fd(), [&] { client.progress(); });
  greeting::must(client.start(greeting::greet(client, "Asio"),
                              [&](rpcrdma::Expected<rpcrdma::Reply, rpcrdma::Error> result) {
                                rpcrdma::Reply reply = greeting::must(std::move(result));
                                std::printf("%s\n", greeting::text(reply).c_str());
                                loop.stop();
                              }));
  loop.run();
}
