#include "rdma/verbs/completion_status.h"

namespace rpcrdma::rdma::verbs {

Status status_of(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return Status::kOk;
    case IBV_WC_WR_FLUSH_ERR:
      return Status::kFlushed;
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_REM_ABORT_ERR:
      return Status::kRemoteAccess;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
      return Status::kRetryExceeded;
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_QP_OP_ERR:
    case IBV_WC_LOC_EEC_OP_ERR:
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_MW_BIND_ERR:
    case IBV_WC_BAD_RESP_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_LOC_RDD_VIOL_ERR:
    case IBV_WC_REM_INV_RD_REQ_ERR:
    case IBV_WC_INV_EECN_ERR:
    case IBV_WC_INV_EEC_STATE_ERR:
    case IBV_WC_FATAL_ERR:
    case IBV_WC_GENERAL_ERR:
    case IBV_WC_TM_ERR:
    case IBV_WC_TM_RNDV_INCOMPLETE:
      return Status::kLocalError;
  }
  return Status::kLocalError;
}

Error cause_of(ibv_wc_status status) {
  switch (status_of(status)) {
    case Status::kRemoteAccess:
      return {Errc::kProtocol, 0, "the peer refused access to its memory"};
    case Status::kRetryExceeded:
      return status == IBV_WC_RNR_RETRY_EXC_ERR
                 ? Error{Errc::kProtocol, 0, "the peer had no Receive for a message"}
                 : Error{Errc::kTimedOut, 0, "the peer does not answer"};
    case Status::kOk:
    case Status::kFlushed:
    case Status::kLocalError:
      break;
  }
  if (status == IBV_WC_LOC_LEN_ERR) {
    return {Errc::kProtocol, 0, "a message was longer than the Receive for it"};
  }
  return {Errc::kProvider, 0, ibv_wc_status_str(status)};  // a constant of rdma-core
}

}  // namespace rpcrdma::rdma::verbs
