#include "gss/executor.h"

#include <memory>
#include <system_error>
#include <utility>

#include "posix/foreign_signals.h"

namespace rpcrdma::gss {

Workers::Workers(std::size_t threads) : count_(threads), pool_(new Pool) {}

Workers::~Workers() {
  static std::atomic<Pool*> abandoned{nullptr};  // for leak checkers, as Pool::before
  Pool* const last = pool_.load();
  Pool* parents = last;
  if (!last->born.elsewhere()) {
    parents = last->before;
    const std::unique_ptr<Pool> pool(last);
    {
      const std::lock_guard lock(pool->mutex);
      pool->stopping = true;
    }
    pool->wake.notify_all();
    for (std::thread& thread : pool->threads) thread.join();
  }
  while (parents != nullptr) {
    Pool* const each = std::exchange(parents, parents->before);
    each->before = abandoned.load();
    while (!abandoned.compare_exchange_weak(each->before, each)) {
    }
  }
}

// Several threads of a child may come first; one of them makes the pool.
Workers::Pool& Workers::pool() {
  Pool* found = pool_.load();
  while (found->born.elsewhere()) {
    auto made = std::make_unique<Pool>();
    made->before = found;
    if (pool_.compare_exchange_strong(found, made.get())) return *made.release();
  }
  return *found;
}

std::thread Workers::start() {
  return std::thread([this] { run(); });
}

void Workers::start_all(Pool& pool) noexcept {
  const posix::ForeignSignals foreign;
  try {
    while (pool.threads.size() < count_) pool.threads.push_back(start());
  } catch (const std::system_error&) {  // too many threads; those that are there will do
  }
}

void Workers::submit(Work work) {
  Pool& pool = this->pool();
  {
    const std::lock_guard lock(pool.mutex);
    if (pool.threads.size() < count_) start_all(pool);
    if (!pool.threads.empty()) {
      pool.queue.push_back(std::move(work));
      pool.wake.notify_one();
      return;
    }
  }
  work();
}

void Workers::run() {
  Pool& pool = this->pool();
  std::unique_lock lock(pool.mutex);
  for (;;) {
    pool.wake.wait(lock, [&pool] { return pool.stopping || !pool.queue.empty(); });
    if (pool.queue.empty()) return;
    Work work = std::move(pool.queue.front());
    pool.queue.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

}  // namespace rpcrdma::gss
