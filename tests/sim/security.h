// RPCSEC_GSS in a simulation: a mechanism that protects nothing, steps that end later, clocks that
// disagree, and an attacker between the two sides.
#ifndef RPCRDMA_TESTS_SIM_SECURITY_H_
#define RPCRDMA_TESTS_SIM_SECURITY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "base/random.h"
#include "gss/client_auth.h"
#include "gss/server_auth.h"
#include "rdma/sim/world.h"
#include "rpcrdma/service.h"
#include "sim/plan.h"
#include "sim/totals.h"
#include "support/fake_mechanism.h"

namespace rpcrdma::simulation {

// All actors of a simulation share this.
class SecurityWorld {
 public:
  SecurityWorld(const SecurityPlan& plan, rdma::sim::World& world, Totals& totals,
                SeededRandom& random)
      : plan_(plan), world_(world), totals_(totals), random_(random), steps_(*this) {}

  const SecurityPlan& plan() const noexcept { return plan_; }
  SeededRandom& random() noexcept { return random_; }
  gss::Executor& executor() noexcept { return steps_; }
  void count(Count what) noexcept { totals_.add(what); }

  // Contexts run out within a simulation because their clocks run faster than its own.
  Instant client_now() const;
  Instant server_now() const { return client_now() + ahead_; }

  // Steps that are to end later.
  bool has_steps() const noexcept { return !steps_.works.empty(); }
  // Returns how long it has waited for others to pass it by.
  std::chrono::nanoseconds run_step();
  void run_all_steps() {
    while (has_steps()) run_step();
  }
  // Sets the clocks of servers anew, and takes tickets away or gives them back.
  void act();
  // No clock moves, nothing is forged and nothing replayed any more.
  void calm_down();
  bool has_tickets() const noexcept { return has_tickets_; }
  bool attacks(std::uint32_t one_in) {
    return !calm_since_ && one_in != 0 && random_.one_in(one_in);
  }

 private:
  class Steps final : public gss::Executor {
   public:
    explicit Steps(SecurityWorld& security) : security_(security) {}
    struct Step {
      Work work;
      Instant since;
    };
    void submit(Work work) override;
    std::deque<Step> works;

   private:
    SecurityWorld& security_;
  };

  const SecurityPlan& plan_;
  rdma::sim::World& world_;
  Totals& totals_;
  SeededRandom& random_;
  Steps steps_;
  std::chrono::nanoseconds ahead_{0};
  bool has_tickets_ = true;
  std::optional<Instant> calm_since_;
};

// The security of a client: its tickets, and what seals its calls.
class SecureClient {
 public:
  SecureClient(SecurityWorld& security, std::size_t number, gss::Service service);
  ~SecureClient();
  gss::ClientGss& auth() noexcept { return auth_; }
  // Why a server must not take a call for this client's; nullopt: it is this client's.
  std::optional<std::string> find_mistake(const Caller& caller) const;

 private:
  // Has a ticket only while the world has tickets.
  class Tickets final : public gss::Mechanism {
   public:
    Tickets(SecurityWorld& security, test::FakeSettings settings)
        : security_(security), inner_(std::move(settings)) {}
    Expected<std::unique_ptr<gss::Context>, gss::Status> initiate(std::string_view of) override;
    Expected<std::unique_ptr<gss::Context>, gss::Status> accept() override {
      return inner_.accept();
    }

   private:
    SecurityWorld& security_;
    test::FakeMechanism inner_;
  };

  SecurityWorld& security_;
  const std::string user_;
  const gss::Service service_;
  Tickets tickets_;
  gss::ClientGss auth_;
};

// The security of a server: judges calls, behind an attacker who repeats some of them and forges
// denials.
class SecureServer final : public ServerAuth {
 public:
  explicit SecureServer(SecurityWorld& security);
  ~SecureServer() override { security_.run_all_steps(); }

  StepEnd accept(CallAcceptance& call, AuthStep& step) override;
  StepEnd unwrap(CallAcceptance& call, AuthStep& step) override {
    return inner_.unwrap(call, step);
  }
  StepEnd seal(CallAcceptance& call, AuthStep& step) override { return inner_.seal(call, step); }
  void forget(CallAcceptance& call) noexcept override { inner_.forget(call); }

 private:
  SecurityWorld& security_;
  test::FakeMechanism mechanism_;
  gss::ServerGss inner_;
};

}  // namespace rpcrdma::simulation

#endif  // RPCRDMA_TESTS_SIM_SECURITY_H_
