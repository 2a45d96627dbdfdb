#include "mount/fuse_forgetter.h"

#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <utility>

namespace mounts {
namespace {

namespace fs = std::filesystem;

// While one thread waits for a directory, programs go on in others.
constexpr std::size_t kThreadsMax = 4;

// A message to the kernel, which libfuse 3.14 does not have: nodes that no program uses.
struct PruneHead {
  std::uint32_t size;     // of the whole message
  std::int32_t code;      // in place of an error
  std::uint64_t request;  // 0: it answers none
  std::uint32_t count;
  std::uint32_t padding;
  std::uint64_t spare;
};
constexpr std::int32_t kPrune = 9;

constexpr Clock::duration kFoldersAgeMax = std::chrono::milliseconds(100);

// Returns the last parts of the paths of all processes' current folders.
std::set<std::string> current_folders() {
  std::set<std::string> names;
  std::error_code error;
  for (fs::directory_iterator each("/proc", error), end; !error && each != end;
       each.increment(error)) {
    const std::string process = each->path().filename();
    if (process.find_first_not_of("0123456789") != std::string::npos) continue;
    std::error_code gone;
    const fs::path folder = fs::read_symlink(each->path() / "cwd", gone);
    if (!gone) names.insert(folder.filename());
  }
  return names;
}

}  // namespace

// Tests have newer kernels do as older ones.
Forgetter::Forgetter() : can_prune_(::getenv("RPCRDMA_MOUNT_FORGETS_BY_NAME") == nullptr) {}

Forgetter::~Forgetter() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  news_.notify_all();
  for (std::thread& each : threads_) each.join();
}

bool Forgetter::is_idle() {
  const std::lock_guard lock(mutex_);
  return names_.empty() && busy_ == 0;
}

std::size_t Forgetter::threads_max() const noexcept {
  return can_prune_ ? 1 : kThreadsMax;
}

bool Forgetter::takes_more() {
  const std::lock_guard lock(mutex_);
  return names_.empty() && busy_ < threads_max();
}

bool Forgetter::start_thread() {
  // Signals are for the thread of the session.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool is_there = true;
  try {
    threads_.emplace_back([this] { run(); });
  } catch (const std::system_error&) {  // another program of the user has all that it may have
    is_there = false;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return is_there;
}

void Forgetter::give(fuse_session* session, std::vector<NameOfNode> names) {
  const std::lock_guard lock(mutex_);
  session_ = session;
  names_.assign(std::make_move_iterator(names.begin()), std::make_move_iterator(names.end()));
  while (threads_.size() < threads_max() && start_thread()) {
  }
  if (threads_.empty()) names_.clear();  // the table gives them again, behind all others
  news_.notify_all();
}

bool Forgetter::prune(const std::deque<NameOfNode>& names) const {
  std::vector<std::uint64_t> nodes;
  for (const NameOfNode& each : names) nodes.push_back(static_cast<std::uint64_t>(each.node));
  const std::size_t size = nodes.size() * sizeof(nodes[0]);
  PruneHead head{static_cast<std::uint32_t>(sizeof(PruneHead) + size),
                 kPrune,
                 0,
                 static_cast<std::uint32_t>(nodes.size()),
                 0,
                 0};
  const std::array<iovec, 2> parts{iovec{&head, sizeof(head)}, iovec{nodes.data(), size}};
  const ssize_t written =
      ::writev(::fuse_session_fd(session_), parts.data(), static_cast<int>(parts.size()));
  return written >= 0 || errno != EINVAL;
}

// A directory that the kernel forgets while a process is in it has no path for that process until
// somebody looks it up.
bool Forgetter::is_current_folder(const std::string& name) {
  const std::lock_guard lock(folders_mutex_);
  const Time now = Clock::now();
  if (now >= folders_end_) {
    folders_ = current_folders();
    folders_end_ = now + kFoldersAgeMax;
  }
  return folders_.contains(name);
}

void Forgetter::forget(const NameOfNode& name) {
  if (name.is_of_directory && is_current_folder(name.name)) return;
  // The kernel may have forgotten it by itself.
  (void)::fuse_lowlevel_notify_inval_entry(session_, static_cast<fuse_ino_t>(name.directory),
                                           name.name.data(), name.name.size());
}

void Forgetter::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    news_.wait(lock, [this] { return ends_ || !names_.empty(); });
    if (ends_) return;
    ++busy_;
    if (can_prune_) {
      const auto names = std::exchange(names_, {});
      lock.unlock();
      const bool is_known = prune(names);
      lock.lock();
      if (!is_known) can_prune_ = false;
    } else {
      const NameOfNode name = std::move(names_.front());
      names_.pop_front();
      lock.unlock();
      forget(name);
      lock.lock();
    }
    --busy_;
  }
}

}  // namespace mounts
