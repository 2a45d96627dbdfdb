// A client's offer of version 2, from the first Call to its answer (ADR 23).
#ifndef RPCRDMA_ENGINE_VERSION_OFFER_H_
#define RPCRDMA_ENGINE_VERSION_OFFER_H_

#include <cstdint>

#include "base/deadline.h"
#include "engine/shared.h"
#include "engine/types.h"

namespace rpcrdma::engine {

// Shared::is_offering says whether it is open.
class VersionOffer {
 public:
  enum class Answer : std::uint8_t {
    kTaken,    // by a message that is to be looked at as any other
    kRefused,  // the Call goes out again, in version 1
    kFailed,   // there is no version in common: the connection is to end
    kNone,     // the message says nothing about it, and is to be dropped
  };

  VersionOffer(const Options& options, Shared& shared) noexcept
      : versions_(options.versions), timeout_(options.offer_timeout), shared_(shared) {}

  void handle_disconnected() noexcept { deadline_.reset(); }
  // A Call of version 2 goes out.
  void sent(Instant now) noexcept { deadline_ = now + timeout_; }
  Deadline deadline() const noexcept { return deadline_; }

  // A peer that drops what it does not understand is to be tried again in version 1, over another
  // connection.
  void handle_timeout(Instant now) noexcept {
    if (!deadline_ || *deadline_ > now) return;
    give_up(GivenUp::kNoAnswer);
  }

  // The first message with the XID of the offer.
  Answer take(const Received& message) noexcept {
    if (shared_.given_up != GivenUp::kNot) return Answer::kNone;  // it came too late
    if (message.kind != Kind::kErrorVersion) {
      if (message.dialect != Dialect::kV2) return Answer::kNone;  // no answer to version 2
      settle(Dialect::kV2);
      return Answer::kTaken;
    }
    if (!message.versions.contain(1) || !versions_.contain(1)) {
      give_up(GivenUp::kNoVersion);
      return Answer::kFailed;
    }
    settle(Dialect::kV1);
    return Answer::kRefused;
  }

 private:
  void settle(Dialect dialect) noexcept {
    deadline_.reset();
    shared_.speak(dialect);
  }
  void give_up(GivenUp why) noexcept {
    deadline_.reset();
    shared_.give_up(why);
  }

  const Versions versions_;
  const std::chrono::nanoseconds timeout_;
  Shared& shared_;
  Deadline deadline_;
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_VERSION_OFFER_H_
