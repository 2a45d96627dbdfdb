#include "explain/facts.h"

#include <arpa/inet.h>
#include <fmt/core.h>

#include <algorithm>

namespace rpcrdma::explain {
namespace {

std::string grouped(std::uint64_t value) {
  std::string text = std::to_string(value);
  for (std::size_t at = text.size(); at > 3;) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

std::string against(std::uint64_t bytes, std::uint32_t limit) {
  if (limit == 0) return fmt::format("{} bytes; the threshold is unknown", grouped(bytes));
  return fmt::format("{} bytes against a threshold of {}", grouped(bytes), grouped(limit));
}

}  // namespace

std::string to_string(const Endpoint& endpoint) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(endpoint.is_v6 ? AF_INET6 : AF_INET, endpoint.address.data(), text, sizeof text);
  return endpoint.is_v6 ? fmt::format("[{}]:{}", text, endpoint.port)
                        : fmt::format("{}:{}", text, endpoint.port);
}

std::string_view to_string(Transport transport) noexcept {
  switch (transport) {
    case Transport::kUnknown:
      return "unknown";
    case Transport::kIwarp:
      return "iWARP";
    case Transport::kRoce:
      return "RoCE";
    case Transport::kTcp:
      return "TCP";
    case Transport::kRdma:
      return "RDMA";
  }
  return "";
}

std::string_view to_string(Form form) noexcept {
  switch (form) {
    case Form::kUnknown:
      return "unknown";
    case Form::kShort:
      return "short";
    case Form::kChunked:
      return "chunked";
    case Form::kLong:
      return "long";
    case Form::kPadded:
      return "padded";
    case Form::kError:
      return "error";
    case Form::kRecord:
      return "record";
  }
  return "";
}

std::string_view to_string(Outcome outcome) noexcept {
  switch (outcome) {
    case Outcome::kOpen:
      return "unanswered";
    case Outcome::kAnswered:
      return "answered";
    case Outcome::kVersion:
      return "ERR_VERS";
    case Outcome::kChunk:
      return "ERR_CHUNK";
    case Outcome::kLost:
      return "lost";
    case Outcome::kReplyOnly:
      return "reply only";
  }
  return "";
}

std::string_view to_string(StepFact::Kind kind) noexcept {
  switch (kind) {
    case StepFact::Kind::kCall:
      return "Call";
    case StepFact::Kind::kReadRequest:
      return "RDMA Read";
    case StepFact::Kind::kReadResponse:
      return "Read Response";
    case StepFact::Kind::kWrite:
      return "RDMA Write";
    case StepFact::Kind::kReply:
      return "Reply";
    case StepFact::Kind::kDone:
      return "RDMA_DONE";
    case StepFact::Kind::kCallAgain:
      return "Call again";
    case StepFact::Kind::kReplyAgain:
      return "Reply again";
  }
  return "";
}

std::string_view to_string(Severity severity) noexcept {
  switch (severity) {
    case Severity::kNote:
      return "note";
    case Severity::kWarning:
      return "warning";
    case Severity::kError:
      return "error";
  }
  return "";
}

std::uint64_t length_of(const Chunk& chunk) noexcept {
  std::uint64_t length = 0;
  for (const SegmentFact& segment : chunk) length += segment.length;
  return length;
}

Phases phases_of(const CallFact& call) noexcept {
  Phases phases;
  if (!call.has_call || !call.has_reply) return phases;
  std::int64_t at = call.call.last.time;
  const auto until = [&at](std::int64_t time) {
    const std::int64_t spent = std::max<std::int64_t>(0, time - at);
    at = std::max(at, time);
    return spent;
  };
  if (call.last_read) phases.reading = until(call.last_read->time);
  if (call.first_write) {
    phases.server = until(call.first_write->time);
    phases.writing = until(call.last_write->time);
    phases.reply = until(call.reply.last.time);
  } else {
    phases.server = until(call.reply.last.time);
  }
  return phases;
}

std::string reason_of_call(const CallFact& call) {
  const std::uint64_t whole = call.call_size + call.call.header_size;
  switch (call.call_form) {
    case Form::kShort:
      return against(call.call.size, call.call_limit);
    case Form::kChunked: {
      const std::uint64_t items = length_of(call.call.reads);
      return fmt::format("an item of {} bytes; inline it would be {}", grouped(items),
                         against(whole, call.call_limit));
    }
    case Form::kLong:
      return against(whole, call.call_limit);
    case Form::kPadded:
      return "RDMA_MSGP aligns the item at its end";
    case Form::kUnknown:
    case Form::kError:
    case Form::kRecord:
      break;
  }
  return "";
}

std::string reason_of_reply(const CallFact& call) {
  const std::uint64_t whole = call.reply_size + call.reply.header_size;
  switch (call.reply_form) {
    case Form::kShort:
      if (!call.call.writes.empty()) return "no result used the Write chunk";
      return against(call.reply.size, call.reply_limit);
    case Form::kChunked: {
      if (!call.reply.reads.empty()) return "the results are read (RFC 5666)";
      std::uint64_t items = 0;
      for (const Chunk& chunk : call.reply.writes) items += length_of(chunk);
      return fmt::format("the Call offered a Write chunk; the item has {} bytes", grouped(items));
    }
    case Form::kLong: {
      if (!call.reply.reads.empty()) return "the reply is read (RFC 5666)";
      const bool fits = call.reply_limit != 0 && whole <= call.reply_limit;
      return (fits ? "the server used the Reply chunk although it fits inline: " : "") +
             against(whole, call.reply_limit);
    }
    case Form::kError:
      return call.outcome == Outcome::kVersion
                 ? fmt::format("the server speaks versions {} to {}", call.reply.low,
                               call.reply.high)
                 : "the server cannot use the chunks or the header of the Call";
    case Form::kUnknown:
    case Form::kPadded:
    case Form::kRecord:
      break;
  }
  return "";
}

}  // namespace rpcrdma::explain
