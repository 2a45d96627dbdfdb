// The connections of a running server, from the records of its Tap: the way into this module where
// no packet can be captured.
#ifndef RPCRDMA_EXPLAIN_LIVE_H_
#define RPCRDMA_EXPLAIN_LIVE_H_

#include <cstdint>
#include <list>
#include <map>
#include <memory>

#include "explain/facts.h"
#include "rpcrdma/tap.h"
#include "rpcrdma/types.h"

namespace rpcrdma::explain {

// Reports the same facts as a Decoder, in the same way; packets are records. Side 1 of each
// connection is the server.
class Live {
 public:
  struct Servers {  // where it listens
    Endpoint rdma, tcp;
  };
  Live(Sink& sink, const Servers& servers, bool keeps_bodies);
  ~Live();
  Live(const Live&) = delete;
  Live& operator=(const Live&) = delete;

  // `bytes` are those that the record keeps, `peer` is read of kConnection alone.
  void add(const TapRecord& record, Bytes bytes, const Endpoint& peer);
  // Reports what is still open. No record may follow.
  void finish();

  std::uint64_t records() const noexcept { return records_; }
  std::uint64_t lost() const noexcept { return lost_; }  // records that the server left out

 private:
  class Link;
  class Parts;

  void note_loss(const TapRecord& record);
  void drop_silent();

  Sink& sink_;
  const Servers servers_;
  const std::unique_ptr<Parts> parts_;
  std::map<std::uint64_t, std::unique_ptr<Link>> links_;  // by the server's number
  std::list<std::uint64_t> silent_;  // these numbers, the one that was silent longest in front
  std::uint64_t records_ = 0, lost_ = 0, numbers_ = 0;
};

}  // namespace rpcrdma::explain

#endif  // RPCRDMA_EXPLAIN_LIVE_H_
