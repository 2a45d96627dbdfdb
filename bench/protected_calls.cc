// What Kerberos costs: calls of each flavor beside plain ones, by turns in one run. A client and a
// server on one thread, over siwarp; run it on one core, in a realm:
//
//   tests/gss/realm.py --temporary taskset -c 0 build-bench/bin/protected_calls
//
// It prints calls per second, and the median of each turn's ratio to plain calls with the range.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rpcrdma/client.h"
#include "rpcrdma/gss.h"
#include "rpcrdma/server.h"

namespace {

using rpcrdma::Bytes, rpcrdma::Client, rpcrdma::Error, rpcrdma::Expected, rpcrdma::Server;
using rpcrdma::gss::Service;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kProgram = 0x20010021, kNull = 0, kRead = 1, kWrite = 2;
constexpr std::uint32_t kSizeMax = 1U << 20U;
constexpr int kTurns = 9;
constexpr std::chrono::milliseconds kTurn{250};

[[noreturn]] void fail(const std::string& why) {
  fmt::print(stderr, "protected_calls: {}\n", why);
  std::exit(1);
}
template <class T>
T must(Expected<T, Error> result) {
  if (!result) fail(result.error().message());
  return std::move(*result);
}
std::string in_realm(const std::string& file) {
  const char* const folder = std::getenv("RPCRDMA_TEST_REALM");
  if (folder == nullptr) fail("there is no realm: run it by tests/gss/realm.py --temporary");
  return std::string(folder) + "/" + file;
}

class Source final : public rpcrdma::Service {
 public:
  const rpcrdma::ProcedureTraits* traits(std::uint32_t /*procedure*/) const noexcept override {
    static constexpr rpcrdma::ProcedureTraits kTraits{.bulk_argument_size_max = kSizeMax};
    return &kTraits;
  }
  void call(rpcrdma::CallContext& context) override {
    if (context.procedure().number == kRead) {
      context.results().bulk(Bytes(data_).first(context.arguments().xdr().u32("size")));
    } else if (context.procedure().number == kWrite) {
      (void)context.arguments().bulk(kSizeMax, "data");
    }
    context.succeed();
  }
  Bytes data() const { return data_; }

 private:
  const std::vector<std::byte> data_ = std::vector<std::byte>(kSizeMax);
};

struct Case {
  const char* name;
  std::uint32_t procedure, size;
  int depth;
};
constexpr std::array kCases{
    Case{"NULL, 1 at a time", kNull, 0, 1},    Case{"NULL, 32", kNull, 0, 32},
    Case{"read 4 KiB, 8", kRead, 4096, 8},     Case{"write 4 KiB, 8", kWrite, 4096, 8},
    Case{"read 1 MiB, 1", kRead, kSizeMax, 1}, Case{"write 1 MiB, 1", kWrite, kSizeMax, 1}};

class Bench {
 public:
  Bench() {
    options_.provider.name = "siwarp";
    options_.bulk_size_max = options_.long_call_size_max = kSizeMax + (64U << 10U);
    server_.emplace(must(Server::listen("rdma://localhost:0", options_)));
    must(server_->add(kProgram, 1, source_).map([] { return 0; }));
    rpcrdma::gss::ServerSecurity security;
    security.kerberos.keytab = in_realm("localhost.keytab");
    must(server_->secure(security).map([] { return 0; }));
    for (const auto service :
         {std::optional<Service>(), std::optional(Service::kNone),
          std::optional(Service::kIntegrity), std::optional(Service::kPrivacy)}) {
      clients_.push_back(connect(service));
    }
  }
  // Calls per second of each client in one turn.
  std::vector<double> take_turn(const Case& what) {
    std::vector<double> rates;
    for (Client& client : clients_) rates.push_back(rate(client, what));
    return rates;
  }

 private:
  Client connect(std::optional<Service> service) {
    rpcrdma::ClientOptions options;
    options.provider = options_.provider;
    if (service) {
      options.security.emplace();
      options.security->service = *service;
      options.security->kerberos.tickets = "FILE:" + in_realm("alice.ccache");
    }
    const auto address = std::string(server_->address());
    Client client = must(
        Client::begin_connect("rdma://localhost" + address.substr(address.rfind(':')), options));
    while (!client.connected()) progress(client);
    return client;
  }
  void progress(Client& client) {
    client.progress();
    server_->progress();
  }
  void start(Client& client, const Case& what) {
    auto call = must(client.prepare({kProgram, 1, what.procedure}, 64));
    call.expect_results(what.procedure == kRead ? 8 : 0);
    if (what.procedure == kRead) {
      call.arguments().xdr().u32(what.size);
      call.place_result(places_[next_place_++ % places_.size()]);
    } else if (what.procedure == kWrite) {
      call.arguments().bulk(source_.data().first(what.size));
    }
    ++under_way_;
    const auto started =
        client.start(std::move(call), [this](Expected<rpcrdma::Reply, Error> reply) {
          if (!reply) fail(reply.error().message());
          --under_way_;
          ++ended_;
        });
    if (!started) fail(started.error().message());
  }
  double rate(Client& client, const Case& what) {
    ended_ = 0;
    const auto begin = Clock::now();
    while (Clock::now() - begin < kTurn) {
      while (under_way_ < what.depth) start(client, what);
      progress(client);
    }
    const std::chrono::duration<double> passed = Clock::now() - begin;
    const double result = static_cast<double>(ended_) / passed.count();
    while (under_way_ > 0) progress(client);
    return result;
  }

  rpcrdma::ServerOptions options_;
  Source source_;
  std::optional<Server> server_;
  std::vector<Client> clients_;
  std::vector<std::vector<std::byte>> places_ =
      std::vector<std::vector<std::byte>>(32, std::vector<std::byte>(kSizeMax));
  std::size_t next_place_ = 0;
  int under_way_ = 0;
  long ended_ = 0;
};

std::string ratio(std::vector<double> ratios) {
  std::ranges::sort(ratios);
  return fmt::format("{:.3f} ({:.3f} .. {:.3f})", ratios[ratios.size() / 2], ratios.front(),
                     ratios.back());
}

}  // namespace

int main() {
  Bench bench;
  fmt::print("| calls | plain, per second | krb5 | krb5i | krb5p |\n|---|---|---|---|---|\n");
  for (const Case& what : kCases) {
    (void)bench.take_turn(what);  // memory is touched, contexts are made
    std::vector<double> plain;
    std::array<std::vector<double>, 3> ratios;
    for (int turn = 0; turn < kTurns; ++turn) {
      const auto rates = bench.take_turn(what);
      plain.push_back(rates[0]);
      for (std::size_t i = 0; i < ratios.size(); ++i) ratios[i].push_back(rates[i + 1] / rates[0]);
    }
    std::ranges::sort(plain);
    fmt::print("| {} | {:.0f} | {} | {} | {} |\n", what.name, plain[plain.size() / 2],
               ratio(ratios[0]), ratio(ratios[1]), ratio(ratios[2]));
    std::fflush(stdout);
  }
}
