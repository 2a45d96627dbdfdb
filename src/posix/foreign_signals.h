// Signals are for the threads of the application.
#ifndef RPCRDMA_POSIX_FOREIGN_SIGNALS_H_
#define RPCRDMA_POSIX_FOREIGN_SIGNALS_H_

#include <pthread.h>
#include <signal.h>

namespace rpcrdma::posix {

// This thread blocks them while it lives, and threads that it starts block them for good. Not those
// that say what the thread itself has done.
class ForeignSignals {
 public:
  ForeignSignals() {
    sigset_t blocked{};
    sigfillset(&blocked);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF}) {
      sigdelset(&blocked, own);
    }
    pthread_sigmask(SIG_SETMASK, &blocked, &before_);
  }
  ~ForeignSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  ForeignSignals(const ForeignSignals&) = delete;
  ForeignSignals& operator=(const ForeignSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace rpcrdma::posix

#endif  // RPCRDMA_POSIX_FOREIGN_SIGNALS_H_
