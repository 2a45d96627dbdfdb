#include "interop/nfs41/callbacks.h"

#include <utility>

#include "nfs41_fields.h"

namespace rpcrdma::interop {

using nfs41::nfs_cb_opnum4;
using nfs41::nfsstat4;

void Callbacks::expect_recall(Delegation delegation) {
  delegation_ = std::move(delegation);
  recalled_ = false;
}

nfsstat4 Callbacks::refuse(nfsstat4 status, const std::string& why) {
  if (refusal_.empty()) refusal_ = why + " (" + to_string(status) + ")";
  return status;
}

void Callbacks::CB_COMPOUND(Answer<nfs41::CB_COMPOUND4res> answer, nfs41::CB_COMPOUND4args args) {
  answer.succeed(results_of(args));
}

nfs41::CB_COMPOUND4res Callbacks::results_of(const nfs41::CB_COMPOUND4args& args) {
  ++counts_.compounds;
  nfs41::CB_COMPOUND4res results{.status = nfsstat4::NFS4_OK, .tag = args.tag, .resarray = {}};
  if (args.minorversion != 1) {
    results.status = refuse(nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH,
                            "CB_COMPOUND of minor version " + std::to_string(args.minorversion));
    return results;
  }
  // Each operation is executed and answered in turn, up to the first that fails (section 20).
  bool in_session = false;
  for (const nfs41::nfs_cb_argop4& operation : args.argarray) {
    nfs41::nfs_cb_resop4 result;
    if (const auto* sequence_args = operation.opcbsequence()) {
      results.status = result.set_opcbsequence(sequence(*sequence_args, in_session)).csr_status();
      in_session = true;
    } else if (const auto* recall_args = operation.opcbrecall()) {
      results.status = in_session ? recall(*recall_args)
                                  : refuse(nfsstat4::NFS4ERR_OP_NOT_IN_SESSION,
                                           "CB_RECALL without CB_SEQUENCE before it");
      result.set_opcbrecall({.status = results.status});
    }
    results.resarray.push_back(std::move(result));
    if (results.status != nfsstat4::NFS4_OK) break;
  }
  return results;
}

// There is no reply cache. On the one connection of the probe a callback is repeated only if its
// answer did not arrive, which is what the probe is to find.
nfs41::CB_SEQUENCE4res Callbacks::sequence(const nfs41::CB_SEQUENCE4args& args, bool in_session) {
  ++counts_.sequences;
  nfsstat4 status = nfsstat4::NFS4_OK;
  if (in_session) {
    status = refuse(nfsstat4::NFS4ERR_SEQUENCE_POS, "CB_SEQUENCE is not the first operation");
  } else if (session_ != args.csa_sessionid) {
    status = refuse(nfsstat4::NFS4ERR_BADSESSION, "CB_SEQUENCE of another session");
  } else if (args.csa_slotid != 0) {
    status = refuse(nfsstat4::NFS4ERR_BADSLOT,
                    "CB_SEQUENCE in slot " + std::to_string(args.csa_slotid) + " of one");
  } else if (args.csa_sequenceid != last_sequence_ + 1) {
    status = refuse(nfsstat4::NFS4ERR_SEQ_MISORDERED,
                    "CB_SEQUENCE " + std::to_string(args.csa_sequenceid) + " after " +
                        std::to_string(last_sequence_));
  }
  nfs41::CB_SEQUENCE4res result;
  if (status != nfsstat4::NFS4_OK) {
    result.set_void(status);
    return result;
  }
  last_sequence_ = args.csa_sequenceid;
  result.set_csr_resok4({.csr_sessionid = args.csa_sessionid,
                         .csr_sequenceid = args.csa_sequenceid,
                         .csr_slotid = args.csa_slotid,
                         .csr_highest_slotid = 0,
                         .csr_target_highest_slotid = 0});
  return result;
}

nfsstat4 Callbacks::recall(const nfs41::CB_RECALL4args& args) {
  ++counts_.recalls;
  if (!delegation_ || args.stateid != delegation_->stateid) {
    return refuse(nfsstat4::NFS4ERR_BAD_STATEID, "CB_RECALL of a delegation that we do not have");
  }
  if (args.fh != delegation_->handle) {
    return refuse(nfsstat4::NFS4ERR_BADHANDLE, "CB_RECALL names another file");
  }
  recalled_ = true;
  return nfsstat4::NFS4_OK;
}

}  // namespace rpcrdma::interop
