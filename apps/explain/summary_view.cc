#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <string>
#include <vector>

#include "explain/call_filter.h"
#include "explain/json_text.h"
#include "explain/names.h"
#include "explain/text_rows.h"
#include "explain/view.h"

namespace explaining {
namespace {

using rpcrdma::explain::CallFact;
using rpcrdma::explain::ConnectionFact;
using rpcrdma::explain::Finding;
using rpcrdma::explain::Form;
using rpcrdma::explain::Phases;
using rpcrdma::explain::Severity;

constexpr std::size_t kBuckets = 24;  // of durations: powers of two of microseconds
constexpr std::size_t kSlowest = 5;
constexpr std::size_t kProceduresMax = 1000;

struct Figures {
  std::uint64_t calls = 0, failed = 0, unanswered = 0;
  std::array<std::uint64_t, 7> call_forms{}, reply_forms{};
  std::uint64_t read_bytes = 0, write_bytes = 0, call_bytes = 0, reply_bytes = 0;
  std::uint64_t small_by_read = 0, small = 0;  // items of 4 to 8 KiB that went by Read chunk
  std::array<std::uint64_t, kBuckets> durations{};
  std::int64_t total = 0, longest = 0;
  Phases phases;
};

std::size_t bucket_of(std::int64_t nanoseconds) {
  const auto us = static_cast<std::uint64_t>(std::max<std::int64_t>(nanoseconds, 0)) / 1000;
  return std::min<std::size_t>(kBuckets - 1, static_cast<std::size_t>(std::bit_width(us)));
}

// The phase that took longest.
std::string slow_phase(const CallFact& call) {
  const Phases phases = phases_of(call);
  const std::pair<const char*, std::int64_t> all[] = {{"RDMA Reads", phases.reading},
                                                      {"the server", phases.server},
                                                      {"RDMA Writes", phases.writing},
                                                      {"the reply", phases.reply}};
  const auto most =
      std::max_element(std::begin(all), std::end(all),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return fmt::format("{} of it for {}", duration_text(most->second), most->first);
}

std::string forms_text(const std::array<std::uint64_t, 7>& forms) {
  std::string out;
  for (std::size_t i = 0; i < forms.size(); ++i) {
    if (forms[i] == 0) continue;
    if (!out.empty()) out += ", ";
    out += fmt::format("{} {}", grouped(forms[i]), to_string(static_cast<Form>(i)));
  }
  return out.empty() ? "none" : out;
}

std::string forms_json(const std::array<std::uint64_t, 7>& forms) {
  JsonObject object;
  for (std::size_t i = 0; i < forms.size(); ++i) {
    if (forms[i] != 0) object.number(to_string(static_cast<Form>(i)), forms[i]);
  }
  return object.str();
}

class SummaryView : public ShownView {
 public:
  explicit SummaryView(const Settings& settings) : settings_(settings) {}

  void on_call(const CallFact& call, const ConnectionFact& connection) override {
    if (!passes(settings_.filter, call, connection, start())) {
      ++filtered_;
      return;
    }
    const std::string name = call_name(call);
    const bool is_new = !figures_.contains(name);
    Figures& mine =
        is_new && figures_.size() >= kProceduresMax ? figures_["others"] : figures_[name];
    add(mine, call);
    note_chunks(call);
    const bool is_open = call.has_call && !call.has_reply;
    if (is_open && (!oldest_ || call.call.first.time < oldest_->call.first.time)) oldest_ = call;
    if (call.has_call && call.has_reply) note_slow(call);
  }
  void on_finding(const Finding& finding, const ConnectionFact&) override {
    ++findings_[static_cast<std::size_t>(finding.rule->severity)];
  }
  void on_connection(const ConnectionFact& connection) override {
    constexpr std::size_t kConnectionsMax = 10000;
    ++all_connections_;
    if (connections_.size() < kConnectionsMax) connections_.push_back(connection);
  }
  void finish(const rpcrdma::explain::Decoder::Counts& counts) override {
    if (settings_.is_json) return print_json(counts);
    print_line(
        fmt::format("{} packets, {} connections", grouped(counts.packets), all_connections_));
    for (const ConnectionFact& each : connections_) print_connection(each);
    if (all_connections_ > connections_.size()) {
      print_line(fmt::format("{} more connections are left out",
                             grouped(all_connections_ - connections_.size())));
    }
    for (const auto& [name, each] : figures_) print_figures(name, each);
    if (!slow_.empty()) print_line("slowest calls:");
    for (const CallFact& each : slow_) {
      print_line(fmt::format("  {:08x} {} in packet {}: {}, {}", each.xid, call_name(each),
                             each.call.first.packet, duration_text(each.duration()),
                             slow_phase(each)));
    }
    if (oldest_) {
      print_line(fmt::format("oldest call without a reply: {:08x} {} in packet {}; {}",
                             oldest_->xid, call_name(*oldest_), oldest_->call.first.packet,
                             waiting_text(*oldest_)));
    }
    print_line(fmt::format("rules: {} violations, {} warnings, {} notes (rpcrdma explain check)",
                           findings_[2], findings_[1], findings_[0]));
    for (const std::string& each : advice()) print_line("advice: " + each);
    if (filtered_ != 0) print_line(fmt::format("{} calls are left out by the filters", filtered_));
  }

 private:
  void add(Figures& figures, const CallFact& call) {
    ++figures.calls;
    if (!has_succeeded(call)) ++figures.failed;
    if (!call.has_reply) ++figures.unanswered;
    ++figures.call_forms[static_cast<std::size_t>(call.call_form)];
    if (call.has_reply) ++figures.reply_forms[static_cast<std::size_t>(call.reply_form)];
    figures.read_bytes += call.read_bytes;
    figures.write_bytes += call.write_bytes;
    figures.call_bytes += call.call.size;
    figures.reply_bytes += call.reply.size;
    const std::uint64_t items = length_of(call.call.reads);
    constexpr std::uint64_t kSmallMax = 8192;
    if (call.call_size != 0 && call.call_size <= kSmallMax && call.call_size > 1024) {
      ++figures.small;
      if (items != 0) ++figures.small_by_read;
    }
    if (!call.has_call || !call.has_reply) return;
    const std::int64_t duration = call.duration();
    ++figures.durations[bucket_of(duration)];
    figures.total += duration;
    figures.longest = std::max(figures.longest, duration);
    const Phases phases = phases_of(call);
    figures.phases.reading += phases.reading;
    figures.phases.server += phases.server;
    figures.phases.writing += phases.writing;
    figures.phases.reply += phases.reply;
  }

  // A peer that does not understand one kind of chunk answers all Calls but those.
  void note_chunks(const CallFact& call) {
    if (!call.has_call) return;
    const bool has[] = {!call.call.reads.empty(), !call.call.writes.empty(),
                        call.call.has_reply_chunk};
    for (std::size_t i = 0; i < std::size(has); ++i) {
      if (has[i]) ++(call.has_reply ? chunks_answered_ : chunks_open_)[i];
    }
    answered_ += call.has_reply ? 1 : 0;
  }

  void note_slow(const CallFact& call) {
    if (slow_.size() == kSlowest && slow_.back().duration() >= call.duration()) return;
    const auto at = std::upper_bound(
        slow_.begin(), slow_.end(), call,
        [](const CallFact& a, const CallFact& b) { return a.duration() > b.duration(); });
    slow_.insert(at, call);
    if (slow_.size() > kSlowest) slow_.pop_back();
  }

  static void print_connection(const ConnectionFact& each) {
    std::string line = fmt::format("#{} {} and {}, {}: {} calls, {} answered, {} at a time",
                                   each.number, to_string(each.sides[0].endpoint),
                                   to_string(each.sides[1].endpoint), to_string(each.transport),
                                   grouped(each.calls), grouped(each.answered), each.open_most);
    if (each.starved != 0) line += fmt::format(", {} took the last credit", each.starved);
    for (const auto& side : each.sides) {
      if (!side.private_data) continue;
      line += fmt::format("; {} sends {} and takes {}{}", to_string(side.endpoint),
                          bytes_text(side.private_data->send_size),
                          bytes_text(side.private_data->receive_size),
                          side.private_data->takes_invalidation ? " (R)" : "");
    }
    for (const auto& side : each.sides) {
      if (side.gaps != 0)
        line += fmt::format("; {} gaps of {}", side.gaps, to_string(side.endpoint));
      if (side.retransmitted != 0) {
        line += fmt::format("; {} packets of {} came again", side.retransmitted,
                            to_string(side.endpoint));
      }
    }
    if (!each.ended_by.empty()) line += "; ended by " + each.ended_by;
    print_line(line);
  }

  static void print_figures(const std::string& name, const Figures& each) {
    const auto answered = static_cast<std::int64_t>(each.calls - each.unanswered);
    const std::int64_t mean = answered == 0 ? 0 : each.total / answered;
    print_line(fmt::format("{}: {} calls, {} failed, {} unanswered; mean {}, longest {}", name,
                           grouped(each.calls), each.failed, each.unanswered, duration_text(mean),
                           duration_text(each.longest)));
    print_line(fmt::format("  Calls: {}; replies: {}", forms_text(each.call_forms),
                           forms_text(each.reply_forms)));
    if (each.read_bytes + each.write_bytes != 0) {
      print_line(fmt::format("  {} by RDMA Read, {} by RDMA Write", bytes_text(each.read_bytes),
                             bytes_text(each.write_bytes)));
    }
    if (answered == 0) return;
    const auto share = [&](std::int64_t part) { return duration_text(part / answered); };
    print_line(fmt::format("  on average: Reads {}, server {}, Writes {}, reply {}",
                           share(each.phases.reading), share(each.phases.server),
                           share(each.phases.writing), share(each.phases.reply)));
    std::string histogram = "  durations:";
    for (std::size_t i = 0; i < kBuckets; ++i) {
      if (each.durations[i] == 0) continue;
      histogram +=
          fmt::format(" <{} {}", duration_text((std::int64_t{1000}) << i), each.durations[i]);
    }
    print_line(histogram);
  }

  std::vector<std::string> advice() const {
    std::vector<std::string> out;
    std::uint32_t least = 0;
    for (const ConnectionFact& each : connections_) {
      if (each.starved * 10 > each.calls && each.calls > 10) {
        out.push_back(
            fmt::format("#{}: {} of {} calls took the last credit; more credits would let more "
                        "calls go at a time (serve --credits)",
                        each.number, each.starved, each.calls));
      }
      for (const auto& side : each.sides) {
        if (side.private_data) {
          const std::uint32_t size = side.private_data->receive_size;
          least = least == 0 ? size : std::min(least, size);
        }
      }
    }
    constexpr const char* kChunks[] = {"has a Read chunk", "offers a Write chunk",
                                       "offers a Reply chunk"};
    for (std::size_t i = 0; i < std::size(kChunks); ++i) {
      if (chunks_open_[i] == 0 || chunks_answered_[i] != 0 || answered_ == 0) continue;
      out.push_back(
          fmt::format("no Call that {} was answered, and others were: the server may not "
                      "understand it; see the ladder of the oldest",
                      kChunks[i]));
    }
    for (const auto& [name, each] : figures_) {
      if (each.small < 10 || each.small_by_read * 2 < each.small) continue;
      out.push_back(fmt::format(
          "{} % of {} of 1 to 8 KiB went by Read chunk: the smallest Receive that was announced "
          "has {}; see "
          "--inline in options.md",
          each.small_by_read * 100 / each.small, name, bytes_text(least == 0 ? 1024 : least)));
    }
    return out;
  }

  void print_json(const rpcrdma::explain::Decoder::Counts& counts) const {
    JsonObject all;
    all.number("packets", counts.packets).number("connections", all_connections_);
    std::string procedures = "[";
    for (const auto& [name, each] : figures_) {
      JsonObject object;
      object.text("name", name)
          .number("calls", each.calls)
          .number("failed", each.failed)
          .number("unanswered", each.unanswered)
          .raw("call_forms", forms_json(each.call_forms))
          .raw("reply_forms", forms_json(each.reply_forms))
          .number("read_bytes", each.read_bytes)
          .number("write_bytes", each.write_bytes)
          .seconds("total", each.total)
          .seconds("longest", each.longest)
          .seconds("reading", each.phases.reading)
          .seconds("server", each.phases.server)
          .seconds("writing", each.phases.writing)
          .seconds("reply", each.phases.reply);
      std::string histogram = "[";
      for (const std::uint64_t count : each.durations) {
        if (histogram.size() > 1) histogram += ',';
        histogram += std::to_string(count);
      }
      object.raw("durations", histogram + "]");
      if (procedures.size() > 1) procedures += ',';
      procedures += object.str();
    }
    all.raw("procedures", procedures + "]");
    std::string slowest = "[";
    for (const CallFact& each : slow_) {
      JsonObject object;
      object.number("xid", each.xid)
          .text("name", call_name(each))
          .seconds("duration", each.duration());
      object.number("packet", each.call.first.packet);
      if (slowest.size() > 1) slowest += ',';
      slowest += object.str();
    }
    all.raw("slowest", slowest + "]");
    if (oldest_) {
      JsonObject object;
      object.number("xid", oldest_->xid).text("name", call_name(*oldest_));
      object.number("packet", oldest_->call.first.packet).text("state", waiting_text(*oldest_));
      all.raw("oldest_unanswered", object.str());
    }
    all.number("violations", findings_[2])
        .number("warnings", findings_[1])
        .number("notes", findings_[0]);
    std::string said = "[";
    for (const std::string& each : advice())
      said += (said.size() > 1 ? "," : "") + json_string(each);
    all.raw("advice", said + "]").number("filtered", filtered_);
    print_line(all.str());
  }

  Settings settings_;
  std::map<std::string, Figures> figures_;
  std::vector<ConnectionFact> connections_;
  std::vector<CallFact> slow_;
  std::optional<CallFact> oldest_;  // of those without a reply
  // Calls with Read chunks, Write chunks, and Reply chunks.
  std::array<std::uint64_t, 3> chunks_answered_{}, chunks_open_{};
  std::uint64_t answered_ = 0;
  std::array<std::uint64_t, 3> findings_{};
  std::uint64_t filtered_ = 0, all_connections_ = 0;
};

}  // namespace

std::unique_ptr<ShownView> make_summary_view(const Settings& settings) {
  return std::make_unique<SummaryView>(settings);
}

}  // namespace explaining
