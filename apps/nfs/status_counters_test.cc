#include "nfs/status_counters.h"

#include <gtest/gtest.h>

#include "nfs/status_text.h"

namespace nfs {
namespace {

using nfs3::nfsstat3;

TEST(StatusCounters, CountErrorsByProcedureAndStatus) {
  StatusCounters counters;
  counters.note(nfs3::NFSPROC3_LOOKUP, nfsstat3::NFS3_OK);
  EXPECT_TRUE(counters.errors().empty());
  for (int i = 0; i < 3; ++i) counters.note(nfs3::NFSPROC3_LOOKUP, nfsstat3::NFS3ERR_NOENT);
  counters.note(nfs3::NFSPROC3_LOOKUP, nfsstat3::NFS3ERR_STALE);
  counters.note(nfs3::NFSPROC3_GETATTR, nfsstat3::NFS3ERR_STALE);
  const std::vector<StatusCount> errors = counters.errors();
  ASSERT_EQ(errors.size(), 3U);
  EXPECT_EQ(errors[0].procedure, "GETATTR");
  EXPECT_EQ(errors[1].procedure, "LOOKUP");
  EXPECT_EQ(errors[1].status, "NOENT");
  EXPECT_EQ(errors[1].calls, 3U);
  EXPECT_EQ(errors[2].status, "STALE");
}

TEST(StatusCounters, DoNotGrowByNumbersThatNobodyHas) {
  StatusCounters counters;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    counters.note(i, nfsstat3::NFS3ERR_IO);
    counters.note(nfs3::NFSPROC3_READ, static_cast<nfsstat3>(20'000 + i));
  }
  std::size_t others = 0;
  for (const StatusCount& each : counters.errors()) {
    if (each.status == "OTHER") others += each.calls;
  }
  EXPECT_EQ(others, 1000U);
  EXPECT_EQ(counters.errors().size(), kLastProcedure + 1 + 1U);
}

TEST(StatusCounters, HaveAPlaceForEachStatus) {
  StatusCounters counters;
  for (const StatusText& each : status_texts()) counters.note(nfs3::NFSPROC3_READ, each.status);
  std::vector<StatusCount> errors = counters.errors();
  EXPECT_EQ(errors.size(), status_texts().size() - 1);
  for (const StatusCount& each : errors) EXPECT_NE(each.status, "OTHER");
}

}  // namespace
}  // namespace nfs
