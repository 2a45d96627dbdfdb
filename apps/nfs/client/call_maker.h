// Makes one call over whichever connection is up, and again over another one when its answer was
// lost.
#ifndef RPCRDMA_NFS_CLIENT_CALL_MAKER_H_
#define RPCRDMA_NFS_CLIENT_CALL_MAKER_H_

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <optional>
#include <utility>

#include "nfs/client/connections.h"
#include "nfs/client/failure.h"
#include "rpcrdma/call.h"
#include "rpcrdma/coroutine.h"
#include "rpcrdma/error.h"
#include "rpcrdma/oncrpc.h"

namespace nfs {

// Chooses how a call is made, besides its arguments.
struct CallAs {
  Route route{};
  // Says who calls, in place of the credential of the connections; outlives the call.
  const rpcrdma::AuthSys* credential = nullptr;
  // Becomes true when an answer was lost: an earlier one of these calls may have been executed.
  bool* was_repeated = nullptr;
  // No call begins later, and waits much longer than that; at most the patience of the call maker.
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
};

class CallMaker {
 public:
  static constexpr int kLossesMax = 8;  // of one call, which may be their cause then
  enum class OnLoss : std::uint8_t { kRepeat, kTell };

  // `patience`: the time of a call, over all connections.
  CallMaker(Connections& connections, std::chrono::nanoseconds patience)
      : connections_(connections), patience_(patience) {}

  std::chrono::nanoseconds patience() const noexcept { return patience_; }

  // `begin(stub)`, or `begin(stub, options)`, makes the call, and `take(results)` of it a
  // Result<T>; nothing of the results outlives that. Both may refer to what the caller keeps until
  // the task has ended.
  template <class T, class Begin, class Take>
  rpcrdma::Task<Result<T>> call(CallAs as, Begin begin, Take take,
                                OnLoss on_loss = OnLoss::kRepeat) {
    const auto deadline = std::min(Connections::Clock::now() + patience_, as.deadline);
    for (int losses = 0;;) {
      if (Connections::Clock::now() >= as.deadline) co_return failed({.error = too_late()});
      Connections::Connection* const connection = co_await connections_.pick(as.route, deadline);
      if (connection == nullptr) {
        // One that came up may be gone again.
        if (connections_.may_go_on() && Connections::Clock::now() < deadline) continue;
        co_return failed({.error = connections_.why_none_is_up()});
      }
      const auto begun = Connections::Clock::now();
      std::optional<rpcrdma::Error> error;
      {
        if (as.credential != nullptr) connection->client().identity().use(*as.credential);
        auto results = co_await begun_call(begin, connection->nfs(), as);
        if (results) {
          connection->has_answered();
          co_return take(*results);
        }
        error = std::move(results.error());
      }
      if (!connections_.is_loss(*connection, *error)) co_return failed({.error = *error});
      if (error->code == rpcrdma::Errc::kTimedOut && connections_.server_count() > 1) {
        connections_.give_up_if_silent(*connection, begun);
      }
      const bool may_go_on =
          connections_.may_go_on() && ++losses < kLossesMax && Connections::Clock::now() < deadline;
      if (!may_go_on) co_return failed({.error = *error});
      if (on_loss == OnLoss::kTell) {
        co_return failed({.error = std::move(error), .is_outcome_unknown = true});
      }
      if (as.was_repeated != nullptr) *as.was_repeated = true;
    }
  }

 private:
  static rpcrdma::Error too_late() {
    return {.code = rpcrdma::Errc::kTimedOut,
            .operation = "a call",
            .peer = {},
            .cause = "the time of its request had passed before it began"};
  }
  template <class Begin>
  auto begun_call(Begin& begin, nfs3::NFS_V3_Client& nfs, const CallAs& as) const {
    if constexpr (std::invocable<Begin&, nfs3::NFS_V3_Client&, const rpcrdma::CallOptions&>) {
      rpcrdma::CallOptions options;
      if (as.deadline != std::chrono::steady_clock::time_point::max()) {
        // A connection over which nothing has come while a call timed out is given up: that takes
        // more than the last milliseconds of a request.
        options.timeout = std::clamp<std::chrono::nanoseconds>(
            as.deadline - Connections::Clock::now(), patience_ / 4, patience_);
      }
      return begin(nfs, options);
    } else {
      return begin(nfs);
    }
  }
  static rpcrdma::Unexpected<Failure> failed(Failure why) {
    return rpcrdma::Unexpected<Failure>(std::move(why));
  }

  Connections& connections_;
  const std::chrono::nanoseconds patience_;
};

}  // namespace nfs

#endif  // RPCRDMA_NFS_CLIENT_CALL_MAKER_H_
