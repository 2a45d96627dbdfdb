// Work that is done again and again, on a thread of its own.
#ifndef RPCRDMA_BLOB_PERIODIC_H_
#define RPCRDMA_BLOB_PERIODIC_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace blob {

class Periodic {
 public:
  // The first time after one pause.
  Periodic(std::chrono::milliseconds pause, std::function<void()> work);
  ~Periodic();  // waits for the work
  Periodic(const Periodic&) = delete;
  Periodic& operator=(const Periodic&) = delete;

 private:
  void run();

  const std::chrono::milliseconds pause_;
  const std::function<void()> work_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;     // last: it uses the rest
};

}  // namespace blob

#endif  // RPCRDMA_BLOB_PERIODIC_H_
