#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "explain/json_text.h"
#include "explain/text_rows.h"
#include "explain/view.h"

namespace explaining {
namespace {

using rpcrdma::explain::ConnectionFact;
using rpcrdma::explain::Finding;
using rpcrdma::explain::Severity;

// Shows each rule that a side of a connection broke once, with the first packet and how often.
class CheckView : public ShownView {
 public:
  explicit CheckView(const Settings& settings) : is_json_(settings.is_json) {}

  void on_finding(const Finding& finding, const ConnectionFact& connection) override {
    if (finding.rule->severity == Severity::kError) ++errors_;
    const Key key{finding.connection, finding.side, finding.rule};
    const auto at = groups_.find(key);
    if (at == groups_.end()) {
      if (groups_.size() >= kGroupsMax) {
        ++left_out_;
        return;
      }
      groups_.emplace(key, Group{finding,
                                 to_string(connection.sides[finding.side].endpoint),
                                 1,
                                 {finding.where.packet}});
      return;
    }
    ++at->second.count;
    if (at->second.packets.size() < kPacketsMax) at->second.packets.push_back(finding.where.packet);
  }

  void on_connection(const ConnectionFact& connection) override {
    ++connections_;
    (void)connection;
  }

  void finish(const rpcrdma::explain::Decoder::Counts& counts) override {
    std::vector<const Group*> sorted;
    sorted.reserve(groups_.size());
    for (const auto& [key, group] : groups_) sorted.push_back(&group);
    std::stable_sort(sorted.begin(), sorted.end(), [](const Group* a, const Group* b) {
      return a->first.where.packet < b->first.where.packet;
    });
    for (const Group* each : sorted) print_line(is_json_ ? json(*each) : text(*each));
    if (is_json_) {
      if (left_out_ != 0 || !problem().empty()) print_line(json_of_what_is_missing());
      return;
    }
    if (left_out_ != 0) print_line(fmt::format("{} more findings are left out", left_out_));
    print_line(fmt::format("{} packets, {} connections: {} rules broken or noted, {} violations{}",
                           counts.packets, connections_, groups_.size(), errors_,
                           problem().empty() ? "" : "; the capture was not read whole"));
  }

  std::uint64_t errors() const noexcept override { return errors_; }

 private:
  static constexpr std::size_t kGroupsMax = 10000, kPacketsMax = 16;
  using Key = std::tuple<std::uint64_t, int, const rpcrdma::explain::Rule*>;
  struct Group {
    Finding first;
    std::string endpoint;
    std::uint64_t count;
    std::vector<std::uint64_t> packets;
  };

  static std::string text(const Group& group) {
    const Finding& finding = group.first;
    std::string line =
        fmt::format("{:8}{:11}packet {}  #{} {}  {} {}: {}", to_string(finding.rule->severity),
                    finding.rule->id, finding.where.packet, finding.connection, group.endpoint,
                    finding.rule->document, finding.rule->section, finding.rule->text);
    if (!finding.detail.empty()) line += "; " + finding.detail;
    if (finding.xid) line += fmt::format(" (XID {:08x})", *finding.xid);
    if (group.count > 1) line += fmt::format(" ({} times)", group.count);
    return line;
  }

  std::string json_of_what_is_missing() const {
    return JsonObject().boolean("whole", problem().empty()).number("left_out", left_out_).str();
  }

  static std::string json(const Group& group) {
    const Finding& finding = group.first;
    std::string packets = "[";
    for (const std::uint64_t each : group.packets) {
      if (packets.size() > 1) packets += ',';
      packets += std::to_string(each);
    }
    JsonObject object;
    object.text("rule", finding.rule->id)
        .text("severity", to_string(finding.rule->severity))
        .text("document", finding.rule->document)
        .text("section", finding.rule->section)
        .text("text", finding.rule->text)
        .text("detail", finding.detail)
        .number("connection", finding.connection)
        .text("side", group.endpoint)
        .number("count", group.count)
        .raw("packets", packets + "]");
    if (finding.xid) object.number("xid", *finding.xid);
    return object.str();
  }

  bool is_json_;
  std::map<Key, Group> groups_;
  std::uint64_t errors_ = 0, left_out_ = 0, connections_ = 0;
};

}  // namespace

std::unique_ptr<ShownView> make_check_view(const Settings& settings) {
  return std::make_unique<CheckView>(settings);
}

}  // namespace explaining
