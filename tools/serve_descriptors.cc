#include "tools/serve_descriptors.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <optional>

#include "tools/command.h"

namespace rpcrdma::tools {
namespace {

constexpr std::size_t kOfAFile = 3;

struct Plan {
  rlimit now{};
  rlim_t wanted = 0;  // without the files that stay open
  rlim_t files = 0;   // that may stay open
};

// The service has so many, whatever a shell has in which its settings are looked at: LimitNOFILE=
// of rpcrdma.service.
constexpr rlim_t kOfUnit = 524'288;

// Returns nullopt where the limit cannot be asked for. Each of the exports has workers of its own.
// `at_least`: descriptors that the process may have where the limit is lower.
std::optional<Plan> plan_of(const ServeOptions& options, std::size_t exports, rlim_t at_least) {
  // Listeners, and what waits for them; and siwarp's connections that are not or no more in use,
  // which nobody counts (half_open_max, and for each thread lingering_max, of
  // rdma/siwarp/provider.h).
  constexpr std::size_t kOthers = 128 + 256;
  constexpr std::size_t kOfAThread = 8 + 256, kOfAWorker = 4;
  Plan plan;
  rlimit& files = plan.now;
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return std::nullopt;
  files.rlim_max = std::max(files.rlim_max, at_least);
  const bool has_tcp = options.tcp_port || options.nfs.is_wanted();
  const rlim_t transports = has_tcp ? 2 : 1;
  if (options.connections_max > files.rlim_max / transports) {
    fail(kUsage,
         fmt::format("--connections {} needs as many descriptors{}, and this process may have {} "
                     "(RLIMIT_NOFILE): raise that (ulimit -Hn), or ask for fewer",
                     options.connections_max, has_tcp ? " for RDMA, and as many for TCP" : "",
                     files.rlim_max));
  }
  plan.wanted =
      transports * options.connections_max + kOthers + kOfAThread * std::size_t{options.threads};
  if (!options.nfs.is_wanted()) return plan;
  plan.wanted += kOfAWorker * options.nfs.workers * std::max<std::size_t>(exports, 1);
  const rlim_t left = files.rlim_max > plan.wanted ? (files.rlim_max - plan.wanted) / kOfAFile : 0;
  constexpr std::size_t kFilesMin = 16;
  if (left < kFilesMin) {
    fail(kUsage,
         fmt::format("this process may have {} descriptors (RLIMIT_NOFILE), which leaves none for "
                     "files: raise that (ulimit -Hn), or ask for fewer --connections ({} now)",
                     files.rlim_max, options.connections_max));
  }
  plan.files = std::min<rlim_t>(left, options.nfs.open_files_max);
  return plan;
}

}  // namespace

void check_descriptors(const ServeOptions& options, std::size_t exports) {
  (void)plan_of(options, exports, kOfUnit);
}

void make_room_for_descriptors(ServeOptions& options, std::size_t exports, StderrLog& log) {
  std::optional<Plan> plan = plan_of(options, exports, 0);
  if (!plan) return;
  rlimit& files = plan->now;
  if (options.nfs.is_wanted() && plan->files < options.nfs.open_files_max) {
    log.write(LogKind::kState,
              fmt::format("keeping {} files open, not {}: this process may have {} descriptors "
                          "(RLIMIT_NOFILE)",
                          plan->files, options.nfs.open_files_max, files.rlim_max));
    options.nfs.open_files_max = plan->files;
  }
  const rlim_t wanted = plan->wanted + kOfAFile * plan->files;
  if (files.rlim_cur >= wanted) return;
  files.rlim_cur = std::min(wanted, files.rlim_max);
  (void)::setrlimit(RLIMIT_NOFILE, &files);
}

}  // namespace rpcrdma::tools
