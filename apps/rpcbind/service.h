// rpcbind on the RDMA interconnect (RFC 5666 §10, second way): answers where the programs of this
// server are, for clients that ask over RDMA.
#ifndef RPCRDMA_RPCBIND_SERVICE_H_
#define RPCRDMA_RPCBIND_SERVICE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rpcbind.h"
#include "rpcbind/universal_address.h"
#include "rpcrdma/error.h"
#include "rpcrdma/server.h"
#include "rpcrdma/types.h"

namespace rpcrdma::rpcbinding {

// The programs, each at every endpoint of the server.
class Directory {
 public:
  explicit Directory(std::vector<Endpoint> endpoints) : endpoints_(std::move(endpoints)) {}

  void add(std::uint32_t program, std::uint32_t version) {
    programs_.push_back({program, version});
  }
  // Returns the universal address; empty: there is none. If this version of the program is not
  // registered, the address is another version's, unless `exact`. `peer_address` is the caller's.
  std::string find(const rpcbind::rpcb& question, std::string_view peer_address, bool exact) const;
  rpcbind::rpcblist_ptr list() const;

 private:
  struct Program {
    std::uint32_t program;
    std::uint32_t version;
  };
  bool has(const rpcbind::rpcb& question, bool exact) const;

  std::vector<Endpoint> endpoints_;
  std::vector<Program> programs_;
};

// Versions 3 and 4. SET and UNSET are refused: who may come over RDMA is no user of this machine.
// Outlives the server.
class RpcbindService {
 public:
  // `server_address`: Server::address().
  explicit RpcbindService(std::string_view server_address);
  RpcbindService(const RpcbindService&) = delete;
  RpcbindService& operator=(const RpcbindService&) = delete;

  // Lists a program.
  void add(std::uint32_t program, std::uint32_t version) { directory_.add(program, version); }
  // Serves both versions of rpcbind's own program, and lists them.
  Expected<void, Error> add_to(Server& server);

 private:
  template <class R>
  using Answer = rpcrdma::Answer<R>;
  using rpcb = rpcbind::rpcb;

  class Version3 final : public rpcbind::RPCBVERS_Service {
   public:
    explicit Version3(const Directory& directory) : directory_(directory) {}

   private:
    void RPCBPROC_SET(Answer<bool> answer, rpcb arg1) override;
    void RPCBPROC_UNSET(Answer<bool> answer, rpcb arg1) override;
    void RPCBPROC_GETADDR(Answer<std::string> answer, rpcb arg1) override;
    void RPCBPROC_DUMP(Answer<rpcbind::rpcblist_ptr> answer) override;

    const Directory& directory_;
  };

  class Version4 final : public rpcbind::RPCBVERS4_Service {
   public:
    explicit Version4(const Directory& directory) : directory_(directory) {}

   private:
    void RPCB4PROC_SET(Answer<bool> answer, rpcb arg1) override;
    void RPCB4PROC_UNSET(Answer<bool> answer, rpcb arg1) override;
    void RPCB4PROC_GETADDR(Answer<std::string> answer, rpcb arg1) override;
    void RPCB4PROC_GETVERSADDR(Answer<std::string> answer, rpcb arg1) override;
    void RPCB4PROC_DUMP(Answer<rpcbind::rpcblist_ptr> answer) override;

    const Directory& directory_;
  };

  Directory directory_;
  Version3 version3_{directory_};
  Version4 version4_{directory_};
};

}  // namespace rpcrdma::rpcbinding

#endif  // RPCRDMA_RPCBIND_SERVICE_H_
