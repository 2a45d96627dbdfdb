// Turns runs into figures: medians over the rounds, ratios to raw TCP, a table and JSON.
#ifndef RPCRDMA_TOOLS_BENCH_REPORT_H_
#define RPCRDMA_TOOLS_BENCH_REPORT_H_

#include <span>
#include <string>
#include <vector>

#include "tools/bench/contender.h"
#include "tools/json.h"

namespace rpcrdma::tools::bench {

// Returns the middle one of an odd number of values, else the mean of the middle two; 0 without
// values.
double median(std::vector<double> values);
// Returns upper minus lower quartile: how far the rounds lie apart.
double interquartile_range(std::vector<double> values);

// The rounds of one case, in the order of time.
struct Result {
  Case what;
  std::vector<Sample> samples;
  std::vector<double> ratios;  // calls per second, over those of raw TCP in the same round
};

double calls_per_second(const Sample& sample);

// The setting that all results have in common.
struct Setting {
  std::string transport = "rdma";
  std::size_t idle = 0, connections = 0;  // beside the case's own
  std::string beside;                     // the case of the load; empty: none
};
// One object for each result; per-byte figures are null for calls without payload, and so is what a
// contender does not count.
Json to_json(std::span<const Result> results, const Setting& setting = {});
std::string to_table(std::span<const Result> results);

}  // namespace rpcrdma::tools::bench

#endif  // RPCRDMA_TOOLS_BENCH_REPORT_H_
