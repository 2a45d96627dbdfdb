// The blob program as a service over a Store.
#ifndef RPCRDMA_BLOB_SERVICE_H_
#define RPCRDMA_BLOB_SERVICE_H_

#include "blob.h"
#include "blob/periodic.h"
#include "blob/store.h"
#include "blob/worker_pool.h"

namespace blob {

class BlobService final : public BLOB_V1_Service {
 public:
  // The store outlives the service, which also makes it forget uploads that are over.
  explicit BlobService(Store& store);

 private:
  template <class R>
  using Answer = rpcrdma::Answer<R>;

  void tell(const rpcrdma::AnswerBase& answer, std::string_view what, blob_status status) const;

  void BLOB_PUT_BEGIN(Answer<blob_status> answer, put_begin_args arg1) override;
  void BLOB_PUT_DATA(Answer<blob_status> answer, put_data_args arg1) override;
  void BLOB_PUT_COMMIT(Answer<blob_status> answer, put_commit_args arg1) override;
  void BLOB_GET(Answer<get_result> answer, get_args arg1) override;
  void BLOB_STAT(Answer<stat_result> answer, blob_name arg1) override;
  void BLOB_LIST(Answer<list_result> answer, std::uint64_t arg1) override;
  void BLOB_SUM(Answer<sum_result> answer, blob_name arg1) override;
  void BLOB_REMOVE(Answer<blob_status> answer, blob_name arg1) override;
  void BLOB_STEP_UP(Answer<step_up_status> answer) override;

  Store& store_;
  // These last: their threads use the rest. A long list keeps no sum or commit waiting.
  WorkerPool workers_, lists_;
  Periodic expiry_;
};

}  // namespace blob

#endif  // RPCRDMA_BLOB_SERVICE_H_
