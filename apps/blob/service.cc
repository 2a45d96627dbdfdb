#include "blob/service.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "blob/status.h"

namespace blob {
namespace {

using rpcrdma::AcceptStatus;

// A page is a little shorter than it may be: it may get a few names more.
constexpr std::size_t kListSize = BLOB_LIST_SIZE_MAX - 8 * (BLOB_NAME_MAX + Store::kEntrySize);
constexpr std::chrono::milliseconds kExpiryPauseMin{10};
constexpr std::chrono::milliseconds kExpiryPauseMax{60'000};

// Results without data, for what failed.
template <class R>
R without_data(blob_status status) {
  R results;
  results.set_void(status);
  return results;
}

// Runs `work(answer)` on a thread of the pool, whose jobs can be copied, as answers cannot.
template <class R, class Work>
void later(WorkerPool& workers, rpcrdma::Answer<R> answer, Work work) {
  workers.submit([answer = std::make_shared<rpcrdma::Answer<R>>(std::move(answer)),
                  work = std::move(work)] { work(*answer); });
}

}  // namespace

BlobService::BlobService(Store& store)
    : store_(store),
      workers_(2),
      lists_(1),
      expiry_(std::clamp(store.options().upload_idle_max / 10, kExpiryPauseMin, kExpiryPauseMax),
              [this] { store_.expire(); }) {}

// A line about a change, or about one that was refused.
void BlobService::tell(const rpcrdma::AnswerBase& answer, std::string_view what,
                       blob_status status) const {
  Log* const log = store_.options().log;
  if (log == nullptr) return;
  std::string text(answer.context().peer_address());
  text.append(" ").append(what);
  if (status == blob_status::BLOB_OK) return log->write(LogLevel::kInfo, text);
  text.append(" failed: ").append(explain(status));
  log->write(LogLevel::kWarning, text);
}

void BlobService::BLOB_PUT_BEGIN(Answer<blob_status> answer, put_begin_args arg1) {
  const blob_status status = store_.put_begin(arg1.id, arg1.name, arg1.size);
  if (status != blob_status::BLOB_OK) tell(answer, "put " + arg1.name, status);
  answer.succeed(status);
}

void BlobService::BLOB_PUT_DATA(Answer<blob_status> answer, put_data_args arg1) {
  const blob_status status = store_.put_data(arg1.id, arg1.offset, arg1.data);
  if (status != blob_status::BLOB_OK) tell(answer, "sending data", status);
  answer.succeed(status);
}

void BlobService::BLOB_PUT_COMMIT(Answer<blob_status> answer, put_commit_args arg1) {
  later(workers_, std::move(answer), [this, arg1](Answer<blob_status>& owed) {
    const std::string name = store_.name_of(arg1.id);
    const blob_status status = store_.put_commit(arg1.id, arg1.sum);
    tell(owed, "put " + name, status);
    owed.succeed(status);
  });
}

void BlobService::BLOB_GET(Answer<get_result> answer, get_args arg1) {
  const std::uint32_t count = std::min(arg1.count, BLOB_DATA_MAX);
  const auto memory = answer.result_memory(std::max(count, 1U));
  if (memory.empty()) return answer.fail(AcceptStatus::kSystemErr);
  const auto got = store_.get(arg1.name, arg1.offset, memory.first(count));
  if (!got) return answer.succeed(without_data<get_result>(got.error()));
  get_result results;
  results.set_ok({.end = got->end, .data = memory.first(got->size)});
  answer.succeed(results);
}

void BlobService::BLOB_STAT(Answer<stat_result> answer, blob_name arg1) {
  const auto entry = store_.stat(arg1);
  if (!entry) return answer.succeed(without_data<stat_result>(entry.error()));
  stat_result results;
  results.set_ok({.size = entry->size, .time_ns = entry->time_ns});
  answer.succeed(results);
}

void BlobService::BLOB_LIST(Answer<list_result> answer, std::uint64_t arg1) {
  if (!answer.reserve(BLOB_LIST_SIZE_MAX)) return answer.fail(AcceptStatus::kSystemErr);
  later(lists_, std::move(answer), [this, arg1](Answer<list_result>& owed) {
    const Store::Page page = store_.list(arg1, kListSize);
    list_result results;
    list_ok& listed = results.set_ok();
    listed.cookie = page.place;
    listed.end = page.end;
    for (const Store::Entry& each : page.entries) {
      listed.entries.push_back({.name = each.name, .size = each.size});
    }
    owed.succeed(results);
  });
}

void BlobService::BLOB_SUM(Answer<sum_result> answer, blob_name arg1) {
  later(workers_, std::move(answer), [this, arg1](Answer<sum_result>& owed) {
    const auto sum = store_.sum(arg1);
    if (!sum) return owed.succeed(without_data<sum_result>(sum.error()));
    sum_result results;
    results.set_sum(*sum);
    owed.succeed(results);
  });
}

void BlobService::BLOB_REMOVE(Answer<blob_status> answer, blob_name arg1) {
  const blob_status status = store_.remove(arg1);
  tell(answer, "rm " + arg1, status);
  answer.succeed(status);
}

void BlobService::BLOB_STEP_UP(Answer<step_up_status> answer) {
  switch (answer.step_up()) {
    case rpcrdma::StepUp::kNow:
      return answer.succeed(step_up_status::STEP_UP_NOW);
    case rpcrdma::StepUp::kAlready:
      return answer.succeed(step_up_status::STEP_UP_ALREADY);
    case rpcrdma::StepUp::kUnable:
      return answer.fail(AcceptStatus::kProcUnavail);
  }
}

}  // namespace blob
