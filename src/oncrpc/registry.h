// Which service answers which version of which program. An object that main() builds and passes
// down.
#ifndef RPCRDMA_ONCRPC_REGISTRY_H_
#define RPCRDMA_ONCRPC_REGISTRY_H_

#include <cstdint>
#include <vector>

#include "rpcrdma/oncrpc.h"
#include "rpcrdma/types.h"

namespace rpcrdma {
class Service;
}

namespace rpcrdma::oncrpc {

enum class RegistryError : std::uint8_t {
  kDuplicate,  // this version of this program is served already
};

class ServiceRegistry {
 public:
  // Borrows `service`, which outlives the registry. May serve several versions and programs. Meant
  // for set-up: it allocates.
  Expected<void, RegistryError> add(std::uint32_t program, std::uint32_t version, Service& service);

  // What takes the Calls that no service was added for, as whole messages; null: they are refused.
  // Borrowed as well.
  void set_rest(Service* service) noexcept { rest_ = service; }
  Service* rest() const noexcept { return rest_; }

  struct Found {
    AcceptStatus status;  // kSuccess, or what RFC 5531 §9 has to be answered
    Service* service;     // borrowed; null unless kSuccess
    // Lowest and highest registered version of the program; zero with kProgUnavail. Versions
    // between them may be missing: the protocol has no way to say so.
    VersionRange versions;
  };
  Found find(std::uint32_t program, std::uint32_t version) const noexcept;

 private:
  struct Entry {
    std::uint32_t program, version;
    Service* service;
  };
  Service* rest_ = nullptr;
  std::vector<Entry> entries_;  // sorted by program, then version; no two are the same
};

}  // namespace rpcrdma::oncrpc

#endif  // RPCRDMA_ONCRPC_REGISTRY_H_
