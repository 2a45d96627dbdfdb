// MOUNT version 3 (RFC 1813, appendix I): the handle of an export, or of a directory in one.
#ifndef RPCRDMA_NFS_MOUNT_SERVICE_H_
#define RPCRDMA_NFS_MOUNT_SERVICE_H_

#include <string>
#include <string_view>
#include <utility>

#include "mount3.h"
#include "nfs/events.h"
#include "nfs/export_table.h"

namespace nfs {

class MountService final : public mount3::MOUNT_V3_Service {
 public:
  // The table outlives it.
  explicit MountService(ExportTable& exports) : exports_(exports) {}
  // Reports each mount, unmount and refused mount. Call before the server runs.
  void set_report(ReportEvent report) { report_ = std::move(report); }

 private:
  template <class R>
  using Answer = rpcrdma::Answer<R>;

  void MOUNTPROC3_MNT(Answer<mount3::mountres3> answer, mount3::dirpath arg1) override;
  // Nobody is listed as having mounted: what clients say of it is neither complete nor true.
  void MOUNTPROC3_DUMP(Answer<mount3::mountlist> answer) override;
  void MOUNTPROC3_UMNT(Answer<void> answer, mount3::dirpath arg1) override;
  void MOUNTPROC3_UMNTALL(Answer<void> answer) override;
  void MOUNTPROC3_EXPORT(Answer<mount3::exports> answer) override;

  void report(Event event, const rpcrdma::CallContext& context, std::string_view what) const;

  ExportTable& exports_;
  ReportEvent report_;
};

}  // namespace nfs

#endif  // RPCRDMA_NFS_MOUNT_SERVICE_H_
