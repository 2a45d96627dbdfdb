#include "explain/rules.h"

#include <algorithm>
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

bool needs_all_bytes(RuleId id) noexcept {
  constexpr std::array kThose{
      RuleId::kTooManyCalls,    RuleId::kSecondCallEarly,   RuleId::kBackwardTooMany,
      RuleId::kWriteOrder,      RuleId::kWriteLength,       RuleId::kWritePadding,
      RuleId::kWriteAfterReply, RuleId::kReadAfterReply,    RuleId::kOutsideOfSegment,
      RuleId::kReplyToNothing,  RuleId::kResponseToNothing, RuleId::kResponseAddress,
      RuleId::kTooManyReads,    RuleId::kFpduEarly,         RuleId::kNoRtr,
      RuleId::kXcharXid,        RuleId::kXcharPending,      RuleId::kDoneMissing};
  return std::find(kThose.begin(), kThose.end(), id) != kThose.end();
}

std::span<const Rule> all_rules() noexcept {
  return kRules;
}

}  // namespace rpcrdma::explain
