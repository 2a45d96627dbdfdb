#include "tools/systemd.h"

#include <fmt/core.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#include <cstdint>
#include <cstdlib>

namespace rpcrdma::tools::systemd {
namespace {

// Without NOTIFY_SOCKET sd_notify() does nothing; that nobody listens there is no trouble of ours.
void notify(const std::string& state) {
  (void)sd_notify(0, state.c_str());
}

}  // namespace

void report_ready(const std::string& status) {
  notify(fmt::format("READY=1\nSTATUS={}", status));
}

// The time lets the manager tell this reload from an earlier one.
void report_reloading() {
  timespec now{};
  (void)::clock_gettime(CLOCK_MONOTONIC, &now);
  notify(fmt::format("RELOADING=1\nMONOTONIC_USEC={}",
                     static_cast<std::int64_t>(now.tv_sec) * 1'000'000 + now.tv_nsec / 1000));
}

void report_stopping() {
  notify("STOPPING=1\nSTATUS=answering the calls that it has");
}

std::vector<Socket> take_sockets() {
  std::vector<Socket> sockets;
  char** names = nullptr;
  constexpr int kForgetEnvironment = 1;  // so that children do not take them for theirs
  const int count = sd_listen_fds_with_names(kForgetEnvironment, &names);
  for (int i = 0; i < count; ++i) {
    sockets.push_back({SD_LISTEN_FDS_START + i, names[i]});
    std::free(names[i]);
  }
  std::free(names);
  return sockets;
}

}  // namespace rpcrdma::tools::systemd
