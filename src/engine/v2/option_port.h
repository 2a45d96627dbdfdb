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
#include "engine/v2/change_requests.h"
#include "engine/v2/characteristics.h"
#include "engine/v2/small_value.h"
#include "engine/work_id.h"
#include "engine/work_room.h"

namespace rpcrdma::engine {

// Tells our characteristics once the peer has shown that it speaks version 2, hears the peer's,
// asks for others and answers what the peer asks, and answers each option that it does not know
// with INVAL_OPTION and its XID (draft-cel version two -01 §5). A message keeps its Receive until
// its answer has left, so that a peer which sends many at a time runs out of Receives, and of
// nothing else. Driven by Connection.
//
// A side sends few of these messages that the other may not have read yet: its INITXCH, one REQXCH
// without an answer, the RESPXCH to one of the peer's, and one UPDXCH (ADR 25). A client's count
// against its credits; a server speaks to clients that have sent an option themselves.
class OptionPort {
 public:
  // Sends that may be under way at a time, each with a place for its header.
  static constexpr std::size_t kPlaces = 4;
  // The Receives that are posted for messages which no credit counts.
  static constexpr std::uint32_t kReceives = 4;
  // Returns whether a connection with these options can use options of version 2.
  static constexpr bool is_needed(const Options& options) noexcept {
    return options.versions.high >= 2;
  }

  // `receives`: the number of Receives that the connection has.
  OptionPort(Role role, const Options& options, Shared& shared, HeaderArena headers,
             std::size_t receives);

  // --- Commands from above.
  // Asks the peer for another value, as XDR encodes it; its end comes by poll_change(). False: the
  // peer has not begun with version 2 (for a server: has sent no option), one for this id has not
  // ended, or too many have not.
  bool ask(const SmallValue& want);
  std::optional<ChangeRequests::End> poll_change() { return requests_.poll_end(); }
  // Raises the size of our Receives. False: the peer has not begun with version 2, the size is
  // being raised already, or would get no larger.
  bool raise_receive_size(std::uint32_t size) {
    return announced_ && characteristics_.own_size().set(size);
  }

  // Announces a new value of one of the application's characteristics. False: it is not registered.
  bool set(const SmallValue& value) {
    const bool is_one = characteristics_.experimental().set(value);
    has_update_ = has_update_ || is_one;
    is_used_ = true;
    return is_one;
  }
  // Returns a characteristic whose value the peer has changed since this was called last; null:
  // none.
  const CharacteristicType* poll_changed() noexcept {
    return characteristics_.experimental().poll_changed();
  }

  // Returns whether poll_change() or poll_changed() has something.
  bool has_news() const noexcept {
    return requests_.has_ends() || characteristics_.experimental().has_changed();
  }

  // --- From and to the driver.
  // Receives of this size are to be posted from now on, if there is memory; then handle_resized().
  std::optional<std::uint32_t> poll_receive_size() noexcept {
    return characteristics_.own_size().poll_wanted();
  }
  void handle_resized(bool succeeded) noexcept;

  // The connection is up; `link` holds in version 2 until somebody says more. `may_invalidate`: our
  // provider can send with invalidate.
  void handle_connected(const LinkParameters& link, bool may_invalidate) noexcept;
  // Sends INITXCH with this XID, once. A client does it when the server has shown that it speaks
  // version 2; a server does it by itself, to clients that have sent an option: others may have no
  // Receives but for replies.
  void announce(Xid xid);
  // Returns whether a message is an option, or the answer to one of ours.
  bool takes(const Received& message) const noexcept;
  // Precondition: takes().
  void handle_received(ReceiveId receive, const Received& message);
  void handle_done(const WorkName& name);
  void handle_time(Instant now) noexcept { now_ = now; }
  void handle_timeout(Instant now);
  void handle_disconnected();
  Deadline poll_timeout() const noexcept {
    return earlier(peer_.deadline(), asked_ ? Deadline(asked_->deadline) : Deadline());
  }
  // Returns the size if the next request asks for smaller Receives: it is sent only when no planned
  // Send above this size is left unposted. nullopt: the next request asks for something else.
  std::optional<std::uint32_t> waits_to_lower() const noexcept;
  // Returns whether poll_work() may have something to do.
  bool is_busy() const noexcept {
    return is_used_ &&
           (!messages_.empty() || !requests_.empty() || has_update_ || has_announcement_ ||
            characteristics_.own_size().is_rising() || shared_.option_credits.is_waiting());
  }
  // `credits`: a client's, for its Calls; null: a server's side. `may_lower`: see waits_to_lower().
  void poll_work(WorkRoom& room, const CreditsV1* credits, bool may_lower);

  const CharacteristicTable& characteristics() const noexcept { return characteristics_; }

 private:
  struct Message {
    Kind kind;
    Xid xid;
    std::optional<ReceiveId> receive;  // of what it answers
    wire::v2::Operation operation{};   // kOption
    ChangeAnswer answer{};             // RESPXCH
  };
  struct Asked {  // the REQXCH without an answer
    Xid xid;
    bool is_request;        // of requests_; else it is there for its answer
    bool is_behind_update;  // our UPDXCH is read when this is answered
    Instant deadline;
  };
  void handle_option(ReceiveId receive, const Received& message);
  void handle_answered(Xid xid, const wire::v2::RespXch* answer);
  std::optional<Message> next_message(const CreditsV1* credits, bool may_lower);
  bool may_go(OptionCredits::Sort sort, const CreditsV1* credits) noexcept {
    return credits == nullptr || shared_.option_credits.pass(sort, *credits);
  }
  bool wants_an_answer() const noexcept;
  std::uint32_t write(const Message& message, MutableBytes place) noexcept;
  std::uint32_t write_request(MutableBytes info) noexcept;
  Xid next_xid() noexcept { return Xid{--last_xid_}; }
  void update_link() noexcept;

  Shared& shared_;
  HeaderArena headers_;
  CharacteristicTable characteristics_;
  const bool is_server_;
  LinkParameters link_;  // without a word of either side
  bool may_invalidate_ = false;
  std::optional<Xid> announced_;   // the XID of our INITXCH
  bool has_announcement_ = false;  // which is to be sent
  bool is_used_ = false;           // an option came, or was asked for: with version 1 there is none
  Ring<Message> messages_;         // to be sent
  ChangeRequests requests_;
  std::optional<Asked> asked_;
  std::optional<Xid> updated_;  // the UPDXCH that the peer may not have read yet
  bool has_update_ = false;     // a value of the application's may have to be announced
  bool peer_is_mute_ = false;   // it has left a REQXCH without an answer, and said nothing since
  std::uint32_t last_xid_ = 0;  // of a message of our own
  std::array<bool, kPlaces> in_use_{};
  PeerWatch peer_;
  const std::chrono::nanoseconds answer_timeout_;
  const std::uint32_t requested_;  // Calls that this side wants to have without an answer
  Instant now_{};
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_V2_OPTION_PORT_H_
