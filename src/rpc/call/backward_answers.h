// How a client answers the server's Calls (RFC 8167).
#ifndef RPCRDMA_RPC_CALL_BACKWARD_ANSWERS_H_
#define RPCRDMA_RPC_CALL_BACKWARD_ANSWERS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "oncrpc/registry.h"
#include "rpc/answer_queue.h"
#include "rpc/call/link.h"
#include "rpc/region_table.h"
#include "rpc/serve/session.h"
#include "rpcrdma/provider.h"
#include "transport/buffer_pool.h"

namespace rpcrdma::rpc {

class BackwardAnswers final : public Mailbox {
 public:
  // References to what outlives it.
  BackwardAnswers(rdma::Provider& provider, transport::BufferPool& pool,
                  std::uint32_t backward_calls)
      : provider_(provider), pool_(pool), backward_calls_(backward_calls) {}

  bool enabled() const noexcept { return backward_calls_ > 0; }
  // False: this version of the program is served already.
  bool add(std::uint32_t program, std::uint32_t version, Service& service) {
    return registry_.add(program, version, service).has_value();
  }
  std::unique_ptr<Session> make_session(transport::Connection& connection, std::size_t calls);
  // Takes what other threads have answered.
  void take(std::vector<Link>& retired, Instant now);

  // While it lives, answers on this thread to Calls that came over the link need no mailbox.
  class InTurn {
   public:
    InTurn(const BackwardAnswers& answers, const Link& link) noexcept;
    ~InTurn();
    InTurn(const InTurn&) = delete;
    InTurn& operator=(const InTurn&) = delete;

   private:
    const bool enabled_;
    const Link* before_ = nullptr;
  };

  void deliver(IncomingCall& call) override;
  bool in_turn_of(const ReplyCarrier& carrier) const noexcept override;
  Expected<Client, Error> client_of(Session& session, const BackwardOptions& options) override;
  void set_disconnected(BackwardCaller& caller, bool disconnected) override;

 private:
  rdma::Provider& provider_;
  transport::BufferPool& pool_;
  MemoryQueue memory_queue_;
  // Stays empty: results are inline, and what the application registers may be gone before its
  // session is.
  RegionTable regions_;
  const std::uint32_t backward_calls_;
  oncrpc::ServiceRegistry registry_;
  ReplyCache cache_{0, 0};  // remembers nothing
  AnswerQueue answers_;
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_CALL_BACKWARD_ANSWERS_H_
