#include "sim/node.h"

#include <algorithm>
#include <array>
#include <utility>

#include "rpcrdma/xdr.h"
#include "sim/stream_world.h"

namespace rpcrdma::simulation {
namespace {

// By the alternative of work::Request::work.
constexpr std::array<std::string_view, 6> kPosts{
    "{} {} posts the Receive {:x}", "{} {} posts the Send {:x}",   "{} {} posts the Read {:x}",
    "{} {} posts the Write {:x}",   "{} {} posts the Expose {:x}", "{} {} posts the Revoke {:x}"};
constexpr std::size_t kCreditsAt = 8;  // bytes into every RPC-over-RDMA header

std::uint32_t credits_of(Bytes message) {
  if (message.size() < kCreditsAt + xdr::kWordSize) return 0;
  return xdr::Reader(message.subspan(kCreditsAt)).u32("credits");
}

// The direction of a message as its first words tell it: 0 of a Call, 1 of a reply. In version 2 it
// is in the header; in version 1 (RFC 8167 §5.3) only the sender's role tells it where there are
// chunks.
constexpr std::size_t kFirstWords = 36;  // bytes: a header without chunks, XID and msg_type
constexpr std::uint32_t kPaddedType = 2, kDoneType = 3, kErrorType = 4, kOptionType = 5;
constexpr std::size_t kTypeAt = 12;  // bytes into every RPC-over-RDMA header

std::uint32_t type_of(Bytes message) {
  return message.size() < kTypeAt + xdr::kWordSize ? 0 : xdr::load_word(message.data() + kTypeAt);
}

std::optional<std::uint32_t> rpc_type(Bytes message) {
  xdr::Reader reader(message.first(std::min(message.size(), kFirstWords)));
  (void)reader.u32("XID");
  const std::uint32_t version = reader.u32("version");
  (void)reader.u32("credits");
  if (reader.u32("type") == kErrorType) return 1;
  std::array<std::uint32_t, 5> words{};
  for (std::uint32_t& word : words) word = reader.u32("word");
  if (version == 2) return words[0];
  if (!reader.ok() || (words[0] | words[1] | words[2]) != 0 || words[4] > 1) return std::nullopt;
  return words[4];
}

std::unique_ptr<rdma::sim::QueuePair> to_sim(std::unique_ptr<rdma::QueuePair> queue_pair) {
  // All queue pairs come from the simulator's provider inside of the node.
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-static-cast-downcast)
  return std::unique_ptr<rdma::sim::QueuePair>(
      static_cast<rdma::sim::QueuePair*>(queue_pair.release()));
}

}  // namespace

// --- MonitoredQueuePair ------------------------------------------------------------------------

MonitoredQueuePair::MonitoredQueuePair(std::unique_ptr<rdma::sim::QueuePair> inner, Node& node,
                                       bool is_client)
    : inner_(std::move(inner)), node_(node), is_client_(is_client), credits_(node.shared_.rfc5666) {
  node_.queue_pairs_.push_back(this);
}

MonitoredQueuePair::~MonitoredQueuePair() {
  node_.shared_.totals.add(Count::kPayloadBytes, inner_->counters().payload_sent);
  std::erase(node_.queue_pairs_, this);
}

Expected<work::RegionId, rdma::Error> MonitoredQueuePair::attach(MutableBytes memory) {
  auto region = inner_->attach(memory);
  if (region) {
    regions_[*region] = memory;
  } else {
    node_.shared_.totals.add(Count::kAttachFailed);
  }
  return region;
}

Expected<work::RegionId, rdma::Error> MonitoredQueuePair::attach_read_only(Bytes memory) {
  auto region = inner_->attach_read_only(memory);
  if (region) {
    regions_[*region] = memory;
  } else {
    node_.shared_.totals.add(Count::kAttachFailed);
  }
  return region;
}

void MonitoredQueuePair::detach(work::RegionId region) {
  regions_.erase(region);
  inner_->detach(region);
}

Expected<void, rdma::Error> MonitoredQueuePair::post(std::span<work::Request> batch) {
  auto posted = inner_->post(batch);
  if (posted) {
    for (const work::Request& request : batch) see_posted(request);
  }
  return posted;
}

Expected<void, rdma::Error> MonitoredQueuePair::post_receives(
    const rdma::ReceiveBuffers& buffers, std::span<const std::uint16_t> numbers) {
  if (!capabilities().shares_receives) return rdma::QueuePair::post_receives(buffers, numbers);
  auto posted = inner_->post_receives(buffers, numbers);
  if (!posted) return posted;
  const Node::Shared& shared = node_.shared_;
  for (const std::uint16_t number : numbers) {
    shared.trace.note(shared.world, "{} {} posts the shared Receive {:x}", node_.name(),
                      node_.number_, number);
    receives_[number] = {};
  }
  return posted;
}

void MonitoredQueuePair::see_posted(const work::Request& request) {
  const Node::Shared& shared = node_.shared_;
  shared.trace.note(shared.world, kPosts[request.work.index()], node_.name(), node_.number_,
                    request.id);
  if (const auto* receive = std::get_if<work::Receive>(&request.work)) {
    receives_[request.id] = receive->into[0];
  } else if (const auto* send = std::get_if<work::Send>(&request.work)) {
    const auto start = first_words(*send);
    const std::uint32_t credits = credits_of(start);
    if (type_of(start) == kOptionType) return;  // no credit counts it
    if (type_of(start) == kPaddedType) node_.shared_.totals.add(Count::kPadded);
    if (is_client_ && type_of(start) == kDoneType) {
      node_.shared_.totals.add(Count::kDones);  // has no answer
    } else if (is_client_ && rpc_type(start) == 1U) {
      backward_credits_.reply_received(credits, node_.shared_.verdict);
    } else if (is_client_) {
      credits_.call_sent(credits, node_.shared_.verdict);
    } else if (credits == 0) {
      node_.shared_.verdict.broken(2, "a server grants no credits");
    }
  }
}

std::size_t MonitoredQueuePair::poll(std::span<rdma::Completion> out) {
  const std::size_t count = inner_->poll(out);
  for (const rdma::Completion& completion : out.first(count)) see_completed(completion);
  return count;
}

void MonitoredQueuePair::see_completed(const rdma::Completion& completion) {
  const Node::Shared& shared = node_.shared_;
  shared.trace.note(shared.world, "{} {} polls the completion of {:x}, status {}", node_.name(),
                    node_.number_, completion.id, static_cast<unsigned>(completion.status));
  // A fault, not a limit: an Expose that was taken and could not be done.
  if (completion.status == rdma::Status::kLocalError) {
    node_.shared_.totals.add(Count::kExposeFailed);
  }
  const auto receive = receives_.find(completion.id);
  if (receive == receives_.end()) return;
  const work::Slice into = receive->second;
  receives_.erase(receive);
  if (completion.status != rdma::Status::kOk || !is_client_) return;
  const Bytes message = capabilities().shares_receives
                            ? Bytes(completion.message, completion.size)
                            : regions_.at(into.region).subspan(into.offset, completion.size);
  if (type_of(message) == kOptionType) return;
  if (rpc_type(message) == 0U) {
    backward_credits_.call_sent(credits_of(message), node_.shared_.verdict);
  } else {
    credits_.reply_received(credits_of(message), node_.shared_.verdict);
  }
}

std::vector<std::byte> MonitoredQueuePair::first_words(const work::Send& send) const {
  std::vector<std::byte> start;
  for (const work::Slice& slice : send.from) {
    const std::size_t left = kFirstWords - start.size();
    const Bytes bytes =
        regions_.at(slice.region).subspan(slice.offset, std::min<std::size_t>(left, slice.size));
    start.insert(start.end(), bytes.begin(), bytes.end());
  }
  return start;
}

std::optional<rdma::LinkEvent> MonitoredQueuePair::poll_link() {
  const auto event = inner_->poll_link();
  if (!event || !is_client_) return event;
  Totals& totals = node_.shared_.totals;
  switch (*event) {
    case rdma::LinkEvent::kConnected:
      totals.add(Count::kConnections);
      if (node_.connections_made_++ > 0) totals.add(Count::kReconnections);
      node_.connected_to_ = node_.connecting_to_;
      node_.link_cause_.reset();
      break;
    case rdma::LinkEvent::kRefused:
      node_.link_cause_ = cause();
      totals.add(Count::kRefused);
      break;
    case rdma::LinkEvent::kDisconnected:
      node_.link_cause_ = cause();
      if (cause().operation != "disconnect") totals.add(Count::kLost);
      if (cause().operation == "the connection broke") totals.add(Count::kBroken);
      break;
  }
  return event;
}

// --- Node --------------------------------------------------------------------------------------

Node::Node(const Shared& shared, bool is_client, std::size_t number, Instant::duration ahead)
    : shared_(shared),
      inner_(shared.world, is_client ? "client" : "server"),
      is_client_(is_client),
      number_(number),
      ahead_(ahead) {}

Node::~Node() {
  if (first_ != nullptr) std::erase(first_->shards_, this);
}

Expected<std::unique_ptr<rdma::Provider>, rdma::Error> Node::make_shard() {
  auto made = std::make_unique<Node>(shared_, is_client_, number_, ahead_);
  made->first_ = this;
  shards_.push_back(made.get());
  return made;
}

Expected<std::unique_ptr<rdma::QueuePair>, rdma::Error> Node::accept(
    std::unique_ptr<rdma::Incoming> request, Bytes private_data) {
  auto queue_pair = inner_.accept(std::move(request), private_data);
  if (!queue_pair) return queue_pair;
  return std::make_unique<MonitoredQueuePair>(to_sim(std::move(*queue_pair)), *this, is_client_);
}

Expected<std::unique_ptr<rdma::QueuePair>, rdma::Error> Node::connect(std::string_view address,
                                                                      Bytes private_data) {
  connecting_to_ = address;
  auto queue_pair = inner_.connect(address, private_data);
  if (!queue_pair) return queue_pair;
  return std::make_unique<MonitoredQueuePair>(to_sim(std::move(*queue_pair)), *this, is_client_);
}

Expected<std::unique_ptr<rdma::Listener>, rdma::Error> Node::listen(std::string_view address) {
  auto listener = inner_.listen(address);
  if (listener) listen_address_ = std::string((*listener)->address());
  return listener;
}

void Node::progress() {
  woken_ = false;
  if (shared_.progress_runs_the_world) inner_.progress();
}

void Node::arm_timer(std::optional<Instant> when) {
  timer_ = when;
  if (timer_) *timer_ -= ahead_;
  inner_.arm_timer(timer_);
}

void Node::wait() {
  if (std::this_thread::get_id() != runner_) return thread_.wait();
  if (!std::exchange(woken_, false)) shared_.driver.wait_for(*this);
}

bool Node::wait_also_for(int epoll) {
  if (shared_.streams == nullptr) return false;
  epoll_ = epoll;
  return true;
}

std::optional<Instant> Node::timer() const {
  if (epoll_ < 0) return timer_;
  const auto of_streams = shared_.streams->timer_of(epoll_);
  return timer_ && (!of_streams || *timer_ < *of_streams) ? timer_ : of_streams;
}

void Node::arm_timers() {
  if (epoll_ >= 0) inner_.arm_timer(timer());
}

bool Node::ready() const noexcept {
  if (epoll_ >= 0 && shared_.streams->is_ready(epoll_)) return true;
  if (woken_ || (timer_ && *timer_ <= shared_.world.now())) return true;
  const auto has_news = [](const MonitoredQueuePair* pair) { return pair->has_news(); };
  if (std::ranges::any_of(queue_pairs_, has_news)) return true;
  if (listen_address_.empty()) return false;
  const rdma::sim::Listener* listener = shared_.world.find_listener(listen_address_);
  return listener != nullptr && listener->has_news();
}

}  // namespace rpcrdma::simulation
