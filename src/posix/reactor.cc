#include "posix/reactor.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>

#include "base/assert.h"

namespace rpcrdma::posix {
namespace {

// Their addresses distinguish our own two descriptors from all others, and from each other: reading
// both would cost each wake() a read that fails.
char timer_mark, event_mark;

}  // namespace

Expected<std::unique_ptr<Reactor>, SystemError> Reactor::make() {
  Fd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return failed("epoll_create1");
  Fd timer(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!timer) return failed("timerfd_create");
  Fd event(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!event) return failed("eventfd");
  for (const auto& [own, mark] : {std::pair{&timer, &timer_mark}, std::pair{&event, &event_mark}}) {
    epoll_event entry{};
    entry.events = EPOLLIN;
    entry.data.ptr = mark;
    if (epoll_ctl(epoll.value(), EPOLL_CTL_ADD, own->value(), &entry) != 0) {
      return failed("epoll_ctl");
    }
  }
  return std::unique_ptr<Reactor>(
      new Reactor(std::move(epoll), std::move(timer), std::move(event)));
}

Reactor::Reactor(Fd epoll, Fd timer, Fd event)
    : epoll_(std::move(epoll)), timer_(std::move(timer)), event_(std::move(event)) {}

bool Reactor::watch(int fd, std::uint32_t events, Watched& watched) {
  epoll_event entry{};
  entry.events = events;
  entry.data.ptr = &watched;
  return epoll_ctl(epoll_.value(), EPOLL_CTL_ADD, fd, &entry) == 0;
}

bool Reactor::rewatch(int fd, std::uint32_t events, Watched& before, Watched& watched) {
  if (&before != &watched) forget(before);
  epoll_event entry{};
  entry.events = events;
  entry.data.ptr = &watched;
  return epoll_ctl(epoll_.value(), EPOLL_CTL_MOD, fd, &entry) == 0;
}

void Reactor::unwatch(int fd, Watched& watched) {
  forget(watched);
  if (fd < 0) return;
  if (is_copy()) {
    has_dropped_ = true;
  } else {
    epoll_ctl(epoll_.value(), EPOLL_CTL_DEL, fd, nullptr);
  }
}

void Reactor::forget(Watched& watched) {
  set_deadline(watched, std::nullopt);
  for (std::size_t i = ready_begin_; i < ready_end_; ++i) {
    if (ready_[i].data.ptr == &watched) ready_[i].data.ptr = nullptr;
  }
}

void Reactor::set_deadline(Watched& watched, Deadline when) {
  if (watched.deadline_) deadlines_.erase({*watched.deadline_, &watched});
  watched.deadline_ = when;
  if (when) deadlines_.insert({*when, &watched});
}

Instant Reactor::now() noexcept {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return Instant(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

bool Reactor::is_about_now(Instant time) noexcept {
  constexpr std::chrono::milliseconds kNear{20};
  timespec coarse{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &coarse);
  const Instant now(std::chrono::seconds(coarse.tv_sec) + std::chrono::nanoseconds(coarse.tv_nsec));
  return now - time <= kNear && time - now <= kNear;
}

std::size_t Reactor::fetch(int timeout) {
  ready_begin_ = ready_end_ = 0;
  if (has_dropped_) {  // the set has entries of objects that are no more
    constexpr int kPause_ms = 10;
    if (timeout != 0) ::poll(nullptr, 0, kPause_ms);
    return 0;
  }
  owner_ = {};
  const int count =
      epoll_wait(epoll_.value(), ready_.data(), static_cast<int>(ready_.size()), timeout);
  if (count > 0) ready_end_ = static_cast<std::size_t>(count);
  return ready_end_;
}

void Reactor::dispatch() {
  if (ready_begin_ == ready_end_ || is_copy()) fetch(0);
  bool may_have_more = ready_end_ == ready_.size();
  handle_ready();
  // A time is over behind all that has come before. Other users of the thread have their turn, too.
  constexpr int kBatchesMax = 16;
  for (int left = kBatchesMax; may_have_more && left > 0 && is_deadline_over(); --left) {
    may_have_more = fetch(0) == ready_.size();
    handle_ready();
  }
  dispatch_deadlines();
}

void Reactor::handle_ready() {
  while (ready_begin_ < ready_end_) {
    const epoll_event entry = ready_[ready_begin_++];
    if (entry.data.ptr == &timer_mark) {
      drain(timer_.value());
    } else if (entry.data.ptr == &event_mark) {
      drain(event_.value());
      // After reading: a wake() in between is seen by callers that check their queue next.
      woken_.exchange(false, std::memory_order_acq_rel);
    } else if (entry.data.ptr != nullptr) {  // null: forgotten meanwhile
      static_cast<Watched*>(entry.data.ptr)->handle_ready(entry.events);
    }
  }
}

bool Reactor::is_deadline_over() const noexcept {
  return !deadlines_.empty() && deadlines_.begin()->first <= now();
}

void Reactor::dispatch_deadlines() {
  if (deadlines_.empty()) return;
  const Instant time = now();
  while (!deadlines_.empty() && deadlines_.begin()->first <= time) {
    Watched& watched = *deadlines_.begin()->second;
    set_deadline(watched, std::nullopt);
    watched.handle_deadline();
  }
}

void Reactor::drain(int fd) {
  std::uint64_t count = 0;
  const ssize_t size = read(fd, &count, sizeof(count));
  if (size != static_cast<ssize_t>(sizeof(count)) || fd != timer_.value()) return;
  armed_.reset();
  if (user_timer_ && user_timer_.is_over(now())) user_timer_.reset();  // it has done its duty
}

void Reactor::block() {
  arm();
  if (ready_begin_ == ready_end_) fetch(-1);
}

bool Reactor::peek() {
  arm();
  return ready_begin_ != ready_end_ || fetch(0) > 0;
}

void Reactor::set_user_timer(Deadline when) {
  user_timer_ = when;
  arm();
}

void Reactor::arm() {
  Deadline next = user_timer_;
  if (!deadlines_.empty() && (!next || deadlines_.begin()->first < *next)) {
    next = deadlines_.begin()->first;
  }
  // Set too early it costs one idle round; set again for each later time it would cost a system
  // call for each call of the upper layer.
  if (!next || earlier(armed_, next) == armed_) return;
  const auto since = (*next).time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since);
  itimerspec time{};
  time.it_value.tv_sec = std::max<std::int64_t>(seconds.count(), 0);
  time.it_value.tv_nsec = static_cast<long>(std::max<std::int64_t>((since - seconds).count(), 0));
  if (time.it_value.tv_sec == 0 && time.it_value.tv_nsec == 0) time.it_value.tv_nsec = 1;
  const int result = timerfd_settime(timer_.value(), TFD_TIMER_ABSTIME, &time, nullptr);
  RPCRDMA_ASSERT(result == 0, "timerfd_settime");
  armed_ = next;
}

void Reactor::wake() noexcept {
  // One call that has not been seen yet does for all.
  if (woken_.exchange(true, std::memory_order_acq_rel)) return;
  const std::uint64_t one = 1;
  // Fails only when the counter is full, which wakes as well.
  if (write(event_.value(), &one, sizeof(one)) < 0) return;
}

}  // namespace rpcrdma::posix
