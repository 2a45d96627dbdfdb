#include "rpc/security.h"

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <variant>

namespace rpcrdma::rpc {
namespace {

// Four wait for a KDC at most; further calls that need one wait for these. They are never
// destroyed: clients that the application has in static variables may outlive any static variable
// here, and a child of fork() that ends must not wait for threads that only its parent has.
gss::Executor& workers_of_clients() {
  static gss::Workers& workers = *new gss::Workers(4);
  return workers;
}

// In place of a mechanism that is not there: no call goes out less protected than it was to be.
class Refusal final : public ClientAuth {
 public:
  explicit Refusal(Error why) : why_(std::move(why)) {}
  StepEnd seal(CallSeal& call, AuthStep& /*step*/) override {
    call.failure = why_;
    return StepEnd::kDone;
  }

 private:
  const Error why_;
};

// Returns a number that no peer can predict: libstdc++ takes it from the processor or the kernel.
std::uint64_t draw_handle() {
  std::random_device device;
  return std::uint64_t{device()} << 32U | device();
}

// AUTH_NONE in its place would be less than was asked for, and nobody would know.
Error no_authenticator() {
  return {Errc::kSecurity, "making the authenticator of a client", "",
          "the function in ClientOptions::auth made none; leave the option empty for AUTH_NONE"};
}

}  // namespace

Expected<ClientOptions, Error> with_security(ClientOptions options, std::string_view host) {
  auto* const wanted = std::get_if<gss::ClientSecurity>(&options.auth);
  if (wanted == nullptr) return options;
  gss::ClientSecurity& security = *wanted;
  if (security.target.find('@') == std::string::npos) {
    security.target.append("@").append(host);
  }
  if (security.mechanism != nullptr) return options;
  if (auto made = gss::make_kerberos(security.kerberos); !made) {
    return Unexpected<Error>(made.error());
  }
  return options;
}

ClientSecurity::ClientSecurity(const Authentication& wanted, std::function<Instant()> now) {
  if (const auto* given = std::get_if<ClientAuth*>(&wanted)) auth_ = *given;
  if (const auto* make = std::get_if<std::function<std::unique_ptr<ClientAuth>()>>(&wanted)) {
    std::unique_ptr<ClientAuth> made = *make ? (*make)() : nullptr;
    if (made == nullptr) made = std::make_unique<Refusal>(no_authenticator());
    own(std::move(made));
  } else if (const auto* gss = std::get_if<gss::ClientSecurity>(&wanted)) {
    own(make_gss(*gss, std::move(now)));
  }
}

void ClientSecurity::own(std::unique_ptr<ClientAuth> auth) {
  own_ = std::move(auth);
  auth_ = own_.get();
}

std::unique_ptr<ClientAuth> ClientSecurity::make_gss(const gss::ClientSecurity& security,
                                                     std::function<Instant()> now) {
  gss::Mechanism* mechanism = security.mechanism;
  if (mechanism == nullptr) {
    auto made = gss::make_kerberos(security.kerberos);
    if (!made) return std::make_unique<Refusal>(std::move(made.error()));
    mechanism_ = std::move(*made);
    mechanism = mechanism_.get();
  }
  gss::Executor& executor =
      security.executor != nullptr ? *security.executor : workers_of_clients();
  return std::make_unique<gss::ClientGss>(
      *mechanism, executor,
      gss::ClientGss::Settings{.target = security.target, .service = security.service},
      std::move(now));
}

Expected<std::unique_ptr<ServerSecurity>, Error> ServerSecurity::make(
    const gss::ServerSecurity& security, std::function<Instant()> now) {
  auto made = std::make_unique<ServerSecurity>();
  gss::Mechanism* mechanism = security.mechanism;
  if (mechanism == nullptr) {
    auto kerberos = gss::make_kerberos(security.kerberos);
    if (!kerberos) return Unexpected<Error>(kerberos.error());
    made->mechanism_ = std::move(*kerberos);
    mechanism = made->mechanism_.get();
  }
  gss::Executor* executor = security.executor;
  if (executor == nullptr) {
    made->workers_ = std::make_unique<gss::Workers>(security.threads);
    executor = made->workers_.get();
  }
  made->auth_ = std::make_unique<gss::ServerGss>(
      *mechanism, *executor, gss::ContextTable::Limits{.contexts_max = security.contexts_max},
      draw_handle, std::move(now), security.report,
      gss::ServerGss::Pace{.bodies = security.threads});
  return made;
}

}  // namespace rpcrdma::rpc
