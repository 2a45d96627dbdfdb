#include "rpc/call/first_call.h"

#include <algorithm>
#include <array>
#include <utility>

#include "oncrpc/configuration.h"
#include "oncrpc/message.h"
#include "rpc/engine_options.h"

namespace rpcrdma::rpc {
namespace {

// The answers of a server that does not have the protocol.
constexpr std::array kAnswers = {Errc::kNotAvailable, Errc::kDenied, Errc::kBadArguments,
                                 Errc::kServerFault, Errc::kChunk};

}  // namespace

void FirstCall::use_connection(transport::Connection& connection) noexcept {
  connection_ = &connection;
  is_sent_ = false;
  carrier_.set_use(is_rfc5666() || options_.versions.high > 1 ? Use::kNotYet : Use::kNow);
}

void FirstCall::send() {
  is_sent_ = true;
  is_rfc5666() ? configure() : offer_version();
}

void FirstCall::send_prepared(ReplyCallback&& callback) {
  if (flow_.send_own(flow_.options().provider.setup_timeout_client, std::move(callback))) return;
  connection_->disconnect();
}

// --- The Connection Configuration Protocol -----------------------------------------------------

void FirstCall::configure() {
  CallSlot& slot = flow_.prepared().prepare_own(oncrpc::kConfigureConnection, false);
  oncrpc::encode(oncrpc::ConfigurationRequest{options_.inline_send, options_.inline_receive,
                                              connection_->reads_served_max()},
                 slot.writer.xdr());
  send_prepared([this](Expected<Reply, Error> reply) { handle_configured(std::move(reply)); });
}

// A server that does not have the protocol is one with which everything stays small. One that
// answers nothing keeps the connection's only credit, or is no server at all.
void FirstCall::handle_configured(Expected<Reply, Error> reply) {
  if (!reply) {
    const bool was_answered = std::ranges::count(kAnswers, reply.error().code) > 0;
    if (!was_answered) return connection_->disconnect();
    return carrier_.set_use(Use::kNow);
  }
  const auto answer = oncrpc::decode_configuration_reply(reply->results().xdr());
  if (reply->finish()) return connection_->disconnect();
  engine::LinkParameters link = connection_->engine().link();
  link.inline_send = std::clamp(answer.call_size_max, kInlineSizeMin, options_.inline_send);
  link.inline_receive = options_.inline_receive;
  link.padding_alignment = answer.alignment;
  link.reads_in_flight_max = std::min(connection_->reads_in_flight_max(), answer.reads_max);
  // RFC 5666 §6: without RDMA Reads "no transfer will be possible".
  link.read_chunks = answer.reads_max > 0;
  connection_->engine().configure(link);
  carrier_.set_use(Use::kNow);
}

// --- The offer of version two ------------------------------------------------------------------

// The call names program 0, which nobody has: what the server makes of it does not matter, and it
// may be made again. It is no call of the application's, so nothing seals it.
void FirstCall::offer_version() {
  CallSlot& slot = flow_.prepared().prepare_own({0, 0, 0}, true);
  constexpr std::uint32_t kRpcVersion = 2;
  for (const std::uint32_t word :
       {static_cast<std::uint32_t>(slot.xid), 0U, kRpcVersion, 0U, 0U, 0U, 0U, 0U, 0U, 0U}) {
    slot.writer.xdr().u32(word);  // the Call with AUTH_NONE twice (RFC 5531 §9)
  }
  send_prepared([this](Expected<Reply, Error> reply) {
    // BAD_HEADER is an answer as well. Where there was none, the connection has ended, or is to.
    const bool is_answered = reply || reply.error().code == Errc::kChunk;
    is_answered ? handle_offered() : connection_->disconnect();
  });
}

void FirstCall::handle_offered() {
  carrier_.set_use(Use::kNow);
  // The server's answer holds for the connections to come.
  if (connection_->engine().link().dialect == engine::Dialect::kV1) {
    leave_out();
  } else {
    has_version_two_ = true;
    unanswered_offers_ = 0;
  }
}

bool FirstCall::is_offer_unanswered() const noexcept {
  return is_sent_ && carrier_.use() == Use::kNotYet && options_.versions.contain(2) &&
         options_.versions.contain(1);
}

bool FirstCall::is_refused() const noexcept {
  return connection_ != nullptr && connection_->ended() && is_offer_unanswered() &&
         !has_version_two_ && connection_->engine().given_up() != engine::GivenUp::kNoVersion;
}

void FirstCall::note_end() noexcept {
  constexpr std::uint32_t kEnough = 2;
  const bool is_silent = connection_->engine().given_up() == engine::GivenUp::kNoAnswer;
  if (has_version_two_ && is_silent && is_offer_unanswered() && ++unanswered_offers_ == kEnough)
    has_version_two_ = false;
  connection_ = nullptr;
}

}  // namespace rpcrdma::rpc
