#include "blob/service.h"

#include <algorithm>
#include <string>

namespace blob {
namespace {

using rpcrdma::AcceptStatus;
using rpcrdma::Bytes;
using rpcrdma::CallContext;

UploadId read_id(CallContext& context) {
  UploadId id{};
  const Bytes bytes = context.arguments().xdr().opaque_fixed(id.size(), "upload id");
  std::copy(bytes.begin(), bytes.end(), id.begin());
  return id;
}

void answer(CallContext& context, Status status) {
  context.results().xdr().u32(static_cast<std::uint32_t>(status));
  context.succeed();
}

bool arguments_are_good(CallContext& context) {
  if (context.arguments().finish()) return true;
  context.fail(AcceptStatus::kGarbageArgs);
  return false;
}

}  // namespace

bool BlobService::has_procedure(std::uint32_t number) const noexcept {
  return number <= static_cast<std::uint32_t>(Number::kRemove);
}

std::uint32_t BlobService::bulk_argument_size_max(std::uint32_t procedure) const noexcept {
  return procedure == static_cast<std::uint32_t>(Number::kPutData) ? kDataSizeMax : 0;
}

void BlobService::call(CallContext& context) {
  switch (static_cast<Number>(context.procedure().number)) {
    case Number::kNull:
      return context.succeed();
    case Number::kPutBegin:
      return put_begin(context);
    case Number::kPutData:
      return put_data(context);
    case Number::kPutCommit:
      return put_commit(context);
    case Number::kGet:
      return get(context);
    case Number::kStat:
      return stat(context);
    case Number::kList:
      return list(context);
    case Number::kSum:
      return sum(context);
    case Number::kRemove:
      return remove(context);
  }
  context.fail(AcceptStatus::kProcUnavail);
}

void BlobService::put_begin(Context& context) {
  const UploadId id = read_id(context);
  const auto name = context.arguments().xdr().string(kNameSizeMax, "name");
  const std::uint64_t size = context.arguments().xdr().u64("size");
  if (!arguments_are_good(context)) return;
  answer(context, store_.put_begin(id, name, size));
}

void BlobService::put_data(Context& context) {
  const UploadId id = read_id(context);
  const std::uint64_t offset = context.arguments().xdr().u64("offset");
  const Bytes data = context.arguments().bulk(kDataSizeMax, "data");
  if (!arguments_are_good(context)) return;
  answer(context, store_.put_data(id, offset, data));
}

void BlobService::put_commit(Context& context) {
  const UploadId id = read_id(context);
  Sha256 sum{};
  const Bytes bytes = context.arguments().xdr().opaque_fixed(sum.size(), "sum");
  std::copy(bytes.begin(), bytes.end(), sum.begin());
  if (!arguments_are_good(context)) return;
  workers_.submit([this, &context, id, sum] { answer(context, store_.put_commit(id, sum)); });
}

void BlobService::get(Context& context) {
  const auto name = context.arguments().xdr().string(kNameSizeMax, "name");
  const std::uint64_t offset = context.arguments().xdr().u64("offset");
  const std::uint32_t count = context.arguments().xdr().u32("count");
  if (!arguments_are_good(context)) return;
  const auto memory = context.result_memory(std::clamp(count, 1U, kDataSizeMax));
  if (memory.empty()) return context.fail(AcceptStatus::kSystemErr);
  const auto got = store_.get(name, offset, memory.first(std::min(count, kDataSizeMax)));
  if (!got) return answer(context, got.error());
  context.results().xdr().u32(static_cast<std::uint32_t>(Status::kOk));
  context.results().xdr().boolean(got->end);
  context.results().bulk(memory.first(got->size));
  context.succeed();
}

void BlobService::stat(Context& context) {
  const auto name = context.arguments().xdr().string(kNameSizeMax, "name");
  if (!arguments_are_good(context)) return;
  const auto entry = store_.stat(name);
  if (!entry) return answer(context, entry.error());
  context.results().xdr().u32(static_cast<std::uint32_t>(Status::kOk));
  context.results().xdr().u64(entry->size);
  context.results().xdr().u64(entry->time_ns);
  context.succeed();
}

void BlobService::list(Context& context) {
  constexpr std::size_t kEntrySizeMax = 4 + 256 + 8;  // bytes: name and size
  constexpr std::size_t kHeadSize = 4 + 8 + 4 + 4;    // status, cookie, end, count
  const std::uint64_t cookie = context.arguments().xdr().u64("cookie");
  if (!arguments_are_good(context)) return;
  if (!context.reserve_results(kListSizeMax)) return context.fail(AcceptStatus::kSystemErr);
  const auto entries = store_.list();
  const std::size_t first = std::min<std::uint64_t>(cookie, entries.size());
  std::size_t end = first;
  for (std::size_t size = kHeadSize; end < entries.size() && end - first < kListEntriesMax; ++end) {
    size += 4 + rpcrdma::xdr::padded(entries[end].name.size()) + 8;
    if (size + kEntrySizeMax > kListSizeMax) break;
  }
  auto& results = context.results().xdr();
  results.u32(static_cast<std::uint32_t>(Status::kOk));
  results.u64(end);
  results.boolean(end == entries.size());
  results.u32(static_cast<std::uint32_t>(end - first));
  for (std::size_t i = first; i < end; ++i) {
    results.string(entries[i].name);
    results.u64(entries[i].size);
  }
  context.succeed();
}

void BlobService::sum(Context& context) {
  const std::string name(context.arguments().xdr().string(kNameSizeMax, "name"));
  if (!arguments_are_good(context)) return;
  workers_.submit([this, &context, name] {
    const auto sum = store_.sum(name);
    if (!sum) return answer(context, sum.error());
    context.results().xdr().u32(static_cast<std::uint32_t>(Status::kOk));
    context.results().xdr().opaque_fixed(*sum);
    context.succeed();
  });
}

void BlobService::remove(Context& context) {
  const auto name = context.arguments().xdr().string(kNameSizeMax, "name");
  if (!arguments_are_good(context)) return;
  answer(context, store_.remove(name));
}

}  // namespace blob
