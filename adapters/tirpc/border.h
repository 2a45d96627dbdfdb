// Frames of C, those of libtirpc and of programs, lie below and above the functions of this
// library. No exception may cross them.
#ifndef RPCRDMA_ADAPTERS_TIRPC_BORDER_H_
#define RPCRDMA_ADAPTERS_TIRPC_BORDER_H_

#include <cxxabi.h>

#include <exception>

#include "settings.h"

namespace rpcrdma::tirpc {

// Returns what `function` returns, or `otherwise` if an exception ends it, which is reported: there
// was no memory, for one. The cancellation of a thread passes.
template <class Result, class Function>
Result within_border(Result otherwise, Function&& function) {
  try {
    return function();
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (const std::exception& failure) {
    report_failure(failure.what());
  } catch (...) {
    report_failure("an exception");
  }
  return otherwise;
}

// The same for functions without a result. Returns whether `function` came to its end.
template <class Function>
bool comes_to_its_end(Function&& function) {
  return within_border(false, [&] {
    function();
    return true;
  });
}

}  // namespace rpcrdma::tirpc

#endif  // RPCRDMA_ADAPTERS_TIRPC_BORDER_H_
