#include "nfs/posix/workers.h"

#include <utility>

namespace nfs::posix {

Workers::Workers(std::size_t threads, std::size_t queue_max, void (*begin)() noexcept)
    : queue_max_(queue_max), begin_(begin) {
  threads_.reserve(threads);
  for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

void Workers::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

std::unique_ptr<Job> Workers::submit(std::unique_ptr<Job> job) {
  {
    const std::lock_guard lock(mutex_);
    if (queued_ == queue_max_ || stopping_) return job;
    ++queued_;
    Job* const added = job.get();
    (last_ != nullptr ? last_->next_ : first_) = std::move(job);
    last_ = added;
  }
  wake_.notify_one();
  return nullptr;
}

void Workers::run() {
  begin_();
  for (;;) {
    std::unique_ptr<Job> job;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || first_ != nullptr; });
      if (first_ == nullptr) return;
      job = std::move(first_);
      first_ = std::move(job->next_);
      if (first_ == nullptr) last_ = nullptr;
      --queued_;
    }
    job->run();
  }
}

}  // namespace nfs::posix
