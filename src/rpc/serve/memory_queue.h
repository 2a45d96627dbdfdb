// Queues the Calls that wait for memory of the pool, over all sessions that share it.
#ifndef RPCRDMA_RPC_SERVE_MEMORY_QUEUE_H_
#define RPCRDMA_RPC_SERVE_MEMORY_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <list>
#include <set>
#include <utility>

namespace rpcrdma::rpc {

class Context;

// While the first does not fit, none behind it is tried, so that small Calls cannot keep a large
// one waiting for ever.
//
// The session that holds least of the pool is first: the less it holds, the sooner, so that none
// can keep memory from the others by asking for more. Among those that hold the same, every other
// time it is the one that waits longest, so that each has its turn; the other times it is the one
// that wants least and came last. Peers that take all memory together wait with many Calls then, or
// came before: the next honest one waits until one of theirs ends, and not until all of theirs have
// ended.
class MemoryQueue {
 public:
  class Member;
  struct Ticket {              // of a Call that waits
    Member* member = nullptr;  // null: it does not
    std::uint64_t number = 0;

    explicit operator bool() const noexcept { return member != nullptr; }
  };

  // A session: what it holds, and its Calls that wait, in the order of their arrival.
  class Member {
   public:
    explicit Member(MemoryQueue& queue) noexcept : queue_(queue) {}
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

    // The session has taken, or given back, so many bytes of large buffers.
    void took(std::size_t bytes) { hold(held_ + bytes); }
    void gave_back(std::size_t bytes) { hold(held_ - bytes); }
    std::size_t held() const noexcept { return held_; }

   private:
    friend class MemoryQueue;
    struct Waiting {
      std::uint64_t number;
      Context* context;
      std::size_t bytes;
    };
    void hold(std::size_t bytes) {
      if (waiting_.empty()) {  // and so is in no order
        held_ = bytes;
        return;
      }
      Context* const before = queue_.first();
      queue_.remove(*this);
      held_ = bytes;
      queue_.insert(*this);
      queue_.note_first(before);
    }

    MemoryQueue& queue_;
    std::size_t held_ = 0;
    std::size_t wanted_ = 0;  // by those that wait
    std::list<Waiting> waiting_;
  };

  // `bytes`: the large buffers that the Call wants.
  Ticket enter(Member& member, Context& context, std::size_t bytes) {
    ++size_;
    Context* const before = first();
    remove(member);
    member.waiting_.push_back({++last_, &context, bytes});
    member.wanted_ += bytes;
    insert(member);
    note_first(before);
    return {&member, last_};
  }
  // Precondition: a Call that waits has the ticket. `is_served`: it has its memory.
  void stop_waiting(Ticket ticket, bool is_served) {
    Member& member = *ticket.member;
    remove(member);
    for (auto each = member.waiting_.begin(); each != member.waiting_.end(); ++each) {
      if (each->number != ticket.number) continue;
      member.wanted_ -= each->bytes;
      member.waiting_.erase(each);
      --size_;
      break;
    }
    insert(member);
    if (is_served) by_age_is_next_ = !by_age_is_next_;
  }
  std::size_t size() const noexcept { return size_; }  // Calls that wait
  bool empty() const noexcept { return by_age_.empty(); }
  // Returns null if nobody waits.
  Context* first() const noexcept {
    if (by_age_.empty()) return nullptr;
    const Member& member = by_age_is_next_ ? *by_age_.begin()->second : *by_need_.begin()->second;
    return member.waiting_.front().context;
  }

  // Notes that the first was tried when so many buffers had come back to the pool, and that there
  // was not enough.
  void note_tried(std::uint64_t buffers_returned) noexcept { tried_at_ = buffers_returned; }
  // Returns whether the pool may have more memory now than it had then. Bytes in use do not tell:
  // small buffers may have been taken meanwhile, which take nothing from large ones.
  bool is_worth_trying(std::uint64_t buffers_returned) const noexcept {
    return !empty() && buffers_returned != tried_at_;
  }

 private:
  // Notes whether there is another first one, which was not tried yet.
  void note_first(const Context* before) noexcept {
    if (first() != before) tried_at_ = kNotTried;
  }

  using Key = std::pair<std::size_t, std::uint64_t>;
  using Order = std::set<std::pair<Key, Member*>>;

  static Key age(const Member& member) { return {member.held_, member.waiting_.front().number}; }
  static Key need(const Member& member) {
    return {member.held_ + member.wanted_, ~member.waiting_.front().number};
  }
  void remove(Member& member) {
    if (member.waiting_.empty()) return;
    by_age_.erase({age(member), &member});
    by_need_.erase({need(member), &member});
  }
  void insert(Member& member) {
    if (member.waiting_.empty()) return;
    by_age_.emplace(age(member), &member);
    by_need_.emplace(need(member), &member);
  }

  Order by_age_, by_need_;  // of those that wait
  bool by_age_is_next_ = true;
  std::size_t size_ = 0;
  std::uint64_t last_ = 0;
  static constexpr std::uint64_t kNotTried = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t tried_at_ = kNotTried;  // BufferPool::buffers_returned()
};

}  // namespace rpcrdma::rpc

#endif  // RPCRDMA_RPC_SERVE_MEMORY_QUEUE_H_
