// The counters of a connection by their names, so that a test can say which have counted, and how
// far.
#ifndef RPCRDMA_ENGINE_COUNTERS_FOR_TEST_H_
#define RPCRDMA_ENGINE_COUNTERS_FOR_TEST_H_

#include <array>
#include <cstdint>
#include <map>
#include <string_view>

#include "engine/endpoint_for_test.h"

namespace rpcrdma::engine {

struct NamedCounter {
  std::string_view name;
  std::uint64_t Counters::*value;
};
inline constexpr auto kCounters = std::to_array<NamedCounter>({
    {"calls_started", &Counters::calls_started},
    {"calls_ended", &Counters::calls_ended},
    {"short_calls", &Counters::short_calls},
    {"short_replies", &Counters::short_replies},
    {"read_chunk_count", &Counters::read_chunk_count},
    {"write_chunk_count", &Counters::write_chunk_count},
    {"reply_chunk_count", &Counters::reply_chunk_count},
    {"nomsg_calls", &Counters::nomsg_calls},
    {"nomsg_replies", &Counters::nomsg_replies},
    {"read_chunk_bytes", &Counters::read_chunk_bytes},
    {"write_chunk_bytes", &Counters::write_chunk_bytes},
    {"messages_received", &Counters::messages_received},
    {"bad_reply_count", &Counters::bad_reply_count},
    {"unknown_xid_count", &Counters::unknown_xid_count},
    {"short_message_count", &Counters::short_message_count},
    {"stray_error_count", &Counters::stray_error_count},
    {"credit_overruns", &Counters::credit_overruns},
    {"credits_exhausted", &Counters::credits_exhausted},
    {"credit_waits", &Counters::credit_waits},
    {"credit_wait_ns", &Counters::credit_wait_ns},
    {"err_vers_sent", &Counters::err_vers_sent},
    {"err_chunk_sent", &Counters::err_chunk_sent},
    {"err_received", &Counters::err_received},
    {"options_received", &Counters::options_received},
    {"err_option_sent", &Counters::err_option_sent},
    {"invalidated_remotely", &Counters::invalidated_remotely},
    {"revoked_locally", &Counters::revoked_locally},
    {"timed_out", &Counters::timed_out},
    {"padded_calls", &Counters::padded_calls},
    {"read_replies", &Counters::read_replies},
    {"dones_sent", &Counters::dones_sent},
    {"dones_received", &Counters::dones_received},
});
static_assert(kCounters.size() * sizeof(std::uint64_t) == sizeof(Counters));

// Has the counters that are not 0, by their names.
using Counts = std::map<std::string_view, std::uint64_t>;
inline Counts counts(const Endpoint& side) {
  Counts found;
  for (const NamedCounter& each : kCounters) {
    if (const auto value = side.engine.counters().*each.value; value != 0) found[each.name] = value;
  }
  return found;
}

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_COUNTERS_FOR_TEST_H_
