// A message that was written, as runs of its stream: what stands in place, and bulk items.
#ifndef RPCRDMA_RPC_RUNS_H_
#define RPCRDMA_RPC_RUNS_H_

#include <cstddef>
#include <cstdint>

#include "rpcrdma/message.h"

namespace rpcrdma::rpc {

// Where the stream is in the memory that it was written to, bytes.
struct StreamPlace {
  std::size_t begin;  // of its first run, an RPC header in front of the items for one
  std::size_t items;  // where the writer began
};

// Calls `in_place(at, size)` for the runs in that memory, none of them empty, and `item(data,
// number)` for bulk items, counted from 1, in the order of the stream. Whether all returned true;
// all are called in any case.
template <class InPlace, class Item>
bool for_each_run(const MessageWriter& writer, StreamPlace place, InPlace in_place, Item item) {
  bool ok = true;
  std::size_t done = place.begin;
  const auto run_to = [&](std::size_t end) {
    if (end > done) ok = in_place(done, end - done) && ok;
    done = end;
  };
  std::uint16_t number = 0;
  for (const BulkItem& bulk : writer.items()) {
    run_to(place.items + bulk.at);
    ok = item(bulk.data, ++number) && ok;
  }
  run_to(place.items + writer.size());
  return ok;
}

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_RUNS_H_
