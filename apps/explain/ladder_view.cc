#include <fmt/core.h>

#include <charconv>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "explain/call_filter.h"
#include "explain/drawing.h"
#include "explain/names.h"
#include "explain/page.h"
#include "explain/text_rows.h"
#include "explain/view.h"

namespace explaining {
namespace {

using rpcrdma::explain::CallFact;
using rpcrdma::explain::ConnectionFact;
using rpcrdma::explain::Finding;

// The subject of a ladder: a connection "#3", an XID, or everything.
struct Subject {
  std::optional<std::uint64_t> connection;
  std::optional<std::uint32_t> xid;
};

Subject subject_of(const std::string& text) {
  Subject subject;
  if (text.empty()) return subject;
  const bool is_connection = text[0] == '#';
  const bool has_prefix = text.starts_with("0x");
  const char* begin = text.data() + (is_connection ? 1 : has_prefix ? 2 : 0);
  const char* end = text.data() + text.size();
  std::uint64_t value = 0;
  if (std::from_chars(begin, end, value, is_connection ? 10 : 16).ptr != end || begin == end ||
      (!is_connection && value > 0xffffffffU)) {
    throw std::invalid_argument(
        fmt::format("'{}' is neither an XID in hexadecimal digits nor a connection as '#1'", text));
  }
  if (is_connection) {
    subject.connection = value;
  } else {
    subject.xid = static_cast<std::uint32_t>(value);
  }
  return subject;
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) throw std::runtime_error(fmt::format("{} cannot be written", path));
}

// Draws each call that passes the filters; a page holds the slowest and the faulty ones.
class LadderView : public ShownView {
 public:
  explicit LadderView(const Settings& settings)
      : settings_(settings), subject_(subject_of(settings.subject)), page_(kPageCallsMax) {}

  void on_call(const CallFact& call, const ConnectionFact& connection) override {
    const bool is_subject = (!subject_.connection || *subject_.connection == connection.number) &&
                            (!subject_.xid || *subject_.xid == call.xid);
    if (!is_subject) return;
    if (!passes(settings_.filter, call, connection, start())) {
      ++filtered_;
      return;
    }
    if (!settings_.html.empty()) page_.add(call, connection, start());
    if (!settings_.svg.empty()) {
      if (svg_calls_ < kSvgCallsMax) svg_ += draw_svg_call(call, connection, start(), svg_height_);
      ++svg_calls_;
    }
    if (!settings_.html.empty() || !settings_.svg.empty()) return;
    if (texts_ >= kTextsMax) {
      ++left_out_;
      return;
    }
    ++texts_;
    for (const std::string& line : draw_text(call, connection, start())) print_line(line);
    print_line("");
  }

  void on_finding(const Finding& finding, const ConnectionFact& connection) override {
    page_.add(finding, connection);
  }

  void finish(const rpcrdma::explain::Decoder::Counts&) override {
    if (!settings_.html.empty()) write_file(settings_.html, page_.text(filtered_));
    if (!settings_.svg.empty()) write_file(settings_.svg, frame_svg(svg_, svg_height_));
    left_out_ += page_.left_out() + (svg_calls_ > kSvgCallsMax ? svg_calls_ - kSvgCallsMax : 0);
    if (left_out_ != 0)
      print_line(fmt::format("{} more calls are left out: narrow the filters", left_out_));
    if (filtered_ != 0) print_line(fmt::format("{} calls are left out by the filters", filtered_));
  }

 private:
  static constexpr std::size_t kTextsMax = 1000, kSvgCallsMax = 60, kPageCallsMax = 10000;

  Settings settings_;
  Subject subject_;
  Page page_;
  std::string svg_;
  std::uint32_t svg_height_ = 0;
  std::uint64_t filtered_ = 0, left_out_ = 0, svg_calls_ = 0, texts_ = 0;
};

}  // namespace

std::unique_ptr<ShownView> make_ladder_view(const Settings& settings) {
  return std::make_unique<LadderView>(settings);
}

}  // namespace explaining
