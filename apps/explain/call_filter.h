// Decides which calls are shown.
#ifndef RPCRDMA_APPS_EXPLAIN_CALL_FILTER_H_
#define RPCRDMA_APPS_EXPLAIN_CALL_FILTER_H_

#include "explain/explain.h"
#include "explain/facts.h"

namespace explaining {

// Returns whether the call passes each filter that was given.
bool passes(const Filter& filter, const rpcrdma::explain::CallFact& call,
            const rpcrdma::explain::ConnectionFact& connection, std::int64_t start);

}  // namespace explaining

#endif  // RPCRDMA_APPS_EXPLAIN_CALL_FILTER_H_
