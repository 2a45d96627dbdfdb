// Lets what waits for sockets and for the system's clock run in a world's time: while a StreamWorld
// lives, the monotonic clock of the process is the world's, timer descriptors come due by it, and
// an actor that would wait for ever for descriptors lets others act. Unix sockets, which the actors
// have among each other, pass bytes on at once: with one kernel a seed always goes the same way.
#ifndef RPCRDMA_TESTS_SIM_STREAM_WORLD_H_
#define RPCRDMA_TESTS_SIM_STREAM_WORLD_H_

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "rdma/sim/world.h"

namespace rpcrdma::simulation {

// One at a time. Its thread is the only one that uses what it replaces.
class StreamWorld {
 public:
  // `wait_for` returns when is_ready() is true of an epoll descriptor.
  StreamWorld(const rdma::sim::World& world, std::function<void(int epoll)> wait_for);
  ~StreamWorld();
  StreamWorld(const StreamWorld&) = delete;
  StreamWorld& operator=(const StreamWorld&) = delete;

  // Returns a path where nobody listens yet.
  std::string next_path();
  // Returns whether epoll_wait() has something to say now.
  bool is_ready(int epoll);
  // Returns when a timer comes due of those that an epoll descriptor watches, if none is earlier.
  std::optional<Instant> timer_of(int epoll) const;
  // Breaks one of the connections that were accepted, on both sides; false: there is none.
  bool break_one(SeededRandom& random);
  // Each connection comes from a process and a user of the actor that makes it. While an Acting
  // lives, that is the one with this number.
  class Acting {
   public:
    Acting(std::optional<StreamWorld>& world, std::size_t actor) noexcept
        : world_(world ? &*world : nullptr),
          before_(world_ != nullptr ? std::exchange(world_->actor_, actor) : 0) {}
    ~Acting() {
      if (world_ != nullptr) world_->actor_ = before_;
    }
    Acting(const Acting&) = delete;
    Acting& operator=(const Acting&) = delete;

   private:
    StreamWorld* const world_;
    const std::size_t before_;
  };
  // Has sockets take some 4 KiB at a time, on both sides, of connections that are made from now on.
  void make_narrow() noexcept { is_narrow_ = true; }

  // For the functions of the system that it replaces.
  struct Timer {
    int epoll = -1;  // that watches it
    std::optional<Instant> due;
  };
  static StreamWorld* current() noexcept;
  Instant now() const { return world_.now(); }
  std::map<int, Timer>& timers() noexcept { return timers_; }  // by descriptor
  void wait_for(int epoll) { wait_for_(epoll); }
  void note_accepted(int socket);
  void note_connecting(int socket);
  // Returns the process whose connection this socket has accepted; nullopt: it has accepted none.
  std::optional<pid_t> peer_of(int socket) const;
  void note_closed(int descriptor);

 private:
  void ring();  // what is due becomes readable
  void narrow(int socket) const noexcept;

  const rdma::sim::World& world_;
  const std::function<void(int)> wait_for_;
  std::string folder_;
  std::size_t paths_ = 0, connections_ = 0, actor_ = 0;
  bool is_narrow_ = false;
  std::map<int, Timer> timers_;
  std::vector<int> accepted_;  // in the order in which they came
};

}  // namespace rpcrdma::simulation

#endif  // RPCRDMA_TESTS_SIM_STREAM_WORLD_H_
