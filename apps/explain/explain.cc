#include "explain/explain.h"

#include <fmt/core.h>

#include <cstdio>
#include <random>
#include <stdexcept>
#include <string>

#include "explain/capture_reader.h"
#include "explain/interface_file.h"
#include "explain/live.h"
#include "explain/live_reader.h"
#include "explain/names.h"
#include "explain/view.h"

namespace explaining {
namespace {

std::unique_ptr<ShownView> make_view(const Settings& settings) {
  switch (settings.view) {
    case View::kCalls:
      return make_calls_view(settings);
    case View::kFrames:
      return make_frames_view();
    case View::kCheck:
      return make_check_view(settings);
    case View::kSummary:
      return make_summary_view(settings);
    case View::kLadder:
      return make_ladder_view(settings);
  }
  return make_calls_view(settings);
}

constexpr const char* kUnwritable = "cannot be written to";

// Sends what print_line() has buffered.
void show_lines() {
  if (std::fflush(stdout) != 0) throw std::runtime_error(kUnwritable);
}

Result explain_live(const Settings& settings, bool keeps_bodies) {
  Result outcome;
  LiveReader reader(settings.live, settings.stop);
  outcome.problem = reader.problem();
  if (!outcome.problem.empty()) return outcome;
  outcome.was_opened = true;
  if (settings.on_live) settings.on_live();
  const std::unique_ptr<ShownView> view = make_view(settings);
  rpcrdma::explain::Live live(*view, reader.servers(), keeps_bodies);
  while (reader.next()) {
    if (live.records() == 0) view->begin(reader.record().time);
    live.add(reader.record(), reader.bytes(), reader.peer());
    if (!reader.has_buffered()) show_lines();
  }
  live.finish();
  rpcrdma::explain::Decoder::Counts counts;
  counts.packets = live.records();
  outcome.problem = reader.problem();
  if (outcome.problem.empty() && live.lost() != 0) {
    outcome.problem = "the server left out " + std::to_string(live.lost()) +
                      " records, for which this command was too slow";
  }
  view->set_problem(outcome.problem);
  view->finish(counts);
  outcome.errors = view->errors();
  return outcome;
}

}  // namespace

void print_line(const std::string& line) {
  const bool is_written = std::fwrite(line.data(), 1, line.size(), stdout) == line.size() &&
                          std::fputc('\n', stdout) != EOF;
  if (!is_written) throw std::runtime_error(kUnwritable);
}

Result explain(const Settings& settings) {
  Result outcome;
  std::unique_ptr<InterfaceFile> interface;
  if (!settings.interface_file.empty()) {
    interface = std::make_unique<InterfaceFile>(settings.interface_file);
    if (!interface->problem().empty()) throw std::invalid_argument(interface->problem());
  }
  const NamesFrom names(interface.get());
  if (settings.live >= 0) return explain_live(settings, interface != nullptr);
  CaptureReader reader(settings.file, settings.stop);
  outcome.problem = reader.problem();
  if (!outcome.problem.empty()) return outcome;
  outcome.was_opened = true;
  const std::unique_ptr<ShownView> view = make_view(settings);
  std::random_device device;
  rpcrdma::explain::Decoder decoder(*view,
                                    {.keeps_bodies = interface != nullptr, .seed = device()});
  rpcrdma::explain::Packet packet;
  bool has_begun = false;
  const bool is_live = settings.file == "-";
  while (reader.next(packet)) {
    if (!has_begun) view->begin(packet.where.time);
    has_begun = true;
    decoder.add(packet);
    // Output from a pipe is shown before the command waits for more.
    if (is_live && !reader.has_buffered()) show_lines();
  }
  decoder.finish();
  outcome.problem = reader.problem();
  if (reader.was_stopped() && !is_live) {
    outcome.problem = fmt::format("{} was read up to packet {}: interrupted", settings.file,
                                  decoder.counts().packets);
  }
  view->set_problem(outcome.problem);
  view->finish(decoder.counts());
  outcome.errors = view->errors();
  return outcome;
}

}  // namespace explaining
