// A client of TCP's code that keeps no rule: it leaves records unfinished, sends lengths and words
// that are nonsense, does not take its replies, closes half of its connection, and goes.
#ifndef RPCRDMA_TESTS_SIM_HOSTILE_STREAM_H_
#define RPCRDMA_TESTS_SIM_HOSTILE_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "posix/fd.h"
#include "sim/totals.h"

namespace rpcrdma::simulation {

class HostileStream {
 public:
  // Both outlive it.
  HostileStream(SeededRandom& random, Totals& totals) : random_(random), totals_(totals) {}

  // Does the next thing to the server that listens at this path, which need not be there.
  void act(const std::string& path);
  // Makes the server wait for what does not come: the rest of a record, or somebody who takes the
  // replies. A connection that it has is given up.
  void make_server_wait(const std::string& path);
  bool is_there() const noexcept { return static_cast<bool>(socket_); }
  // The server has something from it that it leaves unfinished, and has not given it up.
  bool is_waited_for();
  void end() noexcept;

 private:
  using Words = std::vector<std::uint32_t>;

  void come(const std::string& path);
  void act_on_connection();
  Words make_call(std::uint32_t argument_size);
  void send_record(const Words& words, std::size_t fragments);
  void add(const Words& words);
  void leave_rest();
  void pass_on();
  void take(std::size_t size);

  SeededRandom& random_;
  Totals& totals_;
  posix::Fd socket_;
  std::vector<std::byte> unsent_;
  bool takes_replies_ = true;
  std::uint32_t next_xid_ = 0;
};

}  // namespace rpcrdma::simulation

#endif  // RPCRDMA_TESTS_SIM_HOSTILE_STREAM_H_
