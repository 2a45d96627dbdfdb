#include "explain/text_rows.h"

#include <fmt/core.h>

#include "explain/json_text.h"
#include "explain/names.h"

namespace explaining {

using rpcrdma::explain::CallFact;
using rpcrdma::explain::Chunk;
using rpcrdma::explain::ConnectionFact;
using rpcrdma::explain::Form;
using rpcrdma::explain::MessageFact;
using rpcrdma::explain::Phases;
using rpcrdma::explain::SegmentFact;
using rpcrdma::explain::Transport;

namespace {

std::string segments_json(const Chunk& chunk, bool has_position) {
  std::string out = "[";
  for (const SegmentFact& each : chunk) {
    JsonObject object;
    if (has_position) object.number("position", each.position);
    object.number("handle", each.handle)
        .number("length", each.length)
        .number("offset", each.offset);
    if (out.size() > 1) out += ',';
    out += object.str();
  }
  return out + "]";
}

// A form that is not the plain one deserves its reason.
std::string with_reason(std::string text, Form form, const std::string& reason) {
  const bool is_plain = form == Form::kShort || form == Form::kRecord || form == Form::kUnknown;
  return is_plain || reason.empty() ? text : text + " (" + reason + ")";
}

}  // namespace

std::string grouped(std::uint64_t value) {
  std::string text = std::to_string(value);
  for (std::size_t at = text.size(); at > 3;) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

std::string bytes_text(std::uint64_t bytes) {
  return grouped(bytes) + " B";
}

std::string duration_text(std::int64_t nanoseconds) {
  const auto value = static_cast<double>(nanoseconds);
  if (nanoseconds < 1000000) return fmt::format("{:.0f} us", value / 1e3);
  if (nanoseconds < 1000000000) return fmt::format("{:.2f} ms", value / 1e6);
  return fmt::format("{:.3f} s", value / 1e9);
}

std::string call_half_text(const CallFact& call) {
  if (!call.has_call) return "Call not captured";
  std::string text =
      fmt::format("Call {} {}", to_string(call.call_form), bytes_text(call.call.size));
  if (call.reads != 0 && call.read_bytes != 0) {
    text += fmt::format(" + {} in {} RDMA Read{}", bytes_text(call.read_bytes), call.reads,
                        call.reads == 1 ? "" : "s");
  }
  return with_reason(std::move(text), call.call_form, reason_of_call(call));
}

std::string reply_half_text(const CallFact& call) {
  if (!call.has_reply) return "no reply";
  std::string text =
      fmt::format("reply {} {}", to_string(call.reply_form), bytes_text(call.reply.size));
  if (call.writes != 0) {
    text += fmt::format(" + {} in {} RDMA Write segment{}", bytes_text(call.write_bytes),
                        call.writes, call.writes == 1 ? "" : "s");
  }
  return with_reason(std::move(text), call.reply_form, reason_of_reply(call));
}

std::string phases_text(const CallFact& call) {
  const Phases phases = phases_of(call);
  std::string out;
  const auto add = [&out](const char* name, std::int64_t time) {
    if (time <= 0) return;
    if (!out.empty()) out += ", ";
    out += fmt::format("{} {}", name, duration_text(time));
  };
  if (phases.reading == 0 && phases.writing == 0 && !call.first_write) return {};
  add("Reads", phases.reading);
  add("server", phases.server);
  add("Writes", phases.writing);
  add("reply", phases.reply);
  return out;
}

std::string offers_text(const CallFact& call) {
  std::string out;
  const auto add = [&out](const char* name, const Chunk& chunk) {
    if (!out.empty()) out += " and ";
    out += fmt::format("a {} chunk of {} in {} segment{}", name, bytes_text(length_of(chunk)),
                       chunk.size(), chunk.size() == 1 ? "" : "s");
  };
  for (const Chunk& chunk : call.call.writes) add("Write", chunk);
  if (call.call.has_reply_chunk) add("Reply", call.call.reply_chunk);
  return out;
}

std::string waiting_text(const CallFact& call) {
  std::string out = "No reply is in the capture";
  if (!call.call.reads.empty()) {
    const std::uint64_t wanted = length_of(call.call.reads);
    out += call.read_bytes == wanted
               ? fmt::format("; all {} of its Read chunks were read", bytes_text(wanted))
               : fmt::format("; {} of {} were read from its Read chunks",
                             bytes_text(call.read_bytes), bytes_text(wanted));
  }
  if (call.write_bytes != 0) out += fmt::format("; {} were written", bytes_text(call.write_bytes));
  return out;
}

std::string call_line(const CallFact& call, const ConnectionFact& connection, std::int64_t start) {
  const std::int64_t at = (call.has_call ? call.call.first.time : call.reply.first.time) - start;
  std::string line = fmt::format("{:12.6f}  #{} {}  {:08x}  {}{}", static_cast<double>(at) / 1e9,
                                 call.connection, to_string(connection.sides[call.caller].endpoint),
                                 call.xid, call.is_backward ? "backward " : "", call_name(call));
  line += "  " + call_half_text(call);
  line += "  " + reply_half_text(call);
  if (connection.transport != Transport::kTcp) {
    line += fmt::format("  credits {}/{}", call.has_call ? std::to_string(call.call.credits) : "-",
                        call.has_reply ? std::to_string(call.reply.credits) : "-");
  }
  if (call.has_call && call.has_reply) line += "  " + duration_text(call.duration());
  const std::string phases = phases_text(call);
  if (!phases.empty()) line += " (" + phases + ")";
  line += "  " + status_text(call);
  if (call.retransmissions != 0) line += fmt::format("  made {} times", call.retransmissions + 1);
  if (call.again_of != 0) line += fmt::format("  lost before with #{}", call.again_of);
  if (call.is_uncertain) line += "  [gap]";
  return line;
}

std::string message_json(const MessageFact& message) {
  JsonObject object;
  object.number("packet", message.last.packet)
      .number("first_packet", message.first.packet)
      .number("side", message.side)
      .number("xid", message.xid)
      .number("version", message.version)
      .number("credits", message.credits)
      .number("type", message.type)
      .number("size", message.size)
      .number("header_size", message.header_size);
  if (!message.error.empty()) {
    object.text("error", std::string(message.error_field) + ": " + std::string(message.error));
  }
  if (message.type == 4) object.number("error_code", message.error_code);
  if (message.type == 4 && message.error_code == 1) {
    object.number("low", message.low).number("high", message.high);
  }
  object.raw("reads", segments_json(message.reads, true));
  std::string writes = "[";
  for (const Chunk& chunk : message.writes) {
    if (writes.size() > 1) writes += ',';
    writes += segments_json(chunk, false);
  }
  object.raw("writes", writes + "]");
  if (message.has_reply_chunk) object.raw("reply_chunk", segments_json(message.reply_chunk, false));
  if (message.invalidates) object.number("invalidates", message.invalidated);
  return object.str();
}

std::string call_json(const CallFact& call, const ConnectionFact& connection, std::int64_t start) {
  JsonObject object;
  const auto& first = call.has_call ? call.call.first : call.reply.first;
  object.seconds("time", first.time - start)
      .number("connection", call.connection)
      .text("caller", to_string(connection.sides[call.caller].endpoint))
      .text("transport", to_string(connection.transport))
      .number("xid", call.xid)
      .boolean("backward", call.is_backward)
      .text("name", call_name(call));
  if (call.has_rpc_call) {
    object.number("program", call.program).number("version", call.version);
    object.number("procedure", call.procedure).number("flavor", call.flavor);
  }
  const std::string arguments = arguments_text(call), results = results_text(call);
  if (!arguments.empty()) object.text("arguments", arguments);
  if (!results.empty()) object.text("results", results);
  object.text("status", status_text(call)).boolean("succeeded", has_succeeded(call));
  if (call.has_call) {
    object.number("call_packet", call.call.first.packet)
        .text("call_form", to_string(call.call_form))
        .text("call_reason", reason_of_call(call))
        .number("call_send", call.call.size)
        .number("call_size", call.call_size)
        .number("call_threshold", call.call_limit)
        .number("credits_asked", call.call.credits)
        .number("open_calls", call.open_calls)
        .number("grant", call.grant);
  }
  if (call.has_reply) {
    object.number("reply_packet", call.reply.first.packet)
        .text("reply_form", to_string(call.reply_form))
        .text("reply_reason", reason_of_reply(call))
        .number("reply_send", call.reply.size)
        .number("reply_size", call.reply_size)
        .number("reply_threshold", call.reply_limit)
        .number("credits_granted", call.reply.credits);
  }
  object.number("reads", call.reads)
      .number("read_bytes", call.read_bytes)
      .number("writes", call.writes)
      .number("write_bytes", call.write_bytes)
      .number("retransmissions", call.retransmissions)
      .boolean("uncertain", call.is_uncertain);
  if (call.again_of != 0) object.number("again_of", call.again_of);
  if (call.has_call && call.has_reply) {
    const Phases phases = phases_of(call);
    object.seconds("duration", call.duration())
        .seconds("reading", phases.reading)
        .seconds("server", phases.server)
        .seconds("writing", phases.writing)
        .seconds("reply", phases.reply);
  }
  return object.str();
}

}  // namespace explaining
