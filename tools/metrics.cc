#include "tools/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <string_view>

#include "rpcrdma/version.h"

namespace rpcrdma::tools {
namespace {

// A counter of all connections, with the name that Linux has for it (mountstats of its client,
// /proc/sys/sunrpc/svc_rdma of its server) where it has one.
struct Named {
  std::uint64_t TransferCounters::*value;
  std::string_view name;
  std::string_view help;
};

constexpr std::array kCounters = {
    Named{&TransferCounters::messages_received, "rdma_stat_recv", "RDMA Receives that were used"},
    Named{&TransferCounters::rdma_reads, "rdma_stat_read", "RDMA Reads that were posted"},
    Named{&TransferCounters::rdma_writes, "rdma_stat_write", "RDMA Writes that were posted"},
    Named{&TransferCounters::credits_exhausted, "rdma_stat_rq_starve",
          "Calls that took the last credit of their client"},
    Named{&TransferCounters::short_calls, "short_call_count", "Calls without chunks"},
    Named{&TransferCounters::read_chunks, "read_chunk_count", "Bulk arguments in Read chunks"},
    Named{&TransferCounters::write_chunks, "write_chunk_count", "Bulk results in Write chunks"},
    Named{&TransferCounters::reply_chunks, "reply_chunk_count", "Replies in a Reply chunk"},
    Named{&TransferCounters::long_calls, "nomsg_call_count", "Long Calls"},
    Named{&TransferCounters::long_replies, "nomsg_reply_count", "Long Replies"},
    Named{&TransferCounters::read_chunk_bytes, "total_rdma_request_bytes",
          "Bytes of Read chunks, from clients"},
    Named{&TransferCounters::write_chunk_bytes, "total_rdma_reply_bytes",
          "Bytes of Write chunks, to clients"},
    Named{&TransferCounters::handles_revoked, "local_inv_needed",
          "Steering tags that this side invalidated"},
    Named{&TransferCounters::handles_invalidated_remotely, "remote_invalidations",
          "Steering tags that a peer invalidated"},
    Named{&TransferCounters::cached_replies, "cached_replies",
          "Repeated calls that were answered from the reply cache"},
    Named{&TransferCounters::errors_sent, "rdma_errors_sent", "RDMA_ERROR to clients"},
    Named{&TransferCounters::errors_received, "rdma_errors_received", "RDMA_ERROR of clients"},
    Named{&TransferCounters::versions_refused, "versions_refused",
          "ERR_VERS to clients, for versions of RPC-over-RDMA that are not served"},
    Named{&TransferCounters::messages_dropped, "messages_dropped",
          "Messages that are no Calls, or malformed"},
    Named{&TransferCounters::credit_overruns, "credit_overruns",
          "Connections that ended since their client made more Calls than granted"},
    Named{&TransferCounters::registrations, "registrations", "Memory registrations"},
    Named{&TransferCounters::wire_bytes_sent, "wire_sent_bytes",
          "Bytes on the wire with their framing; 0 on RDMA devices"},
    Named{&TransferCounters::wire_bytes_received, "wire_received_bytes",
          "Bytes on the wire with their framing; 0 on RDMA devices"},
    Named{&TransferCounters::payload_bytes, "payload_bytes",
          "Bytes of Sends, RDMA Writes and Read Responses, both ways"},
};

// Counters of clients alone.
constexpr std::array kClientCounters = {
    Named{&TransferCounters::credit_waits, "credit_waits", "Calls that waited for a credit"},
    Named{&TransferCounters::credit_wait_ns, "credit_wait_ns", "The time of all of them"},
};

// Escapes a label's value: a backslash, a quote and the end of a line.
std::string label_value(std::string_view value) {
  std::string text;
  for (const char each : value) {
    if (each == '\\' || each == '"') text += '\\';
    each == '\n' ? text += "\\n" : text += each;
  }
  return text;
}

double seconds(std::chrono::nanoseconds time) {
  return static_cast<double>(time.count()) / 1e9;
}

class Writer {
 public:
  // Begins a family of figures; `type`: "counter", "gauge" or "histogram".
  void begin(std::string_view name, std::string_view type, std::string_view help) {
    name_ = fmt::format("rpcrdma_{}", name);
    fmt::format_to(std::back_inserter(text_), "# HELP {0} {2}\n# TYPE {0} {1}\n", name_, type,
                   help);
  }
  // `labels`: `a="b",c="d"`, or empty.
  template <class T>
  void add(const std::string& labels, T value, std::string_view suffix = "") {
    fmt::format_to(std::back_inserter(text_), "{}{}{}{}{} {}\n", name_, suffix,
                   labels.empty() ? "" : "{", labels, labels.empty() ? "" : "}", value);
  }
  // Every second bound is enough for a graph, and halves the series.
  void add(const std::string& labels, const TimeHistogram& times) {
    const std::string before = labels.empty() ? "" : labels + ",";
    std::uint64_t below = 0;
    for (std::size_t i = 0; i + 1 < TimeHistogram::kBuckets; ++i) {
      below += times.counts[i];
      if (i % 2 == 1) continue;
      add(fmt::format("{}le=\"{}\"", before, seconds(TimeHistogram::bound(i))), below, "_bucket");
    }
    const std::uint64_t count = times.count();
    add(before + "le=\"+Inf\"", count, "_bucket");
    add(labels, static_cast<double>(times.sum_ns) / 1e9, "_sum");
    add(labels, count, "_count");
  }
  template <class T>
  void one(std::string_view name, std::string_view type, std::string_view help, T value) {
    begin(name, type, help);
    add("", value);
  }
  std::string take() && { return std::move(text_); }

 private:
  std::string name_, text_;
};

// Returns the name without the prefix that programs give theirs: READ of NFSPROC3_READ.
std::string_view short_name(std::string_view name) {
  const std::size_t proc = name.find("PROC");
  const std::size_t end = proc == std::string_view::npos ? proc : name.find('_', proc);
  return end == std::string_view::npos ? name : name.substr(end + 1);
}

// A number, or "other" where many numbers are counted together.
std::string number(std::uint32_t value) {
  return value == ProcedureStatistics::kOthers ? "other" : std::to_string(value);
}

std::string labels_of(const ProcedureStatistics& each) {
  return fmt::format("program=\"{}\",version=\"{}\",procedure=\"{}\"", number(each.program),
                     number(each.version),
                     each.name.empty() ? number(each.number) : label_value(short_name(each.name)));
}

void add_connections(Writer& writer, const ServerStatistics& all) {
  writer.begin("connections", "gauge", "Connections at present");
  writer.add("transport=\"rdma\"", all.rdma_connections);
  writer.add("transport=\"tcp\"", all.tcp_connections);
  writer.one("connections_opened_total", "counter", "Connections that were accepted",
             all.connections_opened);
  writer.one("connections_refused_total", "counter", "Connections that were refused",
             all.connections_refused);
  writer.one("connections_lost_total", "counter", "Connections that ended with an error",
             all.connections_lost);
}

void add_calls(Writer& writer, const ServerStatistics& all) {
  writer.begin("calls_total", "counter", "Calls that were answered");
  for (const auto& each : all.procedures) writer.add(labels_of(each), each.calls);
  writer.begin("call_errors_total", "counter",
               "Calls that were answered without SUCCESS (accept_stat of RFC 5531)");
  for (const auto& each : all.procedures) writer.add(labels_of(each), each.errors);
  writer.begin("call_duration_seconds", "histogram",
               "From the arrival of a Call's message to its answer");
  for (const auto& each : all.procedures) writer.add(labels_of(each), each.times);
  writer.begin("calls_refused_total", "counter", "Calls that no service was asked to execute");
  const RefusalCounters& refused = all.refused;
  for (const auto& [reason, count] :
       {std::pair{"denied", refused.denied}, std::pair{"no_program", refused.no_program},
        std::pair{"wrong_version", refused.wrong_version},
        std::pair{"no_procedure", refused.no_procedure}, std::pair{"other", refused.other}}) {
    writer.add(fmt::format("reason=\"{}\"", reason), count);
  }
  writer.one("calls_in_service", "gauge", "Calls that are not answered yet", all.calls_in_service);
  writer.one("calls_waiting_for_memory", "gauge", "Calls that wait for memory for their data",
             all.calls_waiting_for_memory);
  writer.begin("memory_wait_seconds", "histogram",
               "How long Calls waited that found no memory for their data");
  writer.add("", all.memory_waits);
  writer.begin("read_chunk_seconds", "histogram",
               "From the arrival of a Call until its Read chunks had come, without such a wait");
  writer.add("", all.read_times);
  writer.begin("service_seconds", "histogram",
               "From the call of the service to its answer: of files, the time of their storage");
  writer.add("", all.service_times);
}

void add_memory(Writer& writer, const ServerStatistics& all, const ProcessFigures& process) {
  writer.one("memory_in_use_bytes", "gauge", "Buffers of data and messages that calls hold",
             all.memory_in_use);
  writer.one("memory_limit_bytes", "gauge", "The most of these that there may be", all.memory_max);
  writer.one("memory_registered_bytes", "gauge", "Memory that connections have registered",
             all.memory_registered);
  writer.one("memory_pinned_bytes", "gauge", "Memory of this process that is pinned or locked",
             process.memory_pinned);
  writer.one("receives_posted", "gauge", "Posted Receives", all.receives_posted);
  writer.one("reply_cache_entries", "gauge", "Replies that are remembered", all.replies_remembered);
  writer.one("reply_cache_bytes", "gauge", "Bytes of the replies that are remembered",
             all.reply_bytes_remembered);
  writer.one("security_contexts", "gauge", "Contexts of RPCSEC_GSS", all.security_contexts);
}

// `value` returns the figure of a connection.
template <class Of>
void add_each(Writer& writer, const ServerStatistics& all, std::string_view name, Of&& value) {
  writer.begin(fmt::format("connection_{}", name), "untyped", "Of one connection");
  for (std::size_t i = 0; i < all.connections.size(); ++i) {
    const ConnectionStatistics& each = all.connections[i];
    writer.add(fmt::format("peer=\"{}\",transport=\"{}\"", label_value(each.peer),
                           each.is_rdma ? "rdma" : "tcp"),
               value(each));
  }
}

void add_each_connection(Writer& writer, const ServerStatistics& all) {
  using Of = const ConnectionStatistics&;
  add_each(writer, all, "version", [](Of of) { return of.protocol_version; });
  add_each(writer, all, "credits", [](Of of) { return of.credits; });
  add_each(writer, all, "calls_in_service", [](Of of) { return of.calls_in_service; });
  add_each(writer, all, "calls", [](Of of) { return of.counters.calls; });
  add_each(writer, all, "payload_bytes", [](Of of) {
    return of.is_rdma ? of.counters.payload_bytes
                      : of.counters.wire_bytes_sent + of.counters.wire_bytes_received;
  });
  add_each(writer, all, "read_chunk_count", [](Of of) { return of.counters.read_chunks; });
  add_each(writer, all, "write_chunk_count", [](Of of) { return of.counters.write_chunks; });
  add_each(writer, all, "reply_chunk_count", [](Of of) { return of.counters.reply_chunks; });
  add_each(writer, all, "rq_starve", [](Of of) { return of.counters.credits_exhausted; });
  add_each(writer, all, "seconds", [](Of of) { return of.times; });
}

}  // namespace

ProcessFigures ProcessFigures::read() {
  ProcessFigures found;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("VmPin:") && !line.starts_with("VmLck:")) continue;
    constexpr std::size_t kNameSize = 6;
    found.memory_pinned += std::strtoull(line.c_str() + kNameSize, nullptr, 10) << 10U;  // kB
  }
  return found;
}

std::vector<std::string> counter_lines(const TransferCounters& counters) {
  std::vector<std::string> lines = {fmt::format("{:<28} {}", "calls", counters.calls)};
  const auto add = [&](const Named& each) {
    lines.push_back(fmt::format("{:<28} {}", each.name, counters.*each.value));
  };
  std::ranges::for_each(kCounters, add);
  std::ranges::for_each(kClientCounters, add);
  return lines;
}

std::string metrics_text(const ServerStatistics& statistics, const ProcessFigures& process,
                         const std::vector<nfs::StatusCount>& errors) {
  Writer writer;
  writer.begin("build_info", "gauge", "1; the labels say the version and the provider");
  writer.add(fmt::format("version=\"{}\",provider=\"{}\"", label_value(kLibraryVersion),
                         label_value(process.provider)),
             1);
  writer.one("uptime_seconds", "gauge", "Time since the server began", process.uptime_s);
  add_connections(writer, statistics);
  add_calls(writer, statistics);
  writer.begin("nfs_errors_total", "counter",
               "NFS calls that were answered with a status but NFS3_OK (RFC 1813); NOENT of LOOKUP "
               "is usual");
  for (const nfs::StatusCount& each : errors) {
    writer.add(fmt::format("procedure=\"{}\",status=\"{}\"", each.procedure, each.status),
               each.calls);
  }
  add_memory(writer, statistics, process);
  for (const Named& each : kCounters) {
    writer.one(fmt::format("{}_total", each.name), "counter", each.help,
               statistics.counters.*each.value);
  }
  if (!statistics.connections.empty()) add_each_connection(writer, statistics);
  return std::move(writer).take();
}

}  // namespace rpcrdma::tools
