// The callback program of one session: it answers CB_SEQUENCE and CB_RECALL as RFC 8881 says, and
// counts what came.
#ifndef RPCRDMA_TESTS_INTEROP_NFS41_CALLBACKS_H_
#define RPCRDMA_TESTS_INTEROP_NFS41_CALLBACKS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "nfs41.h"

namespace rpcrdma::interop {

// A delegation that may be recalled.
struct Delegation {
  nfs41::stateid4 stateid;
  nfs41::nfs_fh4 handle;
};

class Callbacks final : public nfs41::NFS_CB_Service {
 public:
  struct Counts {
    std::uint32_t compounds = 0, sequences = 0, recalls = 0;
  };

  // The session to which CB_SEQUENCE has to belong; its slot 0 starts at 1.
  void begin(const nfs41::sessionid4& session) { session_ = session; }
  // From now on this delegation may be recalled, once.
  void expect_recall(Delegation delegation);

  bool recalled() const noexcept { return recalled_; }
  const Counts& counts() const noexcept { return counts_; }
  // The first callback that was refused, and why; empty: none.
  const std::string& refusal() const noexcept { return refusal_; }

  void CB_COMPOUND(Answer<nfs41::CB_COMPOUND4res> answer, nfs41::CB_COMPOUND4args args) override;
  // Returns the answer to CB_COMPOUND.
  nfs41::CB_COMPOUND4res results_of(const nfs41::CB_COMPOUND4args& args);

 private:
  nfs41::CB_SEQUENCE4res sequence(const nfs41::CB_SEQUENCE4args& args, bool in_session);
  nfs41::nfsstat4 recall(const nfs41::CB_RECALL4args& args);
  // Remembers why a callback is refused.
  nfs41::nfsstat4 refuse(nfs41::nfsstat4 status, const std::string& why);

  std::optional<nfs41::sessionid4> session_;
  std::uint32_t last_sequence_ = 0;  // of slot 0, the only one
  std::optional<Delegation> delegation_;
  bool recalled_ = false;
  Counts counts_;
  std::string refusal_;
};

}  // namespace rpcrdma::interop

#endif  // RPCRDMA_TESTS_INTEROP_NFS41_CALLBACKS_H_
