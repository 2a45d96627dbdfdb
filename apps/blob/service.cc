#include "blob/service.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "blob/status.h"
#include "files/file.h"
#include "files/host_number.h"

namespace blob {
namespace {

using rpcrdma::AcceptStatus;

// A page is a little shorter than it may be: it may get a few names more.
constexpr std::size_t kListSize = BLOB_LIST_SIZE_MAX - 8 * (BLOB_NAME_MAX + Store::kEntrySize);
constexpr std::chrono::milliseconds kExpiryPauseMin{10};
constexpr std::chrono::milliseconds kExpiryPauseMax{60'000};

files::Workers::Settings settings_of(const BlobThreads& limits, std::chrono::seconds patience,
                                     std::size_t threads, std::size_t threads_of_host) {
  files::Workers::Settings settings;
  settings.threads = threads;
  settings.threads_of_host = threads_of_host;
  settings.queue_max = limits.waiting_max;
  settings.patience = patience;
  settings.now = limits.now;
  settings.waits_for_slow = true;
  return settings;
}

// A sum of a large blob takes as long as it takes, and the calls that wait for it keep little
// memory: the server's own bounds of calls are enough for them.
files::Workers::Settings without_limits(std::size_t threads, std::size_t threads_of_host) {
  constexpr std::chrono::hours kForever{24 * 365 * 100};
  files::Workers::Settings settings;
  settings.threads = threads;
  settings.threads_of_host = threads_of_host;
  settings.queue_max = std::numeric_limits<std::size_t>::max();
  settings.patience = kForever;
  return settings;
}

// Results without data, for what failed.
template <class R>
R without_data(blob_status status) {
  R results;
  results.set_void(status);
  return results;
}
template <>
blob_status without_data<blob_status>(blob_status status) {
  return status;
}

// Closes a file that has no name any more, which may wait for the disk.
class Closing final : public files::Job {
 public:
  explicit Closing(files::File file) : file_(std::move(file)) {}
  void run() override { const files::File closed = std::move(file_); }
  void turn_away() override {}  // the destructor closes the file, as the service ends

 private:
  files::File file_;
};

}  // namespace

// One call, on its way to a thread and back. Its memory for results and its arguments, of which
// some are views, stay until the answer.
template <class R, class Work>
class BlobService::Owed final : public files::Job {
 public:
  Owed(const BlobService& service, Answer<R> answer, std::string_view what, Work work)
      : service_(service), answer_(std::move(answer)), what_(what), work_(std::move(work)) {}
  void run() override { work_(answer_); }
  void turn_away() override {
    service_.tell_turned_away(answer_, what_);
    answer_.succeed(without_data<R>(blob_status::BLOB_IO_ERROR));
  }

 private:
  const BlobService& service_;
  Answer<R> answer_;
  const std::string_view what_;
  Work work_;
};

template <class R, class Work>
void BlobService::later(files::Workers& pool, Answer<R> answer, std::string_view what, Work work) {
  const std::uint64_t host = files::number_of_host(answer.context().peer_address());
  pool.submit(std::make_unique<Owed<R, Work>>(*this, std::move(answer), what, std::move(work)),
              host);
}

BlobService::BlobService(Store& store, const BlobThreads& threads)
    : store_(store),
      short_calls_(settings_of(threads, threads.patience,
                               files::kHostsAtATime * threads.short_calls, threads.short_calls)),
      long_calls_(without_limits(files::kHostsAtATime * threads.long_calls, threads.long_calls)),
      // Each keeps memory for a page of results.
      lists_(settings_of(threads, threads.patience_with_lists, 1, 1)),
      expiry_(without_limits(1, 1)),
      chores_(files::Workers::Settings{}) {
  expiry_.every(std::clamp(store.options().upload_idle_max / 10, kExpiryPauseMin, kExpiryPauseMax),
                [this] { store_.expire(); });
  chores_.every(threads.chores_period, [this] {
    short_calls_.turn_late_away();
    lists_.turn_late_away();
  });
}

BlobService::Left BlobService::stop(std::chrono::steady_clock::time_point until) noexcept {
  // Behind this nothing answers any more what no pool has: the answers would find no server.
  bool all = chores_.stop(until);
  for (files::Workers* const each : {&short_calls_, &long_calls_, &lists_}) {
    all = each->stop(until) && all;
  }
  const bool has_expired = expiry_.stop(until);
  if (!all) return Left::kCalls;
  return has_expired ? Left::kNone : Left::kExpiry;
}

// Writes a line about a change, or about one that was refused.
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

void BlobService::tell_turned_away(const rpcrdma::AnswerBase& answer, std::string_view what) const {
  Log* const log = store_.options().log;
  if (log == nullptr) return;
  std::string text(answer.context().peer_address());
  text.append(" ").append(what).append(
      " failed: the calls before it still wait for the disk, which hangs or is too slow");
  log->write(LogLevel::kError, text);
}

void BlobService::BLOB_PUT_BEGIN(Answer<blob_status> answer, put_begin_args arg1) {
  later(short_calls_, std::move(answer), "put", [this, arg1](Answer<blob_status>& owed) {
    const Store::Use use(store_, arg1.id);  // until the answer
    const blob_status status = store_.put_begin(arg1.id, arg1.name, arg1.size);
    if (status != blob_status::BLOB_OK) tell(owed, "put " + arg1.name, status);
    owed.succeed(status);
  });
}

void BlobService::BLOB_PUT_DATA(Answer<blob_status> answer, put_data_args arg1) {
  later(short_calls_, std::move(answer), "sending data", [this, arg1](Answer<blob_status>& owed) {
    // Until the answer: a call that finds the upload gone is answered behind the one that says why.
    const Store::Use use(store_, arg1.id);
    const blob_status status = store_.put_data(arg1.id, arg1.offset, arg1.data);
    if (status != blob_status::BLOB_OK) tell(owed, "sending data", status);
    owed.succeed(status);
  });
}

void BlobService::BLOB_PUT_COMMIT(Answer<blob_status> answer, put_commit_args arg1) {
  later(long_calls_, std::move(answer), "put", [this, arg1](Answer<blob_status>& owed) {
    const Store::Use use(store_, arg1.id);  // until the answer
    const std::string name = store_.name_of(arg1.id);
    const blob_status status = store_.put_commit(arg1.id, arg1.sum);
    tell(owed, "put " + name, status);
    owed.succeed(status);
  });
}

// Data in memory is answered at once, however much it is: a thread that copies it costs a change of
// threads and back, and this one would copy it to the socket anyway.
void BlobService::BLOB_GET(Answer<get_result> answer, get_args arg1) {
  const std::uint32_t count = std::min(arg1.count, BLOB_DATA_MAX);
  const auto memory = answer.result_memory(std::max(count, 1U));
  if (memory.empty()) return answer.fail(AcceptStatus::kSystemErr);
  const auto into = memory.first(count);
  const auto succeed = [into](Answer<get_result>& owed, const Store::Got& got) {
    get_result results;
    results.set_ok({.end = got.end, .data = into.first(got.size)});
    owed.succeed(results);
  };
  files::File removed;
  const auto got = store_.get_at_once(arg1.name, arg1.offset, into, removed);
  if (removed.is_open()) expiry_.submit(std::make_unique<Closing>(std::move(removed)));
  if (got) return succeed(answer, *got);
  later(short_calls_, std::move(answer), "get",
        [this, succeed, into, name = std::move(arg1.name),
         offset = arg1.offset](Answer<get_result>& owed) {
          const auto read = store_.get(name, offset, into);
          if (!read) return owed.succeed(without_data<get_result>(read.error()));
          succeed(owed, *read);
        });
}

void BlobService::BLOB_STAT(Answer<stat_result> answer, blob_name arg1) {
  later(short_calls_, std::move(answer), "stat",
        [this, name = std::move(arg1)](Answer<stat_result>& owed) {
          const auto entry = store_.stat(name);
          if (!entry) return owed.succeed(without_data<stat_result>(entry.error()));
          stat_result results;
          results.set_ok({.size = entry->size, .time_ns = entry->time_ns});
          owed.succeed(results);
        });
}

void BlobService::BLOB_LIST(Answer<list_result> answer, std::uint64_t arg1) {
  if (!answer.reserve(BLOB_LIST_SIZE_MAX)) return answer.fail(AcceptStatus::kSystemErr);
  later(lists_, std::move(answer), "ls", [this, arg1](Answer<list_result>& owed) {
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
  later(long_calls_, std::move(answer), "sum",
        [this, name = std::move(arg1)](Answer<sum_result>& owed) {
          const auto sum = store_.sum(name);
          if (!sum) return owed.succeed(without_data<sum_result>(sum.error()));
          sum_result results;
          results.set_sum(*sum);
          owed.succeed(results);
        });
}

void BlobService::BLOB_REMOVE(Answer<blob_status> answer, blob_name arg1) {
  later(short_calls_, std::move(answer), "rm",
        [this, name = std::move(arg1)](Answer<blob_status>& owed) {
          const blob_status status = store_.remove(name);
          tell(owed, "rm " + name, status);
          owed.succeed(status);
        });
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
