#include "transport/tapping.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <variant>

namespace rpcrdma::transport {
namespace {

// The bytes that are kept of bulk data and Long messages: those have their RPC header there.
constexpr std::size_t kBulkKept = 1024;

}  // namespace

void Tapping::note_detached(work::RegionId region) {
  const auto at = std::find_if(regions_.rbegin(), regions_.rend(),
                               [region](const Region& each) { return each.id == region; });
  if (at != regions_.rend()) regions_.erase(std::next(at).base());
}

Bytes Tapping::memory_of(const work::Slice& slice) const noexcept {
  const auto at = std::find_if(regions_.rbegin(), regions_.rend(),
                               [&slice](const Region& each) { return each.id == slice.region; });
  if (at == regions_.rend()) return {};
  if (slice.offset > at->memory.size() || slice.size > at->memory.size() - slice.offset) return {};
  return at->memory.subspan(static_cast<std::size_t>(slice.offset), slice.size);
}

void Tapping::note_link(const engine::LinkParameters& link) noexcept {
  tap_.set_sizes(link.inline_send, link.inline_receive);
  if (is_on()) tap_.begin(queue_pair_.peer_address());
}

void Tapping::note_posted(std::span<const work::Request> batch) {
  for (const work::Request& request : batch) {
    if (const auto* const send = std::get_if<work::Send>(&request.work)) {
      note(*send);
    } else if (const auto* const write = std::get_if<work::Write>(&request.work)) {
      note(*write);
    } else if (const auto* const read = std::get_if<work::Read>(&request.work)) {
      note(*read, request.id);
    }
  }
}

void Tapping::note(const work::Send& send) {
  TapRecord record;
  record.kind = TapRecord::Kind::kSend;
  if (send.invalidate) {
    record.flags = TapRecord::kInvalidates;
    record.tag = static_cast<std::uint32_t>(*send.invalidate);
  }
  for (const work::Slice& slice : send.from) record.size += slice.size;
  add(record, send.from);
}

void Tapping::note(const work::Write& write) {
  TapRecord record;
  record.kind = TapRecord::Kind::kWrite;
  record.tag = static_cast<std::uint32_t>(write.to.tag);
  record.address = write.to.address;
  record.size = write.to.size;
  if (write.from.empty()) return add(record, {});
  work::Slice head = write.from.front();
  head.size = std::min<std::uint32_t>(head.size, kBulkKept);
  add(record, {&head, 1});
}

void Tapping::note(const work::Read& read, std::uint64_t id) {
  TapRecord record;
  record.kind = TapRecord::Kind::kRead;
  record.tag = static_cast<std::uint32_t>(read.from.tag);
  record.address = read.from.address;
  record.size = read.from.size;
  // Those of an earlier reader may have ended unseen.
  if (!tap_.is_introduced()) open_reads_.clear();
  open_reads_.push_back({id, read.into});
  add(record, {});
}

void Tapping::add(const TapRecord& record, std::span<const work::Slice> slices) {
  std::array<Bytes, work::kSlicesMax> runs;
  std::ranges::transform(slices, runs.begin(),
                         [this](const work::Slice& slice) { return memory_of(slice); });
  tap_.add(queue_pair_.peer_address(), record, std::span(runs).first(slices.size()));
}

void Tapping::note_received(Bytes message, std::optional<SteeringTag> invalidated) {
  TapRecord record;
  record.kind = TapRecord::Kind::kReceived;
  record.size = message.size();
  if (invalidated) {
    record.flags = TapRecord::kInvalidates;
    record.tag = static_cast<std::uint32_t>(*invalidated);
  }
  tap_.add(queue_pair_.peer_address(), record, {&message, 1});
}

void Tapping::note_done(const rdma::Completion& completion) {
  if (!tap_.is_introduced()) open_reads_.clear();
  const auto read = std::ranges::find(open_reads_, completion.id, &OpenRead::id);
  if (read == open_reads_.end()) return;
  TapRecord record;
  record.kind = TapRecord::Kind::kReadDone;
  record.size = read->into.size;
  work::Slice head = read->into;
  head.size = std::min<std::uint32_t>(head.size, kBulkKept);
  open_reads_.erase(read);
  if (completion.status == rdma::Status::kOk) return add(record, {&head, 1});
  record.flags = TapRecord::kFailed;
  add(record, {});
}

}  // namespace rpcrdma::transport
