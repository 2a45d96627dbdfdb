// The messages of version 2 that belong to no RPC call: RDMA2_OPTIONAL, and the errors that answer
// it.
#ifndef RPCRDMA_ENGINE_V2_OPTION_PORT_H_
#define RPCRDMA_ENGINE_V2_OPTION_PORT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/ring.h"
#include "engine/peer_watch.h"
#include "engine/shared.h"
#include "engine/types.h"
#include "engine/v2/characteristics.h"
#include "engine/work_id.h"
#include "engine/work_room.h"

namespace rpcrdma::engine {

// Tells our characteristics once the peer has shown that it speaks version 2, hears the peer's, and
// answers each option that it does not know with INVAL_OPTION and its XID (draft-cel version two
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
  OptionPort(Role role, const Options& options, Shared& shared, HeaderArena headers,
             std::size_t receives);

  // The connection is up; `link` holds in version 2 until somebody says more. `may_invalidate`: our
  // provider can send with invalidate.
  void handle_connected(const LinkParameters& link, bool may_invalidate) noexcept;
  // The peer speaks version 2; this was the XID of the message that showed it.
  void announce(Xid xid);
  // Whether a message is an option, or the answer to one of ours.
  bool takes(const Received& message) const noexcept;
  // Precondition: takes().
  void handle_received(ReceiveId receive, const Received& message);
  void handle_done(const WorkName& name);
  void handle_time(Instant now) noexcept { now_ = now; }
  void handle_timeout(Instant now);
  void handle_disconnected();
  std::optional<Instant> poll_timeout() const noexcept { return peer_.deadline(); }
  void poll_work(WorkRoom& room);

  const CharacteristicTable& characteristics() const noexcept { return characteristics_; }

 private:
  struct Message {
    Kind kind;
    Xid xid;
    std::optional<ReceiveId> receive;  // of what it answers
    wire::v2::Operation operation{};   // kOption
    std::uint32_t wanted = 0;          // RESPXCH: values asked for
  };
  std::uint32_t write(const Message& message, MutableBytes place) noexcept;
  void update_link() noexcept;

  Shared& shared_;
  HeaderArena headers_;
  CharacteristicTable characteristics_;
  LinkParameters link_;  // without a word of either side
  bool may_invalidate_ = false;
  std::optional<Xid> announced_;
  Ring<Message> messages_;  // to be sent
  std::array<bool, kPlaces> in_use_{};
  PeerWatch peer_;
  Instant now_{};
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_V2_OPTION_PORT_H_
