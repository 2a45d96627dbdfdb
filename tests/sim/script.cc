#include "sim/script.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "rpc/record_limits.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::simulation {
namespace {

constexpr std::uint32_t kWord = xdr::kWordSize;

std::uint32_t draw_size(SeededRandom& random, const ScriptLimits& limits) {
  const auto near = [&](std::uint32_t middle, std::uint32_t spread) {
    const auto size = middle + static_cast<std::uint32_t>(random.below(2 * spread + 1));
    return size > spread ? size - spread : 0;
  };
  switch (random.below(8)) {
    case 0:
      return static_cast<std::uint32_t>(random.below(9));
    case 1:
      return near(limits.inline_size - 100, 120);
    case 2:
      return near(1024, 5);
    case 3:
      return near(4096, 5);
    case 4:
    case 5:
      return static_cast<std::uint32_t>(random.below(1500));
    default:
      return static_cast<std::uint32_t>(random.below(limits.bulk_size_max + 1));
  }
}

std::size_t draw_count(SeededRandom& random) {
  if (random.one_in(60)) return 9;  // one more than goes by reference
  return random.one_in(8) ? random.below(9) : random.below(4);
}

std::uint32_t draw_plain(SeededRandom& random, const ScriptLimits& limits) {
  if (random.one_in(2)) return static_cast<std::uint32_t>(random.below(40));
  return std::min(draw_size(random, limits), 40'000U);
}

}  // namespace

std::uint32_t CallScript::stream_size() const noexcept {
  if (!calls_work()) return 0;
  std::uint32_t size = 2 * kWord + 4 * kWord;  // id; answer, foreign, plain result, counts
  size += static_cast<std::uint32_t>(results.size()) * kWord;
  size += kWord + static_cast<std::uint32_t>(xdr::padded(plain_argument));
  size += kWord;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    // Items after the first eight are written in place.
    const bool by_reference = i < kBulkItemsMax;
    size += 2 * kWord + static_cast<std::uint32_t>(by_reference ? xdr::pad_size(arguments[i])
                                                                : xdr::padded(arguments[i]));
  }
  return size;
}

std::uint64_t CallScript::arguments_size() const noexcept {
  std::uint64_t size = stream_size();
  for (std::size_t i = 0; i < std::min(arguments.size(), kBulkItemsMax); ++i) size += arguments[i];
  return size;
}

std::uint32_t CallScript::results_size() const noexcept {
  if (!calls_work()) return 0;
  std::uint32_t size = 3 * kWord + static_cast<std::uint32_t>(xdr::padded(plain_result));
  for (std::size_t i = 0; i < results.size(); ++i) {
    size += 2 * kWord;
    if (i >= places.size()) size += static_cast<std::uint32_t>(xdr::padded(results[i]));
  }
  return size;
}

bool CallScript::can_start() const noexcept {
  return places.size() <= kBulkItemsMax && std::ranges::count(places, 0U) == 0 &&
         arguments_size_max >= stream_size();
}

bool CallScript::results_fit() const noexcept {
  if (results_size_max < results_size()) return false;
  for (std::size_t i = 0; i < std::min(results.size(), places.size()); ++i) {
    if (results[i] > places[i]) return false;
  }
  return true;
}

std::string describe(const CallScript& script) {
  return fmt::format(
      "procedure {} of {:x}.{}, arguments {} and {} in {} bytes, results {} and {}{}, places {}, "
      "expects {}",
      script.procedure.number, script.procedure.program, script.procedure.version,
      fmt::join(script.arguments, "+"), script.plain_argument, script.arguments_size_max,
      fmt::join(script.results, "+"), script.plain_result, script.foreign ? " (foreign)" : "",
      fmt::join(script.places, "+"), script.results_size_max);
}

CallScript draw_script(SeededRandom& random, std::uint64_t id, const ScriptLimits& limits) {
  CallScript script;
  script.id = id;
  if (random.one_in(6)) script.timeout = std::chrono::milliseconds(1 + random.below(100));
  if (random.one_in(12)) script.procedure.number = kNull;
  if (random.one_in(40)) script.procedure.number = kProcedures;
  if (random.one_in(40)) script.procedure.version = 7;
  if (random.one_in(40)) script.procedure.program = 1;
  if (random.one_in(20)) script.procedure.number = kWorkNoBulk;
  if (random.one_in(20)) script.procedure.number = kWorkSmall;
  if (limits.hold_one_in != 0 && random.one_in(limits.hold_one_in)) script.answer = Answer::kHold;
  if (script.answer == Answer::kHold && random.one_in(5)) script.answer = Answer::kHoldAndFail;
  if (random.one_in(20)) script.answer = Answer::kGarbage;
  if (random.one_in(20)) script.answer = Answer::kSystemErr;
  for (std::size_t left = draw_count(random); left > 0; --left) {
    script.arguments.push_back(draw_size(random, limits));
  }
  script.plain_argument = draw_plain(random, limits);
  for (std::size_t left = std::min<std::size_t>(draw_count(random), 8); left > 0; --left) {
    script.results.push_back(draw_size(random, limits));
  }
  script.plain_result = draw_plain(random, limits);
  script.foreign = random.one_in(4);
  // Mostly as much room as is needed; sometimes more, sometimes less, sometimes none.
  const bool no_places = random.one_in(5);
  for (const std::uint32_t result : script.results) {
    if (no_places || random.one_in(20)) break;
    std::uint32_t place = result + static_cast<std::uint32_t>(random.below(3) * random.below(100));
    if (random.one_in(40)) place = static_cast<std::uint32_t>(random.below(place + 1));
    script.places.push_back(place == 0 && !random.one_in(30) ? 1 : place);
  }
  while (random.one_in(30)) {
    script.places.push_back(1 + static_cast<std::uint32_t>(random.below(5000)));
  }
  script.results_size_max = script.results_size() + static_cast<std::uint32_t>(random.below(9));
  if (random.one_in(5)) script.results_size_max += static_cast<std::uint32_t>(random.below(5000));
  if (random.one_in(40)) script.results_size_max /= 2;
  script.arguments_size_max = script.stream_size() + static_cast<std::uint32_t>(random.below(9));
  if (random.one_in(60)) script.arguments_size_max /= 2;
  return script;
}

CallScript draw_backward_script(SeededRandom& random, std::uint64_t id, std::uint32_t hold_one_in) {
  CallScript script;
  script.id = id;
  if (random.one_in(6)) script.timeout = std::chrono::milliseconds(1 + random.below(100));
  if (hold_one_in != 0 && random.one_in(hold_one_in)) script.answer = Answer::kHold;
  if (random.one_in(20)) script.answer = Answer::kSystemErr;
  for (std::size_t left = random.below(3); left > 0; --left) {
    script.arguments.push_back(static_cast<std::uint32_t>(random.below(200)));
  }
  for (std::size_t left = random.below(3); left > 0; --left) {
    script.results.push_back(static_cast<std::uint32_t>(random.below(200)));
  }
  script.plain_argument = static_cast<std::uint32_t>(random.below(40));
  script.plain_result = static_cast<std::uint32_t>(random.below(40));
  script.foreign = random.one_in(4);
  script.results_size_max = script.results_size();
  script.arguments_size_max = script.stream_size();
  return script;
}

void enlarge(CallScript& script, SeededRandom& random) {
  const auto size = [&random] { return static_cast<std::uint32_t>(random.below(30'000)); };
  if (random.one_in(2)) script.arguments.push_back(size());
  if (random.one_in(2)) script.results.push_back(size());
  script.results_size_max = script.results_size();
  script.arguments_size_max = script.stream_size();
}

CallScript plain_script(std::uint64_t id) {
  CallScript script;
  script.id = id;
  script.arguments = {100};
  script.results = {99};
  script.plain_argument = 5;
  script.plain_result = 7;
  script.results_size_max = script.results_size();
  script.arguments_size_max = script.stream_size();
  script.timeout = std::chrono::seconds(60);
  return script;
}

std::uint64_t argument_pattern(std::uint64_t id, std::size_t index) {
  return id * 64 + index;
}
std::uint64_t result_pattern(std::uint64_t id, std::size_t index) {
  return id * 64 + 16 + index;
}
std::uint64_t plain_pattern(std::uint64_t id, bool result) {
  return id * 64 + (result ? 41 : 40);
}

std::optional<std::string> judge_success(const CallScript& script) {
  const auto wrong = [](const char* why) { return std::optional<std::string>(why); };
  if (script.procedure.number == kNull && script.procedure.program == kProgram &&
      script.procedure.version == kVersion) {
    return std::nullopt;
  }
  if (!script.calls_work()) return wrong("there is no such procedure");
  if (script.answer != Answer::kAtOnce && script.answer != Answer::kHold) {
    return wrong("the service failed it");
  }
  return std::nullopt;
}

namespace {

bool bulk_may_be_refused(const CallScript& script) {
  const std::uint32_t bound = script.procedure.number == kWorkNoBulk  ? 0
                              : script.procedure.number == kWorkSmall ? kSmallBulkMax
                                                                      : kBulkMax;
  return std::ranges::any_of(script.arguments, [&](std::uint32_t size) { return size > bound; });
}

constexpr std::uint64_t kHeaderMax = 1000;  // bytes, with its credential or verifier

// Over a stream, where each bulk item is among the rest.
bool too_long_for(const CallScript& script, const ServerOptions& server) {
  const std::uint32_t record_max = rpc::record_limits(server.tcp, server.memory_max).size_max;
  return script.arguments_size() + kHeaderMax > record_max ||
         std::ranges::any_of(script.arguments,
                             [&](std::uint32_t size) { return size > server.bulk_size_max; });
}

std::uint64_t results_in_stream(const CallScript& script) noexcept {
  std::uint64_t size = script.results_size() + kHeaderMax;
  for (std::size_t i = 0; i < std::min(script.results.size(), script.places.size()); ++i) {
    size += xdr::padded_memory(script.results[i]);
  }
  return size;
}

bool has_long_reply(const CallScript& script, const ClientOptions& client) {
  return results_in_stream(script) > rpc::record_limits(client.tcp, client.memory_max).size_max;
}

bool too_large_for(const CallScript& script, const ServerOptions& server) {
  return script.arguments_size() + 1000 > server.long_call_size_max ||
         std::ranges::any_of(script.arguments,
                             [&](std::uint32_t size) { return size > server.bulk_size_max; });
}

}  // namespace

bool stream_may_end(const ClientOptions& client, const ServerOptions& server) {
  return is_tiny(client) || is_tiny(server) ||
         server.connections_max < ServerOptions().connections_max;
}

std::optional<std::string> judge_failure(const CallScript& script, const Circumstances& at,
                                         Errc code) {
  const bool lacks_memory = is_tiny(at.server) || at.plan.attach_may_fail();
  bool may = false;
  switch (code) {
    case Errc::kTimedOut:
      may = at.deadline_passed;
      break;
    case Errc::kConnectionLost:
      may = !at.plan.connections_last() || at.client_gave_up ||
            (at.by_stream && stream_may_end(at.client, at.server));
      break;
    case Errc::kCanceled:
      may = at.client_closed;
      break;
    case Errc::kChunk:
      may = lacks_memory || !script.results_fit() || too_large_for(script, at.server) ||
            (at.plan.rfc5666 && at.plan.expose_may_fail());  // the server's reply
      break;
    case Errc::kServerFault:
      may = lacks_memory || (script.calls_work() && (script.answer == Answer::kSystemErr ||
                                                     script.answer == Answer::kHoldAndFail));
      break;
    case Errc::kBadArguments:
      may = (script.calls_work() &&
             (script.answer == Answer::kGarbage || bulk_may_be_refused(script))) ||
            (at.by_stream && too_long_for(script, at.server));
      break;
    case Errc::kNotAvailable:
      may = !script.calls_work() && judge_success(script).has_value();
      break;
    case Errc::kNoResources:
      may = is_tiny(at.client) || at.plan.attach_may_fail() || at.plan.expose_may_fail();
      break;
    case Errc::kTooLarge:
      may = !script.can_start();
      break;
    case Errc::kBadReply:
      may = (at.plan.rfc5666 && !script.results_fit()) ||
            (at.by_stream && has_long_reply(script, at.client));
      break;
    case Errc::kTooManyCalls:
      // It waited for a context, and calls that gave up had all the slots then.
      may = at.plan.security.is_used && at.client_gave_up;
      break;
    case Errc::kBadUrl:
    case Errc::kUnreachable:
    case Errc::kRefused:
    case Errc::kVersion:
    case Errc::kUnsupported:
    case Errc::kUnknownHost:
      break;
    case Errc::kDenied:
      // A context whose making is cut off with its connection is denied on the next one, and a call
      // begins it anew twice.
      may = at.plan.security.may_deny() ||
            (at.plan.security.is_used && at.plan.reconnects && at.connections_made > 2);
      break;
    case Errc::kSecurity:
      may = at.plan.security.is_used && at.plan.security.loses_tickets;
      break;
  }
  if (may) return std::nullopt;
  return fmt::format("nothing in it allows '{}'", to_string(code));
}

}  // namespace rpcrdma::simulation
