// Decides how a provider waits: it looks for news itself for a moment, as long as that pays, and
// then sleeps until the reactor has something.
#ifndef RPCRDMA_POSIX_WAITING_H_
#define RPCRDMA_POSIX_WAITING_H_

#include <chrono>
#include <cstddef>
#include <utility>

#include "posix/reactor.h"
#include "posix/yielding.h"

namespace rpcrdma::posix {

// Measured: on a shared core, looking and yielding beats sleeping in epoll for answers that are
// some microseconds away; without yielding, in which the peer or a device's software gets its turn,
// it would be ruinous (ADR 10).
class Waiting {
 public:
  // It looks for `spin` at the most; 0: never.
  Waiting(Reactor& reactor, Yielding& yielding, std::chrono::microseconds spin)
      : reactor_(reactor), yielding_(yielding), spin_(spin) {}

  // Calls the handlers of what is ready and of deadlines that have come. Right after news that it
  // found itself it does nothing, but not for ever, and not when a deadline has come: what is here
  // has come in time.
  void dispatch() {
    const bool may_skip = found_ && !reactor_.is_woken() && ++rounds_without_epoll_ < rounds_max_;
    if (!may_skip || reactor_.is_deadline_over()) {
      rounds_without_epoll_ = 0;
      reactor_.dispatch();
    }
    found_ = false;
  }

  // Returns when `look` has found news of one of the connections (pointers), or the reactor has
  // something. `latest`: those of them that had news last, which are likely to have some again.
  // `moved`: something has come or gone since the last sleep; else it sleeps at once.
  template <class Connections, class Look>
  void wait(const Connections& connections, const Connections& latest, bool& moved,
            const Look& look) {
    if (moved && spin(connections, latest, look)) return;
    moved = false;
    reactor_.block();
  }

  // The same without the sleep: returns whether it has found anything. Having found nothing, it
  // does not look again before something has moved.
  template <class Connections, class Look>
  bool linger(const Connections& connections, const Connections& latest, bool& moved,
              const Look& look) {
    if (!std::exchange(moved, false) || !spin(connections, latest, look)) return false;
    moved = true;
    return true;
  }

 private:
  // Asking more connections than this one by one costs more than asking epoll.
  static constexpr std::size_t kConnectionsMax = 4;
  // After so many rounds in which it found news itself, epoll is asked about everything else.
  static constexpr int kRoundsWithoutEpollMax = 16;
  // The same where it does not look at all connections: the others wait so long for their turn.
  static constexpr int kRoundsOfLatestMax = 4;

  template <class Connections, class Look>
  bool spin(const Connections& connections, const Connections& latest, const Look& look) {
    if (spin_.count() == 0 || connections.empty()) return false;
    const bool are_few = connections.size() <= kConnectionsMax;
    const Connections& looked_at = are_few ? connections : latest;
    const bool looks = looked_at.size() <= kConnectionsMax;
    rounds_max_ = are_few ? kRoundsWithoutEpollMax : kRoundsOfLatestMax;
    Instant before = Reactor::now();
    if (!yielding_.allowed(before)) return false;
    const Instant end = before + spin_;
    do {
      // Yielding comes first: on a shared core nothing can have come since we looked last.
      yielding_.yield();
      const Instant after = Reactor::now();
      const bool long_yield = yielding_.was_long(before, after);
      before = after;
      // All of them, so that none keeps the others from being seen. One may end by being looked at.
      for (std::size_t i = 0; looks && i < looked_at.size(); ++i) {
        if (look(*looked_at[i])) found_ = true;
      }
      // dispatch() begins with what peek() finds. Another thread's answer is no system call away.
      const bool has_some = reactor_.is_woken() || (!are_few && !found_ && reactor_.peek());
      if (found_ || has_some) {
        // Without news the peer was just busy with something else, and we sleep next anyway.
        if (long_yield) yielding_.give_up(after);
        return true;
      }
    } while (before < end);
    return false;
  }

  Reactor& reactor_;
  Yielding& yielding_;
  const std::chrono::microseconds spin_;
  bool found_ = false;
  int rounds_without_epoll_ = 0;
  int rounds_max_ = kRoundsWithoutEpollMax;
};

}  // namespace rpcrdma::posix

#endif  // RPCRDMA_POSIX_WAITING_H_
