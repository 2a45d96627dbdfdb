// What idle connections cost a server: the rate of one active connection beside them, and memory.
//
//   build-bench/bin/idle_connections [ROUNDS [SECONDS]]
//
// One server for each number of idle connections, over siwarp, each in a process of its own; the
// idle ones of a server are in a process, too. Everybody is on one CPU. Each idle connection has
// made 32 NULL calls and a read of 1 MiB. The servers are measured in turns.
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rpcrdma/client.h"
#include "rpcrdma/server.h"

namespace {

using rpcrdma::Bytes, rpcrdma::CallContext, rpcrdma::Client, rpcrdma::Error, rpcrdma::Expected;
using rpcrdma::ProcedureTraits, rpcrdma::Server;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kProgram = 0x20010023, kRead = 1, kSizeMax = 1U << 20U;
constexpr std::array kIdle{0, 100, 1000};

[[noreturn]] void fail(const std::string& why) {
  fmt::print(stderr, "idle_connections: {}\n", why);
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

class Source final : public rpcrdma::Service {
 public:
  const ProcedureTraits* traits(std::uint32_t procedure) const noexcept override {
    static constexpr std::array<ProcedureTraits, 2> kTable{ProcedureTraits{.number = 0},
                                                           ProcedureTraits{.number = kRead}};
    return rpcrdma::find_traits(kTable, procedure);
  }
  void call(CallContext& call) override {
    const std::uint32_t size = call.arguments().xdr().u32("size");
    if (!call.arguments().finish() || size > data_.size()) {
      return call.fail(rpcrdma::AcceptStatus::kGarbageArgs);
    }
    call.results().bulk(Bytes(data_).first(size));
    call.succeed();
  }
  Bytes data() const noexcept { return data_; }

 private:
  std::vector<std::byte> data_ = std::vector<std::byte>(kSizeMax);
};

// Begins a process, and returns its number and what it has to say; it ends with this one.
template <class Run>
std::pair<pid_t, std::string> begin_process(Run&& run) {
  std::array<int, 2> pipe_ends{};
  if (::pipe(pipe_ends.data()) != 0) fail("pipe");
  const pid_t child = ::fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    run([&](const std::string& words) {
      if (::write(pipe_ends[1], words.data(), words.size()) < 0) fail("write");
    });
    std::exit(0);
  }
  ::close(pipe_ends[1]);
  std::array<char, 64> words{};
  if (::read(pipe_ends[0], words.data(), words.size() - 1) <= 0) fail("a process has failed");
  ::close(pipe_ends[0]);
  return {child, words.data()};
}

Client connect(const std::string& address) {
  rpcrdma::ClientOptions options;
  options.provider.name = "siwarp";
  options.provider.crc = false;
  return must(Client::connect("rdma://" + address, options));
}

template <class Tell>
void serve(Tell&& tell) {
  rpcrdma::ServerOptions options;
  options.provider.name = "siwarp";
  options.provider.crc = false;
  Source source;
  Server server = must(Server::listen("rdma://127.0.0.1:0", options));
  must(server.add(kProgram, 1, source));
  must(server.register_read_only(source.data()));
  tell(std::string(server.address()));
  server.run();
}

// Makes a connection that has been used.
Client make_idle(const std::string& address, std::vector<std::byte>& place) {
  Client client = connect(address);
  for (int i = 0; i < 32; ++i) {
    (void)must(client.call(must(client.prepare({kProgram, 1, 0}))));
  }
  auto call = must(client.prepare({kProgram, 1, kRead}));
  call.arguments().xdr().u32(kSizeMax);
  call.place_result(place);
  (void)must(client.call(std::move(call)));
  return client;
}

long resident_kib(pid_t process) {
  std::ifstream statm(fmt::format("/proc/{}/statm", process));
  long pages = 0, resident = 0;
  statm >> pages >> resident;
  return resident * (::sysconf(_SC_PAGESIZE) / 1024);
}

// A server with its idle connections, and the active one.
class Subject {
 public:
  explicit Subject(int idle) {
    const auto [process, address] = begin_process([](auto tell) { serve(tell); });
    const long before = resident_kib(process);
    if (idle > 0) {
      begin_process([idle, where = address](auto tell) {
        std::vector<Client> clients;
        std::vector<std::byte> place(kSizeMax);
        for (int i = 0; i < idle; ++i) clients.push_back(make_idle(where, place));
        tell("ready");
        ::poll(nullptr, 0, -1);
      });
      kib_each_ = (resident_kib(process) - before) / idle;
    }
    client_.emplace(connect(address));
    for (auto& place : places_) registered_.push_back(must(client_->register_memory(place)));
  }
  double null_rate(double seconds) {
    return rate(seconds, 1, [this](std::size_t i) { start(0, 0, i); });
  }
  double read_rate(double seconds) {
    return rate(seconds, places_.size(), [this](std::size_t i) { start(kRead, 64U << 10U, i); });
  }
  long kib_each() const noexcept { return kib_each_; }

 private:
  template <class Start>
  double rate(double seconds, std::size_t depth, Start&& begin) {
    const auto begun = Clock::now();
    const std::chrono::duration<double> time(seconds);
    end_ = begun + std::chrono::duration_cast<Clock::duration>(time);
    done_ = 0;
    for (std::size_t i = 0; i < depth; ++i) begin(i);
    client_->drain();
    return static_cast<double>(done_) / std::chrono::duration<double>(Clock::now() - begun).count();
  }
  void start(std::uint32_t procedure, std::uint32_t size, std::size_t i) {
    auto call = must(client_->prepare({kProgram, 1, procedure}, 64));
    if (procedure == kRead) {
      call.arguments().xdr().u32(size);
      call.place_result(rpcrdma::MutableBytes(places_[i]).first(size));
    }
    must(client_->start(std::move(call), [this, procedure, size, i](auto reply) {
      if (!reply) fail(reply.error().message());
      if (procedure == kRead) (void)reply->results().bulk(size, "data");
      if (const auto error = reply->finish()) fail(error->message());
      ++done_;
      if (Clock::now() < end_) start(procedure, size, i);
    }));
  }

  long kib_each_ = 0;
  std::array<std::vector<std::byte>, 8> places_ = [] {
    std::array<std::vector<std::byte>, 8> places;
    for (auto& place : places) place.resize(64U << 10U);
    return places;
  }();
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
  const double seconds = count > 2 ? std::strtod(words[2], nullptr) : 0.3;
  if (rounds < 1 || seconds <= 0) fail("usage: idle_connections [ROUNDS [SECONDS]]");
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(0, &one);
  ::sched_setaffinity(0, sizeof one, &one);
  std::vector<std::unique_ptr<Subject>> subjects;
  for (const int idle : kIdle) subjects.push_back(std::make_unique<Subject>(idle));
  std::array<std::array<std::vector<double>, 2>, kIdle.size()> rates, ratios;
  for (long round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < subjects.size(); ++i) {
      rates[i][0].push_back(subjects[i]->null_rate(seconds));
      rates[i][1].push_back(subjects[i]->read_rate(seconds));
      for (std::size_t k = 0; k < 2; ++k) {
        ratios[i][k].push_back(rates[i][k].back() / rates[0][k].back());
      }
    }
  }
  fmt::print("calls/s, medians of {} rounds of {} s; in brackets next to no idle connections\n",
             rounds, seconds);
  fmt::print("{:>6} {:>18} {:>20} {:>24}\n", "idle", "NULL d1", "64 KiB read d8",
             "KiB resident for each");
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    fmt::print("{:>6} {:>10.0f} ({:.3f}) {:>12.0f} ({:.3f}) {:>24}\n", kIdle[i],
               median(rates[i][0]), median(ratios[i][0]), median(rates[i][1]), median(ratios[i][1]),
               subjects[i]->kib_each());
  }
}
