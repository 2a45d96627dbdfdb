// A message that was written, as the runs of bytes that it is made of: what stands in place, and
// bulk items.
#ifndef RPCRDMA_ONCRPC_RUNS_H_
#define RPCRDMA_ONCRPC_RUNS_H_

#include <cstddef>
#include <cstdint>

#include "rpcrdma/message.h"
#include "rpcrdma/types.h"

namespace rpcrdma::oncrpc {

// Bulk items and what is between them.
inline constexpr std::size_t kRunsMax = 2 * kBulkItemsMax + 1;

// The position of the stream in the memory that it was written to, bytes.
struct StreamPlace {
  std::size_t begin;  // of its first run, an RPC header in front of the items for one
  std::size_t items;  // where the writer began
};

// Calls `in_place(at, size)` for the runs in that memory, none of them empty, and `item(bulk,
// number)` for bulk items, in the order of the stream. Items that are eligible for direct placement
// are counted from 1, the others have 0. Returns whether all calls returned true; all are made in
// any case.
template <class InPlace, class Item>
bool for_each_part(const MessageWriter& writer, StreamPlace place, InPlace in_place, Item item) {
  bool ok = true;
  std::size_t done = place.begin;
  const auto run_to = [&](std::size_t end) {
    if (end > done) ok = in_place(done, end - done) && ok;
    done = end;
  };
  std::uint16_t count = 0;
  for (const BulkItem& bulk : writer.items()) {
    run_to(place.items + bulk.at);
    if (bulk.is_eligible) ++count;
    ok = item(bulk, bulk.is_eligible ? count : std::uint16_t{0}) && ok;
  }
  run_to(place.items + writer.size());
  return ok;
}

// Calls `take(run)` for each run of what was written into `stream`; at most kRunsMax.
template <class Take>
void for_each_run(const MessageWriter& writer, Bytes stream, Take&& take) {
  for_each_part(
      writer, {0, 0},
      [&](std::size_t at, std::size_t size) {
        take(stream.subspan(at, size));
        return true;
      },
      [&](const BulkItem& item, std::uint16_t /*number*/) {
        take(item.data);
        return true;
      });
}

}  // namespace rpcrdma::oncrpc

#endif  // RPCRDMA_ONCRPC_RUNS_H_
