#include "tools/bench/load.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "tools/bench/service.h"

namespace rpcrdma::tools::bench {
namespace {

// Calls over TCP need no registered memory.
RegisteredMemory registered(Expected<RegisteredMemory, Error> result) {
  if (!result && result.error().code == Errc::kUnsupported) return {};
  if (!result) fail("registering memory", result.error());
  return std::move(*result);
}

}  // namespace

Load::Load(Client& client, const Case& what, const Witness& witness, Bytes data)
    : client_(client), what_(what), witness_(witness), data_(data) {
  slots_.resize(static_cast<std::size_t>(what.depth));
  for (Slot& slot : slots_) {
    if (what.kind != Kind::kRead) continue;
    slot.place.resize(what.size);
    slot.registered = registered(client.register_memory(slot.place));
  }
  if (what.kind == Kind::kWrite) data_registered_ = registered(client.register_read_only(data));
}

// Memory that calls use stays registered: where a run was given up, they end first.
Load::~Load() {
  stopping_ = true;
  client_.close();
  client_.drain();
}

void Load::start() {
  if (witness_.meter == nullptr) round_began_ = Clock::now();
  for (std::size_t i = 0; i < slots_.size(); ++i) start(i);
}

void Load::handle_news() {
  if (witness_.meter == nullptr) round_began_ = Clock::now();
  client_.progress();
}

void Load::stop() {
  stopping_ = true;
  client_.drain();
}

void Load::check() const {
  if (!error_.empty()) throw std::runtime_error(error_);
}

void Load::run() {
  Meter& meter = *witness_.meter;
  start();
  while (!meter.over() && error_.empty()) {
    client_.wait();
    meter.tick();
    if (meter.just_started()) before_ = client_.counters();
    client_.progress();
  }
  check();
  after_ = client_.counters();
  stop();
}

DeviceCosts Load::costs() const {
  return {after_.doorbells - before_.doorbells, after_.completions - before_.completions,
          after_.registrations - before_.registrations};
}

void Load::start(std::size_t index) {
  Slot& slot = slots_[index];
  slot.started = now();
  auto call = client_.prepare({kProgram, kVersion, procedure()}, 64);
  if (!call) return stop(call.error());
  call->expect_results(what_.kind == Kind::kNull ? 0 : 8);
  if (what_.kind == Kind::kRead) {
    call->arguments().xdr().u32(what_.size);
    call->place_result(slot.place);
  } else if (what_.kind == Kind::kWrite) {
    call->arguments().bulk(data_.first(what_.size));
  }
  auto started = client_.start(std::move(*call), [this, index](Expected<Reply, Error> reply) {
    if (!reply) return stop(reply.error());
    finish(*reply, slots_[index]);
    if (!stopping_) start(index);
  });
  if (!started) stop(started.error());
}

void Load::finish(Reply& reply, Slot& slot) {
  MessageReader& results = reply.results();
  bool right = true;
  if (what_.kind == Kind::kRead) {
    const Bytes data = results.bulk(what_.size, "data");
    right = data.size() == what_.size && data.data() == slot.place.data();
  } else if (what_.kind == Kind::kWrite) {
    right = results.xdr().u32("size") == what_.size;
  }
  if (const auto error = reply.finish()) return stop(*error);
  if (!right) error_ = what_.name + ": a reply with the wrong data";
  if (witness_.meter != nullptr) {
    witness_.meter->ended(slot.started);
  } else {
    witness_.tally->ended(1);
    witness_.tally->took(now() - slot.started);
  }
}

std::uint32_t Load::procedure() const {
  if (what_.kind == Kind::kNull) return kNull;
  return what_.kind == Kind::kRead ? kReadData : kWriteData;
}

void check_data(Client& client, const Case& what, Bytes data) {
  if (what.kind == Kind::kNull) return;
  auto call = client.prepare({kProgram, kVersion, what.kind == Kind::kRead ? kReadData : kCheck});
  if (!call) fail(what.name, call.error());
  std::vector<std::byte> place(what.size);
  if (what.kind == Kind::kRead) {
    call->arguments().xdr().u32(what.size);
    call->place_result(place);
  } else {
    call->arguments().bulk(data.first(what.size));
  }
  auto reply = client.call(std::move(*call));
  if (!reply) fail(what.name, reply.error());
  const auto right = reply->decode([&](MessageReader& results) {
    return what.kind == Kind::kRead
               ? std::ranges::equal(results.bulk(what.size, "data"), data.first(what.size))
               : results.xdr().u32("right") == 1;
  });
  if (!right) fail(what.name, right.error());
  if (!*right) throw std::runtime_error(what.name + ": the data arrives damaged");
}

}  // namespace rpcrdma::tools::bench
