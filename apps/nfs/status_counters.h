// Counts the errors of RFC 1813 that a server has answered, for its figures.
#ifndef RPCRDMA_NFS_STATUS_COUNTERS_H_
#define RPCRDMA_NFS_STATUS_COUNTERS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "nfs/procedures.h"
#include "nfs3.h"

namespace nfs {

// How often a procedure has ended with a status that is not NFS3_OK. Both are static text:
// "LOOKUP", "NOENT".
struct StatusCount {
  std::string_view procedure, status;
  std::uint64_t calls = 0;
};

// Has a counter for each procedure and status there may be, so that no peer makes it grow. Used by
// any thread.
class StatusCounters {
 public:
  // Counts an answer, unless its status is NFS3_OK. A status that RFC 1813 does not have counts as
  // "OTHER".
  void note(std::uint32_t procedure, nfs3::nfsstat3 status) noexcept;
  // Returns those that are not zero, by procedure and then by status.
  std::vector<StatusCount> errors() const;

 private:
  static constexpr std::size_t kStatuses = 29, kOther = 0;  // NFS3_OK has no use for its place
  std::array<std::array<std::atomic<std::uint64_t>, kStatuses>, kLastProcedure + 1> counts_{};
};

}  // namespace nfs

#endif  // RPCRDMA_NFS_STATUS_COUNTERS_H_
