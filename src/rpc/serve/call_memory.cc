#include "rpc/serve/call_memory.h"

#include <functional>

#include "oncrpc/runs.h"

namespace rpcrdma::rpc {
namespace {

bool within(Bytes outer, Bytes inner) {
  const std::less_equal<const std::byte*> before;  // also for pointers into different objects
  return before(outer.data(), inner.data()) &&
         before(inner.data() + inner.size(), outer.data() + outer.size());
}

}  // namespace

Expected<MutableBytes, CallMemory::Lack> CallMemory::borrow(Held& held, std::size_t size) {
  if (held.loans.full()) return Unexpected<Lack>(Lack::kRoom);
  const MutableBytes buffer = pool_.take(size);
  if (buffer.empty()) return Unexpected<Lack>(Lack::kMemory);
  const auto lease = leases_.take(buffer);
  if (!lease) {
    pool_.give_back(buffer);
    return Unexpected<Lack>(Lack::kRoom);
  }
  (void)held.loans.push_back({buffer, *lease});
  share_.took(transport::BufferPool::large_size(buffer.size()));
  of_host_.took(buffer.size());
  return buffer;
}

void CallMemory::return_loans(Held& held) {
  for (const Loan& loan : held.loans) {
    leases_.give_back(loan.buffer, loan.lease);
    give_back(loan);
  }
  held.loans.clear();
}

void CallMemory::give_back(const Loan& loan) {
  share_.gave_back(transport::BufferPool::large_size(loan.buffer.size()));
  of_host_.gave_back(loan.buffer.size());
  pool_.give_back(loan.buffer);
}

void CallMemory::release(Held& held) {
  of_service_.take_back(held.lent, &connection_);
  if (!held.loans.empty()) return_loans(held);
}

void CallMemory::abandon(Held& held) {
  for (const Loan& loan : held.loans) give_back(loan);
  held.loans.clear();
  of_service_.take_back(held.lent, nullptr);
}

bool CallMemory::locate(Held& held, const transport::Connection::Room& room,
                        const MessageWriter& results, Bytes buffer, oncrpc::StreamPlace place,
                        bool is_wrapped, Stream& stream) {
  const auto add = [&](Bytes data, std::uint16_t item) {
    const auto run = locate(held, room, data, item);
    return run && stream.push_back(*run);
  };
  return oncrpc::for_each_part(
      results, place,
      [&](std::size_t at, std::size_t size) { return add(buffer.subspan(at, size), 0); },
      // An empty item still takes its Write chunk (RFC 8166 §4.3.2), so the engine gets it.
      [&](const BulkItem& item, std::uint16_t number) {
        if (is_wrapped) number = 0;
        return (item.data.empty() && number == 0) || add(item.data, number);
      });
}

bool CallMemory::locate(Held& held, const transport::Connection::Room& room,
                        std::initializer_list<Bytes> runs, Stream& stream) {
  for (const Bytes bytes : runs) {
    if (bytes.empty()) continue;
    const auto run = locate(held, room, bytes, 0);
    if (!run || !stream.push_back(*run)) return false;
  }
  return true;
}

// Returns the lease and the offset of these bytes.
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
  const auto lent = of_service_.lend_read_only(held.lent, data);
  if (!lent) return std::nullopt;
  return engine::Fragment{lent->lease, size, lent->offset, item};
}

}  // namespace rpcrdma::rpc
