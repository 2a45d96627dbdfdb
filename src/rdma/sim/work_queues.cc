#include "rdma/sim/work_queues.h"

#include <algorithm>
#include <utility>

#include "rdma/sim/domain.h"

namespace rpcrdma::rdma::sim {

const std::byte* SharedMessages::hold(std::uint64_t number, std::vector<std::byte> data) {
  if (data.empty()) data.reserve(1);  // a message of no bytes is somewhere, too
  Message& message = messages_[number];
  message = {std::move(data), true};
  if (!world_.count_shared_message(1)) world_.violation("no shared Receive is left");
  return message.data.data();
}

void SharedMessages::give_back(std::uint64_t number) {
  Message& message = messages_[number];
  std::ranges::fill(message.data, kPoison);
  if (std::exchange(message.is_held, false)) world_.count_shared_message(-1);
}

std::optional<Error> WorkQueues::find_no_room(std::span<const work::Request> batch,
                                              std::size_t exposures, std::size_t exposures_max) {
  std::size_t reads = reads_in_flight_;
  for (const auto& [serial, local] : local_) {
    exposures += std::holds_alternative<Expose>(local.work) ? 1U : 0U;
  }
  const std::size_t exposures_before = exposures;
  // A completion keeps its place in its queue until it was polled.
  std::size_t receives = receives_.size() + received_unpolled_;
  std::size_t others = outgoing_.size() + local_.size() + completions_.size() - received_unpolled_;
  for (const work::Request& request : batch) {
    reads += std::holds_alternative<Read>(request.work) ? 1U : 0U;
    exposures += std::holds_alternative<Expose>(request.work) ? 1U : 0U;
    ++(std::holds_alternative<Receive>(request.work) ? receives : others);
  }
  const auto full = [this](std::string_view why) {
    was_full_ = true;
    return Error{Errc::kNoResources, 0, why};
  };
  if (std::max(receives, others) > capabilities_.queue_depth_max) {
    return full("post: the queue is full");
  }
  if (reads > capabilities_.reads_in_flight_max) return full("post: too many Reads in flight");
  if (exposures > exposures_before && exposures > exposures_max) {
    return full("post: too much memory is exposed");
  }
  return std::nullopt;
}

Serial WorkQueues::add(Outgoing outgoing) {
  if (outgoing.kind == Outgoing::Kind::kRead) ++reads_in_flight_;
  outgoing_.emplace(next_serial_, std::move(outgoing));
  return next_serial_++;
}

Serial WorkQueues::add(Local local) {
  local_.emplace(next_serial_, local);
  return next_serial_++;
}

bool WorkQueues::has_receive(std::uint64_t id) const {
  return std::ranges::any_of(receives_, [id](const PostedReceive& each) { return each.id == id; });
}

PostedReceive WorkQueues::take_receive() {
  PostedReceive receive = std::move(receives_.front());
  receives_.pop_front();
  return receive;
}

Outgoing* WorkQueues::find(Serial serial) {
  const auto at = outgoing_.find(serial);
  return at != outgoing_.end() ? &at->second : nullptr;
}

std::optional<Local> WorkQueues::take_local(Serial serial) {
  const auto at = local_.find(serial);
  if (at == local_.end()) return std::nullopt;
  const Local local = at->second;
  local_.erase(at);
  return local;
}

bool WorkQueues::refers_to(RegionId region) const {
  const auto names_it = [region](const Slice& slice) { return slice.region == region; };
  for (const PostedReceive& receive : receives_) {
    if (std::ranges::any_of(receive.into, names_it)) return true;
  }
  for (const auto& [serial, outgoing] : outgoing_) {
    if (std::ranges::any_of(outgoing.slices, names_it)) return true;
  }
  for (const auto& [serial, local] : local_) {
    const auto* expose = std::get_if<Expose>(&local.work);
    if (expose != nullptr && names_it(expose->memory)) return true;
  }
  return false;
}

void WorkQueues::complete(Serial serial) {
  const auto at = outgoing_.find(serial);
  if (at == outgoing_.end()) return;  // flushed
  const Outgoing work = std::move(at->second);
  outgoing_.erase(at);
  if (work.kind == Outgoing::Kind::kRead) --reads_in_flight_;
  push({.id = work.id}, work.signaled);
}

void WorkQueues::push(const Completion& completion, bool signaled) {
  const bool is_told = signaled || completion.status != Status::kOk;
  if (is_told) completions_.push_back({completion, false});
  if (std::exchange(was_full_, false) || is_told) news_.report();
}

void WorkQueues::push_received(const Completion& completion) {
  completions_.push_back({completion, true});
  ++received_unpolled_;
  news_.report();
}

// A later Send or Write is never known to be done without an earlier one.
void WorkQueues::flush(bool known_done) {
  for (const auto& [serial, work] : outgoing_) {
    known_done = known_done && (work.arrived || work.kind == Outgoing::Kind::kRead);
    const bool done = known_done && work.kind != Outgoing::Kind::kRead;
    push({.id = work.id, .status = done ? Status::kOk : work.failure}, work.signaled);
  }
  for (const auto& [serial, local] : local_) {
    push({.id = local.id, .status = Status::kFlushed}, local.signaled);
  }
  for (const PostedReceive& receive : receives_) {
    push_received({.id = receive.id, .status = Status::kFlushed});
  }
  outgoing_.clear();
  local_.clear();
  receives_.clear();
  reads_in_flight_ = 0;
}

std::size_t WorkQueues::poll(std::span<Completion> out) {
  const std::size_t count = std::min(out.size(), completions_.size());
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = completions_.front().completion;
    if (completions_.front().of_receive) --received_unpolled_;
    completions_.pop_front();
  }
  return count;
}

}  // namespace rpcrdma::rdma::sim
