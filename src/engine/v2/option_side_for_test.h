// One side of a connection of version 2, and the options that a peer sends it.
#ifndef RPCRDMA_ENGINE_V2_OPTION_SIDE_FOR_TEST_H_
#define RPCRDMA_ENGINE_V2_OPTION_SIDE_FOR_TEST_H_

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "engine/connection.h"
#include "engine/endpoint_for_test.h"
#include "wire/v2/header.h"

namespace rpcrdma::engine {

namespace v2 = wire::v2;

inline constexpr std::uint32_t kSize = 1, kInvalidation = 2, kBackward = 3;  // ids

inline Options of_size(std::uint32_t size) {
  Options options;
  options.versions = {1, 2};
  options.credits = 4;
  options.calls_max = 8;
  options.inline_send = options.inline_receive = size;
  return options;
}

// Values by their words, kept for as long as they are looked at.
class Values {
 public:
  Values(std::initializer_list<std::pair<std::uint32_t, std::uint32_t>> all) {
    words_.reserve(all.size());
    for (const auto& [id, word] : all) {
      words_.emplace_back();
      xdr::store_word(words_.back().data(), word);
      values_.push_back({id, words_.back()});
    }
  }
  std::span<const v2::CharacteristicValue> span() const { return values_; }

 private:
  std::vector<std::array<std::byte, 4>> words_;
  std::vector<v2::CharacteristicValue> values_;
};

inline std::vector<std::byte> written(const std::function<void(xdr::Writer&)>& write) {
  std::vector<std::byte> info(200);
  xdr::Writer writer(info);
  write(writer);
  EXPECT_TRUE(writer.ok());
  info.resize(writer.position());
  return info;
}
inline std::vector<std::byte> option(std::uint32_t xid, v2::Operation operation, Bytes info) {
  return message2(
      {Xid{xid}, 2, 8,
       v2::Optional{v2::Direction::kCall, static_cast<std::uint32_t>(operation), info}});
}
inline std::vector<std::byte> init(std::uint32_t xid, const Values& values) {
  return option(xid, v2::Operation::kInitXch,
                written([&](xdr::Writer& writer) { v2::write_init(writer, values.span(), {}); }));
}
inline std::vector<std::byte> request(std::uint32_t xid, const Values& values) {
  return option(xid, v2::Operation::kReqXch,
                written([&](xdr::Writer& writer) { v2::write_request(writer, values.span()); }));
}
inline std::vector<std::byte> update(std::uint32_t xid, const Values& values, bool clears = false) {
  return option(xid, v2::Operation::kUpdXch, written([&](xdr::Writer& writer) {
                  v2::write_update(writer, values.span()[0], clears);
                }));
}
using Elements = std::vector<std::uint32_t>;
inline std::vector<std::byte> response(std::uint32_t xid, const Elements& done,
                                       const Elements& rejected, const Elements& pending) {
  return option(xid, v2::Operation::kRespXch, written([&](xdr::Writer& writer) {
                  v2::write_response(writer, done, rejected, pending);
                }));
}

// One side that has begun with version 2, and has made itself known.
class OneSide : public testing::Test {
 protected:
  explicit OneSide(Role role, const Options& options = of_size(8192))
      : side(role, options, LinkParameters{1024, 1024, 16, true}) {}

  // The next message that goes out, which is then done.
  std::optional<v2::Header> sent() {
    const auto send = side.take_action<PostSend>();
    if (!send) return std::nullopt;
    const auto decoded = v2::decode(
        Bytes(side.arena_).subspan(send->header_offset, send->header_size), {}, side.lists);
    EXPECT_TRUE(decoded);
    side.done(send->id);
    return decoded ? std::optional(decoded->header) : std::nullopt;
  }
  // Takes the next option that is sent, and returns its text: "INITXCH 1=8192 2=1", "REQXCH
  // 1=8192", "RESPXCH 0 done", "UPDXCH 1=8192 clears". Sets `told_xid` to its XID.
  std::string told() {
    const auto header = sent();
    if (!header) return "nothing";
    if (!std::holds_alternative<v2::Optional>(header->body)) return "no option";
    told_xid = static_cast<std::uint32_t>(header->xid);
    const auto& body = std::get<v2::Optional>(header->body);
    const auto decoded = v2::decode_option(body.type, body.info);
    if (!decoded) return "no information";
    EXPECT_EQ(body.direction, std::holds_alternative<v2::RespXch>(*decoded) ? v2::Direction::kReply
                                                                            : v2::Direction::kCall);
    if (const auto* init = std::get_if<v2::InitXch>(&*decoded))
      return "INITXCH" + text(init->start);
    if (const auto* want = std::get_if<v2::ReqXch>(&*decoded)) return "REQXCH" + text(want->want);
    if (const auto* now = std::get_if<v2::UpdXch>(&*decoded)) {
      return "UPDXCH" + text(now->now) + (now->clears_pending ? " clears" : "");
    }
    std::string said = "RESPXCH";
    const auto& response = std::get<v2::RespXch>(*decoded);
    for (std::uint32_t i = 0; i < v2::kSubsetMax; ++i) {
      if (response.done.contains(i)) said += ' ' + std::to_string(i) + " done";
      if (response.rejected.contains(i)) said += ' ' + std::to_string(i) + " rejected";
      if (response.pending.contains(i)) said += ' ' + std::to_string(i) + " pending";
    }
    return said;
  }
  const Characteristics& peer() const { return side.engine.option_port().characteristics().peer(); }
  const LinkParameters& link() const { return side.engine.link(); }

  Endpoint side;
  std::uint32_t told_xid = 0;  // of the option that told() returned last

 private:
  static std::string text(const v2::CharacteristicValue& value) {
    return ' ' + std::to_string(value.id) + '=' + std::to_string(*v2::as_number(value));
  }
  static std::string text(const v2::CharacteristicSpec& spec) {
    std::string all;
    spec.for_each([&](std::uint32_t, const v2::CharacteristicValue& value) { all += text(value); });
    return all;
  }
};

class ServerSide : public OneSide {
 protected:
  explicit ServerSide(const Options& options = of_size(8192)) : OneSide(Role::kServer, options) {
    side.receive(message2({Xid{1}, 2, 8, v2::Msg{v2::Direction::kCall}}, 40));
    const auto call = side.take_event<CallReceived>();
    EXPECT_TRUE(call);
    side.receive(init(2, {}));
    EXPECT_EQ(told(), "INITXCH 1=" + std::to_string(receive_size(options)));
    side.engine.responder().start_reply(call->call, {});
    side.drain();
    EXPECT_TRUE(sent());
  }
};

class ClientSide : public OneSide {
 protected:
  explicit ClientSide(const Options& options = of_size(8192)) : OneSide(Role::kClient, options) {}
  void start(std::uint32_t xid, std::uint32_t size = 40, std::uint32_t reply_size_max = 100) {
    const Fragment run{Lease{1}, size, 0, 0};
    Outgoing call;
    call.stream = {&run, 1};
    call.reply_size_max = reply_size_max;
    call.reply_room = ResultRoom{Lease{5}, 100'000, 0, 0};
    ASSERT_TRUE(side.engine.requester().start_call(side.now, Xid{xid}, call, kTimeout));
    side.drain();
  }
  void reply(std::uint32_t xid) {
    side.receive(message2({Xid{xid}, 2, 4, v2::Msg{v2::Direction::kReply}}, 24, RpcType::kReply));
    const auto ready = side.take_event<ReplyReady>();
    ASSERT_TRUE(ready);
    side.engine.requester().release(ready->call);
    side.drain();
  }
  // The offer, and its answer.
  void begin() {
    start(1);
    ASSERT_TRUE(sent());
    reply(1);
  }
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_V2_OPTION_SIDE_FOR_TEST_H_
