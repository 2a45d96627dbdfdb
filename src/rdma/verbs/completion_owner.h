// The owner of a completion queue handles the queue's events.
#ifndef RPCRDMA_RDMA_VERBS_COMPLETION_OWNER_H_
#define RPCRDMA_RDMA_VERBS_COMPLETION_OWNER_H_

namespace rpcrdma::rdma::verbs {

// A completion queue's context is a pointer to one.
class CompletionOwner {
 public:
  // The queue has something, and has to be armed again.
  virtual void handle_completion_event() noexcept = 0;

 protected:
  ~CompletionOwner() = default;
};

}  // namespace rpcrdma::rdma::verbs

#endif  // RPCRDMA_RDMA_VERBS_COMPLETION_OWNER_H_
