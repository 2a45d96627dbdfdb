// The `rpcrdma-sim` command: runs seeds and says what came of them.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/simulation.h"
#include "tools/json.h"
#include "tools/options.h"

extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

namespace rpcrdma::simulation {
namespace {

constexpr int kSuccess = 0, kBroken = 1, kUsage = 2;

struct Arguments {
  std::string seeds = "1..500";
  std::string faults = "on";
  std::string sabotage = "none";
  Settings settings;
  bool keep_going = false;
  bool json = false;
  bool check_determinism = false;
  std::string behaviour;         // a file to compare with
  bool print_behaviour = false;  // as lines of such a file
};

struct Range {
  std::uint64_t first, last;
};

std::optional<Range> parse_range(const std::string& text) {
  const std::size_t dots = text.find("..");
  const auto number = [](const std::string& digits) -> std::optional<std::uint64_t> {
    if (digits.empty() || digits.size() > 18) return std::nullopt;
    if (digits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
    return std::stoull(digits);
  };
  const auto first = number(text.substr(0, dots));
  const auto last = dots == std::string::npos ? first : number(text.substr(dots + 2));
  if (!first || !last || *last < *first) return std::nullopt;
  return Range{*first, *last};
}

std::string replay_of(std::uint64_t seed, const Arguments& arguments) {
  const std::uint32_t factor = arguments.settings.calls_factor;
  const std::uint64_t steps_max = arguments.settings.steps_max;
  return fmt::format(
      "build/bin/rpcrdma-sim --seeds {}..{}{}{}{}{} --verbose", seed, seed,
      steps_max == Settings().steps_max ? "" : fmt::format(" --steps-max {}", steps_max),
      factor == 1 ? "" : fmt::format(" --calls-factor {}", factor),
      arguments.settings.faults ? "" : " --faults off",
      arguments.sabotage == "none" ? "" : " --sabotage " + arguments.sabotage);
}

// Repeats the seed that runs now.
std::string current_replay;  // NOLINT: last_words() has no arguments

// An assertion or a sanitizer ends the program: at least say where.
void last_words() {
  const Place& place = current_place();
  char text[512];
  const int size = std::snprintf(
      text, sizeof(text),
      "\nrpcrdma-sim: the program died in seed %llu, step %llu, at %lld ns of virtual time\n"
      "  replay: %s\n",
      static_cast<unsigned long long>(place.seed), static_cast<unsigned long long>(place.step),
      static_cast<long long>(place.time_ns), current_replay.c_str());
  if (size > 0 && ::write(STDERR_FILENO, text, static_cast<std::size_t>(size)) < 0) return;
}

extern "C" void handle_abort(int) {
  last_words();
}

void report_broken(std::uint64_t seed, const Outcome& outcome, const Arguments& arguments) {
  const Broken& broken = *outcome.broken;
  fmt::print(stderr, "seed {}, step {}, {} ns of virtual time: {}: {}\n  replay: {}\n", seed,
             outcome.step, outcome.time.time_since_epoch().count(),
             broken.invariant == 0 ? std::string("failed")
                                   : fmt::format("I{} is broken", broken.invariant),
             broken.text, replay_of(seed, arguments));
}

// Why a seed that holds all the same is not as it was recorded.
std::optional<Broken> compare(std::uint64_t seed, const Behaviour& now,
                              const RecordedBehaviour& recorded) {
  const auto then = recorded.of(seed);
  if (!then) return Broken{0, "its behaviour is not recorded"};
  if (*then == now) return std::nullopt;
  return Broken{0, now.messages != then->messages ? "its connections do not carry what they did"
                                                  : "its calls do not end as they did"};
}

// Precondition: there is a value.
std::uint64_t median(std::vector<std::uint64_t>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

void print_totals(const Totals& totals, std::uint64_t median_calls, std::uint64_t failed,
                  double seconds, bool as_json) {
  if (as_json) {
    tools::Json json = tools::Json::ordered_object();
    for (std::size_t i = 0; i < kCountNames.size(); ++i) {
      json.set(kCountNames[i], totals.of(static_cast<Count>(i)));
    }
    json.set("median_calls", median_calls);
    json.set("failed_seeds", failed);
    json.set("seconds", seconds);
    fmt::print("{}\n", json.text());
    return;
  }
  std::string text;
  for (std::size_t i = 0; i < kCountNames.size(); ++i) {
    if (i > 0) text += ", ";
    text += fmt::format("{} {}", kCountNames[i], totals.of(static_cast<Count>(i)));
  }
  fmt::print("{}, calls of the median seed {}, failed seeds {}, {:.1f} s\n", text, median_calls,
             failed, seconds);
}

int run(const Arguments& arguments) {
  const auto range = parse_range(arguments.seeds);
  if (!range) {
    fmt::print(stderr, "rpcrdma-sim: --seeds takes A..B or one number, not '{}'\n",
               arguments.seeds);
    return kUsage;
  }
  std::optional<RecordedBehaviour> recorded;
  if (!arguments.behaviour.empty()) {
    recorded = RecordedBehaviour::read(arguments.behaviour);
    if (!recorded) {
      fmt::print(stderr, "rpcrdma-sim: {} does not hold the behaviour of seeds\n",
                 arguments.behaviour);
      return kUsage;
    }
  }
  const auto start = std::chrono::steady_clock::now();
  const bool shows_progress = isatty(STDERR_FILENO) != 0 && !arguments.settings.verbose;
  Totals totals;
  std::vector<std::uint64_t> calls;  // of each seed
  std::uint64_t failed = 0;
  for (std::uint64_t seed = range->first; seed <= range->last; ++seed) {
    current_replay = replay_of(seed, arguments);
    Outcome outcome = simulate(seed, arguments.settings);
    if (!outcome.broken && arguments.check_determinism) {
      const Outcome again = simulate(seed, arguments.settings);
      if (again.digest != outcome.digest || !(again.totals == outcome.totals)) {
        outcome.broken = Broken{0, "the same seed did not do the same again"};
      }
    }
    if (!outcome.broken && recorded) outcome.broken = compare(seed, outcome.behaviour, *recorded);
    if (arguments.print_behaviour) fmt::print("{}\n", line_of(seed, outcome.behaviour));
    totals.add(outcome.totals);
    calls.push_back(outcome.totals.of(Count::kCalls));
    if (shows_progress && seed % 50 == 0) fmt::print(stderr, "\rseed {}", seed);
    if (!outcome.broken) continue;
    ++failed;
    if (shows_progress) fmt::print(stderr, "\r");
    report_broken(seed, outcome, arguments);
    if (!arguments.keep_going) break;
  }
  if (shows_progress) fmt::print(stderr, "\r                    \r");
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  if (!arguments.print_behaviour) {
    print_totals(totals, median(calls), failed, passed.count(), arguments.json);
  }
  return failed == 0 ? kSuccess : kBroken;
}

}  // namespace
}  // namespace rpcrdma::simulation

int main(int argc, char** argv) {
  using rpcrdma::simulation::Sabotage;
  rpcrdma::simulation::Arguments arguments;
  rpcrdma::tools::Command command(
      "rpcrdma-sim",
      "Runs clients and servers in simulated worlds and checks docs/invariants.md after each "
      "step. The seed decides workload, options and faults; the same seed does the same again.");
  command.add({
      {"--seeds", &arguments.seeds, "seeds to run: A..B, or one number"},
      {"--verbose", &arguments.settings.verbose, "print what happens, with virtual time"},
      {"--steps-max", &arguments.settings.steps_max,
       "a seed that takes more steps has failed: it did not end"},
      {"--calls-factor", &arguments.settings.calls_factor,
       "make so many times the calls that a seed draws, with as many clients as that takes"},
      {"--faults",
       &arguments.faults,
       "let seeds draw faults: refused and broken connections, failing registrations",
       {.choices = "on|off"}},
      {"--keep-going", &arguments.keep_going, "do not stop at the first seed that fails"},
      {"--check-determinism", &arguments.check_determinism,
       "run each seed twice and compare what happened"},
      {"--behaviour",
       &arguments.behaviour,
       "compare the messages of each connection and the end of each call with those recorded in "
       "this file",
       {.type = "FILE"}},
      {"--print-behaviour", &arguments.print_behaviour,
       "print a line for such a file for each seed, and no totals"},
      {"--json", &arguments.json, "print the totals as JSON"},
      {"--sabotage",
       &arguments.sabotage,
       "make a mistake deliberately, to see it found: wrong-result, guard, late-write, two-ends, "
       "lost-wake, memory, forgetful, unfair",
       {.choices =
            "forgetful|guard|late-write|lost-wake|memory|none|two-ends|unfair|wrong-result"}},
  });
  command.set_footer("Exit status: 0 all seeds hold, 1 an invariant is broken, 2 wrong usage.");
  if (const auto status = command.parse(argc, argv)) return *status;
  const std::map<std::string, Sabotage> mistakes{
      {"none", Sabotage::kNone},        {"wrong-result", Sabotage::kWrongResult},
      {"guard", Sabotage::kGuard},      {"late-write", Sabotage::kLateWrite},
      {"two-ends", Sabotage::kTwoEnds}, {"lost-wake", Sabotage::kLostWake},
      {"memory", Sabotage::kMemory},    {"forgetful", Sabotage::kForgetful},
      {"unfair", Sabotage::kUnfair}};
  arguments.settings.faults = arguments.faults == "on";
  arguments.settings.sabotage = mistakes.at(arguments.sabotage);
  std::signal(SIGABRT, rpcrdma::simulation::handle_abort);
  if (__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(rpcrdma::simulation::last_words);
  }
  return rpcrdma::simulation::run(arguments);
}
