#include "rpcrdma/function_service.h"

namespace rpcrdma {

FunctionService& FunctionService::set(std::uint32_t procedure,
                                      std::function<void(CallContext&)> function,
                                      ProcedureOptions options) {
  const ProcedureTraits traits{.number = procedure,
                               .bulk_argument_size_max = options.bulk_argument_size_max,
                               .bulk_arguments_max = options.bulk_arguments_max,
                               .is_idempotent = options.is_idempotent,
                               .may_answer_by_read = options.may_answer_by_read};
  procedures_.insert_or_assign(procedure, Entry{std::move(function), traits});
  return *this;
}

const ProcedureTraits* FunctionService::traits(std::uint32_t procedure) const noexcept {
  const auto found = procedures_.find(procedure);
  return found == procedures_.end() ? nullptr : &found->second.traits;
}

void FunctionService::call(CallContext& context) {
  procedures_.find(context.procedure().number)->second.function(context);
}

}  // namespace rpcrdma
