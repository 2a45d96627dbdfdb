// NFS version 3 (RFC 1813) over the exports of a table.
//
// It answers for the protocol: handles, exports and their rules, names, sizes. What the files say
// is their back end's (file_system.h). Used on all threads of a server.
#ifndef RPCRDMA_NFS_SERVICE_H_
#define RPCRDMA_NFS_SERVICE_H_

#include <cstdint>
#include <utility>

#include "nfs/export_table.h"
#include "nfs3.h"

namespace nfs {

class NfsService final : public nfs3::NFS_V3_Service {
 public:
  // Largest READ and WRITE, bytes; also what the server's bulk_size_max is to be.
  static constexpr std::uint32_t kTransferMax = 1U << 20U;
  // Largest READDIR and READDIRPLUS, bytes.
  static constexpr std::uint32_t kListingMax = 64U << 10U;

  // The table outlives it.
  explicit NfsService(ExportTable& exports) : exports_(exports) {}

 private:
  template <class R>
  using Answer = rpcrdma::Answer<R>;

  // Where a call goes: an export, and on whose behalf.
  struct Target {
    nfs3::nfsstat3 error = nfs3::nfsstat3::NFS3_OK;
    ServedExport* served = nullptr;
    const ExportRules* rules = nullptr;
    Caller caller{};
  };
  // Opens the handle, which is the back end's own afterwards.
  Target target_of(const rpcrdma::CallContext& context, nfs3::nfs_fh3& handle) const;
  Target target_of_change(const rpcrdma::CallContext& context, nfs3::nfs_fh3& handle) const;
  // The same for a change of a directory by that name.
  Target target_of_name(const rpcrdma::CallContext& context, nfs3::diropargs3& where) const;
  // The caller and its rights to the export that a second handle names, which must be the same.
  nfs3::nfsstat3 second(const Target& target, nfs3::nfs_fh3& handle) const;

  // None, since clients learn from FSINFO how much a WRITE may have at this server.
  std::span<const rpcrdma::ProcedureTraits> all_traits() const noexcept override { return {}; }
  rpcrdma::AuthStatus check_credential(
      std::uint32_t procedure, const rpcrdma::Credential& credential) const noexcept override;

  void NFSPROC3_GETATTR(Answer<nfs3::GETATTR3res> answer, nfs3::GETATTR3args arg1) override;
  void NFSPROC3_SETATTR(Answer<nfs3::SETATTR3res> answer, nfs3::SETATTR3args arg1) override;
  void NFSPROC3_LOOKUP(Answer<nfs3::LOOKUP3res> answer, nfs3::LOOKUP3args arg1) override;
  void NFSPROC3_ACCESS(Answer<nfs3::ACCESS3res> answer, nfs3::ACCESS3args arg1) override;
  void NFSPROC3_READLINK(Answer<nfs3::READLINK3res> answer, nfs3::READLINK3args arg1) override;
  void NFSPROC3_READ(Answer<nfs3::READ3res> answer, nfs3::READ3args arg1) override;
  void NFSPROC3_WRITE(Answer<nfs3::WRITE3res> answer, nfs3::WRITE3args arg1) override;
  void NFSPROC3_CREATE(Answer<nfs3::CREATE3res> answer, nfs3::CREATE3args arg1) override;
  void NFSPROC3_MKDIR(Answer<nfs3::MKDIR3res> answer, nfs3::MKDIR3args arg1) override;
  void NFSPROC3_SYMLINK(Answer<nfs3::SYMLINK3res> answer, nfs3::SYMLINK3args arg1) override;
  void NFSPROC3_MKNOD(Answer<nfs3::MKNOD3res> answer, nfs3::MKNOD3args arg1) override;
  void NFSPROC3_REMOVE(Answer<nfs3::REMOVE3res> answer, nfs3::REMOVE3args arg1) override;
  void NFSPROC3_RMDIR(Answer<nfs3::RMDIR3res> answer, nfs3::RMDIR3args arg1) override;
  void NFSPROC3_RENAME(Answer<nfs3::RENAME3res> answer, nfs3::RENAME3args arg1) override;
  void NFSPROC3_LINK(Answer<nfs3::LINK3res> answer, nfs3::LINK3args arg1) override;
  void NFSPROC3_READDIR(Answer<nfs3::READDIR3res> answer, nfs3::READDIR3args arg1) override;
  void NFSPROC3_READDIRPLUS(Answer<nfs3::READDIRPLUS3res> answer,
                            nfs3::READDIRPLUS3args arg1) override;
  void NFSPROC3_FSSTAT(Answer<nfs3::FSSTAT3res> answer, nfs3::FSSTAT3args arg1) override;
  void NFSPROC3_FSINFO(Answer<nfs3::FSINFO3res> answer, nfs3::FSINFO3args arg1) override;
  void NFSPROC3_PATHCONF(Answer<nfs3::PATHCONF3res> answer, nfs3::PATHCONF3args arg1) override;
  void NFSPROC3_COMMIT(Answer<nfs3::COMMIT3res> answer, nfs3::COMMIT3args arg1) override;

  ExportTable& exports_;
};

}  // namespace nfs

#endif  // RPCRDMA_NFS_SERVICE_H_
