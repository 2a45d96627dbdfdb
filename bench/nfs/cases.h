// The arguments and the output of both clients of the NFS bench.
#ifndef RPCRDMA_BENCH_NFS_CASES_H_
#define RPCRDMA_BENCH_NFS_CASES_H_

#include <sys/resource.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace nfs_bench {

inline constexpr std::uint64_t kFileSize = 64U << 20U;  // bytes; it stays in the server's cache
inline constexpr std::uint32_t kBlock = 1U << 20U;      // bytes of a READ and a WRITE
inline constexpr const char* kName = "bench";           // of the file, in the export's directory

enum class Case { kRead, kWrite, kGetattr, kLookup };

struct Options {
  Case which = Case::kRead;
  unsigned depth = 1;  // calls under way
  double seconds = 1;
};

// "read", 8, 1.5; ends the program if they are wrong.
inline Options parse(const char* name, const char* depth, const char* seconds) {
  Options options;
  const std::string text = name;
  options.which = text == "read"      ? Case::kRead
                  : text == "write"   ? Case::kWrite
                  : text == "getattr" ? Case::kGetattr
                                      : Case::kLookup;
  if (options.which == Case::kLookup && text != "lookup") {
    (void)std::fprintf(stderr, "there is no case %s\n", name);
    std::exit(2);
  }
  options.depth = static_cast<unsigned>(std::atoi(depth));
  options.seconds = std::atof(seconds);
  if (options.depth == 0 || options.seconds <= 0) {
    (void)std::fputs("the depth and the time have to be positive\n", stderr);
    std::exit(2);
  }
  return options;
}

// One line of JSON: calls per second, and this process's CPU time for each.
class Meter {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Meter(double seconds)
      : begin_(Clock::now()),
        end_(begin_ +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))),
        cpu_(cpu_seconds()) {}
  bool is_over() const { return Clock::now() >= end_; }
  void count() { ++calls_; }
  void print() const {
    const double took = std::chrono::duration<double>(Clock::now() - begin_).count();
    const auto calls = static_cast<double>(calls_);
    (void)std::printf("{\"calls\": %llu, \"per_s\": %.1f, \"client_us\": %.3f}\n",
                      static_cast<unsigned long long>(calls_), calls / took,
                      (cpu_seconds() - cpu_) * 1e6 / calls);
  }

 private:
  static double cpu_seconds() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto of = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    return of(usage.ru_utime) + of(usage.ru_stime);
  }

  const Clock::time_point begin_, end_;
  const double cpu_;
  std::uint64_t calls_ = 0;
};

}  // namespace nfs_bench

#endif  // RPCRDMA_BENCH_NFS_CASES_H_
