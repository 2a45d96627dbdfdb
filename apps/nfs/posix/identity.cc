#include "nfs/posix/identity.h"

#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <thread>

namespace nfs::posix {
namespace {

constexpr std::uint32_t kNoId = ~std::uint32_t{0};

// The thread's identity, so that a caller's many calls change it once.
struct Current {
  Caller caller;
  bool is_caller = false;
};
thread_local Current current;

// Return the thread's user and group for files: with -1 the calls change nothing and return the
// current ones.
std::uint32_t filesystem_uid() noexcept {
  return static_cast<std::uint32_t>(::setfsuid(kNoId));
}
std::uint32_t filesystem_gid() noexcept {
  return static_cast<std::uint32_t>(::setfsgid(kNoId));
}

// The system call, which concerns the thread; the library's function tells all threads.
bool set_groups(const std::vector<std::uint32_t>& groups) noexcept {
  static_assert(sizeof(gid_t) == sizeof(std::uint32_t));
#if defined(SYS_setgroups32)
  constexpr long kSetGroups =
      SYS_setgroups32;  // 32-bit ARM's and x86's other one takes groups of 16 bits
#else
  constexpr long kSetGroups = SYS_setgroups;
#endif
  return ::syscall(kSetGroups, groups.size(), groups.data()) == 0;
}

bool set(std::uint32_t uid, std::uint32_t gid) noexcept {
  ::setfsgid(gid);
  ::setfsuid(uid);
  return filesystem_uid() == uid && filesystem_gid() == gid;
}

// A caller's user does not take it along as it does the rights of files; with it neither quotas nor
// the blocks that a file system keeps for root would bind anybody.
void give_up_resources() noexcept {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> sets{};
  if (::syscall(SYS_capget, &header, sets.data()) != 0) return;
  sets[0].effective &= ~(1U << CAP_SYS_RESOURCE);
  (void)::syscall(SYS_capset, &header, sets.data());
}

}  // namespace

bool can_take_identities() noexcept {
  static const bool can = ::geteuid() == 0 && [] {
    bool changed = false;
    // On a thread of its own: see identity.h.
    std::thread([&changed] {
      ::setfsuid(65534);
      changed = filesystem_uid() == 65534;
    }).join();
    return changed;
  }();
  return can;
}

bool take_identity(const Caller& caller) noexcept {
  if (!can_take_identities()) return true;
  if (current.is_caller && current.caller == caller) return true;
  if (caller.uid == kNoId || caller.gid == kNoId) return false;
  take_own_identity();
  if (!set_groups(caller.groups) || !set(caller.uid, caller.gid)) {
    take_own_identity();
    return false;
  }
  current.caller = caller;
  current.is_caller = true;
  return true;
}

bool has_identity_of_a_caller() noexcept {
  return current.is_caller;
}

void take_own_identity() noexcept {
  if (!can_take_identities()) return;
  current.is_caller = false;
  (void)set(::geteuid(), ::getegid());
  (void)set_groups({});
}

// The groups stay: root needs none.
AsServer::AsServer() noexcept : uid_(filesystem_uid()), gid_(filesystem_gid()) {
  if (can_take_identities()) (void)set(::geteuid(), ::getegid());
}

AsServer::~AsServer() {
  // The rest of the call would run with the server's rights.
  if (can_take_identities() && !set(uid_, gid_)) std::abort();
}

const Caller& kernel_sees(const Caller& caller) {
  if (can_take_identities()) return caller;
  static const Caller server = [] {
    Caller made{::geteuid(), ::getegid(), {}};
    const int count = ::getgroups(0, nullptr);
    made.groups.resize(static_cast<std::size_t>(std::max(count, 0)));
    const int got = ::getgroups(std::max(count, 0), made.groups.data());
    made.groups.resize(static_cast<std::size_t>(std::max(got, 0)));
    return made;
  }();
  return server;
}

bool can_reopen(const struct stat& status) noexcept {
  if (can_take_identities()) return true;
  return status.st_uid == ::geteuid() && (status.st_mode & 0600U) == 0600U;
}

void leave_modes_to_callers() noexcept {
  // Its own working directory and umask, which threads share otherwise.
  (void)::unshare(CLONE_FS);
  ::umask(0);
  give_up_resources();
}

}  // namespace nfs::posix
