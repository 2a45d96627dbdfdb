// The messages of version 2 that belong to no RPC call: RDMA2_OPTIONAL, and the errors that answer
// it.
#ifndef RPCRDMA_ENGINE_OPTION_PORT_H_
#define RPCRDMA_ENGINE_OPTION_PORT_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/ring.h"
#include "engine/shared.h"
#include "engine/types.h"
#include "engine/work_id.h"
#include "engine/work_room.h"

namespace rpcrdma::engine {

// Answers each option that it does not know with INVAL_OPTION and its XID (draft-cel version two
// -01 §5). A message keeps its Receive until its answer has left, so that a peer which sends many
// at a time runs out of Receives, and of nothing else. Driven by Connection.
class OptionPort {
 public:
  // Sends that may be under way at a time, each with a place for its header.
  static constexpr std::size_t kPlaces = 2;
  // Receives that are posted for messages which no credit counts.
  static constexpr std::uint32_t kReceives = 2;
  // Whether a connection with these options has any use for it.
  static constexpr bool is_needed(const Options& options) noexcept {
    return options.versions.high >= 2;
  }

  // `receives`: how many the connection has.
  OptionPort(Shared& shared, HeaderArena headers, std::size_t receives);

  // Precondition: its kind is kOption.
  void handle_received(ReceiveId receive, const Received& message);
  void handle_done(const WorkName& name);
  void handle_disconnected();
  void poll_work(WorkRoom& room);

 private:
  struct Answer {
    ReceiveId receive;
    Xid xid;
  };

  Shared& shared_;
  HeaderArena headers_;
  Ring<Answer> answers_;  // to be sent
  std::array<bool, kPlaces> in_use_{};
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_OPTION_PORT_H_
