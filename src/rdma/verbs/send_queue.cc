#include "rdma/verbs/send_queue.h"

#include <algorithm>
#include <span>
#include <utility>
#include <variant>

#include "base/copy.h"

namespace rpcrdma::rdma::verbs {
namespace {

// Request a completion at least this often, to reclaim queue entries.
constexpr std::size_t kSignalEvery = 32;

}  // namespace

SendQueue::SendQueue(const Limits& limits, ibv_pd& domain, const Traits& traits, Memory& memory,
                     Ring<Completion>& done, Counters& counters)
    : limits_(limits),
      traits_(traits),
      memory_(memory),
      done_(done),
      counters_(counters),
      bounce_(domain),
      works_(limits.depth + kSlack) {}

// --- Putting a batch together ------------------------------------------------------------------

void SendQueue::begin_batch(std::size_t slices) {
  chain_.clear();
  slices_.clear();
  last_wanted_.reset();
  slices_.reserve(slices);  // the chain points into it
}

bool SendQueue::add(work::Request& request) {
  if (const auto* send = std::get_if<Send>(&request.work)) return add_send(request, *send);
  if (const auto* read = std::get_if<Read>(&request.work)) return add_read(request, *read);
  if (const auto* write = std::get_if<Write>(&request.work)) return add_write(request, *write);
  if (const auto* work = std::get_if<Expose>(&request.work)) {
    expose(request, *work);
  } else {
    revoke(request, std::get<Revoke>(request.work));
  }
  return true;
}

ibv_send_wr& SendQueue::append(Work work) {
  if (chain_.empty() && work.kind != Kind::kBind) {
    // Binds that wait go first: the peer may learn of them by what follows.
    for (std::size_t i = 0; i < binds_.size(); ++i) {
      binds_[i].wr_id = works_.next();
      chain_.push_back(binds_[i]);
      works_.push({.kind = Kind::kBind, .tag = unbound_[i]});
    }
    binds_.clear();
    unbound_.clear();
  }
  if (work.is_wanted && !work.own_completion) last_wanted_ = chain_.size();
  ibv_send_wr& made = chain_.emplace_back();
  made = {};
  made.wr_id = works_.next();
  works_.push(std::move(work));
  return made;
}

// Makes the slices from `first` on the work's.
void SendQueue::name_slices(ibv_send_wr& work, std::size_t first) {
  work.sg_list = slices_.data() + first;
  work.num_sge = static_cast<int>(slices_.size() - first);
}

// Sends by value, which needs neither a registration nor, if that is allowed, a completion.
void SendQueue::add_inline(const Send& send) {
  for (const Slice& slice : send.from) {
    Bytes bytes;
    (void)memory_.find_readable(slice, bytes);
    if (!bytes.empty()) {
      slices_.push_back({reinterpret_cast<std::uintptr_t>(bytes.data()), slice.size, 0});
    }
  }
}

// Copies the Send into a buffer of ours, if the device takes fewer slices than the Send has.
bool SendQueue::put_together(const Send& send, std::uint64_t size, Work& work) {
  const auto taken = bounce_.take(size);
  if (!taken) return false;
  std::size_t done = 0;
  for (const Slice& slice : send.from) {
    Bytes bytes;
    (void)memory_.find_readable(slice, bytes);
    copy_bytes(bytes, taken->memory.data() + done);
    done += bytes.size();
  }
  counters_.bytes_copied += size;
  work.bounce = taken->place;
  slices_.push_back({reinterpret_cast<std::uintptr_t>(taken->memory.data()),
                     static_cast<std::uint32_t>(size), taken->key});
  return true;
}

bool SendQueue::add_send(work::Request& request, const Send& send) {
  const std::uint64_t size = total_size(send.from);
  const bool goes_inline =
      size <= limits_.inline_max && (!send.invalidate || traits_.inlines_invalidation);
  Work work{.id = request.id,
            .kind = Kind::kSend,
            .is_wanted = request.signaled,
            .size = static_cast<std::uint32_t>(size)};
  const std::size_t first = slices_.size();
  if (goes_inline && send.from.size() <= limits_.slices_max) {
    add_inline(send);
  } else if (send.from.size() <= limits_.slices_max) {
    if (!memory_.gather(send.from, false, slices_)) return false;
  } else if (!put_together(send, size, work)) {
    return false;
  }
  if (request.may_copy && (goes_inline || work.bounce != Bounce::Place{})) {
    request.copied = true;
    work.is_copied = true;
    work.is_wanted = false;
    ++copies_under_way_;
  }
  ibv_send_wr& made = append(std::move(work));
  name_slices(made, first);
  made.opcode = send.invalidate ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND;
  if (goes_inline && made.num_sge > 0) made.send_flags |= IBV_SEND_INLINE;
  if (send.invalidate) {
    made.invalidate_rkey = static_cast<std::uint32_t>(*send.invalidate);
    made.wr.rdma.rkey = made.invalidate_rkey;  // where libsiw looks for it
  }
  ++counters_.sends;
  return true;
}

bool SendQueue::add_read(const work::Request& request, const Read& read) {
  Work work{.id = request.id,
            .kind = Kind::kRead,
            .is_wanted = request.signaled,
            .own_completion = true,
            .size = read.into.size};
  const std::size_t first = slices_.size();
  if (traits_.read_sink_is_exposed && read.into.size > 0) {
    ibv_sge sink{};
    work.sink = memory_.expose_sink(read.into, sink);
    if (!work.sink) return false;
    slices_.push_back(sink);
  } else if (!memory_.gather({&read.into, 1}, true, slices_)) {
    return false;
  }
  ibv_send_wr& made = append(std::move(work));
  name_slices(made, first);
  made.opcode = IBV_WR_RDMA_READ;
  made.send_flags |= IBV_SEND_SIGNALED;
  made.wr.rdma.remote_addr = read.from.address;
  made.wr.rdma.rkey = static_cast<std::uint32_t>(read.from.tag);
  ++counters_.reads;
  return true;
}

bool SendQueue::add_write(const work::Request& request, const Write& write) {
  const std::size_t first = slices_.size();
  if (!memory_.gather(write.from, false, slices_)) return false;
  ibv_send_wr& made = append({.id = request.id,
                              .kind = Kind::kWrite,
                              .is_wanted = request.signaled,
                              .size = static_cast<std::uint32_t>(total_size(write.from))});
  name_slices(made, first);
  made.opcode = IBV_WR_RDMA_WRITE;
  made.wr.rdma.remote_addr = write.to.address;
  made.wr.rdma.rkey = static_cast<std::uint32_t>(write.to.tag);
  ++counters_.writes;
  return true;
}

// --- Exposing memory ---------------------------------------------------------------------------

// The tag of a window is known before it is bound, and binding waits for the next batch: whatever
// tells the peer of the tag comes behind it in the queue.
void SendQueue::expose(const work::Request& request, const Expose& work) {
  const auto exposed = memory_.expose(work.memory, work.access);
  if (!exposed) {
    exposure_failure_ = memory_.failure();
    return done_.push({.id = request.id, .status = Status::kLocalError});
  }
  if (exposed->bind) {
    binds_.push_back(*exposed->bind);
    unbound_.push_back(exposed->tag);
  }
  if (!request.signaled) return;
  Completion completion{.id = request.id};
  completion.tag = exposed->tag;
  completion.address = exposed->address;
  done_.push(completion);
}

void SendQueue::revoke(const work::Request& request, const Revoke& work) {
  const auto unbound = std::ranges::find(unbound_, work.tag);
  if (unbound != unbound_.end()) {  // the peer cannot have heard of it
    binds_.erase(binds_.begin() + (unbound - unbound_.begin()));
    unbound_.erase(unbound);
    memory_.forget_bind(work.tag);
  } else if (ibv_send_wr invalidate;
             memory_.revoke(work.tag, invalidate) == Memory::Revoked::kPost) {
    ibv_send_wr& made = append({.id = request.id,
                                .kind = Kind::kInvalidate,
                                .is_wanted = request.signaled,
                                .tag = work.tag});
    made.opcode = invalidate.opcode;
    made.invalidate_rkey = invalidate.invalidate_rkey;
    made.wr.rdma.rkey = invalidate.invalidate_rkey;
    return;
  }
  if (request.signaled) done_.push({.id = request.id});
}

// --- To the device -----------------------------------------------------------------------------

std::optional<int> SendQueue::post(ibv_qp& queue) {
  if (chain_.empty()) return std::nullopt;
  for (std::size_t i = 0; i + 1 < chain_.size(); ++i) chain_[i].next = &chain_[i + 1];
  ask_for_completion();
  ibv_send_wr* bad = nullptr;
  ++counters_.doorbells;
  const int code = ibv_post_send(&queue, chain_.data(), &bad);
  if (code == 0 && bad == nullptr) return std::nullopt;
  return code;
}

std::optional<int> SendQueue::post_bindings(ibv_qp& queue) {
  begin_batch(0);
  for (std::size_t i = 0; i < binds_.size(); ++i) {
    ibv_send_wr& made = append({.kind = Kind::kBind, .tag = unbound_[i]});
    const std::uint64_t number = made.wr_id;
    made = binds_[i];
    made.wr_id = number;
  }
  binds_.clear();
  unbound_.clear();
  return post(queue);
}

// A Write of nothing. It names no memory: RFC 5040 §5.1 and InfiniBand alike do not look its tag
// up.
std::optional<int> SendQueue::post_marker(ibv_qp& queue) {
  begin_batch(0);
  append({.kind = Kind::kMarker, .is_wanted = true}).opcode = IBV_WR_RDMA_WRITE;
  return post(queue);
}

// Requests a completion for the last work whose completion the user wants, and now and then if
// there is none.
void SendQueue::ask_for_completion() {
  std::size_t asking = chain_.size();
  if (last_wanted_) {
    asking = *last_wanted_;
  } else if (const std::size_t depth = limits_.depth;
             since_signal_ + chain_.size() >= std::min(kSignalEvery, depth / 2 + 1)) {
    asking = chain_.size() - 1;
  }
  if (asking == chain_.size()) {
    since_signal_ += static_cast<std::uint32_t>(chain_.size());
    return;
  }
  chain_[asking].send_flags |= IBV_SEND_SIGNALED;
  since_signal_ = static_cast<std::uint32_t>(chain_.size() - asking - 1);
}

// --- What became of it -------------------------------------------------------------------------

void SendQueue::complete(std::uint64_t number, Status status) {
  // Work before a flushed one may have been flushed without a completion of its own; work before a
  // failed one was done.
  const Status before = status == Status::kFlushed ? Status::kFlushed : Status::kOk;
  (void)works_.complete(number, [&](Work& work, bool is_named) {
    finish(work, is_named ? status : before, is_named);
  });
}

// `is_certain`: the device has said so of this very work.
void SendQueue::finish(Work& work, Status status, bool is_certain) {
  if (work.is_copied) --copies_under_way_;
  bounce_.give_back(work.bounce);
  work.sink.reset();
  if (work.kind == Kind::kInvalidate && status == Status::kOk) memory_.release(work.tag);
  if (work.kind == Kind::kRead && status == Status::kOk) counters_.payload_received += work.size;
  if (status == Status::kOk && (work.kind == Kind::kSend || work.kind == Kind::kWrite)) {
    counters_.payload_sent += work.size;
  }
  // Work of our own, and copied Sends, whose completion was reported when they were posted, have no
  // further completion.
  if (work.kind == Kind::kBind || work.kind == Kind::kMarker || work.is_copied) return;
  // A failure always completes; but of work that the device does not mention it is not known.
  if (!work.is_wanted && (status == Status::kOk || !is_certain)) return;
  if (work.kind == Kind::kInvalidate && status != Status::kOk && !is_gone_) {
    return unrevoked_.push_back(work.id);  // the memory is out of reach when the queue pair is gone
  }
  Completion completion{.id = work.id, .status = status};
  if (work.kind == Kind::kRead) completion.size = work.size;
  done_.push(completion);
}

void SendQueue::flush() {
  is_gone_ = true;
  binds_.clear();
  unbound_.clear();
  works_.flush([this](Work& work) { finish(work, Status::kFlushed, false); });
  for (const std::uint64_t id : unrevoked_) done_.push({.id = id, .status = Status::kFlushed});
  unrevoked_.clear();
}

}  // namespace rpcrdma::rdma::verbs
