// What idle connections cost a server: the rate of one active connection beside them, and memory.
//
//   build-bench/bin/idle_connections [ROUNDS [SECONDS [IDLE…]]]
//
// One server for each number of idle connections (default: 100 and 1,000), and one without any,
// over siwarp, each in a process of its own; the idle ones of a server are in a process, too.
// Everybody is on one CPU. Each idle connection has made 32 NULL calls and a read of 1 MiB. The
// servers are measured in turns. Then the idle connections are closed, made again, and closed
// again.
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
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
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "rpcrdma/client.h"
#include "rpcrdma/server.h"

namespace {

using rpcrdma::Bytes, rpcrdma::CallContext, rpcrdma::Client, rpcrdma::Error, rpcrdma::Expected;
using rpcrdma::ProcedureTraits, rpcrdma::Server;
using Clock = std::chrono::steady_clock;

constexpr int kOfAProcess = 4000;  // idle connections: a client has four descriptors
constexpr std::uint32_t kProgram = 0x20010023, kRead = 1, kSizeMax = 1U << 20U;

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
  options.connections_max = 1U << 20U;
  Source source;
  Server server = must(Server::listen("rdma://127.0.0.1:0", options));
  must(server.add(kProgram, 1, source));
  must(server.register_read_only(source.data()));
  tell(std::string(server.address()));
  server.run();
}

void use(Client& client, std::vector<std::byte>& place) {
  for (int i = 0; i < 32; ++i) {
    (void)must(client.call(must(client.prepare({kProgram, 1, 0}))));
  }
  auto call = must(client.prepare({kProgram, 1, kRead}));
  call.arguments().xdr().u32(kSizeMax);
  call.place_result(place);
  (void)must(client.call(std::move(call)));
}

// Makes connections, which are there until the process ends. What it says: the seconds that this
// took, and how many were made in a second of the first thousand and of the last.
template <class Tell>
void be_idle(int idle, const std::string& address, Tell&& tell) {
  std::vector<Client> clients;
  std::vector<std::byte> place(kSizeMax);
  std::vector<Clock::time_point> times{Clock::now()};
  for (int i = 0; i < idle; ++i) {
    clients.push_back(connect(address));
    times.push_back(Clock::now());
  }
  const auto seconds = [&](std::size_t from, std::size_t to) {
    return std::chrono::duration<double>(times[to] - times[from]).count();
  };
  const std::size_t all = clients.size(), part = std::min<std::size_t>(all, 1000);
  for (Client& client : clients) use(client, place);
  tell(fmt::format("{} {} {}", seconds(0, all), static_cast<double>(part) / seconds(0, part),
                   static_cast<double>(part) / seconds(all - part, all)));
  ::poll(nullptr, 0, -1);
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
  explicit Subject(int idle) : idle_(idle) {
    std::tie(process_, address_) = begin_process([](auto tell) { serve(tell); });
    kib_at_first_ = resident_kib(process_);
    connect_idle();
    client_.emplace(connect(address_));
    for (auto& place : places_) registered_.push_back(must(client_->register_memory(place)));
  }
  double null_rate(double seconds) {
    return rate(seconds, 1, [this](std::size_t i) { start(0, 0, i); });
  }
  double read_rate(double seconds) {
    return rate(seconds, places_.size(), [this](std::size_t i) { start(kRead, 64U << 10U, i); });
  }
  int idle() const noexcept { return idle_; }

  void report() {
    if (idle_ == 0) return;
    const long first = kib_ / idle_;
    const std::string rates = rates_;
    close_idle();
    const long closed = kib_ / 1024;
    connect_idle();
    const long again = kib_ / idle_;
    close_idle();
    fmt::print("{:>6} {:>24} {:>14} {:>14} {:>12} {:>14}\n", idle_, rates, first, closed, again,
               kib_ / 1024);
  }

 private:
  void connect_idle() {
    if (idle_ == 0) return;
    double all = 0, first = 0, last = 0;  // seconds; connections in a second
    for (int left = idle_; left > 0; left -= kOfAProcess) {
      const auto [process, words] =
          begin_process([idle = std::min(left, kOfAProcess), where = address_](auto tell) {
            be_idle(idle, where, tell);
          });
      clients_.push_back(process);
      double seconds = 0, first_of_these = 0;
      std::istringstream(words) >> seconds >> first_of_these >> last;
      if (all == 0) first = first_of_these;
      all += seconds;
    }
    rates_ = fmt::format("{:.0f} {:.0f} {:.0f}", idle_ / all, first, last);
    kib_ = resident_kib(process_) - kib_at_first_;
  }
  // Until the server's memory rests.
  void close_idle() {
    for (const pid_t process : clients_) {
      ::kill(process, SIGKILL);
      ::waitpid(process, nullptr, 0);
    }
    clients_.clear();
    long before = 0;
    for (int rests = 0; rests < 5; ++rests) {
      ::poll(nullptr, 0, 300);
      kib_ = resident_kib(process_) - kib_at_first_;
      if (std::exchange(before, kib_) != kib_) rests = 0;
    }
  }
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

  const int idle_;
  pid_t process_ = 0;           // of the server
  std::vector<pid_t> clients_;  // of the idle connections
  std::string address_, rates_;
  long kib_at_first_ = 0, kib_ = 0;  // of the server, resident; and above that
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
  std::vector<int> idle{0, 100, 1000};
  if (count > 3) idle.resize(1);
  for (int i = 3; i < count; ++i) {
    idle.push_back(static_cast<int>(std::strtol(words[i], nullptr, 10)));
  }
  if (rounds < 1 || seconds <= 0 || std::ranges::min(idle) < 0) {
    fail("usage: idle_connections [ROUNDS [SECONDS [IDLE...]]]");
  }
  const auto files_wanted = static_cast<rlim_t>(
      std::max(std::ranges::max(idle), 4 * std::min(std::ranges::max(idle), kOfAProcess)) + 100);
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_max < files_wanted) {
    fail(fmt::format("{} descriptors are needed, and RLIMIT_NOFILE is {} at the most", files_wanted,
                     files.rlim_max));
  }
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(0, &one);
  ::sched_setaffinity(0, sizeof one, &one);
  std::vector<std::unique_ptr<Subject>> subjects;
  for (const int each : idle) subjects.push_back(std::make_unique<Subject>(each));
  std::vector<std::array<std::vector<double>, 2>> rates(idle.size()), ratios(idle.size());
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
  fmt::print("{:>6} {:>18} {:>20}\n", "idle", "NULL d1", "64 KiB read d8");
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    fmt::print("{:>6} {:>10.0f} ({:.3f}) {:>12.0f} ({:.3f})\n", subjects[i]->idle(),
               median(rates[i][0]), median(ratios[i][0]), median(rates[i][1]),
               median(ratios[i][1]));
  }
  fmt::print(
      "\nconnections made in a second: all, the first and the last thousand; resident memory\n"
      "of the server above its start: KiB for each, MiB when they are closed; the same again\n");
  for (const auto& subject : subjects) subject->report();
}
