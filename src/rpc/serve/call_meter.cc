#include "rpc/serve/call_meter.h"

#include <algorithm>
#include <array>
#include <variant>

#include "rpc/counters.h"

namespace rpcrdma::rpc {
namespace {

// Peers choose the numbers that a MessageService is called by, and must not fill the memory.
constexpr std::size_t kProgramsMax = 64;
constexpr std::size_t kProceduresMax = 64;
constexpr std::uint32_t kOthers = ProcedureStatistics::kOthers;

}  // namespace

CallMeter::Program& CallMeter::program_of(const Procedure& procedure) {
  const auto is_it = [&procedure](const Program& each) {
    return each.program == procedure.program && each.version == procedure.version;
  };
  const auto found = std::ranges::find_if(programs_, is_it);
  if (found != programs_.end()) return *found;
  if (programs_.size() >= kProgramsMax) return program_of({kOthers, kOthers, 0});
  // The place of the others is taken first, so that it is always there.
  if (programs_.empty()) programs_.push_back({kOthers, kOthers, {}});
  return programs_.emplace_back(Program{procedure.program, procedure.version, {}});
}

ProcedureStatistics& CallMeter::find_entry(const Procedure& procedure,
                                           const ProcedureTraits* traits) {
  Program& program = program_of(procedure);
  const bool is_other = procedure.number >= kProceduresMax || program.program == kOthers;
  const std::size_t index = is_other ? kProceduresMax : procedure.number;
  if (program.procedures.size() <= index) program.procedures.resize(index + 1);
  ProcedureStatistics& entry = program.procedures[index];
  if (entry.times.count() == 0) {
    entry.program = program.program;
    entry.version = program.version;
    entry.number = is_other ? kOthers : procedure.number;
    entry.name = is_other || traits == nullptr ? "" : traits->name;
    if (procedure.number == 0) entry.name = "NULL";
  }
  latest_procedure_ = procedure;
  latest_entry_ = &entry;
  return entry;
}

void CallMeter::note_memory_wait(MeteredCall& call, std::chrono::nanoseconds time) noexcept {
  call.memory_wait += time;
  memory_waits_.note(time);
}

void CallMeter::note_reads(MeteredCall& call) noexcept {
  call.executed = latest_;
  read_times_.note(call.executed - call.came - call.memory_wait);
}

bool CallMeter::note_answer(const MeteredCall& call, const oncrpc::CallHeader& header,
                            const ProcedureTraits* traits, AcceptStatus status,
                            TimeHistogram& of_connection) {
  const Instant now = read_clock();
  const auto ns = static_cast<std::uint64_t>((now - call.came).count());  // of one clock, forwards
  const std::size_t bucket = TimeHistogram::bucket_of(ns);
  ProcedureStatistics& entry = entry_of(header.procedure, traits);
  if (status != AcceptStatus::kSuccess) [[unlikely]]
    ++entry.errors;
  entry.times.note(ns, bucket);
  of_connection.note(ns, bucket);
  if (call.executed == call.came) [[likely]] {
    service_times_.note(ns, bucket);
  } else {
    service_times_.note(now - call.executed);
  }
  return reports_;
}

void CallMeter::report(const MeteredCall& call, CallReport report) const {
  report.name = latest_entry_->name;
  report.is_long = call.is_long;
  report.read_chunks = call.read_chunks;
  report.arguments_size = call.arguments_size;
  report.time = latest_ - call.came;
  report.memory_wait = call.memory_wait;
  report.service_time = latest_ - call.executed;
  report_(report);
}

void CallMeter::note_refusal(const oncrpc::ReplyHeader& refusal) noexcept {
  const auto* const accepted = std::get_if<oncrpc::Accepted>(&refusal.body);
  if (accepted == nullptr) {
    ++(std::holds_alternative<oncrpc::AuthError>(refusal.body) ? refused_.denied : refused_.other);
    return;
  }
  switch (accepted->status) {
    case AcceptStatus::kProgUnavail:
      ++refused_.no_program;
      return;
    case AcceptStatus::kProgMismatch:
      ++refused_.wrong_version;
      return;
    case AcceptStatus::kProcUnavail:
      ++refused_.no_procedure;
      return;
    case AcceptStatus::kSuccess:
    case AcceptStatus::kGarbageArgs:
    case AcceptStatus::kSystemErr:
      ++refused_.other;
  }
}

void CallMeter::add_to(ServerStatistics& sum) const {
  ServerStatistics own;
  own.refused = refused_;
  own.memory_waits = memory_waits_;
  own.read_times = read_times_;
  own.service_times = service_times_;
  for (const Program& program : programs_) {
    for (const ProcedureStatistics& each : program.procedures) {
      const std::uint64_t calls = each.times.count();
      if (calls > 0) own.procedures.emplace_back(each).calls = calls;
    }
  }
  sum.add(own);
}

}  // namespace rpcrdma::rpc

namespace rpcrdma {
namespace {

std::array<std::uint32_t, 3> numbers_of(const ProcedureStatistics& each) {
  return {each.program, each.version, each.number};
}

void add(std::vector<ProcedureStatistics>& sum, const ProcedureStatistics& one) {
  const auto at = std::ranges::lower_bound(sum, numbers_of(one), {}, numbers_of);
  if (at == sum.end() || numbers_of(*at) != numbers_of(one)) {
    sum.insert(at, one);
    return;
  }
  at->calls += one.calls;
  at->errors += one.errors;
  at->times.add(one.times);
}

}  // namespace

void ServerStatistics::add(const ServerStatistics& other) {
  rdma_connections += other.rdma_connections;
  tcp_connections += other.tcp_connections;
  connections_opened += other.connections_opened;
  connections_refused += other.connections_refused;
  connections_lost += other.connections_lost;
  rpc::add(counters, other.counters);
  memory_in_use += other.memory_in_use;
  memory_max += other.memory_max;
  memory_registered += other.memory_registered;
  receives_posted += other.receives_posted;
  shares_receives = shares_receives || other.shares_receives;
  calls_in_service += other.calls_in_service;
  calls_waiting_for_memory += other.calls_waiting_for_memory;
  replies_remembered += other.replies_remembered;
  reply_bytes_remembered += other.reply_bytes_remembered;
  security_contexts += other.security_contexts;
  refused.denied += other.refused.denied;
  refused.no_program += other.refused.no_program;
  refused.wrong_version += other.refused.wrong_version;
  refused.no_procedure += other.refused.no_procedure;
  refused.other += other.refused.other;
  for (const ProcedureStatistics& each : other.procedures) rpcrdma::add(procedures, each);
  memory_waits.add(other.memory_waits);
  read_times.add(other.read_times);
  service_times.add(other.service_times);
  connections.insert(connections.end(), other.connections.begin(), other.connections.end());
}

}  // namespace rpcrdma
