// What larger Receives are worth: calls of 4 to 32 KiB, by chunks and inline, in turns in one run.
//
//   build-bench/bin/receive_sizes [ROUNDS [SECONDS]]
//
// Three ways to move the same data over siwarp, with the server in another process on the same CPU:
//
// - version 1 with Receives of 4 KiB: chunks
// - version 1 with 64 KiB, which both sides tell in the private data of RFC 8797: inline
// - version 2, which begins with 4 KiB; the client asks the server for 64 KiB, and raises its own
#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rpcrdma/client.h"
#include "rpcrdma/server.h"

namespace {

using rpcrdma::Bytes, rpcrdma::CallContext, rpcrdma::Client, rpcrdma::Error, rpcrdma::Expected;
using rpcrdma::ProcedureTraits, rpcrdma::ProtocolVersion, rpcrdma::Reply, rpcrdma::Server;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kProgram = 0x20010021, kSizeMax = 32U << 10U, kLarge = 65'536;
constexpr int kDepth = 8;
enum Procedure : std::uint32_t { kRead = 1, kWrite = 2 };

[[noreturn]] void fail(const std::string& why) {
  fmt::print(stderr, "receive_sizes: {}\n", why);
  std::exit(1);
}
template <class T>
T must(Expected<T, Error> result) {
  if (!result) fail(result.error().message());
  return std::move(*result);
}
void must(const Expected<void, Error>& result) {
  if (!result) fail(result.error().message());
}

struct Way {
  const char* name;
  ProtocolVersion version;
  std::uint32_t inline_size;
  bool is_inline;  // once it has begun
};
constexpr std::array<Way, 3> kWays{{{"v1, chunks", ProtocolVersion::kOne, 4096, false},
                                    {"v1, 64 KiB", ProtocolVersion::kOne, kLarge, true},
                                    {"v2, 64 KiB", ProtocolVersion::kTwo, 4096, true}}};

rpcrdma::ConnectionOptions connection_of(const Way& way) {
  rpcrdma::ConnectionOptions options;
  options.inline_size = way.inline_size;
  options.receive_size_max = kLarge;
  options.reduce_size_min = way.is_inline ? kLarge : 1024;
  return options;
}

class Source final : public rpcrdma::Service {
 public:
  const ProcedureTraits* traits(std::uint32_t) const noexcept override {
    static constexpr ProcedureTraits kTraits{.bulk_argument_size_max = kSizeMax};
    return &kTraits;
  }
  void call(CallContext& context) override {
    rpcrdma::MessageReader& arguments = context.arguments();
    if (context.procedure().number == kRead) {
      context.results().bulk(Bytes(data_).first(arguments.xdr().u32("size")));
    } else {
      const Bytes data = arguments.bulk(kSizeMax, "data");
      context.results().xdr().u32(static_cast<std::uint32_t>(data.size()));
    }
    context.succeed();
  }
  Bytes data() const { return data_; }

 private:
  const std::vector<std::byte> data_ = std::vector<std::byte>(kSizeMax);
};

// In a process of its own, which ends with this one. Returns its address.
std::string start_server(const Way& way) {
  std::array<int, 2> pipe_ends{};
  if (::pipe(pipe_ends.data()) != 0) fail("pipe");
  if (const pid_t child = ::fork(); child != 0) {
    if (child < 0) fail("fork");
    ::close(pipe_ends[1]);
    std::array<char, 64> address{};
    if (::read(pipe_ends[0], address.data(), address.size() - 1) <= 0) fail("no server");
    ::close(pipe_ends[0]);
    return address.data();
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  rpcrdma::ServerOptions options;
  options.provider.name = "siwarp";
  options.provider.crc = false;
  options.connection = connection_of(way);
  Source source;
  Server server = must(Server::listen("rdma://127.0.0.1:0", options));
  must(server.add(kProgram, 1, source));
  must(server.register_read_only(source.data()));
  const std::string address(server.address());
  if (::write(pipe_ends[1], address.data(), address.size()) < 0) fail("write");
  server.run();
  std::exit(0);
}

// One client, which keeps kDepth calls under way.
class Load {
 public:
  explicit Load(const Way& way) : way_(way) {
    rpcrdma::ClientOptions options;
    options.provider.name = "siwarp";
    options.provider.crc = false;
    options.version = way.version;
    options.connection = connection_of(way);
    client_.emplace(must(Client::connect("rdma://" + start_server(way), options)));
    if (way.version == ProtocolVersion::kTwo) grow();
    for (auto& place : places_) registered_.push_back(must(client_->register_memory(place)));
    registered_.push_back(must(client_->register_read_only(data_)));
  }
  // Calls in a second.
  double rate(Procedure procedure, std::uint32_t size, double seconds) {
    const auto begun = Clock::now();
    end_ =
        begun + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    done_ = 0;
    for (auto& place : places_) start(procedure, size, place);
    client_->drain();
    return static_cast<double>(done_) / std::chrono::duration<double>(Clock::now() - begun).count();
  }
  // Nothing but messages has moved, or everything by chunks.
  void check() const {
    const auto counters = client_->counters();
    const std::uint64_t chunks = counters.read_chunks + counters.write_chunks;
    if ((chunks == 0) != way_.is_inline) fail(fmt::format("{}: {} chunks", way_.name, chunks));
  }

 private:
  void grow() {
    std::optional<rpcrdma::ChangeResult> result;
    must(client_->request_receive_size(kLarge, [&](auto end) { result = end; }));
    must(client_->raise_receive_size(kLarge));
    while (!result || client_->characteristics()->own.receive_size < kLarge) {
      client_->wait();
      client_->progress();
    }
    if (*result != rpcrdma::ChangeResult::kGranted) fail("the server's Receives do not grow");
  }
  void start(Procedure procedure, std::uint32_t size, std::vector<std::byte>& place) {
    auto call = must(client_->prepare({kProgram, 1, procedure}, 64));
    if (procedure == kRead) {
      call.arguments().xdr().u32(size);
      call.expect_results(way_.is_inline ? size + 8 : 8);
      if (!way_.is_inline) call.place_result(MutableBytes(place).first(size));
    } else {
      call.arguments().bulk(Bytes(data_).first(size));
      call.expect_results(8);
    }
    must(client_->start(std::move(call), [this, procedure, size, &place](auto reply) {
      if (!reply) fail(reply.error().message());
      if (procedure == kRead) {
        const Bytes data = reply->results().bulk(size, "data");
        if (data.data() != place.data()) std::memcpy(place.data(), data.data(), data.size());
      } else {
        (void)reply->results().xdr().u32("size");
      }
      if (const auto error = reply->finish()) fail(error->message());
      ++done_;
      if (Clock::now() < end_) start(procedure, size, place);
    }));
  }
  using MutableBytes = rpcrdma::MutableBytes;

  const Way way_;
  std::vector<std::byte> data_ = std::vector<std::byte>(kSizeMax);
  std::vector<std::vector<std::byte>> places_ =
      std::vector<std::vector<std::byte>>(kDepth, std::vector<std::byte>(kSizeMax));
  std::optional<Client> client_;
  std::vector<rpcrdma::RegisteredMemory> registered_;
  Clock::time_point end_;
  long done_ = 0;
};

double median(std::vector<double>& values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

int main(int count, char** words) {
  const long rounds = count > 1 ? std::strtol(words[1], nullptr, 10) : 9;
  const double seconds = count > 2 ? std::strtod(words[2], nullptr) : 0.2;
  if (rounds < 1 || seconds <= 0) fail("usage: receive_sizes [ROUNDS [SECONDS]]");
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(0, &one);
  ::sched_setaffinity(0, sizeof one, &one);
  std::vector<std::unique_ptr<Load>> loads;
  for (const Way& way : kWays) loads.push_back(std::make_unique<Load>(way));
  fmt::print(
      "calls/s at depth {}, medians of {} rounds of {} s; in brackets next to v1 by chunks\n",
      kDepth, rounds, seconds);
  fmt::print("{:<12} {:>12} {:>22} {:>22}\n", "", kWays[0].name, kWays[1].name, kWays[2].name);
  for (const Procedure procedure : {kRead, kWrite}) {
    for (const std::uint32_t size : {4096U, 8192U, 16'384U, 32'768U}) {
      std::array<std::vector<double>, 3> rates, ratios;
      for (long round = 0; round < rounds; ++round) {
        for (std::size_t i = 0; i < loads.size(); ++i) {
          rates[i].push_back(loads[i]->rate(procedure, size, seconds));
          ratios[i].push_back(rates[i].back() / rates[0].back());
        }
      }
      fmt::print("{:<5} {:>2} KiB {:>13.0f}", procedure == kRead ? "read" : "write", size >> 10U,
                 median(rates[0]));
      for (std::size_t i = 1; i < loads.size(); ++i) {
        const double middle = median(ratios[i]);
        fmt::print(" {:>8.0f} ({:.2f}, {:.2f}…{:.2f})", median(rates[i]), middle, ratios[i].front(),
                   ratios[i].back());
      }
      fmt::print("\n");
    }
  }
  for (const auto& load : loads) load->check();
}
