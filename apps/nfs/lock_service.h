// The Network Lock Manager, version 4, of a server that keeps no locks: it refuses them at once, so
// that a program on a client gets an error (ENOLCK) instead of waiting for a lock manager for ever.
#ifndef RPCRDMA_NFS_LOCK_SERVICE_H_
#define RPCRDMA_NFS_LOCK_SERVICE_H_

#include "nlm4.h"

namespace nfs {

// Used on all threads of a server.
class LockService final : public nlm4::NLM_V4_Service {
 private:
  template <class R>
  using Answer = rpcrdma::Answer<R>;

  void NLMPROC4_TEST(Answer<nlm4::nlm4_testres> answer, nlm4::nlm4_testargs arg1) override;
  void NLMPROC4_LOCK(Answer<nlm4::nlm4_res> answer, nlm4::nlm4_lockargs arg1) override;
  void NLMPROC4_CANCEL(Answer<nlm4::nlm4_res> answer, nlm4::nlm4_cancargs arg1) override;
  void NLMPROC4_UNLOCK(Answer<nlm4::nlm4_res> answer, nlm4::nlm4_unlockargs arg1) override;
  void NLMPROC4_GRANTED(Answer<nlm4::nlm4_res> answer, nlm4::nlm4_testargs arg1) override;
  void NLMPROC4_SHARE(Answer<nlm4::nlm4_shareres> answer, nlm4::nlm4_shareargs arg1) override;
  void NLMPROC4_UNSHARE(Answer<nlm4::nlm4_shareres> answer, nlm4::nlm4_shareargs arg1) override;
  void NLMPROC4_NM_LOCK(Answer<nlm4::nlm4_res> answer, nlm4::nlm4_lockargs arg1) override;
  void NLMPROC4_FREE_ALL(Answer<void> answer, nlm4::nlm4_notify arg1) override;
};

}  // namespace nfs

#endif  // RPCRDMA_NFS_LOCK_SERVICE_H_
