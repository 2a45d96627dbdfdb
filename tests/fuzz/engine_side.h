// An engine::Connection between a lawful provider and whatever drives it: posts its work into a
// queue of bounded depth, completes them, ends the link, and remembers what is lent, exposed and
// under way, so that the invariants (docs/invariants.md) can be checked at each step.
#ifndef RPCRDMA_TESTS_FUZZ_ENGINE_SIDE_H_
#define RPCRDMA_TESTS_FUZZ_ENGINE_SIDE_H_

#include <compare>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "engine/connection.h"
#include "engine/kept_work_for_test.h"
#include "fuzz/fuzz.h"
#include "wire/chunk_lists.h"

namespace rpcrdma::fuzz {

// A Call or reply under construction, with the storage that its spans point to. Its leases are new.
struct Message {
  std::vector<engine::Fragment> stream;
  std::vector<engine::ResultRoom> results;
  std::optional<engine::ResultRoom> reply_room;
  std::uint32_t reply_size_max = 0;
  bool may_be_read = false;
  std::set<engine::Lease> leases;
  engine::Outgoing outgoing() const {
    return {stream, results, reply_size_max, reply_room, nullptr, may_be_read};
  }
};

// The header of a message that we send, in whichever version it is.
struct SentHeader {
  Xid xid;
  std::uint32_t version;
  std::uint32_t credits;
  bool is_done = false;                // RDMA_DONE
  bool is_option = false;              // RDMA2_OPTIONAL
  std::optional<bool> says_call = {};  // version 2: its direction
};

class EngineSide {
 public:
  // A call that we made, or that came from the peer. Names of the two halves may be the same.
  struct CallKey {
    bool made;
    engine::CallId id;
    auto operator<=>(const CallKey&) const = default;
  };
  struct Call {
    bool made = false;
    Xid xid{};
    std::set<engine::Lease> leases;
    bool ended = false;
    // One that we made.
    Instant deadline{};
    std::vector<std::uint64_t> result_sizes;
    std::uint32_t reply_room_size = 0;
    bool delivered = false;  // and not released
    bool sent = false;
    std::uint32_t version = 0;  // in which it was sent
    std::uint32_t limit = 0;    // of credits, when it took one
    bool answered = false;      // perhaps: a message with its XID came
    wire::ChunkLists lists;
    // Profile::kRfc5666: its answer came; with a Read list; and was confirmed.
    bool settled = false, wants_done = false, confirmed = false;
    std::uint32_t dones_before = 0;  // sent before it
    // One that we answer.
    bool in_service = false;   // waits for our word
    bool has_receive = false;  // which it keeps until it has its answer
    std::optional<engine::MemoryWanted> wanted;
    std::optional<engine::Lease> lent;
  };

  // `refuses`: what cannot be posted any more is flushed at once, and not only with the link's end.
  EngineSide(engine::Role role, const engine::Options& options, std::size_t queue_depth,
             std::size_t batch, bool refuses);

  void connect(const engine::LinkParameters& link);
  // Sets what the Connection Configuration Protocol says.
  void configure(const engine::LinkParameters& link);
  void start_call(Message message, std::chrono::nanoseconds timeout);
  void cancel(engine::CallId call);
  void release(engine::CallId call);
  void start_reply(engine::CallId call, Message message);
  void reject(engine::CallId call);
  // Version 2: asks the peer for other characteristics, and hears what came of it.
  void ask(const engine::SmallValue& want);
  void take_change();
  void raise_receive_size(std::uint32_t size);
  // Sets whether there is memory for Receives of another size.
  void set_memory(bool has_memory) { has_memory_ = has_memory; }
  void lend(engine::CallId call);

  // The peer sends; false without a posted Receive. Longer messages are cut.
  bool receive(Bytes message, std::optional<SteeringTag> invalidated);
  // Completes the n-th work request that may complete now, if there is one.
  bool complete(std::size_t n, bool well);
  // The link ends for the provider: nothing moves any more, what is posted will be flushed.
  void end_link();
  // Reports it to the engine.
  void tell_end();
  std::optional<engine::RefusedWrite> refused_write() const;
  void pass_time(std::chrono::nanoseconds time);
  // Lets time pass to the next time-out; false when there is none.
  bool pass_to_timeout();
  // Gives back and answers whatever waits for us.
  void settle();
  // Lets all calls run into their end, then ends the link: all must have come back. `stuck`: the
  // peer and the provider leave everything where it is.
  void finish(bool stuck);

  Message message(Choices& choices, bool call);
  std::vector<CallKey> calls(bool (*choose)(const Call&)) const;
  const Call& call(const CallKey& key) const { return calls_.at(key); }
  // Tags that are live, or were.
  const std::vector<SteeringTag>& tags() const { return tags_; }
  bool is_live(SteeringTag tag) const { return handles_.contains(tag); }
  bool link_ended() const { return link_ended_; }
  bool connected() const { return connected_; }
  const engine::Options& options() const { return options_; }
  engine::Connection& engine() { return engine_; }
  std::size_t receives_posted() const { return receives_.size(); }
  Xid last_option() const { return last_option_; }  // that we sent

 private:
  struct Exposed {
    engine::Lease memory;
    std::uint32_t size;
    std::uint64_t address;
    work::RemoteAccess access;
  };
  // An action with an id, on its way through the provider.
  struct Posted {
    engine::Action action;
    std::vector<engine::Lease> leases;
    bool in_order;  // a Write or a Send
  };

  Call& made(engine::CallId id) { return calls_.at({true, id}); }
  Call& answered(engine::CallId id) { return calls_.at({false, id}); }
  std::size_t receive_count() const { return engine::Connection::receive_count(role_, options_); }
  bool has_profile() const { return options_.profile == Profile::kRfc5666; }
  bool may_speak_v2() const { return options_.versions.high >= 2; }
  std::uint32_t requested() const;
  std::uint32_t granted() const;
  std::size_t timeouts_max() const;
  bool owes_an_end() const;
  void finish_stuck();
  void drain();
  bool drain_events();
  bool drain_actions();
  bool drain_receives();
  void seen(const engine::Action& action);
  void seen_send(const engine::PostSend& send);
  void seen_done_sent(Xid xid);
  void seen_read(const engine::RdmaRead& read) const;
  void note_answer(Bytes message, Xid xid);
  SentHeader decode_sent(Bytes header, wire::ChunkLists& lists) const;
  void seen_call_sent(const SentHeader& header, const wire::ChunkLists& lists);
  void seen_reply_sent(const engine::PostSend& send, const SentHeader& header,
                       const wire::ChunkLists& lists);
  bool post_waiting();
  void flush_waiting();
  void done(const Posted& posted, engine::Status status);
  void on(const engine::MemoryWanted& event);
  void on(const engine::CallReceived& event);
  void on(const engine::CallDone& event);
  void on(const engine::ChunkRefused& event);
  void on(const engine::ReplyReady& event);
  void on(const engine::CallFailed& event);
  Call& started(const CallKey& key);
  Call& told_of(engine::CallId id, Xid xid);
  void ended(Call& call);
  void check_memory_is_back(const Call& call) const;
  void check_credits() const;
  void check_inline_part(Bytes part) const;
  engine::Lease new_lease(Message& message);

  const engine::Role role_;
  const engine::Options options_;
  const std::size_t queue_depth_;
  const std::size_t batch_;
  const bool refuses_;
  std::unique_ptr<std::byte[]> headers_;
  engine::Connection engine_;
  Instant now_{};
  bool connected_ = false;
  bool link_ended_ = false;
  bool told_ = false;
  bool refused_ = false;  // ChunkRefused came
  std::uint32_t next_lease_ = 1;
  std::uint32_t next_xid_ = 100;
  std::uint32_t next_tag_ = 1;

  struct Place {  // bytes of a lease that may be read to
    std::uint64_t offset, size;
  };
  std::map<engine::Lease, Place> places_;
  std::uint32_t inline_send_max_ = 1024;  // that held for some message
  std::uint32_t inline_send_max_v2_ = engine::kReceiveSizeV2;
  std::deque<engine::Action> waiting_;  // polled, and no room in the queue yet
  std::deque<Posted> posted_;
  struct PostedReceive {
    engine::ReceiveId id;
    std::uint32_t size;  // bytes
  };
  std::vector<PostedReceive> receives_;
  std::set<engine::ReceiveId> unused_;
  std::uint32_t receive_size_;  // of those posted from now on, bytes
  bool has_memory_ = true;
  int changes_ = 0;  // asked for, and not ended
  Xid last_option_{};
  std::map<engine::ReceiveId, Buffer> messages_;  // held by the engine
  std::map<SteeringTag, Exposed> handles_;        // live
  std::vector<SteeringTag> tags_;
  std::map<CallKey, Call> calls_;
  std::uint32_t messages_received_ = 0;
  std::uint32_t replies_sent_ = 0;
  std::uint32_t dones_sent_ = 0, dones_seen_ = 0;  // the peer has seen these
  std::uint32_t grant_max_ = 1;                    // the largest that any message may have granted
};

}  // namespace rpcrdma::fuzz

#endif  // RPCRDMA_TESTS_FUZZ_ENGINE_SIDE_H_
