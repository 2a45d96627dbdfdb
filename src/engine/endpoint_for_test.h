// One engine::Connection driven by hand: what it wants done is listed, answers are given one by
// one.
#ifndef RPCRDMA_ENGINE_ENDPOINT_FOR_TEST_H_
#define RPCRDMA_ENGINE_ENDPOINT_FOR_TEST_H_

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "engine/connection.h"
#include "engine/kept_work_for_test.h"
#include "wire/v1/header.h"
#include "wire/v2/header.h"

namespace rpcrdma::engine {

inline constexpr std::chrono::nanoseconds kTimeout = std::chrono::seconds(10);

inline Options small() {
  Options options;
  options.credits = 4;
  options.calls_max = 8;
  return options;
}

inline Completion completion_of(WorkId id, Status status = Status::kOk,
                                std::optional<SteeringTag> tag = std::nullopt,
                                std::uint64_t address = 0) {
  return {.id = static_cast<std::uint64_t>(id), .status = status, .tag = tag, .address = address};
}

class Endpoint {
 public:
  Endpoint(Role role, const Options& options, const LinkParameters& link = connected())
      : arena_(Connection::header_arena_size(role, options)),
        receive_size_(receive_size(options)),
        engine(role, options, arena_, kHeaderRegion) {
    drain();
    engine.handle_connected(link);
    drain();
  }
  static LinkParameters connected() { return {4096, 4096, 16, false}; }

  void drain() {
    std::array<work::Request, 3> room;  // small, so that every batch is cut somewhere
    std::array<Slices, 3> slices;
    std::array<Event, 2> event_room;
    std::array<ReceiveId, 2> receive_room;
    engine.handle_time(now);
    for (bool again = true; again;) {
      again = false;
      for (const Event& event : engine.poll_events(event_room)) {
        events.push_back(event);
        again = true;
      }
      if (const auto size = engine.option_port().poll_receive_size()) {
        if (has_memory) receive_size_ = *size;
        engine.option_port().handle_resized(has_memory);
      }
      for (const ReceiveId receive : engine.poll_receives(receive_room)) {
        again = true;
        posted_.push_back({receive, receive_size_});
      }
      for (const work::Request& request : engine.poll_work(room, slices)) {
        again = true;
        actions.push_back(kept(request));
      }
      if (engine.take_disconnect()) actions.emplace_back(Disconnect{});
    }
  }

  // A message from the peer. It stays where it is until the test ends.
  void receive(std::vector<std::byte> message,
               std::optional<SteeringTag> invalidated = std::nullopt) {
    ASSERT_FALSE(posted_.empty()) << "the peer sends more than there are Receives";
    const auto [id, size] = posted_.front();
    posted_.pop_front();
    EXPECT_LE(message.size(), size) << "the peer sends more than the Receive takes";
    messages_.push_back(std::make_unique<std::vector<std::byte>>(std::move(message)));
    engine.handle_received(now, id, *messages_.back(), invalidated);
    drain();
  }

  template <class T>
  std::optional<T> take_action() {
    for (auto it = actions.begin(); it != actions.end(); ++it) {
      if (const auto* found = std::get_if<T>(&*it)) {
        const T value = *found;
        actions.erase(it);
        return value;
      }
    }
    return std::nullopt;
  }
  template <class T>
  std::optional<T> take_event() {
    for (auto it = events.begin(); it != events.end(); ++it) {
      if (const auto* found = std::get_if<T>(&*it)) {
        const T value = *found;
        events.erase(it);
        return value;
      }
    }
    return std::nullopt;
  }
  void done(WorkId id, Status status = Status::kOk) {
    engine.handle_done(completion_of(id, status));
    drain();
  }
  // Answers every Expose there is with a tag of its own; the tags are 1, 2, 3 …
  void expose_all() {
    while (const auto expose = take_action<Expose>()) {
      ++last_tag;
      engine.handle_done(
          completion_of(expose->id, Status::kOk, SteeringTag{last_tag}, 0x1000ULL * last_tag));
      drain();
    }
  }
  void revoke_all() {
    while (const auto revoke = take_action<Revoke>()) {
      revoked.push_back(revoke->handle);
      done(revoke->id);
    }
  }
  // Completes all work there is, with the given status.
  void complete_all(Status status) {
    while (!actions.empty()) {
      const Action action = actions.front();
      actions.erase(actions.begin());
      std::visit(
          [&](const auto& value) {
            if constexpr (requires { value.id; }) {
              const bool is_write = std::is_same_v<std::decay_t<decltype(value)>, RdmaWrite>;
              if (!is_write) {
                engine.handle_done(completion_of(value.id, status, SteeringTag{++last_tag}, 1));
              }
            }
          },
          action);
      drain();
    }
  }

  wire::v1::Decoded header_of(const PostSend& send) {
    const auto decoded =
        wire::v1::decode(Bytes(arena_).subspan(send.header_offset, send.header_size), {}, lists);
    EXPECT_TRUE(decoded);
    return *decoded;
  }
  std::size_t receives_posted() const { return posted_.size(); }

  Instant now{};
  std::vector<std::byte> arena_;
  bool has_memory = true;       // for Receives of another size
  std::uint32_t receive_size_;  // of those posted from now on, bytes
  Connection engine;
  std::vector<Action> actions;
  std::vector<Event> events;
  std::vector<SteeringTag> revoked;
  wire::ChunkLists lists;  // of the last header_of()
  std::uint32_t last_tag = 0;

 private:
  struct Posted {
    ReceiveId id;
    std::uint32_t size;  // bytes
  };
  std::deque<Posted> posted_;
  std::vector<std::unique_ptr<std::vector<std::byte>>> messages_;
};

enum class RpcType : std::uint32_t { kCall = 0, kReply = 1 };

// A message: a header and then a stream of `payload` bytes that starts with the XID and the type.
inline std::vector<std::byte> message(const wire::v1::Header& header, const wire::ChunkLists& lists,
                                      std::size_t payload, RpcType type = RpcType::kCall) {
  std::vector<std::byte> bytes(wire::v1::encoded_size(header, lists) + payload);
  const auto size = wire::v1::encode(header, lists, bytes);
  EXPECT_TRUE(size);
  if (payload >= 4) {
    xdr::Writer writer(MutableBytes(bytes).subspan(*size));
    writer.u32(static_cast<std::uint32_t>(header.xid));
    if (payload >= 8) writer.u32(static_cast<std::uint32_t>(type));
  }
  return bytes;
}

// The same in version 2, of which a header may be all.
inline std::vector<std::byte> message2(const wire::v2::Header& header, std::size_t payload = 0,
                                       RpcType type = RpcType::kCall,
                                       const wire::ChunkLists& lists = {}) {
  std::vector<std::byte> bytes(wire::v2::encoded_size(header, lists) + payload);
  const auto size = wire::v2::encode(header, lists, bytes);
  EXPECT_TRUE(size);
  if (payload >= 8) {
    xdr::Writer writer(MutableBytes(bytes).subspan(*size));
    writer.u32(static_cast<std::uint32_t>(header.xid));
    writer.u32(static_cast<std::uint32_t>(type));
  }
  return bytes;
}

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_ENDPOINT_FOR_TEST_H_
