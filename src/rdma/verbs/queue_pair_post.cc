// Taking work: all of a batch or none.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <variant>

#include "rdma/verbs/preflight.h"
#include "rdma/verbs/queue_pair.h"

namespace rpcrdma::rdma::verbs {
namespace {

std::uint64_t total_size(std::span<const Slice> slices) {
  std::uint64_t size = 0;
  for (const Slice& slice : slices) size += slice.size;
  return size;
}

// Request a completion at least this often, to reclaim queue entries.
constexpr std::size_t kSignalEvery = 32;

}  // namespace

// --- Is it all right? --------------------------------------------------------------------------

std::string_view QueuePair::check_slices(std::span<const Slice> slices, bool to_write,
                                         std::size_t max) const {
  if (slices.size() > max) return "more slices than the device takes";
  Bytes readable;
  MutableBytes writable;
  for (const Slice& slice : slices) {
    const bool inside = to_write ? memory_->find_writable(slice, writable)
                                 : memory_->find_readable(slice, readable);
    if (!inside) return "work with memory that is not attached";
  }
  if (total_size(slices) > 0xffffffffU) return "work of 4 GiB or more";
  return {};
}

std::string_view QueuePair::check_work(const work::Request& request) const {
  const bool is_up = state_ == State::kOpen;
  if (const auto* receive = std::get_if<Receive>(&request.work)) {
    if (share_) return "a Receive of its own on a connection that shares them";
    return check_slices(receive->into, true, capabilities_.sge_max);
  }
  if (const auto* expose = std::get_if<Expose>(&request.work)) {
    return check_slices({&expose->memory, 1}, expose->access == RemoteAccess::kWrite, 1);
  }
  if (std::holds_alternative<Revoke>(request.work)) return {};
  if (!is_up) return "sending before the connection is there";
  if (const auto* send = std::get_if<Send>(&request.work)) {
    if (send->invalidate && !capabilities_.send_with_invalidate) {
      return "Send with Invalidate, which the device does not have";
    }
    return check_slices(send->from, false, kSlicesMax);
  }
  if (const auto* read = std::get_if<Read>(&request.work)) {
    return check_slices({&read->into, 1}, true, 1);
  }
  const auto& write = std::get<Write>(request.work);
  return check_slices(write.from, false, capabilities_.sge_max);
}

Expected<void, Error> QueuePair::check(std::span<const work::Request> batch) {
  std::size_t receives = 0, exposures = 0;
  for (const work::Request& request : batch) {
    if (const auto wrong = check_work(request); !wrong.empty()) {
      return Unexpected<Error>(Error{Errc::kUnsupported, 0, wrong});
    }
    receives += std::holds_alternative<Receive>(request.work) ? 1U : 0U;
    exposures += std::holds_alternative<Expose>(request.work) ? 1U : 0U;
  }
  if (!make_room(receives, batch.size() - receives)) {
    return Unexpected<Error>(Error{Errc::kNoResources, 0, "post: the queue is full"});
  }
  if (!memory_->has_room_for(exposures)) {
    return Unexpected<Error>(Error{Errc::kNoResources, 0, "post: too much memory is exposed"});
  }
  return {};
}

// Looks for completions when there seems to be no room: unsignaled work may be done.
bool QueuePair::make_room(std::size_t receives, std::size_t others) {
  const std::size_t depth = capabilities_.queue_depth_max;
  const auto fits = [&] {
    return receives_posted() + receives <= depth &&
           sends_.size() + binds_.size() + others <= depth &&
           ready_.size() + receives_posted() + receives + sends_.size() + others <=
               ready_.capacity();
  };
  if (fits()) return true;
  if (state_ != State::kOpen) return false;
  // Else binds could wait for the very Sends that wait for their room.
  if (!binds_.empty()) flush_binds();
  collect();
  return fits();
}

// --- Putting it together -----------------------------------------------------------------------

bool QueuePair::takes_work() const noexcept {
  return state_ != State::kDown && state_ != State::kLeaving && state_ != State::kDraining &&
         !broken_ && !born_.elsewhere();
}

Expected<void, Error> QueuePair::post_receives(const ReceiveBuffers& buffers,
                                               std::span<const std::uint16_t> numbers) {
  if (!share_) return rdma::QueuePair::post_receives(buffers, numbers);
  if (!takes_work()) return Unexpected<Error>(Error{Errc::kClosed, 0, "post"});
  if (buffers.size > share_->pool().buffer_size()) {
    return Unexpected<Error>(
        Error{Errc::kUnsupported, 0, "Receives longer than those that are shared"});
  }
  if (!make_room(numbers.size(), 0)) {
    return Unexpected<Error>(Error{Errc::kNoResources, 0, "post: the queue is full"});
  }
  const auto doorbells = share_->post(numbers, buffers.size);
  if (doorbells) {
    counters_.doorbells += *doorbells;
  } else {
    broke(EIO);
  }
  return {};
}

void QueuePair::release_receives(std::span<const std::uint16_t> numbers) {
  if (share_) counters_.doorbells += share_->release(numbers).value_or(1);
}

Expected<void, Error> QueuePair::post(std::span<work::Request> batch) {
  if (!takes_work()) return Unexpected<Error>(Error{Errc::kClosed, 0, "post"});
  if (auto checked = check(batch); !checked) return checked;
  std::size_t slices = 0;
  for (const work::Request& request : batch) {
    ++slices;  // even of work without any
    if (const auto* receive = std::get_if<Receive>(&request.work)) slices += receive->into.size();
    if (const auto* send = std::get_if<Send>(&request.work)) slices += send->from.size();
    if (const auto* write = std::get_if<Write>(&request.work)) slices += write->from.size();
  }
  begin_batch(slices);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (build(batch[i])) continue;
    // What the device has no memory registered for cannot be done at all, now or later.
    const int code = memory_->failure() != 0 ? memory_->failure() : ENOMEM;
    end({Errc::kNoResources, code, kRegisteringMemory});
    give_up(batch.subspan(i));
    return {};
  }
  end_batch();
  return {};
}

// Work that was taken, and is over before anybody heard of it.
void QueuePair::give_up(std::span<const work::Request> rest) {
  for (const work::Request& request : rest) {
    complete_now({.id = request.id, .status = Status::kFlushed});
  }
}

void QueuePair::begin_batch(std::size_t slices) {
  send_chain_.clear();
  receive_chain_.clear();
  slices_.clear();
  last_wanted_.reset();
  slices_.reserve(slices);  // the chains point into it
}

bool QueuePair::build(work::Request& request) {
  if (const auto* receive = std::get_if<Receive>(&request.work))
    return add_receive(request, *receive);
  if (const auto* send = std::get_if<Send>(&request.work)) return build_send(request, *send);
  if (const auto* read = std::get_if<Read>(&request.work)) return build_read(request, *read);
  if (const auto* write = std::get_if<Write>(&request.work)) return build_write(request, *write);
  if (const auto* work = std::get_if<Expose>(&request.work)) {
    expose(request, *work);
  } else {
    revoke(request, std::get<Revoke>(request.work));
  }
  return true;
}

// Where in slices_ they begin; nullopt: memory could not be registered.
std::optional<std::size_t> QueuePair::gather(std::span<const Slice> slices, bool to_write) {
  const std::size_t first = slices_.size();
  for (const Slice& slice : slices) {
    if (slice.size == 0) continue;
    const auto found = to_write ? memory_->writable(slice) : memory_->readable(slice);
    if (!found) return std::nullopt;
    slices_.push_back(*found);
  }
  if (slices_.size() == first && device_->traits().wants_a_slice) slices_.push_back({0, 0, 0});
  return first;
}

bool QueuePair::add_receive(const work::Request& request, const Receive& receive) {
  const auto first = gather(receive.into, true);
  if (!first) return false;
  ibv_recv_wr& work = receive_chain_.emplace_back();
  work = {};
  work.wr_id = kOfReceive | receives_.next();
  work.sg_list = slices_.data() + *first;
  work.num_sge = static_cast<int>(slices_.size() - *first);
  receives_.push({.id = request.id});
  return true;
}

ibv_send_wr& QueuePair::add_send(SendWork work) {
  if (send_chain_.empty() && work.kind != Kind::kBind) {
    // Binds that wait go first: the peer may learn of them by what follows.
    for (std::size_t i = 0; i < binds_.size(); ++i) {
      binds_[i].wr_id = sends_.next();
      send_chain_.push_back(binds_[i]);
      sends_.push({.kind = Kind::kBind, .tag = unbound_[i]});
    }
    binds_.clear();
    unbound_.clear();
  }
  if (work.is_wanted && !work.own_completion) last_wanted_ = send_chain_.size();
  ibv_send_wr& made = send_chain_.emplace_back();
  made = {};
  made.wr_id = sends_.next();
  sends_.push(std::move(work));
  return made;
}

bool QueuePair::build_send(work::Request& request, const Send& send) {
  const std::uint64_t size = total_size(send.from);
  const bool goes_inline =
      size <= inline_max_ && (!send.invalidate || device_->traits().inlines_invalidation);
  SendWork work{.id = request.id,
                .kind = Kind::kSend,
                .is_wanted = request.signaled,
                .size = static_cast<std::uint32_t>(size)};
  const std::size_t first = slices_.size();
  if (goes_inline && send.from.size() <= send_slices_max_) {
    // By value: neither a registration nor, if that is allowed, a completion.
    for (const Slice& slice : send.from) {
      Bytes bytes;
      (void)memory_->find_readable(slice, bytes);
      if (!bytes.empty()) {
        slices_.push_back({reinterpret_cast<std::uintptr_t>(bytes.data()), slice.size, 0});
      }
    }
  } else if (send.from.size() <= send_slices_max_) {
    if (!gather(send.from, false)) return false;
  } else {
    const auto taken = bounce_->take(size);
    if (!taken) return false;
    std::size_t done = 0;
    for (const Slice& slice : send.from) {
      Bytes bytes;
      (void)memory_->find_readable(slice, bytes);
      std::ranges::copy(bytes, taken->memory.begin() + static_cast<std::ptrdiff_t>(done));
      done += bytes.size();
    }
    counters_.bytes_copied += size;
    work.bounce = taken->place;
    slices_.push_back({reinterpret_cast<std::uintptr_t>(taken->memory.data()),
                       static_cast<std::uint32_t>(size), taken->key});
  }
  if (request.may_copy && (goes_inline || work.bounce != Bounce::Place{})) {
    request.copied = true;
    work.is_copied = true;
    work.is_wanted = false;
    ++copies_under_way_;
  }
  ibv_send_wr& made = add_send(std::move(work));
  made.sg_list = slices_.data() + first;
  made.num_sge = static_cast<int>(slices_.size() - first);
  made.opcode = send.invalidate ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND;
  if (goes_inline && made.num_sge > 0) made.send_flags |= IBV_SEND_INLINE;
  if (send.invalidate) {
    made.invalidate_rkey = static_cast<std::uint32_t>(*send.invalidate);
    made.wr.rdma.rkey = made.invalidate_rkey;  // where libsiw looks for it
  }
  ++counters_.sends;
  return true;
}

bool QueuePair::build_read(const work::Request& request, const Read& read) {
  SendWork work{.id = request.id,
                .kind = Kind::kRead,
                .is_wanted = request.signaled,
                .own_completion = true,
                .size = read.into.size};
  const std::size_t first = slices_.size();
  if (device_->traits().read_sink_is_exposed && read.into.size > 0) {
    ibv_sge sink{};
    work.sink = memory_->expose_sink(read.into, sink);
    if (!work.sink) return false;
    slices_.push_back(sink);
  } else if (!gather({&read.into, 1}, true)) {
    return false;
  }
  ibv_send_wr& made = add_send(std::move(work));
  made.sg_list = slices_.data() + first;
  made.num_sge = static_cast<int>(slices_.size() - first);
  made.opcode = IBV_WR_RDMA_READ;
  made.send_flags |= IBV_SEND_SIGNALED;
  made.wr.rdma.remote_addr = read.from.address;
  made.wr.rdma.rkey = static_cast<std::uint32_t>(read.from.tag);
  ++counters_.reads;
  return true;
}

bool QueuePair::build_write(const work::Request& request, const Write& write) {
  const auto first = gather(write.from, false);
  if (!first) return false;
  ibv_send_wr& made = add_send({.id = request.id,
                                .kind = Kind::kWrite,
                                .is_wanted = request.signaled,
                                .size = static_cast<std::uint32_t>(total_size(write.from))});
  made.sg_list = slices_.data() + *first;
  made.num_sge = static_cast<int>(slices_.size() - *first);
  made.opcode = IBV_WR_RDMA_WRITE;
  made.wr.rdma.remote_addr = write.to.address;
  made.wr.rdma.rkey = static_cast<std::uint32_t>(write.to.tag);
  ++counters_.writes;
  return true;
}

// --- Exposing memory ---------------------------------------------------------------------------

// A completion of work that the device never hears of, or need not have done yet.
void QueuePair::complete_now(const Completion& completion) {
  ready_.push(completion);
}

// The tag of a window is known before it is bound, and binding waits for the next batch: whatever
// tells the peer of the tag comes behind it in the queue.
void QueuePair::expose(const work::Request& request, const Expose& work) {
  const auto exposed = memory_->expose(work.memory, work.access);
  if (!exposed) {
    exposure_failure_ = memory_->failure();
    return complete_now({.id = request.id, .status = Status::kLocalError});
  }
  if (exposed->bind) {
    binds_.push_back(*exposed->bind);
    unbound_.push_back(exposed->tag);
  }
  if (!request.signaled) return;
  Completion completion{.id = request.id};
  completion.tag = exposed->tag;
  completion.address = exposed->address;
  complete_now(completion);
}

Error QueuePair::exposure_failure() const noexcept {
  return {Errc::kNoResources, exposure_failure_, kRegisteringMemory};
}

void QueuePair::revoke(const work::Request& request, const Revoke& work) {
  const auto unbound = std::ranges::find(unbound_, work.tag);
  if (unbound != unbound_.end()) {  // the peer cannot have heard of it
    binds_.erase(binds_.begin() + (unbound - unbound_.begin()));
    unbound_.erase(unbound);
    memory_->forget_bind(work.tag);
  } else if (ibv_send_wr invalidate;
             memory_->revoke(work.tag, invalidate) == Memory::Revoked::kPost) {
    ibv_send_wr& made = add_send({.id = request.id,
                                  .kind = Kind::kInvalidate,
                                  .is_wanted = request.signaled,
                                  .tag = work.tag});
    made.opcode = invalidate.opcode;
    made.invalidate_rkey = invalidate.invalidate_rkey;
    made.wr.rdma.rkey = invalidate.invalidate_rkey;
    return;
  }
  if (request.signaled) complete_now({.id = request.id});
}

void QueuePair::flush_binds() {
  begin_batch(0);
  for (std::size_t i = 0; i < binds_.size(); ++i) {
    ibv_send_wr& made = add_send({.kind = Kind::kBind, .tag = unbound_[i]});
    const std::uint64_t number = made.wr_id;
    made = binds_[i];
    made.wr_id = number;
  }
  binds_.clear();
  unbound_.clear();
  end_batch();
}

// --- To the device -----------------------------------------------------------------------------

void QueuePair::end_batch() {
  if (!receive_chain_.empty()) {
    for (std::size_t i = 0; i + 1 < receive_chain_.size(); ++i) {
      receive_chain_[i].next = &receive_chain_[i + 1];
    }
    ibv_recv_wr* bad = nullptr;
    ++counters_.doorbells;
    if (const int code = ibv_post_recv(id_->qp, receive_chain_.data(), &bad);
        code != 0 || bad != nullptr) {
      broke(code);
    }
  }
  if (send_chain_.empty()) return;
  for (std::size_t i = 0; i + 1 < send_chain_.size(); ++i) {
    send_chain_[i].next = &send_chain_[i + 1];
  }
  ask_for_completion();
  ibv_send_wr* bad = nullptr;
  ++counters_.doorbells;
  if (const int code = ibv_post_send(id_->qp, send_chain_.data(), &bad);
      code != 0 || bad != nullptr) {
    broke(code);
  }
}

// For the last work that is waited for, and at times when none is.
void QueuePair::ask_for_completion() {
  std::size_t asking = send_chain_.size();
  if (last_wanted_) {
    asking = *last_wanted_;
  } else if (const std::size_t depth = capabilities_.queue_depth_max;
             since_signal_ + send_chain_.size() >= std::min(kSignalEvery, depth / 2 + 1)) {
    asking = send_chain_.size() - 1;
  }
  if (asking == send_chain_.size()) {
    since_signal_ += static_cast<std::uint32_t>(send_chain_.size());
    return;
  }
  send_chain_[asking].send_flags |= IBV_SEND_SIGNALED;
  since_signal_ = static_cast<std::uint32_t>(send_chain_.size() - asking - 1);
}

// What the device did not take is flushed with the rest.
void QueuePair::broke(int code) {
  broken_ = true;
  cause_ = {Errc::kProvider, std::abs(code), "posting work to the RDMA device"};
  shard_.reactor->wake();
}

}  // namespace rpcrdma::rdma::verbs
