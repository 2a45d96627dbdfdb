// Reports whether the storage of all exports answers, for a load balancer that decides where to
// send clients.
#ifndef RPCRDMA_NFS_READINESS_H_
#define RPCRDMA_NFS_READINESS_H_

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "nfs/export_table.h"

namespace nfs {

class Readiness {
 public:
  // Outlives what is under way with the files of the table.
  explicit Readiness(const ExportTable& exports) : exports_(exports) {}
  Readiness(const Readiness&) = delete;
  Readiness& operator=(const Readiness&) = delete;

  // Asks what keeps the files of each export, and waits that long for the answers. Empty:
  // all were given; else a sentence about those that were not. From any thread; of each export, one
  // question at a time is under way, however many ask.
  std::string why_not(std::chrono::milliseconds patience);

 private:
  using Clock = std::chrono::steady_clock;
  // One question at a time to one export's directory.
  struct Look {
    explicit Look(const ServedExport& at) : served(at) {}
    const ServedExport& served;
    std::optional<Clock::time_point> begun;  // one is under way since then
    Clock::time_point answered{};
    nfs3::nfsstat3 status{};  // of the last answer
  };

  void begin(Look& look, std::unique_lock<std::mutex>& lock);
  // Adds a look for each export that has none yet, and returns those of the exports of this time.
  std::vector<Look*> looks_now();

  const ExportTable& exports_;
  std::mutex mutex_;
  std::condition_variable news_;
  std::deque<Look> looks_;  // guarded by mutex_; they stay where they are
};

}  // namespace nfs

#endif  // RPCRDMA_NFS_READINESS_H_
