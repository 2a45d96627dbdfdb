// Servers and clients of either transport, on one thread and through the public headers: what tests
// use that hold for both.
#ifndef RPCRDMA_TESTS_SUPPORT_TEST_BED_H_
#define RPCRDMA_TESTS_SUPPORT_TEST_BED_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "rpcrdma/testing.h"

namespace rpcrdma::test {

// Servers and clients of one transport, on one thread.
class Bed {
 public:
  virtual ~Bed() = default;
  virtual Server listen(const ServerOptions& options) = 0;
  virtual Client connect(const Server& server, const ClientOptions& options) = 0;
  // False: the condition never holds.
  virtual bool run_until(const std::function<bool()>& condition,
                         const std::function<void()>& progress) = 0;
};

class SimulatedBed final : public Bed {
 public:
  Server listen(const ServerOptions& options) override {
    return network.listen("node" + std::to_string(++nodes_), options).value();
  }
  Client connect(const Server& server, const ClientOptions& options) override {
    return network.connect(server.address(), options).value();
  }
  bool run_until(const std::function<bool()>& condition,
                 const std::function<void()>& progress) override {
    for (int left = 1'000'000; left > 0; --left) {
      progress();
      if (condition()) return true;
      if (!network.step()) return false;
    }
    return false;
  }

  testing::Network network{7};

 private:
  int nodes_ = 0;
};

class TcpBed final : public Bed {
 public:
  Server listen(const ServerOptions& options) override {
    return Server::listen("tcp://127.0.0.1:0", options).value();
  }
  Client connect(const Server& server, const ClientOptions& options) override {
    return Client::begin_connect("tcp://" + std::string(server.address()), options).value();
  }
  bool run_until(const std::function<bool()>& condition,
                 const std::function<void()>& progress) override {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    for (progress(); !condition(); progress()) {
      if (std::chrono::steady_clock::now() > limit) return false;
    }
    return true;
  }
};

inline std::unique_ptr<Bed> make_bed(bool is_tcp) {
  if (is_tcp) return std::make_unique<TcpBed>();
  return std::make_unique<SimulatedBed>();
}

}  // namespace rpcrdma::test

#endif  // RPCRDMA_TESTS_SUPPORT_TEST_BED_H_
