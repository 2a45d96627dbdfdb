#include "explain/rules.h"

#include <array>

namespace rpcrdma::explain {
namespace {

constexpr Severity kNote = Severity::kNote;
constexpr Severity kWarning = Severity::kWarning;
constexpr Severity kError = Severity::kError;

constexpr std::array kRules{
#define RPCRDMA_RULE(name, id, severity, document, section, text) \
  Rule{id, severity, document, section, text},
#include "explain/rule_table.inc"
#undef RPCRDMA_RULE
};

}  // namespace

const Rule& rule(RuleId id) noexcept {
  return kRules[static_cast<std::size_t>(id)];
}

std::span<const Rule> all_rules() noexcept {
  return kRules;
}

}  // namespace rpcrdma::explain
