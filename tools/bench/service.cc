#include "tools/bench/service.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <stdexcept>

namespace rpcrdma::tools::bench {
namespace {

constexpr std::uint64_t ServerFigures::*kFigures[] = {
    &ServerFigures::bytes_copied,  &ServerFigures::doorbells, &ServerFigures::completions,
    &ServerFigures::registrations, &ServerFigures::cpu_ns,    &ServerFigures::resident_kib};

}  // namespace

void fail(std::string_view what, const Error& error) {
  throw std::runtime_error(fmt::format("{}: {}", what, error.message()));
}

std::vector<std::byte> pattern(std::size_t size) {
  std::vector<std::byte> data(size);
  std::uint32_t state = 1;
  for (std::byte& each : data) each = static_cast<std::byte>((state = state * 1664525 + 1) >> 24U);
  return data;
}

BenchService::BenchService() : data_(pattern(kSizeMax)) {}

Expected<void, Error> BenchService::add_to(Server& server) {
  server_ = &server;
  if (auto added = server.add(kProgram, kVersion, *this); !added) return added;
  return server.register_read_only(data_);
}

const ProcedureTraits* BenchService::traits(std::uint32_t procedure) const noexcept {
  static constexpr ProcedureTraits kTakesData{.bulk_argument_size_max = kSizeMax};
  static constexpr ProcedureTraits kOthers{};
  if (procedure > kCounters) return nullptr;
  return procedure == kWriteData || procedure == kCheck ? &kTakesData : &kOthers;
}

void BenchService::call(CallContext& context) {
  MessageReader& arguments = context.arguments();
  if (context.procedure().number == kReadData) {
    const std::uint32_t size = arguments.xdr().u32("size");
    if (!arguments.finish() || size > kSizeMax) return context.fail(AcceptStatus::kGarbageArgs);
    context.results().bulk(Bytes(data_).first(size));
  } else if (context.procedure().number == kCounters) {
    if (!arguments.finish()) return context.fail(AcceptStatus::kGarbageArgs);
    const ServerFigures all = figures();
    for (const auto figure : kFigures) context.results().xdr().u64(all.*figure);
  } else {
    const Bytes data = arguments.bulk(kSizeMax, "data");
    if (!arguments.finish()) return context.fail(AcceptStatus::kGarbageArgs);
    const bool check = context.procedure().number == kCheck;
    const bool right = check && std::ranges::equal(data, Bytes(data_).first(data.size()));
    context.results().xdr().u32(check ? std::uint32_t{right}
                                      : static_cast<std::uint32_t>(data.size()));
  }
  context.succeed();
}

ServerFigures BenchService::figures() const {
  const TransferCounters counters = server_->counters();
  ServerFigures all;
  all.bytes_copied = counters.bytes_copied;
  all.doorbells = counters.doorbells;
  all.completions = counters.completions;
  all.registrations = counters.registrations;
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  all.cpu_ns = static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U +
               static_cast<std::uint64_t>(time.tv_nsec);
  std::ifstream file("/proc/self/statm");
  std::uint64_t pages = 0, resident = 0;
  file >> pages >> resident;
  all.resident_kib = resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) / 1024;
  return all;
}

ServerFigures figures_of_server(Client& client) {
  constexpr const char* kWhat = "reading the server's figures";
  auto call = client.prepare({kProgram, kVersion, kCounters});
  if (!call) fail(kWhat, call.error());
  auto reply = client.call(std::move(*call));
  if (!reply) fail(kWhat, reply.error());
  auto figures = reply->decode([](MessageReader& results) {
    ServerFigures all;
    for (const auto figure : kFigures) all.*figure = results.xdr().u64("figure");
    return all;
  });
  if (!figures) fail(kWhat, figures.error());
  return *figures;
}

}  // namespace rpcrdma::tools::bench
