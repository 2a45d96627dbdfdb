// The blob program as a Service over a Store.
#ifndef RPCRDMA_BLOB_SERVICE_H_
#define RPCRDMA_BLOB_SERVICE_H_

#include "blob/protocol.h"
#include "blob/store.h"
#include "blob/worker_pool.h"
#include "rpcrdma/service.h"

namespace blob {

class BlobService final : public rpcrdma::Service {
 public:
  explicit BlobService(Store& store) : store_(store), workers_(2) {}

  bool has_procedure(std::uint32_t number) const noexcept override;
  std::uint32_t bulk_argument_size_max(std::uint32_t procedure) const noexcept override;
  void call(rpcrdma::CallContext& context) override;

 private:
  using Context = rpcrdma::CallContext;
  void put_begin(Context& context);
  void put_data(Context& context);
  void put_commit(Context& context);
  void get(Context& context);
  void stat(Context& context);
  void list(Context& context);
  void sum(Context& context);
  void remove(Context& context);

  Store& store_;
  WorkerPool workers_;  // last: its threads use the rest
};

}  // namespace blob

#endif  // RPCRDMA_BLOB_SERVICE_H_
