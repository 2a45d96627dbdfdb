// A written message as the runs of bytes that it is made of.
#ifndef RPCRDMA_ONCRPC_RUNS_H_
#define RPCRDMA_ONCRPC_RUNS_H_

#include <cstddef>

#include "rpcrdma/message.h"
#include "rpcrdma/types.h"

namespace rpcrdma::oncrpc {

// Bulk items and what is between them.
inline constexpr std::size_t kRunsMax = 2 * kBulkItemsMax + 1;

// Calls `take(run)` for each run in the order of the message, some of them empty. `stream` is what
// the writer has written into; the first run begins `start` bytes into it.
template <class Take>
void for_each_run(const MessageWriter& writer, Bytes stream, std::size_t start, Take&& take) {
  std::size_t done = start;
  for (const BulkItem& item : writer.items()) {
    take(stream.subspan(done, item.at - done));
    take(item.data);
    done = item.at;
  }
  take(stream.subspan(done, writer.size() - done));
}

}  // namespace rpcrdma::oncrpc

#endif  // RPCRDMA_ONCRPC_RUNS_H_
