#include "rpcrdma/function_service.h"

namespace rpcrdma {

FunctionService& FunctionService::set(std::uint32_t procedure,
                                      std::function<void(CallContext&)> function,
                                      ProcedureOptions options) {
  procedures_.insert_or_assign(procedure, Entry{std::move(function), options});
  return *this;
}

bool FunctionService::has_procedure(std::uint32_t number) const noexcept {
  return procedures_.contains(number);
}

bool FunctionService::may_answer_by_read(std::uint32_t procedure) const noexcept {
  const auto found = procedures_.find(procedure);
  return found != procedures_.end() && found->second.options.may_answer_by_read;
}

std::uint32_t FunctionService::bulk_argument_size_max(std::uint32_t procedure) const noexcept {
  const auto found = procedures_.find(procedure);
  return found == procedures_.end() ? 0 : found->second.options.bulk_argument_size_max;
}

void FunctionService::call(CallContext& context) {
  procedures_.find(context.procedure().number)->second.function(context);
}

}  // namespace rpcrdma
