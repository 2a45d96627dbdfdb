// A service built from functions, one for each procedure.
//
//   rpcrdma::FunctionService service;
//   service.on(kGreet, [](rpcrdma::CallContext& call) {
//     const std::string name(call.arguments().xdr().string(255, "name"));
//     if (!call.arguments().finish()) return rpcrdma::AcceptStatus::kGarbageArgs;
//     call.results().xdr().string("hello " + name);
//     return rpcrdma::AcceptStatus::kSuccess;
//   });
//   server->add(kProgram, kVersion, service);
#ifndef RPCRDMA_FUNCTION_SERVICE_H_
#define RPCRDMA_FUNCTION_SERVICE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <type_traits>
#include <utility>

#include "rpcrdma/export.h"
#include "rpcrdma/oncrpc.h"
#include "rpcrdma/service.h"

namespace rpcrdma {

class RPCRDMA_EXPORT FunctionService final : public Service {
 public:
  struct ProcedureOptions {
    // See ProcedureTraits.
    std::uint32_t bulk_argument_size_max = 0;  // bytes
    std::uint32_t bulk_arguments_max = 1;
    bool may_answer_by_read = false;
    bool is_idempotent = true;
  };

  FunctionService() = default;
  FunctionService(const FunctionService&) = delete;
  FunctionService& operator=(const FunctionService&) = delete;

  // Answers calls of a procedure with a function of one CallContext&, which is kept as long as the
  // service; a later one replaces it. Call before the server runs.
  //
  // A function that returns an AcceptStatus ends the call with it: kSuccess sends the results. An
  // exception that leaves it is answered with kSystemErr. A function that returns void calls the
  // context's succeed() or fail() itself, now or later; for exceptions see Service::call().
  template <class Function>
  FunctionService& on(std::uint32_t procedure, Function function, ProcedureOptions options) {
    using Result = std::invoke_result_t<Function&, CallContext&>;
    static_assert(std::is_void_v<Result> || std::is_same_v<Result, AcceptStatus>,
                  "the function returns AcceptStatus or nothing");
    if constexpr (std::is_void_v<Result>) {
      return set(procedure, std::move(function), options);
    } else {
      return set(
          procedure, [f = std::move(function)](CallContext& call) mutable { answer(call, f); },
          options);
    }
  }
  template <class Function>
  FunctionService& on(std::uint32_t procedure, Function function) {
    return on(procedure, std::move(function), ProcedureOptions{});
  }

  const ProcedureTraits* traits(std::uint32_t procedure) const noexcept override;
  void call(CallContext& context) override;

 private:
  struct Entry {
    std::function<void(CallContext&)> function;
    ProcedureTraits traits;
  };

  FunctionService& set(std::uint32_t procedure, std::function<void(CallContext&)> function,
                       ProcedureOptions options);
  template <class Function>
  static void answer(CallContext& context, Function& function) {
    AcceptStatus status = AcceptStatus::kSystemErr;
    try {
      status = function(context);
    } catch (...) {
      // The peer learns that the server failed; what failed is the service's own business.
    }
    if (status == AcceptStatus::kSuccess) {
      context.succeed();
    } else {
      context.fail(status);
    }
  }

  std::map<std::uint32_t, Entry> procedures_;
};

}  // namespace rpcrdma

#endif  // RPCRDMA_FUNCTION_SERVICE_H_
