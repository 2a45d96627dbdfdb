#include "tools/bench/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>

namespace rpcrdma::tools::bench {
namespace {

using Figure = std::function<double(const Sample&)>;

double median_of(const Result& result, const Figure& figure) {
  std::vector<double> values;
  values.reserve(result.samples.size());
  for (const Sample& sample : result.samples) values.push_back(figure(sample));
  return median(std::move(values));
}

double over(double value, std::uint64_t count) {
  return count == 0 ? 0 : value / static_cast<double>(count);
}

// The worst round: a thing that must never happen is not to vanish in a median.
double worst_of(const Result& result, const Figure& figure) {
  double worst = 0;
  for (const Sample& sample : result.samples) worst = std::max(worst, figure(sample));
  return worst;
}

struct Figures {
  double ops, gigabytes, p50, p99, cpu_per_gib, ratio, ratio_range, allocations, copies;
  double cpu_ns, server_cpu_ns, server_rss_kib;
};

Figures figures_of(const Result& result) {
  constexpr double kGib = 1024.0 * 1024 * 1024;
  return {
      median_of(result, calls_per_second),
      median_of(result,
                [](const Sample& each) {
                  return static_cast<double>(each.payload_bytes) / each.seconds / 1e9;
                }),
      median_of(result, [](const Sample& each) { return each.p50_us; }),
      median_of(result, [](const Sample& each) { return each.p99_us; }),
      median_of(
          result,
          [](const Sample& each) { return over(each.cpu_seconds * kGib, each.payload_bytes); }),
      median(result.ratios),
      interquartile_range(result.ratios),
      worst_of(result,
               [](const Sample& each) {
                 return over(static_cast<double>(each.allocations), each.calls);
               }),
      worst_of(result,
               [](const Sample& each) {
                 return over(static_cast<double>(each.bytes_copied), each.payload_bytes);
               }),
      median_of(result,
                [](const Sample& each) { return over(each.cpu_seconds * 1e9, each.calls); }),
      median_of(result,
                [](const Sample& each) { return over(each.server_cpu_seconds * 1e9, each.calls); }),
      median_of(result,
                [](const Sample& each) { return static_cast<double>(each.server_rss_kib); }),
  };
}

Json costs_per_call(const Result& result, DeviceCosts Sample::*side) {
  const auto median_over_calls = [&](std::uint64_t DeviceCosts::*count) {
    return median_of(result, [=](const Sample& each) {
      return over(static_cast<double>((each.*side).*count), each.calls);
    });
  };
  return {{"doorbells", median_over_calls(&DeviceCosts::doorbells)},
          {"completions_signaled", median_over_calls(&DeviceCosts::completions)},
          {"registrations", median_over_calls(&DeviceCosts::registrations)}};
}

// CPU time of both processes for a call of the load beside a case, without that of the case, which
// is taken to be what it is alone.
double load_cpu_per_call(const Sample& each) {
  const double of_the_case = each.alone_cpu_per_call * static_cast<double>(each.calls);
  return over(each.cpu_seconds - of_the_case, each.load_calls);
}

Json beside_of(const Result& result, const std::string& name) {
  if (name.empty() || result.what.who != Who::kRpcrdma) return nullptr;
  const auto rise = [](const Sample& each) {
    return each.load_alone_cpu_per_call > 0
               ? load_cpu_per_call(each) / each.load_alone_cpu_per_call - 1
               : 0;
  };
  return {
      {"case", name},
      {"ops_per_s", median_of(result,
                              [](const Sample& each) {
                                return static_cast<double>(each.load_calls) / each.seconds;
                              })},
      {"alone_ops_per_s",
       median_of(result, [](const Sample& each) { return each.load_alone_calls_per_s; })},
      {"cpu_ns_per_call",
       median_of(result, [](const Sample& each) { return load_cpu_per_call(each) * 1e9; })},
      {"alone_cpu_ns_per_call",
       median_of(result, [](const Sample& each) { return each.load_alone_cpu_per_call * 1e9; })},
      {"cpu_rise", median_of(result, rise)}};
}

Json number_or_null(bool known, double value) {
  return known ? Json(value) : Json();
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double interquartile_range(std::vector<double> values) {
  if (values.size() < 2) return 0;
  std::ranges::sort(values);
  const auto at = [&](double quantile) {
    const double place = quantile * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    const double part = place - static_cast<double>(below);
    return values[below] * (1 - part) + values[above] * part;
  };
  return at(0.75) - at(0.25);
}

double calls_per_second(const Sample& sample) {
  return sample.seconds > 0 ? static_cast<double>(sample.calls) / sample.seconds : 0;
}

Json to_json(std::span<const Result> results, const Setting& setting) {
  Json array = Json::array();
  for (const Result& result : results) {
    const Figures figures = figures_of(result);
    const bool payload = result.what.kind != Kind::kNull;
    // The server's counters include the calls of the load.
    const bool is_alone = setting.connections == 0 && setting.beside.empty();
    const bool counts_copies = result.what.who != Who::kTirpc && is_alone;
    const auto costs = [&](DeviceCosts Sample::*side) {
      return is_alone ? costs_per_call(result, side) : Json();
    };
    array.push_back(
        {{"case", result.what.name},
         {"crc", result.what.crc},
         {"ops_per_s", figures.ops},
         {"gb_per_s", figures.gigabytes},
         {"p50_us", figures.p50},
         {"p99_us", figures.p99},
         {"cpu_s_per_gib", number_or_null(payload, figures.cpu_per_gib)},
         {"ratio_to_raw", number_or_null(!result.ratios.empty(), figures.ratio)},
         {"ratio_iqr", number_or_null(!result.ratios.empty(), figures.ratio_range)},
         {"allocations_per_call", figures.allocations},
         {"user_copies_per_byte", number_or_null(payload && counts_copies, figures.copies)},
         {"client_per_call", costs(&Sample::client)},
         {"server_per_call", costs(&Sample::server)},
         {"cpu_ns_per_call", figures.cpu_ns},
         {"server_cpu_ns_per_call", figures.server_cpu_ns},
         {"server_rss_kib",
          number_or_null(result.what.who == Who::kRpcrdma, figures.server_rss_kib)},
         {"transport", setting.transport},
         {"idle", setting.idle},
         {"connections", setting.connections},
         {"beside", beside_of(result, setting.beside)},
         {"rounds", result.samples.size()}});
  }
  return array;
}

std::string to_table(std::span<const Result> results) {
  // Bare TCP is not measured with a server of another machine.
  const bool has_raw =
      std::ranges::any_of(results, [](const Result& each) { return !each.ratios.empty(); });
  const auto columns_of_raw = [has_raw](const std::string& ratio, const std::string& range) {
    return has_raw ? fmt::format("{:>7} {:>6} ", ratio, range) : std::string();
  };
  std::string table =
      fmt::format("{:<20} {:>3} {:>10} {:>7} {:>9} {:>9} {:>9} {}{:>7} {:>7} {:>8}\n", "case",
                  "crc", "calls/s", "GB/s", "p50 us", "p99 us", "CPU s/GiB",
                  columns_of_raw("of raw", "iqr"), "allocs", "copies", "CPU ns");
  const auto text = [](bool known, double value, int digits) {
    return known ? fmt::format("{:.{}f}", value, digits) : std::string("-");
  };
  for (const Result& result : results) {
    const Figures figures = figures_of(result);
    const bool payload = result.what.kind != Kind::kNull;
    const bool ours = result.what.who == Who::kRpcrdma;
    table +=
        fmt::format("{:<20} {:>3} {:>10.0f} {:>7} {:>9.1f} {:>9.1f} {:>9} {}{:>7} {:>7} {:>8.0f}\n",
                    result.what.name, ours ? (result.what.crc ? "on" : "off") : "-", figures.ops,
                    text(payload, figures.gigabytes, 2), figures.p50, figures.p99,
                    text(payload, figures.cpu_per_gib, 3),
                    columns_of_raw(text(!result.ratios.empty(), figures.ratio, 3),
                                   text(!result.ratios.empty(), figures.ratio_range, 3)),
                    text(true, figures.allocations, 2), text(payload && ours, figures.copies, 4),
                    figures.cpu_ns);
  }
  return table;
}

}  // namespace rpcrdma::tools::bench
