#include "sim/call_record.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "sim/service.h"

namespace rpcrdma::simulation {
namespace {

constexpr std::byte kPlaceFill{0x3c};

}  // namespace

CallRecord::CallRecord(CallScript script, std::size_t client)
    : script_(std::move(script)), client_(client) {
  if (!script_.calls_work()) {
    script_.arguments.clear();
    script_.places.clear();
    script_.plain_argument = 0;
  }
  for (std::size_t i = 0; i < script_.arguments.size(); ++i) {
    arguments_.emplace_back(script_.arguments[i], (script_.id + i) % 8);
    fill_pattern(arguments_.back().bytes(), argument_pattern(script_.id, i));
  }
  for (std::size_t i = 0; i < script_.places.size(); ++i) {
    places_.emplace_back(script_.places[i], (script_.id + i) % 8);
    std::ranges::fill(places_.back().bytes(), kPlaceFill);
  }
}

void CallRecord::broken(Verdict& verdict, int invariant, const std::string& text) const {
  verdict.broken(invariant, fmt::format("call {}: {}", script_.id, text));
}

void CallRecord::encode(Call& call) {
  if (script_.timeout) call.time_out_after(*script_.timeout);
  if (!script_.calls_work()) return;
  xdr::Writer& xdr = call.arguments().xdr();
  xdr.u64(script_.id);
  xdr.u32(static_cast<std::uint32_t>(script_.answer));
  xdr.boolean(script_.foreign);
  xdr.u32(script_.plain_result);
  xdr.u32(static_cast<std::uint32_t>(script_.results.size()));
  for (const std::uint32_t size : script_.results) xdr.u32(size);
  std::vector<std::byte> plain(script_.plain_argument);
  fill_pattern(plain, plain_pattern(script_.id, false));
  xdr.opaque(plain);
  xdr.u32(static_cast<std::uint32_t>(arguments_.size()));
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    xdr.u32(static_cast<std::uint32_t>(i));
    call.arguments().bulk(arguments_[i].bytes());
  }
  for (GuardedBlock& place : places_) call.place_result(place.bytes());
  call.expect_results(script_.results_size_max);
}

void CallRecord::started(Instant now, std::chrono::nanoseconds timeout, std::uint32_t connections) {
  connections_before_ = connections;
  began_ = now;
  started_ = true;
  deadline_ = now + script_.timeout.value_or(timeout);
}

void CallRecord::ended(Verdict& verdict) {
  ++ends_;
  if (ends_ > 1) broken(verdict, 5, "it ended twice");
}

void CallRecord::check_results(Reply& reply, const ForeignMemory& foreign, Verdict& verdict) {
  MessageReader& results = reply.results();
  if (script_.calls_work()) {
    if (results.xdr().u64("id") != script_.id) broken(verdict, 6, "the reply is another call's");
    const Bytes plain = results.xdr().opaque(kBulkMax, "plain result");
    if (plain.size() != script_.plain_result ||
        find_difference(plain, plain_pattern(script_.id, true))) {
      broken(verdict, 6, "its plain result is wrong");
    }
    for (std::size_t i = 0; i < script_.results.size() && results.ok(); ++i) {
      if (results.xdr().u32("index") != i) broken(verdict, 6, "its results are out of order");
      const Bytes data = results.bulk(kBulkMax, "result");
      // RFC 5666: what is longer than its place by no more than padding is seen here only.
      if (!results.ok() && !script_.results_fit()) return reply.ignore_rest();
      check_result(i, data, results.last_was_placed(), foreign, verdict);
    }
  }
  if (const auto error = reply.finish()) {
    broken(verdict, 6, "its results do not decode: " + error->cause);
  }
}

unsigned CallRecord::read_anything(Reply& reply, Verdict& verdict) {
  MessageReader& results = reply.results();
  unsigned sum = 0;
  const auto read = [&sum](Bytes data) {
    for (const std::byte each : data) sum += std::to_integer<unsigned>(each);
  };
  for (const MessageReader::Placed& item : results.placed()) {
    const Bytes data = item.data;
    const bool is_in_place = std::ranges::any_of(places_, [data](GuardedBlock& place) {
      return data.data() >= place.bytes().data() &&
             data.data() + data.size() <= place.bytes().data() + place.bytes().size();
    });
    if (item.position == MessageReader::kInOrder && !data.empty() && !is_in_place) {
      broken(verdict, 4, fmt::format("{} bytes of a result leave its place", data.size()));
      return sum;
    }
    read(data);
  }
  (void)results.xdr().u64("id");
  read(results.xdr().opaque(kBulkMax, "plain result"));
  for (std::size_t i = 0; i < script_.results.size() && results.ok(); ++i) {
    (void)results.xdr().u32("index");
    read(results.bulk(kBulkMax, "result"));
  }
  read(results.xdr().rest());
  reply.ignore_rest();
  return sum;
}

void CallRecord::check_result(std::size_t index, Bytes data, bool placed,
                              const ForeignMemory& foreign, Verdict& verdict) {
  const std::uint32_t size = script_.results[index];
  if (data.size() != size) {
    return broken(verdict, 6,
                  fmt::format("result {} has {} bytes and not {}", index, data.size(), size));
  }
  const bool wrong = script_.foreign
                         ? !std::ranges::equal(data, foreign.run(script_.id, size))
                         : find_difference(data, result_pattern(script_.id, index)).has_value();
  if (wrong) broken(verdict, 6, fmt::format("the bytes of result {} are wrong", index));
  if (index >= places_.size()) return;
  const Bytes place = places_[index].bytes();
  if (size > 0 && data.data() != place.data()) {
    broken(verdict, 6,
           fmt::format("result {} is not in its place, {}", index,
                       placed ? "where RDMA was to put it" : "where it was to be copied"));
  }
  if (!tail_is_unwritten(place, size, kPlaceFill)) {
    broken(verdict, 6, fmt::format("something is written behind result {}", index));
  }
}

void CallRecord::check_memory(Verdict& verdict) const {
  const auto untouched = [](const GuardedBlock& block) { return block.is_untouched(); };
  if (!std::ranges::all_of(arguments_, untouched) || !std::ranges::all_of(places_, untouched)) {
    broken(verdict, retired_ ? 3 : 4,
           retired_ ? "its memory was written after it ended" : "memory around it was written");
  }
}

void CallRecord::retire(Verdict& verdict) {
  check_memory(verdict);
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    if (find_difference(arguments_[i].bytes(), argument_pattern(script_.id, i))) {
      broken(verdict, 4, "its arguments were written");
    }
    arguments_[i].retire();
  }
  for (GuardedBlock& place : places_) place.retire();
  retired_ = true;
}

}  // namespace rpcrdma::simulation
