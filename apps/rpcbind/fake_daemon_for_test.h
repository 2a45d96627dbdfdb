// An rpcbind that does as a test wants, in a thread.
#ifndef RPCRDMA_RPCBIND_FAKE_DAEMON_FOR_TEST_H_
#define RPCRDMA_RPCBIND_FAKE_DAEMON_FOR_TEST_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "rpcbind.h"
#include "rpcrdma/server.h"

namespace rpcrdma::rpcbinding {

class FakeDaemon : private Service {
 public:
  // `version_max`: of its program; 2 is a port mapper's.
  explicit FakeDaemon(std::uint32_t version_max = rpcbind::RPCBVERS4,
                      const std::string& url = "tcp://127.0.0.1:0");
  ~FakeDaemon() override;

  std::uint16_t port() const;
  std::string where() const { return std::string(server_->address()); }  // ADDR:PORT, or the path

  using Key = std::tuple<std::uint32_t, std::uint32_t, std::string>;  // program, version, netid
  // Must not be used while a client is being served.
  std::map<Key, rpcbind::rpcb> entries;
  std::vector<Key> of_others;  // entries that may not be removed
  bool nonsense = false;       // results are none
  bool silent = false;         // no call is answered before the end

 private:
  const ProcedureTraits* traits(std::uint32_t procedure) const noexcept override;
  void call(CallContext& context) override;
  std::vector<std::byte> mappings() const;  // of a port mapper, which knows ports alone
  std::vector<std::byte> execute(std::uint32_t procedure, const rpcbind::rpcb& argument);

  std::vector<CallContext*> held_;
  std::optional<Server> server_;
  std::thread thread_;
};

}  // namespace rpcrdma::rpcbinding

#endif  // RPCRDMA_RPCBIND_FAKE_DAEMON_FOR_TEST_H_
