// A program that the rpcbind daemon of this machine knows of as long as this object lives.
#ifndef RPCRDMA_RPCBIND_REGISTRATION_H_
#define RPCRDMA_RPCBIND_REGISTRATION_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rpcbind/daemon.h"
#include "rpcbind/universal_address.h"
#include "rpcrdma/error.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rpcbinding {

// Returns where clients find a server with this address (Server::address()): one endpoint, or two
// if it listens on [::], which takes IPv4 as well. Empty: not a numeric address.
std::vector<Endpoint> endpoints_of(std::string_view server_address);

class Registration {
 public:
  struct Program {
    std::uint32_t program;
    std::uint32_t version;
    Over over = Over::kRdma;
  };

  // Registers the program at each endpoint, with its netid. An older registration of the same user,
  // such as one left by a server that was killed, is replaced; another user's is kDenied, and so is
  // one over TCP at which a server listens: the system's own, perhaps. `where` is as for
  // Daemon::connect_local().
  static Expected<Registration, Error> make(const Program& program, std::vector<Endpoint> endpoints,
                                            const std::string& where,
                                            const DaemonOptions& options = {});
  Registration(Registration&& other) noexcept;
  Registration& operator=(Registration&&) = delete;
  // Ends the registration as end() does, without a report.
  ~Registration();

  // Removes it, but leaves what another server has registered in its place meanwhile. A daemon that
  // was started anew and knows nothing is fine.
  Expected<void, Error> end();
  // Leaves to `next`, which is of the same program, what it has registered as well: rpcbind knows
  // an entry once, however often it was made.
  void yield_to(const Registration& next);

 private:
  Registration(const Program& program, const std::string& where, const DaemonOptions& options)
      : program_(program), where_(where), options_(options) {}

  Program program_;
  std::vector<Endpoint> endpoints_;  // those that are registered
  std::string where_;
  DaemonOptions options_;
};

}  // namespace rpcrdma::rpcbinding

#endif  // RPCRDMA_RPCBIND_REGISTRATION_H_
