// The settings of this process, from variables of the environment: docs/existing-programs.md lists
// them. `rpcrdma run` sets them from its options.
#ifndef RPCRDMA_ADAPTERS_TIRPC_SETTINGS_H_
#define RPCRDMA_ADAPTERS_TIRPC_SETTINGS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "rpcrdma/options.h"

namespace rpcrdma::tirpc {

// The programs that are moved to RDMA.
enum class Mode : std::uint8_t {
  kNamed,       // those alone that name the netid "rdma" or "rdma6"
  kPreferRdma,  // "tcp" and "udp" too, where the server is found over RDMA; served over both
  kRdmaOnly,    // "tcp" and "udp" too, or not at all
};

struct Settings {
  Mode mode = Mode::kNamed;
  std::string listen = "rdma://0.0.0.0:0";
  ProviderOptions provider;
  // The longest Reply and the longest Call, bytes: each has room for 1 MiB of data.
  std::uint32_t reply_max = (1U << 20U) + (64U << 10U);
  std::uint32_t call_max = (1U << 20U) + (64U << 10U);
  std::size_t memory_max = 512U << 20U;
  std::size_t connections_max = 4096;
  std::string rpcbind;  // where this machine's daemon is; empty: its usual places
};

// Read once, when first needed. A variable that cannot be meant is reported, and its default holds.
const Settings& settings();

// Writes a line "rpcrdma: TEXT" to stderr.
void report(std::string_view text) noexcept;

// Events that peers or programs may cause again and again.
enum class Topic : std::uint8_t {
  kOneWayCall,
  kReplyTooLong,
  kArgumentsRefused,
  kNoDescriptor,
  kLowDescriptor,
  kRefusal,
  kFork,
  kOtherLibrary,
  kFailure,
};
// Returns whether there may be a further line on a topic. Nobody fills a log: of each topic there
// are some lines, and then one a minute. Callable from any thread.
bool may_report(Topic topic) noexcept;
// Reports that an operation has ended early.
void report_failure(const char* why) noexcept;

}  // namespace rpcrdma::tirpc

#endif  // RPCRDMA_ADAPTERS_TIRPC_SETTINGS_H_
