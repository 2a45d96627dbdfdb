// The rules that a Decoder judges by: documents, sections, severities (rule_table.inc).
#ifndef RPCRDMA_EXPLAIN_RULES_H_
#define RPCRDMA_EXPLAIN_RULES_H_

#include <optional>
#include <span>
#include <string>

#include "explain/facts.h"

namespace rpcrdma::explain {

enum class RuleId : std::uint8_t {
#define RPCRDMA_RULE(name, ...) name,
#include "explain/rule_table.inc"
#undef RPCRDMA_RULE
};

const Rule& rule(RuleId id) noexcept;
std::span<const Rule> all_rules() noexcept;
// Returns whether a finding is wrong if bytes of either side are missing. That they are is known
// when the next ones come, which may be later.
bool needs_all_bytes(RuleId id) noexcept;

// Takes what breaks a rule on one connection.
class Judge {
 public:
  virtual ~Judge() = default;
  virtual void report(RuleId id, int side, const Where& where, std::optional<std::uint32_t> xid,
                      std::string detail) = 0;
  // Bytes of the connection are missing: findings of late that need all of them do not count.
  virtual void forget_uncertain() = 0;
};

}  // namespace rpcrdma::explain

#endif  // RPCRDMA_EXPLAIN_RULES_H_
