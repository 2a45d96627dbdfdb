// The exported tree: its mount, and a new one when the cluster has ended that.
#ifndef RPCRDMA_NFS_CEPH_TREE_H_
#define RPCRDMA_NFS_CEPH_TREE_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "nfs/ceph/session.h"
#include "nfs/file_system.h"

namespace nfs::ceph {

class Tree {
  struct Kept;

 public:
  struct Settings {
    SessionSettings session{};
    std::uint64_t fsid = 0;  // of its attributes
    bool is_async = false;   // a change of names is answered before it is on the disk
    std::function<void(const std::string&)> report{};  // see BackEndSettings
  };

  // A session that stays while this lives. Empty: there is none at the moment.
  class Use {
   public:
    Use() = default;
    Use(Use&& other) noexcept
        : tree_(std::exchange(other.tree_, nullptr)), kept_(std::exchange(other.kept_, nullptr)) {}
    Use& operator=(Use&&) = delete;
    ~Use() {
      if (tree_ != nullptr) tree_->release(*kept_);
    }
    explicit operator bool() const noexcept { return tree_ != nullptr; }
    Session& operator*() const noexcept { return *kept_->session; }

   private:
    friend class Tree;
    Use(Tree& tree, Kept& kept) noexcept : tree_(&tree), kept_(&kept) {}
    Tree* tree_ = nullptr;
    Kept* kept_ = nullptr;
  };

  // `maker` outlives it.
  Tree(Settings settings, std::unique_ptr<Session> session, const HandleMaker& maker);

  // Returns the session; for threads that may wait. If the session was lost, one of them mounts
  // anew, again and again, and the others wait for it for a while.
  Use session();
  // Returns the session as it is, without waiting for another one. Empty: it was lost.
  Use current();
  // Bounds the files that stay open, of this session and of those that follow.
  void set_open_files_max(std::size_t count);
  const Handle& root() const noexcept { return root_; }
  std::uint64_t fsid() const noexcept { return settings_.fsid; }
  bool is_async() const noexcept { return settings_.is_async; }
  nfs3::nfs_fh3 sealed(const Handle& handle) const { return maker_.seal(handle.encoded()); }
  // One SETATTR with a guard at a time: between its look and its change there is none of the others
  // of this gateway.
  std::timed_mutex& guard() noexcept { return guard_; }

 private:
  struct Kept {
    std::unique_ptr<Session> session;
    std::size_t uses = 0;
  };
  using Clock = std::chrono::steady_clock;
  // The pause between two attempts to mount; longer if sessions do not last.
  static constexpr std::chrono::milliseconds kPause{500}, kPauseMax{30'000};
  static constexpr std::chrono::minutes kLongLife{1};  // of a session
  static constexpr std::chrono::seconds kWait{5};      // for an attempt that succeeds

  Use use_front();  // with mutex_ held
  void release(Kept& kept) noexcept;
  void mount_anew(std::unique_lock<std::mutex>& lock);
  void report(const std::string& what) const;

  const Settings settings_;
  const HandleMaker& maker_;
  const Handle root_;
  std::timed_mutex guard_;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::size_t open_files_max_;
  std::list<Kept> sessions_;  // the current one in front; others are lost, and still used
  bool is_mounting_ = false;
  std::condition_variable mounted_;
  Clock::time_point next_attempt_{}, mounted_at_ = Clock::now();
  std::chrono::milliseconds pause_ = kPause;
  std::string last_failure_;  // of an attempt; each is reported once
};

}  // namespace nfs::ceph

#endif  // RPCRDMA_NFS_CEPH_TREE_H_
