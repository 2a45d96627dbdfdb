#include "support/gss_caller.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "gss/message.h"
#include "rpcrdma/xdr.h"
#include "support/gss_body.h"

namespace rpcrdma::test {
namespace {

using gss::Control;
using gss::Service;

constexpr std::uint32_t kDenied = 1, kAuthError = 1;  // reply_stat, reject_stat
constexpr std::uint32_t kLastFragment = 0x80000000;   // of a record (RFC 5531 §11)

bool is_checksum_of(gss::Context& context, const Message& covered, Bytes checksum) {
  const Bytes view(covered);
  return context.is_checksum_of({&view, 1}, checksum);
}

}  // namespace

Message opaque(Bytes data) {
  Message made = words({static_cast<std::uint32_t>(data.size())});
  made.insert(made.end(), data.begin(), data.end());
  made.resize(4 + xdr::padded_memory(data.size()));
  return made;
}

Said said_init(Message handle) {
  const auto control = handle.empty() ? Control::kInit : Control::kContinueInit;
  return {.control = static_cast<std::uint32_t>(control),
          .sequence = 0,
          .service = Service::kNone,
          .handle = std::move(handle),
          .procedure = 0};
}

Message verifier_of(Bytes checksum) {
  return join({words({kGss}), opaque(checksum)});
}

// --- GssCaller ---------------------------------------------------------------------------------

Message GssCaller::header(const Said& said) {
  const Message credential = join(
      {words({said.version, said.control, said.sequence, static_cast<std::uint32_t>(said.service)}),
       opaque(said.handle)});
  return join(
      {words({++xid_, 0, 2, TestService::kProgram, TestService::kVersion, said.procedure, kGss}),
       opaque(credential)});
}

Message GssCaller::sealed(const Said& said, const Message& arguments) {
  const Message head = header(said);
  const Bytes view(head);
  Message checksum;
  EXPECT_FALSE(ours->checksum({&view, 1}, checksum).is_error());
  Message body = arguments;
  if (said.service != Service::kNone && !said.is_bare) {
    const Bytes piece(arguments);
    body = wrap_body(*ours, said.service, said.body_sequence.value_or(said.sequence), {&piece, 1});
  }
  return join({head, said.verifier.value_or(verifier_of(checksum)), body});
}

void GssCaller::expect_echo(const Said& said, const Message& data) {
  const auto reply = call(said, opaque(data));
  ASSERT_TRUE(reply) << "the connection has ended";
  expect_echoed(*reply, said, data);
}

void GssCaller::expect_echoed(const Message& reply, const Said& said, const Message& data) {
  const Bytes rest = accepted(reply, said.sequence, 0);
  if (said.service == Service::kNone) {
    EXPECT_TRUE(std::ranges::equal(rest, opaque(data)));
    return;
  }
  const auto results = unwrap_body(*ours, said.service, said.sequence, rest);
  ASSERT_TRUE(results);
  EXPECT_TRUE(std::ranges::equal(*results, opaque(data)));
}

Bytes GssCaller::accepted(const Message& reply, std::uint32_t number, std::uint32_t status) {
  xdr::Reader reader(reply);
  EXPECT_EQ(reader.u32("REPLY"), 1U);
  EXPECT_EQ(reader.u32("MSG_ACCEPTED"), 0U);
  EXPECT_EQ(reader.u32("flavor"), kGss);
  const Bytes checksum = reader.opaque(400, "verifier");
  EXPECT_EQ(reader.u32("accept_stat"), status);
  EXPECT_TRUE(is_checksum_of(*ours, words({number}), checksum));
  return reader.rest();
}

void GssCaller::expect_denied(const std::optional<Message>& reply, AuthStatus why) {
  ASSERT_TRUE(reply) << "the connection has ended";
  EXPECT_EQ(to_words(*reply),
            (std::vector<std::uint32_t>{1, kDenied, kAuthError, static_cast<std::uint32_t>(why)}));
}

std::optional<GssCaller::Made> GssCaller::init(const Said& said, const Message& token,
                                               const Message& verifier) {
  const auto reply = exchange(join({header(said), verifier, opaque(token)}));
  return reply ? made_by(*reply) : std::nullopt;
}

std::optional<GssCaller::Made> GssCaller::made_by(const Message& reply) {
  xdr::Reader reader(reply);
  EXPECT_EQ(reader.u32("REPLY"), 1U);
  EXPECT_EQ(reader.u32("MSG_ACCEPTED"), 0U);
  const std::uint32_t flavor = reader.u32("flavor");
  const Bytes sum = reader.opaque(400, "verifier");
  EXPECT_EQ(flavor, sum.empty() ? 0U : kGss);
  EXPECT_EQ(reader.u32("SUCCESS"), 0U);
  const auto results = gss::decode_init_results(reader.rest());
  EXPECT_TRUE(results);
  if (!results) return std::nullopt;
  Made made;
  made.major = results->major;
  made.window = results->window;
  made.handle.assign(results->handle.begin(), results->handle.end());
  made.token.assign(results->token.begin(), results->token.end());
  made.verifier.assign(sum.begin(), sum.end());
  return made;
}

void GssCaller::make_context(gss::Mechanism& mechanism) {
  auto initiating = mechanism.initiate("test@server");
  made_ = std::move(*initiating);
  ours = made_.get();
  Message token;
  Message of_server;
  gss::Status status = ours->step({}, token);
  for (int i = 0; status.major == gss::Status::kContinueNeeded; ++i) {
    ASSERT_LT(i, 5);
    const auto made = init(said_init(of_server), token);
    ASSERT_TRUE(made);
    ASSERT_LE(made->major, gss::Status::kContinueNeeded);
    of_server = made->handle;
    EXPECT_EQ(made->window, window_);
    status = ours->step(made->token, token);
    EXPECT_EQ(made->verifier.empty(), made->major == gss::Status::kContinueNeeded);
    if (made->verifier.empty()) continue;
    EXPECT_TRUE(is_checksum_of(*ours, words({window_}), made->verifier));
  }
  ASSERT_EQ(status.major, gss::Status::kComplete) << status.text;
  handle = of_server;
}

// --- RawCaller ---------------------------------------------------------------------------------

RawCaller::RawCaller(bool is_tcp, std::string_view address, std::uint32_t window)
    : GssCaller(window) {
  auto peer = RawPeer::connect(address, [] { std::this_thread::yield(); });
  EXPECT_NE(peer, nullptr);
  if (is_tcp) {
    peer_ = std::move(peer);
    return;
  }
  EXPECT_FALSE(peer->initiate(RawTalk::mpa(true)).empty());
  talk_.emplace(std::move(peer), true);
}

bool RawCaller::send(const Message& call) {
  if (!peer_) {
    const std::uint32_t xid = xdr::load_word(call.data());
    return talk_->send(join({raw_header(xid, 0), words({0, 0, 0}), call}));
  }
  const auto size = static_cast<std::uint32_t>(call.size());
  return peer_->send(join({words({kLastFragment | size}), call}));
}

std::optional<Message> RawCaller::receive() {
  std::optional<Message> reply;
  constexpr std::size_t kXidSize = 4;
  std::size_t in_front = kXidSize;
  if (!peer_) {
    reply = talk_->next_message();
    in_front += 7 * xdr::kWordSize;  // a MSG without chunks
  } else if (const Message mark = peer_->receive(xdr::kWordSize); mark.size() == xdr::kWordSize) {
    reply = peer_->receive(xdr::load_word(mark.data()) & ~kLastFragment);
  }
  if (!reply || reply->size() < in_front) return std::nullopt;
  return Message(reply->begin() + static_cast<std::ptrdiff_t>(in_front), reply->end());
}

bool RawCaller::ends() {
  if (receive()) return false;
  return peer_ ? peer_->receive_to_end().has_value() : talk_->fault_at_end().has_value();
}

}  // namespace rpcrdma::test
