#include "conformance/fixture.h"

namespace rpcrdma::test {
void End::start(std::unique_ptr<rdma::QueuePair> queue_pair) {
  queue_pair_ = std::move(queue_pair);
  const auto region = queue_pair_->attach(memory_);
  ASSERT_TRUE(region.has_value());
  region_ = *region;
}

void End::fill(std::size_t offset, std::size_t size, unsigned salt) {
  std::uint32_t state = salt * 2654435761U + 1;
  for (std::byte& value : memory(offset, size)) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<std::byte>(state >> 24U);
  }
}

Expected<void, rdma::Error> End::post(std::uint64_t id, decltype(work::Request::work) work,
                                      bool signaled) {
  work::Request request{id, signaled, std::move(work)};
  return queue_pair_->post({&request, 1});
}

std::optional<rdma::Completion> End::poll() {
  rdma::Completion completion;
  if (queue_pair_->poll({&completion, 1}) == 0) return std::nullopt;
  return completion;
}

Expected<void, rdma::Error> End::post_empty_receive() {
  if (!queue_pair_->capabilities().shares_receives) return post(kInternalId, work::Receive{});
  const auto number = static_cast<std::uint16_t>(kInternalId);
  return queue_pair_->post_receives({region_, 0, 0}, {&number, 1});
}

void ProviderTest::SetUp() {
  fabric = GetParam().make();
  ASSERT_NE(fabric, nullptr) << "the back end cannot be used here";
  auto listening = fabric->server().listen(fabric->listen_address());
  ASSERT_TRUE(listening.has_value());
  listener = std::move(*listening);
}

void ProviderTest::TearDown() {
  client.destroy();
  server.destroy();
  listener.reset();
}

void ProviderTest::connect_silently(End& client_end, End& server_end,
                                    const PrivateData& private_data) {
  auto connecting = fabric->client().connect(listener->address(), private_data.client);
  ASSERT_TRUE(connecting.has_value());
  client_end.start(std::move(*connecting));
  std::unique_ptr<rdma::Incoming> incoming;
  ASSERT_TRUE(pump_until([&] { return (incoming = listener->poll_incoming()) != nullptr; }));
  auto accepted = fabric->server().accept(std::move(incoming), private_data.server);
  ASSERT_TRUE(accepted.has_value());
  server_end.start(std::move(*accepted));
  // The Receive for the client's first message has to be there before it can come.
  ASSERT_TRUE(server_end.post_empty_receive().has_value());
  ASSERT_EQ(next_link_event(client_end), rdma::LinkEvent::kConnected);
}

void ProviderTest::connect(End& client_end, End& server_end, const PrivateData& private_data) {
  ASSERT_NO_FATAL_FAILURE(connect_silently(client_end, server_end, private_data));
  const auto sent = client_end.post(kInternalId, work::Send{});
  ASSERT_TRUE(sent.has_value()) << sent.error().operation << ' ' << sent.error().provider_code;
  ASSERT_EQ(next(client_end).status, rdma::Status::kOk);
  ASSERT_EQ(next(server_end).status, rdma::Status::kOk);
  ASSERT_EQ(next_link_event(server_end), rdma::LinkEvent::kConnected);
}

rdma::Completion ProviderTest::next(End& end) {
  std::optional<rdma::Completion> completion;
  EXPECT_TRUE(pump_until([&] { return (completion = end.poll()).has_value(); }))
      << "no completion came";
  return completion.value_or(rdma::Completion{});
}

std::vector<rdma::Completion> ProviderTest::next(End& end, std::size_t count) {
  std::vector<rdma::Completion> completions;
  EXPECT_TRUE(pump_until([&] {
    while (const auto completion = end.poll()) completions.push_back(*completion);
    return completions.size() >= count;
  })) << completions.size()
      << " of " << count << " completions came";
  EXPECT_LE(completions.size(), count);
  completions.resize(count);
  return completions;
}

work::Remote ProviderTest::expose(End& end, std::uint64_t offset, std::uint32_t size,
                                  work::RemoteAccess access) {
  EXPECT_TRUE(end.post(kInternalId, work::Expose{end.slice(offset, size), access}).has_value());
  const rdma::Completion exposed = next(end);
  EXPECT_EQ(exposed.status, rdma::Status::kOk);
  EXPECT_TRUE(exposed.tag.has_value());
  // As a protocol would: the peer hears of the tag by a message.
  if (&end == &client) barrier(client, server);
  if (&end == &server) barrier(server, client);
  return {exposed.tag.value_or(SteeringTag{}), size, exposed.address};
}

void ProviderTest::revoke(End& end, SteeringTag tag) {
  EXPECT_TRUE(end.post(kInternalId, work::Revoke{tag}).has_value());
  const rdma::Completion revoked = next(end);
  EXPECT_EQ(revoked.id, kInternalId);
  EXPECT_EQ(revoked.status, rdma::Status::kOk);
}

void ProviderTest::barrier(End& from, End& to) {
  ASSERT_TRUE(to.post_empty_receive().has_value());
  ASSERT_TRUE(from.post(kInternalId, work::Send{}, false).has_value());
  const rdma::Completion received = next(to);
  EXPECT_EQ(received.id, kInternalId);
  EXPECT_EQ(received.status, rdma::Status::kOk);
}

std::optional<rdma::LinkEvent> ProviderTest::next_link_event(End& end) {
  std::optional<rdma::LinkEvent> event;
  pump_until([&] { return (event = end.queue_pair().poll_link()).has_value(); });
  return event;
}

void ProviderTest::expect_disconnected(End& a, End& b) {
  for (End* end : {&a, &b}) {
    EXPECT_EQ(next_link_event(*end), rdma::LinkEvent::kDisconnected);
    EXPECT_EQ(end->queue_pair().poll_link(), std::nullopt);
  }
}

void ProviderTest::expect_private_data(Bytes received, Bytes sent) {
  if (!fabric->keeps_private_data_sizes()) {
    ASSERT_GE(received.size(), sent.size());
    for (const std::byte value : received.subspan(sent.size())) EXPECT_EQ(value, std::byte{});
    received = received.first(sent.size());
  }
  EXPECT_EQ(copy_of(received), copy_of(sent));
}

std::vector<std::byte> copy_of(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

std::string fabric_name(const testing::TestParamInfo<FabricKind>& info) {
  return info.param.name;
}

}  // namespace rpcrdma::test
