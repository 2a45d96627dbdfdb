#include "sim/security.h"

#include <fmt/core.h>

#include <utility>

#include "gss/message.h"

namespace rpcrdma::simulation {
namespace {

test::FakeSettings settings_of(const SecurityPlan& plan, std::string user, std::uint64_t nonce) {
  test::FakeSettings settings;
  settings.user = std::move(user);
  settings.exchanges = static_cast<int>(plan.exchanges);
  settings.nonce = nonce;
  if (plan.clock_rate != 0) settings.lifetime = std::chrono::seconds(1);
  return settings;
}

Protection protection_of(gss::Service service) noexcept {
  switch (service) {
    case gss::Service::kNone:
      return Protection::kKrb5;
    case gss::Service::kIntegrity:
      return Protection::kKrb5i;
    case gss::Service::kPrivacy:
      break;
  }
  return Protection::kKrb5p;
}

}  // namespace

// --- SecurityWorld -----------------------------------------------------------------------------

Instant SecurityWorld::client_now() const {
  return Instant{(calm_since_ ? *calm_since_ : world_.now()).time_since_epoch() *
                 std::max<std::uint32_t>(plan_.clock_rate, 1)};
}

void SecurityWorld::Steps::submit(Work work) {
  if (security_.plan_.later_one_in == 0 ||
      !security_.random_.one_in(security_.plan_.later_one_in)) {
    return work();
  }
  works.push_back({std::move(work), security_.world_.now()});
}

// In any order: they run on several threads.
std::chrono::nanoseconds SecurityWorld::run_step() {
  const auto which = static_cast<std::ptrdiff_t>(random_.below(steps_.works.size()));
  Steps::Step step = std::move(steps_.works[static_cast<std::size_t>(which)]);
  steps_.works.erase(steps_.works.begin() + which);
  step.work();
  return world_.now() - step.since;
}

void SecurityWorld::act() {
  if (calm_since_ || !random_.one_in(10)) return;
  ahead_ = std::chrono::milliseconds(random_.one_in(2) ? 0 : random_.below(2000));
  has_tickets_ = !plan_.loses_tickets || !random_.one_in(4);
}

void SecurityWorld::calm_down() {
  calm_since_ = world_.now();
  ahead_ = {};
  has_tickets_ = true;
}

// --- SecureClient ------------------------------------------------------------------------------

SecureClient::SecureClient(SecurityWorld& security, std::size_t number, gss::Service service)
    : security_(security),
      user_(fmt::format("client{}@FAKE", number)),
      service_(service),
      tickets_(security, settings_of(security.plan(), user_, number << 32U)),
      auth_(tickets_, security.executor(),
            gss::ClientGss::Settings{.target = "nfs@server",
                                     .service = service,
                                     .first_sequence = security.plan().first_sequence},
            [&security] { return security.client_now(); }) {}

SecureClient::~SecureClient() {
  security_.run_all_steps();
}

std::optional<std::string> SecureClient::find_mistake(const Caller& caller) const {
  if (caller.principal != user_) {
    return fmt::format("it is taken for one of '{}', not of '{}'", caller.principal, user_);
  }
  if (caller.protection == protection_of(service_)) return std::nullopt;
  return "it was protected otherwise than it is said to be";
}

Expected<std::unique_ptr<gss::Context>, gss::Status> SecureClient::Tickets::initiate(
    std::string_view of) {
  if (!security_.has_tickets()) {
    return Unexpected<gss::Status>(gss::Status{gss::Status::kFailure, 5, "there is no ticket"});
  }
  security_.count(Count::kContexts);
  return inner_.initiate(of);
}

// --- SecureServer ------------------------------------------------------------------------------

SecureServer::SecureServer(SecurityWorld& security)
    : security_(security),
      mechanism_(settings_of(security.plan(), "server@FAKE", 0)),
      inner_(mechanism_, security.executor(),
             gss::ContextTable::Limits{.contexts_max = security.plan().contexts_max,
                                       .making_max = security.plan().contexts_max,
                                       .window = security.plan().window},
             test::counted_handles(security.random().next()),
             [&security] { return security.server_now(); }) {}

StepEnd SecureServer::accept(CallAcceptance& call, AuthStep& step) {
  const auto credential = gss::decode_credential(call.credential.body);
  const bool is_data =
      credential && credential->control == static_cast<std::uint32_t>(gss::Control::kData);
  if (is_data && security_.attacks(security_.plan().replayed_one_in)) {
    // A copy of the call has come first.
    security_.count(Count::kReplays);
    CallAcceptance copy = call;
    (void)inner_.accept(copy, step);
    inner_.forget(copy);
  }
  const StepEnd end = inner_.accept(call, step);
  if (is_data && call.ends_connection.empty() &&
      security_.attacks(security_.plan().denied_one_in)) {
    security_.count(Count::kForged);
    call.status = AuthStatus::kGssCredentialProblem;
  }
  return end;
}

}  // namespace rpcrdma::simulation
