#include "settings.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <system_error>

namespace rpcrdma::tirpc {

namespace {

// Returns the variable's text; empty if it is not set.
std::string_view variable(const char* name) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::string_view(text) : std::string_view();
}

void refuse(const char* name, std::string_view expected) {
  report(fmt::format("{}={} is ignored; it has to be {}", name, variable(name), expected));
}

template <class Number>
void read_number(const char* name, Number min, Number max, Number& value) {
  const std::string_view text = variable(name);
  if (text.empty()) return;
  Number read = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), read);
  if (error == std::errc() && end == text.data() + text.size() && read >= min && read <= max) {
    value = read;
  } else {
    refuse(name, fmt::format("a number from {} to {}", min, max));
  }
}

Settings from_environment() {
  Settings made;
  if (const auto mode = variable("RPCRDMA_TIRPC_MODE"); mode == "prefer-rdma") {
    made.mode = Mode::kPreferRdma;
  } else if (mode == "rdma-only") {
    made.mode = Mode::kRdmaOnly;
  } else if (!mode.empty() && mode != "named") {
    refuse("RPCRDMA_TIRPC_MODE", "named, prefer-rdma or rdma-only");
  }
  if (const auto listen = variable("RPCRDMA_TIRPC_LISTEN"); !listen.empty()) {
    made.listen = listen.find("://") == std::string_view::npos ? fmt::format("rdma://{}", listen)
                                                               : std::string(listen);
  }
  if (const auto name = variable("RPCRDMA_TIRPC_PROVIDER");
      name == "siwarp" || name == "verbs" || name == "auto") {
    made.provider.name = name;
  } else if (!name.empty()) {
    refuse("RPCRDMA_TIRPC_PROVIDER", "auto, siwarp or verbs");
  }
  if (const auto crc = variable("RPCRDMA_TIRPC_CRC"); crc == "off") {
    made.provider.crc = false;
  } else if (!crc.empty() && crc != "on") {
    refuse("RPCRDMA_TIRPC_CRC", "on or off");
  }
  constexpr std::uint32_t kMessageMax = 16U << 20U;
  read_number("RPCRDMA_TIRPC_REPLY_MAX", 1024U, kMessageMax, made.reply_max);
  read_number("RPCRDMA_TIRPC_CALL_MAX", 1024U, kMessageMax, made.call_max);
  constexpr std::size_t kMemoryMax = std::numeric_limits<std::size_t>::max() / 2;
  read_number("RPCRDMA_TIRPC_MEMORY_MAX", std::size_t{1} << 20U, kMemoryMax, made.memory_max);
  read_number("RPCRDMA_TIRPC_CONNECTIONS_MAX", std::size_t{1}, std::size_t{1} << 20U,
              made.connections_max);
  made.rpcbind = variable("RPCRDMA_TIRPC_RPCBIND");
  return made;
}

}  // namespace

const Settings& settings() {
  // Never destroyed: programs make calls until they end, and from functions of atexit().
  static const Settings& made = *new Settings(from_environment());
  return made;
}

void report(std::string_view text) noexcept {
  std::fprintf(stderr, "rpcrdma: %.*s\n", static_cast<int>(text.size()), text.data());
}

bool may_report(Topic topic) noexcept {
  using Clock = std::chrono::steady_clock;
  constexpr std::int64_t kLines = 8;  // at once
  // The time until which the lines of a topic are used up, in minutes since the clock began.
  static std::array<std::atomic<std::int64_t>, static_cast<std::size_t>(Topic::kFailure) + 1> used;
  const std::int64_t now =
      std::chrono::duration_cast<std::chrono::minutes>(Clock::now().time_since_epoch()).count();
  std::atomic<std::int64_t>& until = used[static_cast<std::size_t>(topic)];
  std::int64_t before = until.load(std::memory_order_relaxed);
  std::int64_t after = 0;
  do {
    after = std::max(before, now) + 1;
    if (after > now + kLines) return false;
  } while (!until.compare_exchange_weak(before, after, std::memory_order_relaxed));
  return true;
}

void report_failure(const char* why) noexcept {
  if (!may_report(Topic::kFailure)) return;
  std::fprintf(stderr, "rpcrdma: a call or a function of libtirpc has failed in this process: %s\n",
               why);
}

}  // namespace rpcrdma::tirpc
