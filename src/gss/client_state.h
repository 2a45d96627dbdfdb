// The state that ClientGss keeps of its contexts and calls.
#ifndef RPCRDMA_GSS_CLIENT_STATE_H_
#define RPCRDMA_GSS_CLIENT_STATE_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "gss/client_auth.h"
#include "gss/step_turns.h"
#include "gss/wrapping.h"
#include "posix/born_here.h"

namespace rpcrdma::gss {

struct ClientGss::Used {
  Used(std::unique_ptr<Context> made, std::uint32_t window, std::uint32_t first)
      : context(std::move(made)), numbers(window, first) {}

  std::mutex mutex;  // a thread holds it while it uses the context
  StepTurns turns;   // of steps that the executor runs
  const std::unique_ptr<Context> context;
  // The client's thread only.
  std::vector<std::byte> handle{};
  Procedure made_for{};  // procedure 0 of the first call's program
  SequenceNumbers numbers;
  std::optional<Instant> renew_at{}, expires_at{};
  std::uint32_t calls = 0;  // how many State::context point here
};

struct ClientGss::State {
  CallSeal* call = nullptr;
  AuthStep* step = nullptr;  // of the last seal()
  // The context and the number of the last transmission.
  Used* context = nullptr;
  std::uint32_t number = 0;
  bool is_counted = false;  // the number is under way in context->numbers
  std::uint32_t renewals = 0;
  bool was_repeated = false;  // after a denial that does not concern the context
  // Lent to the call.
  std::vector<std::byte> credential, checksum;
  WrapRoom body;
};

struct ClientGss::Making {
  State* carrier;   // the call that goes through the exchanges
  bool is_renewal;  // a context is in use meanwhile
  std::unique_ptr<Context> context{};
  std::vector<std::byte> token{}, handle{};
  std::uint32_t window = 0;
  std::optional<std::chrono::seconds> lifetime{};
  bool is_established = false;  // on this side
  bool awaits_reply = false;
  bool is_complete = false;        // on both sides
  std::optional<Error> failure{};  // which every call would meet
};

struct ClientGss::InAdvance {
  const posix::BornHere born{};
  InAdvance* before = nullptr;  // an abandoned one
  Instant begun{};
  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex.
  bool is_done = false;
  std::unique_ptr<Context> context{};  // null: there is no token
  std::vector<std::byte> token{};
  bool is_established = false;
};

}  // namespace rpcrdma::gss

#endif  // RPCRDMA_GSS_CLIENT_STATE_H_
