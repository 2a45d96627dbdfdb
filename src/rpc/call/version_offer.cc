// Which version of RPC-over-RDMA a connection speaks, where the client may use version 2: its first
// Call is a NULL call of the library's own, which offers it (ADR 23).
#include <algorithm>
#include <string>
#include <utility>

#include "oncrpc/message.h"
#include "rpc/call/connecting_client.h"
#include "rpc/engine_options.h"

namespace rpcrdma {

// The call names program 0, which nobody has: what the server makes of it does not matter, and it
// may be made again. It is no call of the application's, so nothing seals it.
void ConnectingClient::offer_version() {
  configuration_started_ = true;
  rpc::CallSlot& slot = flow_.prepared().prepare_own({0, 0, 0}, true);
  constexpr std::uint32_t kRpcVersion = 2;
  for (const std::uint32_t word :
       {static_cast<std::uint32_t>(slot.xid), 0U, kRpcVersion, 0U, 0U, 0U, 0U, 0U, 0U, 0U}) {
    slot.writer.xdr().u32(word);  // the Call with AUTH_NONE twice (RFC 5531 §9)
  }
  send_own_call([this](Expected<Reply, Error> reply) {
    // BAD_HEADER is an answer as well. Where there was none, the connection has ended, or is to.
    const bool is_answered = reply || reply.error().code == Errc::kChunk;
    is_answered ? handle_offered() : connection_->disconnect();
  });
}

void ConnectingClient::handle_offered() {
  carrier_.set_use(Use::kNow);
  // The server's answer holds for the connections to come.
  if (connection_->engine().link().dialect == engine::Dialect::kV1) {
    engine_options_.versions = {1, 1};
  } else {
    has_version_two_ = true;
    unanswered_offers_ = 0;
  }
}

// A server that lets the offer pass, or ends the connection for it, has version 1 only; unless it
// has shown that it has both.
bool ConnectingClient::is_connecting_again() const noexcept {
  if (connection_ == nullptr || !connection_->ended() || flow_.is_closing() || !may_connect_)
    return false;
  const engine::Connection& engine = connection_->engine();
  return is_offer_unanswered() && !has_version_two_ &&
         engine.given_up() != engine::GivenUp::kNoVersion;
}

bool ConnectingClient::is_offer_unanswered() const noexcept {
  return configuration_started_ && carrier_.use() == Use::kNotYet &&
         engine_options_.versions.contain(2) && engine_options_.versions.contain(1);
}

// The connection has ended. A server that has shown both versions may be busy, or may have been
// replaced by one that has the first alone and lets offers pass in silence.
void ConnectingClient::note_unanswered_offer() noexcept {
  constexpr std::uint32_t kEnough = 2;
  const bool is_silent = connection_->engine().given_up() == engine::GivenUp::kNoAnswer;
  if (has_version_two_ && is_silent && is_offer_unanswered() && ++unanswered_offers_ == kEnough)
    has_version_two_ = false;
}

void ConnectingClient::connect_in_version_one() {
  engine_options_.versions = {1, 1};
  retire();
  auto begun = begin(std::string(peer()));
  if (begun) {
    connector_.handle_begun();
    return pump_connection();  // posts its Receives
  }
  connect_error_ = std::move(begun.error());
  if (connector_.enabled() && flow_.history().ever_connected()) {
    connector_.handle_failure(connect_error_->cause);
  }
}

// --- Characteristics that change ---------------------------------------------------------------

Expected<void, Error> ConnectingClient::request_change(std::uint32_t id, Bytes value,
                                                       ChangeCallback&& callback,
                                                       std::chrono::nanoseconds delay) {
  const auto want = engine::SmallValue::of(id, value);
  const auto& table = connection_->engine().option_port().characteristics();
  // Whoever speaks version two takes 4096 bytes.
  const bool is_size = id == rpc::kReceiveSizeId && value.size() == xdr::kWordSize &&
                       xdr::load_word(value.data()) >= engine::kReceiveSizeV2;
  const bool is_known = is_size || table.experimental().own(id) != nullptr;
  if (!want || !is_known || !table.experimental().is_value(want->view())) {
    return Unexpected<Error>(unsupported("requesting a change", "there is no such value"));
  }
  delay = std::clamp<std::chrono::nanoseconds>(delay, {}, std::chrono::years(1));
  if (!changes_.add(*want, flow_.now() + delay, std::move(callback))) {
    return Unexpected<Error>(
        unsupported("requesting a change", "another request for it is under way"));
  }
  if (!flow_.in_round()) pump();
  return {};
}

Expected<void, Error> ConnectingClient::set_characteristic(std::uint32_t id, Bytes value) {
  const auto now = engine::SmallValue::of(id, value);
  if (!now || !connection_->engine().option_port().set(*now)) {
    return Unexpected<Error>(unsupported("setting a characteristic", "there is no such value"));
  }
  if (!flow_.in_round()) pump();
  return {};
}

std::optional<std::vector<std::byte>> ConnectingClient::peer_characteristic(
    std::uint32_t id) const {
  const auto& table = connection_->engine().option_port().characteristics();
  const engine::SmallValue* value = table.experimental().peer(id);
  if (value == nullptr) return std::nullopt;
  const Bytes data = value->data();
  return std::vector<std::byte>(data.begin(), data.end());
}

Expected<void, Error> ConnectingClient::raise_receive_size(std::uint32_t size) {
  size = std::min(size, rpc::kInlineSizeMax);
  if (!connection_->engine().option_port().raise_receive_size(size)) {
    return Unexpected<Error>(Error{Errc::kNoResources, "raising the receive size",
                                   std::string(peer()),
                                   "it is being raised, or is as large already"});
  }
  if (!flow_.in_round()) pump();
  return {};
}

void ConnectingClient::take_changes() {
  if (connection_ == nullptr) return;
  engine::OptionPort& port = connection_->engine().option_port();
  if (!options().characteristics.empty()) rpc::tell_changes(port);
  // Also ends that nobody waits for any more: news that stayed would wake the loop again and again.
  if (changes_.empty() && !port.has_news()) [[likely]]
    return;
  engine::Connection& engine = connection_->engine();
  changes_.progress(engine, connected() ? engine.protocol_version() : 0, flow_.now());
  pump_connection();  // what they lead to
}

}  // namespace rpcrdma
