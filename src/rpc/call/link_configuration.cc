// The client's side of the Connection Configuration Protocol (RFC 5666 §6): the first Call of each
// connection with Profile::kRfc5666. It has a slot of its own, since calls that wait for the
// connection may hold all others.
#include <algorithm>
#include <array>

#include "oncrpc/configuration.h"
#include "rpc/call/connecting_client.h"
#include "rpc/engine_options.h"

namespace rpcrdma {
namespace {

// How a server says that it does not do it.
constexpr std::array kAnswers = {Errc::kNotAvailable, Errc::kDenied, Errc::kBadArguments,
                                 Errc::kServerFault, Errc::kChunk};

}  // namespace

void ConnectingClient::configure() {
  configuration_started_ = true;
  rpc::CallSlot& slot = flow_.prepared().prepare_own(oncrpc::kConfigureConnection, false);
  oncrpc::encode(
      oncrpc::ConfigurationRequest{engine_options_.inline_send, engine_options_.inline_receive,
                                   connection_->reads_served_max()},
      slot.writer.xdr());
  send_own_call([this](Expected<Reply, Error> reply) { handle_configured(std::move(reply)); });
}

void ConnectingClient::send_own_call(ReplyCallback callback) {
  if (!flow_.send_own(options().provider.setup_timeout_client, std::move(callback))) {
    connection_->disconnect();
  }
}

// A server that does not have the protocol is one with which everything stays small. One that
// answers nothing keeps the connection's only credit, or is no server at all.
void ConnectingClient::handle_configured(Expected<Reply, Error> reply) {
  if (!reply) {
    const bool was_answered = std::ranges::count(kAnswers, reply.error().code) > 0;
    if (!was_answered) return connection_->disconnect();
    carrier_.set_use(Use::kNow);
    return;
  }
  const auto answer = oncrpc::decode_configuration_reply(reply->results().xdr());
  if (reply->finish()) return connection_->disconnect();
  engine::LinkParameters link = connection_->engine().link();
  link.inline_send =
      std::clamp(answer.call_size_max, rpc::kInlineSizeMin, engine_options_.inline_send);
  link.inline_receive = engine_options_.inline_receive;
  link.padding_alignment = answer.alignment;
  link.reads_in_flight_max = std::min(connection_->reads_in_flight_max(), answer.reads_max);
  // RFC 5666 §6: without RDMA Reads "no transfer will be possible".
  link.read_chunks = answer.reads_max > 0;
  connection_->engine().configure(link);
  carrier_.set_use(Use::kNow);
}

}  // namespace rpcrdma
