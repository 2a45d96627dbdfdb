// NFS version 3 (RFC 1813) over the exports of a table.
//
// The service answers for the protocol: handles, exports and their rules, names, sizes. The content
// and the attributes of files come from a back end (file_system.h). Used on all threads of a
// server.
#ifndef RPCRDMA_NFS_SERVICE_H_
#define RPCRDMA_NFS_SERVICE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "nfs/events.h"
#include "nfs/export_table.h"
#include "nfs/procedures.h"
#include "nfs/status_counters.h"
#include "nfs3.h"

namespace nfs {

class NfsService final : public rpcrdma::Service {
 public:
  // The table outlives the service.
  explicit NfsService(ExportTable& exports) : exports_(exports) {}
  // Reports denied calls, principals mapped to nobody, and errors of the storage. Call before the
  // server runs.
  void set_report(ReportEvent report) { report_ = std::move(report); }
  // Returns the errors that were answered so far; from any thread.
  std::vector<StatusCount> errors() const { return statuses_.errors(); }

 private:
  // The export of a call, and the caller as the export's rules see it.
  struct Target {
    ServedExport* served = nullptr;
    bool is_read_only = false;
    Caller caller{};
  };
  // Opens a handle, which is the back end's own afterwards. The first handle of a call sets the
  // target; the others must be of the same export.
  nfs3::nfsstat3 open(const rpcrdma::CallContext& context, nfs3::nfs_fh3& handle,
                      Target& target) const;
  nfs3::nfsstat3 find_target(const rpcrdma::CallContext& context, ExportId id,
                             Target& target) const;
  void report_denial(const rpcrdma::CallContext& context, ExportId id) const;
  void report_nobody(const rpcrdma::CallContext& context, const Target& target) const;
  // Reports errors that are the storage's own.
  void report_failure(const rpcrdma::CallContext& context, const ServedExport& served,
                      nfs3::nfsstat3 status) const;
  // Makes the checks of the procedure's row in procedures.h.
  template <class Procedure>
  nfs3::nfsstat3 admit(const rpcrdma::CallContext& context, typename Procedure::Args& args,
                       Target& target) const;
  // Serves one procedure from its arguments to its answer.
  template <std::uint32_t kNumber>
  void serve(rpcrdma::Answer<typename Procedure<kNumber>::Results> answer,
             typename Procedure<kNumber>::Args args);
  template <std::uint32_t... kIndices>
  void dispatch(rpcrdma::CallContext& context, std::integer_sequence<std::uint32_t, kIndices...>);

  const rpcrdma::ProcedureTraits* traits(std::uint32_t procedure) const noexcept override;
  rpcrdma::AuthStatus check_credential(
      std::uint32_t procedure, const rpcrdma::Credential& credential) const noexcept override;
  void call(rpcrdma::CallContext& context) override;

  ExportTable& exports_;
  ReportEvent report_;
  StatusCounters statuses_;
  mutable RecentNames nobodies_;  // principals that were reported
};

}  // namespace nfs

#endif  // RPCRDMA_NFS_SERVICE_H_
