// Maps each version of each program to its service. main() builds this object and passes it down.
#ifndef RPCRDMA_ONCRPC_REGISTRY_H_
#define RPCRDMA_ONCRPC_REGISTRY_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "rpcrdma/oncrpc.h"
#include "rpcrdma/types.h"

namespace rpcrdma {
class ServerAuth;
class Service;
}  // namespace rpcrdma

namespace rpcrdma::oncrpc {

enum class RegistryError : std::uint8_t {
  kDuplicate,  // this version of this program is served already, or this flavor accepted
};

class ServiceRegistry {
 public:
  // Borrows `service`, which outlives the registry. May serve several versions and programs. Meant
  // for set-up: it allocates.
  Expected<void, RegistryError> add(std::uint32_t program, std::uint32_t version, Service& service);

  // Sets the service that receives, as whole messages, the Calls for which no service was added;
  // null: they are refused. Borrowed as well.
  void set_rest(Service* service) noexcept { rest_ = service; }
  Service* rest() const noexcept { return rest_; }

  // Adds an authenticator that checks and seals the calls of a flavor, in place of the built-in
  // one. Borrowed as well. Fails if the flavor has one already.
  Expected<void, RegistryError> accept_flavor(AuthFlavor flavor, ServerAuth& auth);
  ServerAuth* auth_of(AuthFlavor flavor) const noexcept;
  // Returns whether auth_of() has one for any flavor.
  bool checks_any() const noexcept { return !flavors_.empty(); }
  // Returns whether auth_of() has one for AUTH_NONE: most calls have that flavor, and then need no
  // search.
  bool checks_none() const noexcept { return checks_none_; }

  // Restricts the procedure, or all without a list of their own, to calls with these protections.
  // Fails if there is such a list.
  Expected<void, RegistryError> require(std::uint32_t program, std::uint32_t version,
                                        std::vector<Protection> allowed,
                                        std::optional<std::uint32_t> procedure);
  // Returns whether calls with this protection are allowed. Not for NULL, which has no
  // requirements.
  bool allows(const Procedure& procedure, Protection protection) const noexcept {
    return requirements_.empty() || allows_one(procedure, protection);
  }

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
  struct Accepted {
    AuthFlavor flavor;
    ServerAuth* auth;
  };
  struct Requirement {
    std::uint32_t program, version;
    std::optional<std::uint32_t> procedure;
    std::vector<Protection> allowed;
  };
  bool allows_one(const Procedure& procedure, Protection protection) const noexcept;
  const Requirement* requirement_of(std::uint32_t program, std::uint32_t version,
                                    std::optional<std::uint32_t> procedure) const noexcept;

  std::vector<Requirement> requirements_;
  Service* rest_ = nullptr;
  std::vector<Accepted> flavors_;
  bool checks_none_ = false;
  std::vector<Entry> entries_;  // sorted by program, then version; no two are the same
};

}  // namespace rpcrdma::oncrpc

#endif  // RPCRDMA_ONCRPC_REGISTRY_H_
