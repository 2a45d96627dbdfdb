// rpcrdma itself: a server and clients of the public API, with the payload in chunks.
#include <fmt/core.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "rpcrdma/client.h"
#include "rpcrdma/server.h"
#include "tools/bench/contender.h"
#include "tools/bench/load.h"
#include "tools/bench/meter.h"
#include "tools/bench/service.h"

namespace rpcrdma::tools::bench {
namespace {

void serve(const Layout& layout, const Announce& announce) {
  raise_descriptors();
  ServerOptions options;
  options.provider.name = layout.provider;
  options.provider.crc = false;  // the client's wish decides
  options.connections_max = layout.idle + layout.connections + 64;
  options.shards = layout.threads;
  options.bulk_size_max = kSizeMax;
  options.connection.credits =
      std::max(options.connection.credits, static_cast<std::uint32_t>(layout.depth_max));
  BenchService service;  // outlives the server
  const bool is_v6 = layout.address.find(':') != std::string::npos;
  const std::string host = is_v6 ? "[" + layout.address + "]" : layout.address;
  const std::string scheme = layout.transport + "://";
  options.tcp.connections_max = options.connections_max;
  options.tcp.calls_max =
      std::max(options.tcp.calls_max, static_cast<std::uint32_t>(layout.depth_max));
  auto server = Server::listen(scheme + host + ":0", options);
  if (!server) fail("bench server", server.error());
  if (auto added = service.add_to(*server); !added) fail("bench server", added.error());
  announce(scheme + std::string(server->address()));
  server->run();
}

Client connect(const std::string& url, const Layout& layout, const Case& what) {
  ClientOptions options;
  options.provider.name = layout.provider;
  options.provider.crc = what.crc;
  const auto depth = static_cast<std::uint32_t>(what.depth);
  options.calls_max = std::max(options.calls_max, depth + 1);  // the one that ends is still there
  options.connection.credits = std::max(options.connection.credits, depth);
  auto client = Client::connect(url, options);
  if (!client) fail(what.name, client.error());
  return std::move(*client);
}

// Connections that have been used, and rest until the process ends.
void be_idle(std::size_t count, const std::string& url, const Layout& layout,
             const Announce& announce) {
  raise_descriptors();
  const Case read{"an idle connection", Who::kRpcrdma, Kind::kRead, 1U << 20U, 1, false};
  const auto data = pattern(read.size);
  std::vector<Client> clients;
  for (std::size_t i = 0; i < count; ++i) clients.push_back(connect(url, layout, read));
  for (Client& client : clients) {
    for (int i = 0; i < 32; ++i) {
      auto reply = client.call(client.prepare({kProgram, kVersion, kNull}).value());
      if (!reply) fail(read.name, reply.error());
    }
    check_data(client, read, data);
  }
  announce("ready");
  for (;;) ::pause();
}

// A case on connections of its own, until the process ends.
void be_busy(const Case& what, std::size_t count, const std::string& url, const Layout& layout,
             const Announce& announce, Tally& tally) {
  raise_descriptors();
  const auto data = pattern(what.size);
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  std::vector<std::unique_ptr<Client>> clients;  // outlive the loads
  std::vector<std::unique_ptr<Load>> loads;
  for (std::size_t i = 0; i < count; ++i) {
    clients.push_back(std::make_unique<Client>(connect(url, layout, what)));
    loads.push_back(
        std::make_unique<Load>(*clients[i], what, Load::Witness{nullptr, &tally}, data));
    if (count == 1) continue;
    epoll_event event{EPOLLIN, {.ptr = loads[i].get()}};
    if (::epoll_ctl(epoll, EPOLL_CTL_ADD, clients[i]->wait_fd(), &event) != 0) {
      throw std::runtime_error(fmt::format("epoll_ctl: {}", std::strerror(errno)));
    }
  }
  announce("ready");
  await_begin(tally);
  for (const auto& load : loads) load->start();
  if (count == 1) {
    for (;; loads[0]->check()) {
      clients[0]->wait();
      loads[0]->handle_news();
    }
  }
  std::array<epoll_event, 256> events{};
  for (const auto& load : loads) load->handle_news();
  for (;;) {
    const int ready = ::epoll_wait(epoll, events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < ready; ++i) {
      Load& load = *static_cast<Load*>(events[static_cast<std::size_t>(i)].data.ptr);
      load.handle_news();
      load.check();
    }
  }
}

class Rpcrdma final : public Contender {
 public:
  explicit Rpcrdma(const Layout& layout) : layout_(layout), url_(layout.server_url) {
    if (url_.empty()) {
      server_.emplace(layout.server_cpu,
                      [&layout](const Announce& announce, Tally&) { serve(layout, announce); });
      url_ = server_->address();
    }
    idle_ = start(layout.idle, [this](std::size_t count, const Announce& announce, Tally&) {
      be_idle(count, url_, layout_, announce);
    });
  }

  Load start_load(const Case& what, std::size_t connections) override {
    const auto be = [&](std::size_t count, const Announce& announce, Tally& tally) {
      be_busy(what, count, url_, layout_, announce, tally);
    };
    Load made = start(connections, be);
    begin_all(made, connections * static_cast<std::uint64_t>(what.depth));
    return made;
  }
  const Child* server() const override { return server_ ? &*server_ : nullptr; }

  Sample run(const Case& what, const Times& times, const Load& load) override {
    Client client = connect(url_, layout_, what);
    if (layout_.is_verbose && said_.insert(what.name).second) {
      const auto terms = client.connection().terms;
      fmt::print(stderr, "{}: {}\n", what.name, terms ? to_string(*terms) : "over TCP");
    }
    check_data(client, what, data_);
    const ServerFigures before = figures_of_server(client);
    Meter meter({.server = server(), .load = load, .load_is_the_case = layout_.connections > 0},
                times);
    bench::Load own(client, what, {&meter, nullptr}, data_);
    own.run();
    Sample sample = meter.sample(what.kind == Kind::kNull ? 0 : what.size);
    // The server's counts include the warm-up: its share is taken by the calls.
    const ServerFigures after = figures_of_server(client);
    const auto all = static_cast<double>(std::max<std::uint64_t>(client.counters().calls, 1));
    const auto share = [&](std::uint64_t ServerFigures::*count) {
      return static_cast<std::uint64_t>(static_cast<double>(after.*count - before.*count) *
                                        static_cast<double>(sample.calls) / all);
    };
    sample.bytes_copied = own.bytes_copied() + share(&ServerFigures::bytes_copied);
    sample.client = own.costs();
    sample.server = {share(&ServerFigures::doorbells), share(&ServerFigures::completions),
                     share(&ServerFigures::registrations)};
    sample.server_rss_kib = after.resident_kib;
    if (!server_) {
      sample.server_cpu_seconds = static_cast<double>(share(&ServerFigures::cpu_ns)) * 1e-9;
      sample.cpu_seconds += sample.server_cpu_seconds;
    }
    return sample;
  }

 private:
  // Starts as many processes as so many connections need.
  template <class Body>
  Load start(std::size_t connections, const Body& body) const {
    Load made;
    while (connections > 0) {
      const std::size_t count = std::min(connections, kConnectionsOfAProcess);
      made.push_back(std::make_unique<Child>(
          layout_.client_cpu,
          [&](const Announce& announce, Tally& tally) { body(count, announce, tally); }));
      connections -= count;
    }
    return made;
  }

  const std::vector<std::byte> data_ = pattern(kSizeMax);
  const Layout layout_;
  std::string url_;
  std::optional<Child> server_;
  std::set<std::string> said_;  // names of cases whose terms were printed
  Load idle_;
};

}  // namespace

std::unique_ptr<Contender> make_rpcrdma(const Layout& layout) {
  return std::make_unique<Rpcrdma>(layout);
}

}  // namespace rpcrdma::tools::bench
