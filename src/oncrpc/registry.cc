#include "oncrpc/registry.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "rpcrdma/auth.h"

namespace rpcrdma {

// Here, so that its type information is in the library.
ServerAuth::~ServerAuth() = default;

}  // namespace rpcrdma

namespace rpcrdma::oncrpc {

Expected<void, RegistryError> ServiceRegistry::add(std::uint32_t program, std::uint32_t version,
                                                   Service& service) {
  const auto key = [](const Entry& entry) { return std::tuple(entry.program, entry.version); };
  const auto at = std::ranges::lower_bound(entries_, std::tuple(program, version), {}, key);
  if (at != entries_.end() && key(*at) == std::tuple(program, version)) {
    return Unexpected<RegistryError>(RegistryError::kDuplicate);
  }
  entries_.insert(at, Entry{program, version, &service});
  return {};
}

ServiceRegistry::Found ServiceRegistry::find(std::uint32_t program,
                                             std::uint32_t version) const noexcept {
  // Most servers have one or two; looking at the first is cheaper than searching.
  if (!entries_.empty() && entries_.front().program == program &&
      entries_.front().version == version &&
      (entries_.size() == 1 || entries_[1].program != program)) {
    return {AcceptStatus::kSuccess, entries_.front().service, {version, version}};
  }
  const auto first = std::ranges::lower_bound(entries_, program, {}, &Entry::program);
  const auto end = std::ranges::upper_bound(entries_, program, {}, &Entry::program);
  if (first == end) return {AcceptStatus::kProgUnavail, nullptr, {}};
  const VersionRange range{first->version, std::prev(end)->version};
  const auto at = std::ranges::find(first, end, version, &Entry::version);
  if (at == end) return {AcceptStatus::kProgMismatch, nullptr, range};
  return {AcceptStatus::kSuccess, at->service, range};
}

Expected<void, RegistryError> ServiceRegistry::accept_flavor(AuthFlavor flavor, ServerAuth& auth) {
  if (auth_of(flavor) != nullptr) return Unexpected<RegistryError>(RegistryError::kDuplicate);
  flavors_.push_back({flavor, &auth});
  if (flavor == AuthFlavor::kNone) checks_none_ = true;
  return {};
}

ServerAuth* ServiceRegistry::auth_of(AuthFlavor flavor) const noexcept {
  const auto found = std::ranges::find(flavors_, flavor, &Accepted::flavor);
  return found == flavors_.end() ? nullptr : found->auth;
}

const ServiceRegistry::Requirement* ServiceRegistry::requirement_of(
    std::uint32_t program, std::uint32_t version,
    std::optional<std::uint32_t> procedure) const noexcept {
  const auto found = std::ranges::find_if(requirements_, [&](const Requirement& each) {
    return each.program == program && each.version == version && each.procedure == procedure;
  });
  return found == requirements_.end() ? nullptr : &*found;
}

Expected<void, RegistryError> ServiceRegistry::require(std::uint32_t program, std::uint32_t version,
                                                       std::vector<Protection> allowed,
                                                       std::optional<std::uint32_t> procedure) {
  if (requirement_of(program, version, procedure) != nullptr) {
    return Unexpected<RegistryError>(RegistryError::kDuplicate);
  }
  requirements_.push_back({program, version, procedure, std::move(allowed)});
  return {};
}

bool ServiceRegistry::allows_one(const Procedure& procedure, Protection protection) const noexcept {
  const Requirement* list = requirement_of(procedure.program, procedure.version, procedure.number);
  if (list == nullptr) list = requirement_of(procedure.program, procedure.version, std::nullopt);
  return list == nullptr || std::ranges::count(list->allowed, protection) > 0;
}

}  // namespace rpcrdma::oncrpc
