#include "system/version_two_peer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <utility>

namespace rpcrdma::test {
namespace {

constexpr std::uint64_t kExposeId = 1000, kOtherId = 1001;

}  // namespace

VersionTwoPeer::VersionTwoPeer(std::unique_ptr<rdma::QueuePair> queue_pair)
    : receive_memory_(std::size_t{kPhysical} * kSize),
      send_memory_(kSendRoom),
      queue_pair_(std::move(queue_pair)) {
  receive_region_ = queue_pair_->attach(receive_memory_).value();
  send_region_ = queue_pair_->attach(send_memory_).value();
  for (std::uint16_t i = 0; i < kPhysical; ++i) post_physical(i);
}

void VersionTwoPeer::post(std::uint32_t count, std::uint32_t size) {
  posted_.insert(posted_.end(), count, size);
}

void VersionTwoPeer::post_physical(std::uint16_t number) {
  const std::uint16_t numbers[] = {number};
  const auto posted = queue_pair_->post_receives({receive_region_, kSize, kSize}, numbers);
  if (!posted) ended_ = true;
}

void VersionTwoPeer::send_bytes(Bytes message) {
  ASSERT_LE(message.size(), kSendRoom);
  if (ended_) return;
  if (send_offset_ + message.size() > kSendRoom) send_offset_ = 0;
  std::ranges::copy(message, send_memory_.begin() + send_offset_);
  const rdma::Slice from[] = {
      {send_region_, static_cast<std::uint32_t>(message.size()), send_offset_}};
  send_offset_ += static_cast<std::uint32_t>(message.size());
  work::Request request;
  request.id = kOtherId;
  request.work = rdma::Send{from, {}};
  const auto sent = queue_pair_->post({&request, 1});
  if (!sent) ended_ = true;
}

void VersionTwoPeer::expose(const draft::Words& content, rdma::RemoteAccess access) {
  exposed_.reset();
  exposed_memory_ = draft::bytes_of(content);
  const rdma::RegionId region = queue_pair_->attach(exposed_memory_).value();
  work::Request request;
  request.id = kExposeId;
  request.work =
      rdma::Expose{{region, static_cast<std::uint32_t>(exposed_memory_.size()), 0}, access};
  ASSERT_TRUE(queue_pair_->post({&request, 1}));
}

void VersionTwoPeer::write(const draft::Words& content, const draft::Segment& to) {
  const std::vector<std::byte> bytes = draft::bytes_of(content);
  ASSERT_LE(send_offset_ + bytes.size(), kSendRoom);
  std::ranges::copy(bytes, send_memory_.begin() + send_offset_);
  const auto size = static_cast<std::uint32_t>(bytes.size());
  const rdma::Slice from[] = {{send_region_, size, send_offset_}};
  send_offset_ += size;
  work::Request request;
  request.id = kOtherId;
  request.work = rdma::Write{from, {SteeringTag{to.handle}, size, to.offset}};
  ASSERT_TRUE(queue_pair_->post({&request, 1}));
}

void VersionTwoPeer::progress() {
  while (const auto event = queue_pair_->poll_link()) {
    connected_ = *event == rdma::LinkEvent::kConnected;
    ended_ = ended_ || !connected_;
  }
  std::array<rdma::Completion, 8> done;
  while (const std::size_t count = queue_pair_->poll(done)) {
    for (const rdma::Completion& each : std::span(done).first(count)) {
      if (each.status != rdma::Status::kOk || each.id == kOtherId) continue;
      if (each.id == kExposeId) {
        exposed_ = {static_cast<std::uint32_t>(*each.tag),
                    static_cast<std::uint32_t>(exposed_memory_.size()), each.address};
        continue;
      }
      if (each.tag) invalidated_.push_back(static_cast<std::uint32_t>(*each.tag));
      handle_message({&receive_memory_[each.id * kSize], each.size});
      post_physical(static_cast<std::uint16_t>(each.id));
    }
  }
}

void VersionTwoPeer::handle_message(Bytes message) {
  ++received_;
  received_size_max_ = std::max(received_size_max_, message.size());
  auto seen = draft::decode(draft::words_of(message));
  const std::string name =
      seen ? draft::to_string(*seen) : std::to_string(message.size()) + " bytes";
  if (!seen || message.size() % 4 != 0) faults_.push_back(name + " do not decode");
  if (posted_.empty()) {
    faults_.push_back(name + " found no Receive");
  } else {
    if (message.size() > posted_.front()) faults_.push_back(name + " did not fit its Receive");
    const std::uint32_t size = posted_.front();
    posted_.pop_front();
    if (reposts_) posted_.push_back(size);
  }
  if (!seen) return;
  if (seen->credit == 0) zero_credits_.push_back(name);
  inbox.push_back(std::move(*seen));
}

std::optional<draft::Seen> VersionTwoPeer::take() {
  if (inbox.empty()) return std::nullopt;
  draft::Seen seen = std::move(inbox.front());
  inbox.pop_front();
  return seen;
}

void PeerWorld::settle() {
  constexpr int kStepsMax = 1'000'000;
  for (int left = kStepsMax; left > 0; --left) {
    progress();
    if (!world_.step()) {
      progress();
      if (!world_.next_event()) return;
    }
  }
  ADD_FAILURE() << "the two sides never come to rest";
}

void PeerWorld::step(std::uint32_t count) {
  for (; count > 0; --count) {
    progress();
    if (!world_.step()) break;
  }
  progress();
}

bool PeerWorld::run_until(const std::function<bool()>& condition, std::chrono::seconds limit) {
  const Instant end = world_.now() + limit;
  constexpr int kStepsMax = 1'000'000;
  for (int left = kStepsMax; left > 0 && world_.now() < end; --left) {
    progress();
    if (condition()) return true;
    if (!world_.pass_time()) break;
  }
  return condition();
}

}  // namespace rpcrdma::test
