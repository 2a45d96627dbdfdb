#include "rpc/serve/configuration_service.h"

#include <algorithm>
#include <array>

#include "oncrpc/configuration.h"
#include "rpc/engine_options.h"
#include "rpc/serve/session.h"

namespace rpcrdma::rpc {

const ProcedureTraits* ConfigurationService::traits(std::uint32_t procedure) const noexcept {
  static constexpr std::array<ProcedureTraits, 2> kTable{
      {{.number = 0, .name = "CONF_NULL"}, {.number = 1, .name = "CONF_RDMA"}}};
  return find_traits(kTable, procedure);
}

AuthStatus ConfigurationService::check_credential(std::uint32_t,
                                                  const Credential& credential) const noexcept {
  const auto& required = options_.connection.rfc5666.flavor_required;
  return !required || credential.flavor == *required ? AuthStatus::kOk : AuthStatus::kTooWeak;
}

void ConfigurationService::call(CallContext& context) {
  MessageReader& arguments = context.arguments();
  const auto request = oncrpc::decode_configuration_request(arguments.xdr());
  if (!arguments.finish()) return context.fail(AcceptStatus::kGarbageArgs);
  Session* const session = session_of(context);
  if (session == nullptr) return context.fail(AcceptStatus::kProcUnavail);  // there is no RDMA
  transport::Connection& connection = session->connection();
  engine::LinkParameters link = connection.engine().link();
  // A Send of ours needs no buffer of its own: the client says how large it may be.
  link.inline_send = std::clamp(request.reply_size_max, kInlineSizeMin, kInlineSizeMax);
  link.inline_receive = engine_options_.inline_receive;
  link.reads_in_flight_max = std::min(connection.reads_in_flight_max(), request.reads_max);
  connection.engine().configure(link);
  oncrpc::encode(
      oncrpc::ConfigurationReply{engine_options_.inline_receive, engine_options_.receive_alignment,
                                 connection.reads_served_max()},
      context.results().xdr());
  context.succeed();
}

}  // namespace rpcrdma::rpc
