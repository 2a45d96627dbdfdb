#include "nfs/status_counters.h"

#include <algorithm>

#include "nfs/status_text.h"

namespace nfs {
namespace {

// Returns READ of NFSPROC3_READ.
std::string_view name_of_procedure(std::uint32_t number) {
  constexpr std::string_view kPrefix = "NFSPROC3_";
  const auto* const traits = rpcrdma::find_traits(nfs3::NFS_V3_Binding::kProcedures, number);
  if (traits == nullptr) return "OTHER";
  return traits->name.starts_with(kPrefix) ? traits->name.substr(kPrefix.size()) : traits->name;
}

}  // namespace

void StatusCounters::note(std::uint32_t procedure, nfs3::nfsstat3 status) noexcept {
  if (status == nfs3::nfsstat3::NFS3_OK || procedure >= counts_.size()) return;
  const auto known = status_texts();
  const auto at = std::ranges::find(known, status, &StatusText::status);
  const auto index = static_cast<std::size_t>(at - known.begin());
  counts_[procedure][index < kStatuses ? index : kOther].fetch_add(1, std::memory_order_relaxed);
}

std::vector<StatusCount> StatusCounters::errors() const {
  const auto known = status_texts();
  std::vector<StatusCount> found;
  for (std::uint32_t procedure = 0; procedure < counts_.size(); ++procedure) {
    for (std::size_t i = 0; i < kStatuses; ++i) {
      const std::uint64_t calls = counts_[procedure][i].load(std::memory_order_relaxed);
      if (calls == 0) continue;
      found.push_back({name_of_procedure(procedure), i == kOther ? "OTHER" : known[i].name, calls});
    }
  }
  return found;
}

}  // namespace nfs
