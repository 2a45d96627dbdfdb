#include "rpc/serve/call_memory.h"

#include <functional>

namespace rpcrdma::rpc {
namespace {

bool within(Bytes outer, Bytes inner) {
  const std::less_equal<const std::byte*> before;  // also for pointers into different objects
  return before(outer.data(), inner.data()) &&
         before(inner.data() + inner.size(), outer.data() + outer.size());
}

}  // namespace

MutableBytes CallMemory::borrow(Held& held, std::size_t size) {
  if (held.loans.full()) return {};
  const MutableBytes buffer = pool_.take(size);
  if (buffer.empty()) return {};
  const auto lease = leases_.take(buffer);
  if (!lease) {
    pool_.give_back(buffer);
    return {};
  }
  (void)held.loans.push_back({buffer, *lease});
  return buffer;
}

void CallMemory::return_loans(Held& held) {
  for (const Loan& loan : held.loans) {
    leases_.give_back(loan.buffer, loan.lease);
    pool_.give_back(loan.buffer);
  }
  held.loans.clear();
}

void CallMemory::release(Held& held) {
  for (const engine::Lease lease : held.foreign) connection_.detach(lease);
  held.foreign.clear();
  return_loans(held);
}

void CallMemory::abandon(Held& held) {
  for (const Loan& loan : held.loans) pool_.give_back(loan.buffer);
  held.loans.clear();
}

bool CallMemory::locate(Held& held, const transport::Connection::Room& room, Bytes header,
                        const MessageWriter& results, Bytes written, Stream& stream) {
  std::size_t done = 0;
  std::uint16_t item = 0;
  bool ok = true;
  const auto inline_run = [&](Bytes bytes) {
    if (bytes.empty()) return;
    const auto run = locate(held, room, bytes, 0);
    ok = ok && run && stream.push_back(*run);
  };
  // The header is right in front of what was written.
  const std::size_t first = results.items().empty() ? results.size() : results.items()[0].at;
  inline_run({header.data(), header.size() + first});
  done = first;
  for (const BulkItem& bulk : results.items()) {
    inline_run(written.subspan(done, bulk.at - done));
    done = bulk.at;
    if (bulk.is_eligible) ++item;
    if (bulk.data.empty() && !bulk.is_eligible) continue;
    // An empty item still takes its Write chunk (RFC 8166 §4.3.2), so it is told to the engine.
    const auto run = locate(held, room, bulk.data, bulk.is_eligible ? item : std::uint16_t{0});
    ok = ok && run && stream.push_back(*run);
  }
  inline_run(written.subspan(done, results.size() - done));
  return ok;
}

bool CallMemory::locate(Held& held, const transport::Connection::Room& room, Bytes header,
                        Bytes results, Stream& stream) {
  for (const Bytes bytes : {header, results}) {
    if (bytes.empty()) continue;
    const auto run = locate(held, room, bytes, 0);
    if (!run || !stream.push_back(*run)) return false;
  }
  return true;
}

// Names bytes by lease and offset; memory of the service's own is registered for this call.
std::optional<engine::Fragment> CallMemory::locate(Held& held,
                                                   const transport::Connection::Room& room,
                                                   Bytes data, std::uint16_t item) {
  const auto size = static_cast<std::uint32_t>(data.size());
  if (data.empty()) return engine::Fragment{room.lease, 0, 0, item};
  if (within(room.memory, data)) {
    return engine::Fragment{
        room.lease, size,
        room.offset + static_cast<std::uint64_t>(data.data() - room.memory.data()), item};
  }
  for (const Loan& loan : held.loans) {
    if (!within(loan.buffer, data)) continue;
    return engine::Fragment{loan.lease, size,
                            static_cast<std::uint64_t>(data.data() - loan.buffer.data()), item};
  }
  if (const auto run = locate_registered(data, item)) return run;
  const auto lease = connection_.attach_read_only(data);
  if (!lease || !held.foreign.push_back(*lease)) return std::nullopt;
  return engine::Fragment{*lease, size, 0, item};
}

// In memory that the application registered for long; on this connection that happens once.
std::optional<engine::Fragment> CallMemory::locate_registered(Bytes data, std::uint16_t item) {
  const auto place = regions_.find(data, false);
  if (!place) return std::nullopt;
  if (region_leases_.size() <= place->id) region_leases_.resize(place->id + 1);
  auto& lease = region_leases_[place->id];
  if (!lease) {
    const auto attached = connection_.attach_read_only(regions_.memory(place->id));
    if (!attached) return std::nullopt;
    lease = *attached;
  }
  return engine::Fragment{*lease, static_cast<std::uint32_t>(data.size()), place->offset, item};
}

}  // namespace rpcrdma::rpc
