// The figures of a running server, for monitoring: Server::statistics().
#ifndef RPCRDMA_STATISTICS_H_
#define RPCRDMA_STATISTICS_H_

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "rpcrdma/counters.h"
#include "rpcrdma/export.h"
#include "rpcrdma/oncrpc.h"
#include "rpcrdma/types.h"

namespace rpcrdma {

// Counts how long something took. The bounds of its buckets are powers of two, so that a time finds
// its bucket in three instructions.
struct TimeHistogram {
  static constexpr std::size_t kBuckets = 26;
  // Bucket i counts the times below this that no lower bucket counts: 1.024 µs, twice that, …, 17
  // s. The last bucket, kBuckets - 1, counts all longer ones and has no bound.
  static constexpr std::chrono::nanoseconds bound(std::size_t bucket) noexcept {
    return std::chrono::nanoseconds(std::int64_t{1} << (kShift + bucket));
  }

  std::array<std::uint64_t, kBuckets> counts{};
  std::uint64_t sum_ns = 0;  // of all times

  // Returns the bucket of a time in ns.
  static std::size_t bucket_of(std::uint64_t ns) noexcept {
    return std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(ns >> kShift)),
                                 kBuckets - 1);
  }
  // Counts a time of which the bucket is known, for owners of several histograms.
  void note(std::uint64_t ns, std::size_t bucket) noexcept {
    ++counts[bucket];
    sum_ns += ns;
  }
  // A time below zero counts as zero.
  void note(std::chrono::nanoseconds time) noexcept {
    const auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0));
    note(ns, bucket_of(ns));
  }
  void add(const TimeHistogram& other) noexcept {
    for (std::size_t i = 0; i < kBuckets; ++i) counts[i] += other.counts[i];
    sum_ns += other.sum_ns;
  }
  std::uint64_t count() const noexcept {
    return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  }
  // Returns a time that this share of all times, 0 … 1, do not exceed: exact to its bucket, within
  // which times are taken to be spread evenly. Without times, 0; in the last bucket, its lower
  // bound.
  std::chrono::nanoseconds quantile(double share) const noexcept {
    const double wanted = share * static_cast<double>(count());
    double before = 0;
    for (std::size_t i = 0; i < kBuckets; ++i) {
      const auto here = static_cast<double>(counts[i]);
      if (here == 0 || before + here < wanted) {
        before += here;
        continue;
      }
      const auto low = static_cast<double>(i == 0 ? 0 : bound(i - 1).count());
      const auto high = i == kBuckets - 1 ? low : static_cast<double>(bound(i).count());
      const double part = std::max(0.0, wanted - before) / here;
      return std::chrono::nanoseconds(static_cast<std::int64_t>(low + (high - low) * part));
    }
    return std::chrono::nanoseconds(0);
  }

 private:
  static constexpr std::size_t kShift = 10;  // the first bound is 2 to this, ns
};

// One procedure that a server has answered. A MessageService may be called by any numbers, which a
// peer chooses: from the 64th program on, and for procedures from 64 on, they are counted under
// kOthers.
struct ProcedureStatistics {
  static constexpr std::uint32_t kOthers = 0xffffffff;

  std::uint32_t program = 0, version = 0;
  std::uint32_t number = 0;
  std::string name;          // as in its .x file; empty if the service does not say
  std::uint64_t calls = 0;   // that were accepted and answered
  std::uint64_t errors = 0;  // of these: without SUCCESS (RFC 5531 §9)
  TimeHistogram times;       // from the arrival of the Call's message to its answer
};

// Calls that no service was asked to execute, by the reason (RFC 5531 §9).
struct RefusalCounters {
  std::uint64_t denied = 0;         // the credential, or its protection
  std::uint64_t no_program = 0;     // PROG_UNAVAIL
  std::uint64_t wrong_version = 0;  // PROG_MISMATCH
  std::uint64_t no_procedure = 0;   // PROC_UNAVAIL
  std::uint64_t other = 0;          // RPC_MISMATCH, and whatever else is wrong with a header
};

// One connection of a server.
struct ConnectionStatistics {
  std::string peer;  // as in ConnectionEvent
  bool is_rdma = false;
  std::uint32_t protocol_version = 0;  // of RPC-over-RDMA; 0: not known yet, or not RDMA
  std::uint32_t credits = 0;           // granted now; TCP: calls that may be in service
  std::uint32_t calls_in_service = 0;
  TransferCounters counters;
  TimeHistogram times;  // as of a procedure
};

struct RPCRDMA_EXPORT ServerStatistics {
  // Times and procedures are counted with ServerOptions::measures_calls only.
  std::size_t rdma_connections = 0, tcp_connections = 0;
  std::uint64_t connections_opened = 0, connections_refused = 0;
  std::uint64_t connections_lost = 0;  // that ended with an error
  TransferCounters counters;           // of all connections that the server has had
  std::size_t memory_in_use = 0;       // bulk and message buffers lent to calls, bytes
  std::size_t memory_max = 0;          // ServerOptions::memory_max of all shards, bytes
  std::size_t memory_registered = 0;   // with the provider at present, for connections, bytes
  std::size_t receives_posted = 0;
  bool shares_receives = false;  // as Server::shares_receives()
  std::size_t calls_in_service = 0;
  std::size_t calls_waiting_for_memory = 0;
  std::size_t replies_remembered = 0;      // ServerOptions::reply_cache_entries
  std::size_t reply_bytes_remembered = 0;  // bytes
  std::size_t security_contexts = 0;       // of RPCSEC_GSS
  RefusalCounters refused;
  std::vector<ProcedureStatistics> procedures;  // sorted by program, version and number
  TimeHistogram memory_waits;  // of calls that found no memory for their Read chunks
  TimeHistogram read_times;    // from a Call's arrival until its Read chunks had come, without that
  TimeHistogram service_times;                    // from the call of the service to its answer
  std::vector<ConnectionStatistics> connections;  // if they were asked for

  // Adds the figures of another shard.
  void add(const ServerStatistics& other);
};

// A server's report about one call, see ServerOptions::on_call.
struct CallReport {
  std::string_view peer;
  std::uint32_t xid = 0;
  Procedure procedure{};
  std::string_view name;  // of the procedure; empty: not known
  AcceptStatus status = AcceptStatus::kSuccess;
  bool is_long = false;             // the Call came by a Read chunk as a whole
  std::size_t read_chunks = 0;      // bulk arguments that came by chunks
  std::size_t arguments_size = 0;   // bytes, with the header and all chunks
  std::size_t results_size = 0;     // bytes, with bulk results, without the header
  std::chrono::nanoseconds time{};  // from the arrival of its message to its answer
  std::chrono::nanoseconds memory_wait{}, service_time{};  // parts of that
};

}  // namespace rpcrdma

#endif  // RPCRDMA_STATISTICS_H_
