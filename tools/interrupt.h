// SIGINT and SIGTERM as an event that a loop polls for.
#ifndef RPCRDMA_TOOLS_INTERRUPT_H_
#define RPCRDMA_TOOLS_INTERRUPT_H_

namespace rpcrdma::tools {

// Handles the signals of this process from its construction to its end; there is one of these at a
// time.
class Interrupt {
 public:
  // Until wait_for_it(), a signal ends the process at once, with this line on stderr and this exit
  // status: what blocks then (looking a name up, connecting) knows of no other events. The line
  // stays as long as the process.
  Interrupt(const char* line, int status);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // From now on a signal makes descriptor() readable. A second one ends the process, behind
  // `at_end`, which may use what a handler of signals may.
  void wait_for_it(void (*at_end)() = nullptr) noexcept;
  int descriptor() const noexcept;
  bool has_come() const noexcept;
};

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_INTERRUPT_H_
