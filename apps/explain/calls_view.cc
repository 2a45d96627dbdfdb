#include <fmt/core.h>

#include <string>

#include "explain/call_filter.h"
#include "explain/json_text.h"
#include "explain/text_rows.h"
#include "explain/view.h"

namespace explaining {
namespace {

using rpcrdma::explain::CallFact;
using rpcrdma::explain::ConnectionFact;
using rpcrdma::explain::FrameFact;
using rpcrdma::explain::MessageFact;
using rpcrdma::explain::SideFact;
using rpcrdma::explain::Transport;

std::string gap_text(const ConnectionFact& connection) {
  std::string out;
  for (const SideFact& side : connection.sides) {
    if (side.gaps == 0 && side.skipped_bytes == 0) continue;
    out += fmt::format("; gap: {} of {} are not in the capture", bytes_text(side.gap_bytes),
                       to_string(side.endpoint));
    if (side.skipped_bytes != 0) {
      out += fmt::format(", and {} more are uncertain", bytes_text(side.skipped_bytes));
    }
  }
  return out;
}

// Names what the capture holds where it has no call.
std::string nothing_text(const rpcrdma::explain::Decoder::Counts& counts) {
  std::string out =
      fmt::format("{} packets, and no connection with RPC among them", grouped(counts.packets));
  if (counts.unknown_links != 0) {
    out += fmt::format("; {} have a link type that explain does not read",
                       grouped(counts.unknown_links));
  }
  if (counts.fragments != 0) out += fmt::format("; {} are fragments", grouped(counts.fragments));
  return out;
}

class CallsView : public ShownView {
 public:
  explicit CallsView(const Settings& settings) : settings_(settings) {}

  void on_call(const CallFact& call, const ConnectionFact& connection) override {
    if (!passes(settings_.filter, call, connection, start())) {
      ++filtered_;
      return;
    }
    print_line(settings_.is_json ? call_json(call, connection, start())
                                 : call_line(call, connection, start()));
  }

  void on_connection(const ConnectionFact& connection) override {
    ++connections_;
    if (settings_.is_json) return;
    std::string line = fmt::format(
        "#{} {} and {}, {}: {} calls, {} answered", connection.number,
        to_string(connection.sides[0].endpoint), to_string(connection.sides[1].endpoint),
        to_string(connection.transport), connection.calls, connection.answered);
    if (!connection.has_beginning) line += "; the capture begins in its middle";
    line += gap_text(connection);
    if (!connection.ended_by.empty()) line += "; ended by " + connection.ended_by;
    print_line(line);
  }

  void finish(const rpcrdma::explain::Decoder::Counts& counts) override {
    if (settings_.is_json) return;
    if (connections_ == 0) print_line(nothing_text(counts));
    if (filtered_ != 0) print_line(fmt::format("{} calls are left out by the filters", filtered_));
  }

 private:
  Settings settings_;
  std::uint64_t filtered_ = 0, connections_ = 0;
};

// Every message on the wire as one object a line, for programs that compare.
class FramesView : public ShownView {
 public:
  void on_frame(const FrameFact& frame) override {
    JsonObject object;
    object.text("kind", "frame")
        .number("packet", frame.where.packet)
        .number("connection", frame.connection)
        .number("side", frame.side)
        .number("opcode", frame.opcode)
        .boolean("last", frame.is_last)
        .number("size", frame.size)
        .number("tag", frame.tag)
        .number("address", frame.address)
        .number("queue", frame.queue)
        .number("sequence", frame.sequence)
        .number("offset", frame.offset)
        .number("sink_tag", frame.sink_tag)
        .number("read_size", frame.read_size)
        .number("source_tag", frame.source_tag);
    print_line(object.str());
  }
  void on_message(const MessageFact& message, const ConnectionFact& connection) override {
    JsonObject object;
    object.text("kind", "message")
        .number("connection", connection.number)
        .raw("message", message_json(message));
    print_line(object.str());
  }
  void finish(const rpcrdma::explain::Decoder::Counts&) override {}
};

}  // namespace

std::unique_ptr<ShownView> make_calls_view(const Settings& settings) {
  return std::make_unique<CallsView>(settings);
}

std::unique_ptr<ShownView> make_frames_view() {
  return std::make_unique<FramesView>();
}

}  // namespace explaining
