#include "explain/drawing.h"

#include <fmt/core.h>

#include <algorithm>

#include "explain/json_text.h"
#include "explain/names.h"
#include "explain/text_rows.h"

namespace explaining {

using rpcrdma::explain::CallFact;
using rpcrdma::explain::ConnectionFact;
using rpcrdma::explain::Finding;
using rpcrdma::explain::Form;
using rpcrdma::explain::StepFact;

namespace {

constexpr std::size_t kArrow = 52;  // columns between the lifelines

std::string title_of(const CallFact& call) {
  return fmt::format("{:08x} {}{}: {}", call.xid, call.is_backward ? "backward " : "",
                     call_name(call), status_text(call));
}

// Breaks a text into lines between words, as far as it has any.
std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t size = std::min(width, text.size() - at);
    const std::size_t space = text.rfind(' ', at + size);
    const bool has_word = space != std::string::npos && space > at;
    if (at + size < text.size() && has_word) size = space - at;
    // A character of several bytes stays whole.
    while (at + size < text.size() &&
           (static_cast<unsigned char>(text[at + size]) & 0xc0U) == 0x80) {
      ++size;
    }
    lines.push_back(text.substr(at, size));
    at += size;
    if (at < text.size() && text[at] == ' ') ++at;
  }
  return lines;
}

}  // namespace

std::string step_text(const StepFact& step, const CallFact& call) {
  std::string text(to_string(step.kind));
  if (step.kind == StepFact::Kind::kCall) {
    text += fmt::format(" {}, {}", to_string(call.call_form), bytes_text(step.bytes));
    if (call.call_form != Form::kRecord)
      text += fmt::format(", asks {} credits", call.call.credits);
  } else if (step.kind == StepFact::Kind::kReply) {
    const bool is_error = call.reply_form == Form::kError;
    text = is_error
               ? fmt::format("RDMA_ERROR {}", to_string(call.outcome))
               : fmt::format("Reply {}, {}", to_string(call.reply_form), bytes_text(step.bytes));
    if (call.reply_form != Form::kRecord) text += fmt::format(", grants {}", call.reply.credits);
  } else {
    if (step.count > 1) text += fmt::format(" x{}", step.count);
    text += ", " + bytes_text(step.bytes);
  }
  return text;
}

std::string packets_text(const StepFact& step) {
  return step.first.packet == step.last.packet
             ? fmt::format("packet {}", step.first.packet)
             : fmt::format("packets {}-{}", step.first.packet, step.last.packet);
}

std::vector<std::string> notes_of(const CallFact& call) {
  std::vector<std::string> notes;
  const std::string asked = reason_of_call(call), answered = reason_of_reply(call);
  if (!asked.empty()) {
    notes.push_back(fmt::format("The Call is {}: {}.", to_string(call.call_form), asked));
  }
  const std::string offers = offers_text(call);
  if (!offers.empty()) notes.push_back("It offers " + offers + ".");
  if (call.reply_form == Form::kError) {
    notes.push_back(fmt::format("It is refused: {}.", answered));
  } else if (call.has_reply && !answered.empty()) {
    notes.push_back(fmt::format("The reply is {}: {}.", to_string(call.reply_form), answered));
  }
  const std::string arguments = arguments_text(call), results = results_text(call);
  if (!arguments.empty()) notes.push_back("Arguments: " + arguments);
  if (!results.empty()) notes.push_back("Results: " + results);
  const std::string phases = phases_text(call);
  if (!phases.empty()) notes.push_back("Time: " + phases + ".");
  if (!call.has_reply) notes.push_back(waiting_text(call) + ".");
  return notes;
}

std::vector<std::string> draw_text(const CallFact& call, const ConnectionFact& connection,
                                   std::int64_t start) {
  std::vector<std::string> lines;
  lines.push_back(title_of(call));
  const std::string left = to_string(connection.sides[call.caller].endpoint);
  const std::string right = to_string(connection.sides[1 - call.caller].endpoint);
  lines.push_back(fmt::format("{:>14}  {:<{}}{}", "", left,
                              kArrow + 2 - std::min(right.size(), kArrow), right));
  std::int64_t before = 0;
  for (const StepFact& step : call.steps) {
    constexpr std::int64_t kGap = 50000000;  // nanoseconds: more is folded, and said
    if (before != 0 && step.first.time - before > kGap) {
      lines.push_back(
          fmt::format("{:>14}  : {} pass {:>{}}", "", duration_text(step.first.time - before), ":",
                      static_cast<int>(kArrow) - 8 -
                          static_cast<int>(duration_text(step.first.time - before).size())));
    }
    before = step.last.time;
    std::string label = " " + step_text(step, call) + " ";
    if (label.size() > kArrow - 4) label.resize(kArrow - 4);
    const std::size_t rest = kArrow - 2 - label.size();
    const bool is_right = step.side == call.caller;
    const std::string arrow = is_right ? "-" + label + std::string(rest, '-') + ">"
                                       : "<" + std::string(rest, '-') + label + "-";
    lines.push_back(fmt::format("{:14.6f}  |{}|  {}",
                                static_cast<double>(step.first.time - start) / 1e9, arrow,
                                packets_text(step)));
  }
  for (const std::string& note : notes_of(call))
    lines.push_back(fmt::format("{:>14}  {}", "", note));
  return lines;
}

std::string draw_svg_call(const CallFact& call, const ConnectionFact& connection,
                          std::int64_t start, std::uint32_t& height) {
  constexpr std::uint32_t kRow = 26, kLeft = 150, kRight = 690;
  std::string out;
  std::uint32_t at = height + 24;
  const auto text = [&out](std::uint32_t x, std::uint32_t y, const char* anchor,
                           const std::string& what, const char* weight = "normal") {
    out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\" font-weight=\"{}\">{}</text>\n",
                       x, y, anchor, weight, escaped(what));
  };
  text(10, at, "start", title_of(call), "bold");
  at += 22;
  text(kLeft, at, "middle", to_string(connection.sides[call.caller].endpoint));
  text(kRight, at, "middle", to_string(connection.sides[1 - call.caller].endpoint));
  const std::uint32_t top = at + 6;
  for (const StepFact& step : call.steps) {
    at += kRow;
    const bool is_right = step.side == call.caller;
    text(kLeft - 10, at, "end",
         fmt::format("{:.6f}", static_cast<double>(step.first.time - start) / 1e9));
    text((kLeft + kRight) / 2, at - 5, "middle", step_text(step, call));
    const bool is_rdma = step.kind == StepFact::Kind::kWrite ||
                         step.kind == StepFact::Kind::kReadRequest ||
                         step.kind == StepFact::Kind::kReadResponse;
    out += fmt::format(
        "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{}\" marker-end=\"url(#a)\"/>\n",
        is_right ? kLeft : kRight, at, is_right ? kRight - 4 : kLeft + 4, at,
        is_rdma ? "#1f6feb" : "#24292f");
    text(kRight + 10, at, "start", packets_text(step));
  }
  for (const std::uint32_t x : {kLeft, kRight}) {
    out += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"#8c959f\"/>\n", x,
                       top, x, at + 12);
  }
  at += 14;
  constexpr std::size_t kNoteWidth = 110;
  for (const std::string& note : notes_of(call)) {
    for (const std::string& line : wrapped(note, kNoteWidth)) {
      at += 18;
      text(kLeft, at, "start", line);
    }
  }
  height = at + 20;
  return out;
}

std::string frame_svg(const std::string& drawings, std::uint32_t height) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"900\" height=\"{}\" viewBox=\"0 0 900 "
      "{}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<defs><marker id=\"a\" markerWidth=\"8\" "
      "markerHeight=\"8\" "
      "refX=\"6\" refY=\"3\" orient=\"auto\"><path d=\"M0,0 L6,3 L0,6 z\"/></marker></defs>\n"
      "<rect width=\"900\" height=\"{}\" fill=\"white\"/>\n{}</svg>\n",
      height, height, height, drawings);
}

}  // namespace explaining
