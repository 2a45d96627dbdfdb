// Making the results of RFC 1813, whose failures differ from procedure to procedure.
#ifndef RPCRDMA_NFS_RESULTS_H_
#define RPCRDMA_NFS_RESULTS_H_

#include <utility>

#include "nfs3.h"

namespace nfs {

// Makes a failure without any attributes.
template <class Results>
Results failed(nfs3::nfsstat3 status) {
  Results results;
  if constexpr (requires { results.set_resfail(status); }) {
    results.set_resfail(status);
  } else {
    results.set_void(status);
  }
  return results;
}

// Makes a failure with the attributes that it carries in this procedure.
template <class Results, class Failure>
Results failed(nfs3::nfsstat3 status, Failure failure) {
  Results results;
  results.set_resfail(status, std::move(failure));
  return results;
}

template <class Results, class Success>
Results succeeded(Success success) {
  Results results;
  results.set_resok(std::move(success));
  return results;
}

}  // namespace nfs

#endif  // RPCRDMA_NFS_RESULTS_H_
