#include "rpc/call/version_two_changes.h"

#include <algorithm>
#include <string>

#include "rpc/engine_options.h"

namespace rpcrdma::rpc {

void VersionTwoChanges::use_connection(transport::Connection* connection) {
  if (connection == nullptr && connection_ != nullptr) requests_.lose(connection_->engine());
  connection_ = connection;
}

bool VersionTwoChanges::take(bool is_up) {
  if (connection_ == nullptr) return false;
  if (!client_.flow().options().characteristics.empty()) tell_changes(port());
  // Also ends that nobody waits for any more: news that stayed would wake the loop again and again.
  if (requests_.empty() && !port().has_news()) [[likely]]
    return false;
  engine::Connection& engine = connection_->engine();
  requests_.progress(engine, is_up ? engine.protocol_version() : 0, client_.flow().now());
  return true;
}

Expected<void, Error> VersionTwoChanges::request_change(std::uint32_t id, Bytes value,
                                                        ChangeCallback&& callback,
                                                        std::chrono::nanoseconds delay) {
  const auto want = engine::SmallValue::of(id, value);
  const auto& known = port().characteristics().experimental();
  // A peer that speaks version two takes 4096 bytes.
  const bool is_size = id == kReceiveSizeId && value.size() == xdr::kWordSize &&
                       xdr::load_word(value.data()) >= engine::kReceiveSizeV2;
  const bool is_known = is_size || known.own(id) != nullptr;
  if (!want || !is_known || !known.is_value(want->view())) {
    return Unexpected<Error>(client_.unsupported("requesting a change", "there is no such value"));
  }
  delay = std::clamp<std::chrono::nanoseconds>(delay, {}, std::chrono::years(1));
  if (!requests_.add(*want, client_.flow().now() + delay, std::move(callback))) {
    return Unexpected<Error>(
        client_.unsupported("requesting a change", "another request for it is under way"));
  }
  client_.handle_started();
  return {};
}

Expected<void, Error> VersionTwoChanges::set_characteristic(std::uint32_t id, Bytes value) {
  const auto now = engine::SmallValue::of(id, value);
  if (!now || !port().set(*now)) {
    return Unexpected<Error>(
        client_.unsupported("setting a characteristic", "there is no such value"));
  }
  client_.handle_started();
  return {};
}

std::optional<std::vector<std::byte>> VersionTwoChanges::peer_characteristic(
    std::uint32_t id) const {
  const engine::SmallValue* value = port().characteristics().experimental().peer(id);
  if (value == nullptr) return std::nullopt;
  const Bytes data = value->data();
  return std::vector<std::byte>(data.begin(), data.end());
}

Expected<void, Error> VersionTwoChanges::raise_receive_size(std::uint32_t size) {
  size = std::min(size, kInlineSizeMax);
  if (!port().raise_receive_size(size)) {
    return Unexpected<Error>(Error{Errc::kNoResources, "raising the receive size",
                                   std::string(client_.peer()),
                                   "it is being raised, or is as large already"});
  }
  client_.handle_started();
  return {};
}

}  // namespace rpcrdma::rpc
