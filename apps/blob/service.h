// The blob program as a service over a Store.
#ifndef RPCRDMA_BLOB_SERVICE_H_
#define RPCRDMA_BLOB_SERVICE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "blob.h"
#include "blob/store.h"
#include "files/workers.h"

namespace blob {

// The threads that wait for the store's disk on behalf of a host, at most. All hosts together have
// files::kHostsAtATime times as many, in turns.
struct BlobThreads {
  std::size_t short_calls = 4;  // GET, PUT_BEGIN, PUT_DATA, STAT and REMOVE; LIST has one for all
  std::size_t long_calls = 2;   // SUM and COMMIT, which read whole files
  std::size_t waiting_max = 4096;
  // Short calls that have waited so long for a thread fail if no call of their host has begun or
  // ended for as long: the disk hangs, and what they keep in memory is needed for other calls.
  // While it is slow, but goes on, they wait, since clients do not ask again.
  std::chrono::seconds patience{10};
  // The same of LISTs. One that reads a large directory of a slow disk takes a minute and more.
  std::chrono::seconds patience_with_lists{300};
  std::chrono::milliseconds chores_period{1000};  // between two looks for such calls
  files::Workers::Clock::time_point (*now)() noexcept = &files::Workers::Clock::now;
};

// The threads of connections wait for no disk, so that one that hangs stops nothing else of the
// server: they answer a GET of what is in memory, and all else goes to other threads.
class BlobService final : public BLOB_V1_Service {
 public:
  // The store outlives the service, which also makes it forget uploads that are over.
  explicit BlobService(Store& store, const BlobThreads& threads = {});
  // Says which threads still wait for the disk when the service has stopped. The process has to
  // leave by _exit(2) unless none does.
  enum class Left : std::uint8_t { kNone, kExpiry, kCalls };
  // Waits for the calls that are with the store: their answers need the server. Call between the
  // end of Server::run() and the server's.
  Left stop(std::chrono::steady_clock::time_point until) noexcept;

 private:
  template <class R>
  using Answer = rpcrdma::Answer<R>;
  template <class R, class Work>
  class Owed;

  // Runs `work(answer)` on a thread of the pool. `what` is a name for it in the log.
  template <class R, class Work>
  void later(files::Workers& pool, Answer<R> answer, std::string_view what, Work work);
  void tell(const rpcrdma::AnswerBase& answer, std::string_view what, blob_status status) const;
  void tell_turned_away(const rpcrdma::AnswerBase& answer, std::string_view what) const;

  void BLOB_PUT_BEGIN(Answer<blob_status> answer, put_begin_args arg1) override;
  void BLOB_PUT_DATA(Answer<blob_status> answer, put_data_args arg1) override;
  void BLOB_PUT_COMMIT(Answer<blob_status> answer, put_commit_args arg1) override;
  void BLOB_GET(Answer<get_result> answer, get_args arg1) override;
  void BLOB_STAT(Answer<stat_result> answer, blob_name arg1) override;
  void BLOB_LIST(Answer<list_result> answer, std::uint64_t arg1) override;
  void BLOB_SUM(Answer<sum_result> answer, blob_name arg1) override;
  void BLOB_REMOVE(Answer<blob_status> answer, blob_name arg1) override;
  void BLOB_STEP_UP(Answer<step_up_status> answer) override;

  Store& store_;
  // These last: their threads use the rest. The store makes one list at a time, so that a thread is
  // enough for them, and a long one keeps no sum or commit waiting.
  files::Workers short_calls_, long_calls_, lists_;
  // A thread of its own, since it waits for the disk as well; it also closes removed blobs.
  files::Workers expiry_;
  // Turns calls away that wait for too long; it waits for no disk.
  files::Workers chores_;
};

}  // namespace blob

#endif  // RPCRDMA_BLOB_SERVICE_H_
