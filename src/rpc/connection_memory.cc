#include "rpc/connection_memory.h"

namespace rpcrdma::rpc {

void ConnectionMemory::move_to(transport::Connection* connection) {
  for (auto& lease : leases_) lease.reset();
  connection_ = connection;
}

std::optional<rdma::Error> ConnectionMemory::attach(std::uint32_t id) {
  if (leases_.size() <= id) leases_.resize(id + 1);
  const Bytes memory = regions_.memory(id);
  std::byte* const writable = regions_.writable(id);
  const auto lease = writable != nullptr ? connection_->attach({writable, memory.size()})
                                         : connection_->attach_read_only(memory);
  if (!lease) return lease.error();
  leases_[id] = *lease;
  return std::nullopt;
}

void ConnectionMemory::attach_all() {
  for (std::uint32_t id = 0; id < regions_.ids_end(); ++id) {
    if (regions_.is_live(id) && !is_attached(id)) (void)attach(id);
  }
}

void ConnectionMemory::remove(std::uint32_t id) {
  regions_.remove(id);
  if (!is_attached(id)) return;
  connection_->detach(*leases_[id]);
  leases_[id].reset();
}

std::optional<ConnectionMemory::Place> ConnectionMemory::lend(LentMemory& lent,
                                                              MutableBytes memory) {
  if (!regions_.empty()) {
    if (const auto place = find(lent, memory, true)) return place;
  }
  const auto lease = connection_->attach(memory);
  if (!lease || !lent.leases.push_back(*lease)) return std::nullopt;
  return Place{*lease, 0};
}

std::optional<ConnectionMemory::Place> ConnectionMemory::lend_read_only(LentMemory& lent,
                                                                        Bytes memory) {
  if (!regions_.empty()) {
    if (const auto place = find(lent, memory, false)) return place;
  }
  const auto lease = connection_->attach_read_only(memory);
  if (!lease || !lent.leases.push_back(*lease)) return std::nullopt;
  return Place{*lease, 0};
}

std::optional<ConnectionMemory::Place> ConnectionMemory::find(LentMemory& lent, Bytes memory,
                                                              bool to_write) {
  const auto found = regions_.find(memory, to_write);
  if (!found) return std::nullopt;
  if (!is_attached(found->id)) {
    if (when_ == Registering::kAhead || attach(found->id)) return std::nullopt;
  }
  if (!lent.regions.push_back(found->id)) return std::nullopt;
  regions_.use(found->id);
  return Place{*leases_[found->id], found->offset};
}

}  // namespace rpcrdma::rpc
