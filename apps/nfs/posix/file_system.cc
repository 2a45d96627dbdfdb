#include "nfs/posix/file_system.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>

#include "nfs/back_end/dispatch.h"
#include "nfs/back_end/workers.h"
#include "nfs/posix/calls.h"
#include "nfs/posix/impatience.h"
#include "nfs/results.h"

namespace nfs::posix {
namespace {

// Those that the server answers from what it knows itself, whoever asks.
template <class Args>
constexpr bool kNeedsIdentity =
    !std::is_same_v<Args, nfs3::GETATTR3args> && !std::is_same_v<Args, nfs3::READLINK3args> &&
    !std::is_same_v<Args, nfs3::FSSTAT3args> && !std::is_same_v<Args, nfs3::FSINFO3args> &&
    !std::is_same_v<Args, nfs3::PATHCONF3args>;

// Those that change nothing, and often find what they look for in memory.
template <class Args>
constexpr bool kMayBeAtOnce =
    std::is_same_v<Args, nfs3::GETATTR3args> || std::is_same_v<Args, nfs3::LOOKUP3args> ||
    std::is_same_v<Args, nfs3::ACCESS3args> || std::is_same_v<Args, nfs3::READ3args>;

// A longer READ would hold up the other calls of the thread.
constexpr std::size_t kShortRead = 32U << 10U;  // bytes

// A thread that serves connections is always the server (identity.h); a worker, from which a result
// may lead to the next call, is not.
template <class Args>
bool needs_no_change_of_identity(const Caller& caller) noexcept {
  const bool is_server = caller.uid == 0 && !has_identity_of_a_caller();
  return !kNeedsIdentity<Args> || is_server || !can_take_identities();
}

// The result, if nothing of it has to wait.
template <class Results, class Args, class... More>
std::optional<Results> run_at_once(Tree& tree, const Caller& caller, const Args& args,
                                   More... more) {
  if constexpr (!kMayBeAtOnce<Args>) return std::nullopt;
  if (!tree.may_answer_at_once() || !needs_no_change_of_identity<Args>(caller)) return std::nullopt;
  if (tree.open_files().has_much_to_close() || ((more.size() > kShortRead) || ...)) {
    return std::nullopt;
  }
  Impatience impatience;
  Results results = posix::run(tree, caller, args, more...);
  if (impatience.has_given_up()) return std::nullopt;
  return results;
}

// Closes what a call that was answered at once was the last to use.
class Closing final : public Job {
 public:
  explicit Closing(Tree& tree) : tree_(tree) {}
  void run() override { tree_.open_files().close_what_left(); }

 private:
  Tree& tree_;
};

// One call, on its way to a worker and back. `More`: the memory of READ and READLINK.
template <class Results, class Args, class... More>
class Operation final : public Job {
 public:
  Operation(Tree& tree, Caller caller, Args args, FileSystem::Done<Results> done, More... more)
      : tree_(tree),
        caller_(std::move(caller)),
        args_(std::move(args)),
        done_(std::move(done)),
        more_(more...) {}
  void run() override {
    if (kNeedsIdentity<Args> && !take_identity(caller_)) {
      return end(failed<Results>(nfs3::nfsstat3::NFS3ERR_ACCES));
    }
    Results results = std::apply(
        [this](auto... more) { return posix::run(tree_, caller_, args_, more...); }, more_);
    // Too many descriptors, perhaps; the client asks again.
    if (results.status() == nfs3::nfsstat3::NFS3ERR_JUKEBOX) tree_.open_files().shrink();
    tree_.open_files().close_what_left();
    end(std::move(results));
  }
  void end(Results results) { done_(std::move(results)); }

 private:
  Tree& tree_;
  const Caller caller_;
  const Args args_;
  FileSystem::Done<Results> done_;
  const std::tuple<More...> more_;
};

class PosixFileSystem final : public DispatchingFileSystem<PosixFileSystem> {
 public:
  using Inform = std::function<void(const std::string&)>;

  PosixFileSystem(files::File root, std::unique_ptr<Handles> handles, const HandleMaker& maker,
                  const Tree::Settings& settings, Workers& workers, Inform inform)
      : tree_(std::move(root), std::move(handles), maker, settings),
        workers_(workers),
        inform_(std::move(inform)) {}

  std::vector<std::byte> root() const override {
    const auto bytes = tree_.root().view();
    return {bytes.begin(), bytes.end()};
  }

  // On a worker, since closing may wait for a disk; the one before may still do so.
  void do_chores() override {
    if (is_closing_removed_.exchange(true)) return;
    if (workers_.submit(std::make_unique<ClosingRemoved>(*this)) != nullptr) {
      is_closing_removed_ = false;
    }
  }

  template <class Results, class Args, class... More>
  void start(Caller caller, Args args, Done<Results> done, More... more) {
    if (auto results = run_at_once<Results>(tree_, caller, args, more...)) {
      if (tree_.open_files().has_much_to_close()) {
        (void)workers_.submit(std::make_unique<Closing>(tree_));
      }
      return done(std::move(*results));
    }
    using Made = Operation<Results, Args, More...>;
    auto job =
        std::make_unique<Made>(tree_, std::move(caller), std::move(args), std::move(done), more...);
    const auto refused = workers_.submit(std::move(job));
    if (refused == nullptr) return;
    // The client asks again after a while.
    static_cast<Made&>(*refused).end(failed<Results>(nfs3::nfsstat3::NFS3ERR_JUKEBOX));
  }

 private:
  class ClosingRemoved final : public Job {
   public:
    explicit ClosingRemoved(PosixFileSystem& files) : files_(files) {}
    void run() override { files_.close_removed(); }

   private:
    PosixFileSystem& files_;
  };

  void close_removed() {
    const OpenFiles::Held held = tree_.open_files().close_removed();
    if (held.files > 0 && inform_) {
      inform_(
          fmt::format("{} removed files keep {} bytes of the disk, since calls that have not "
                      "ended use them",
                      held.files, held.bytes));
    }
    is_closing_removed_ = false;
  }

  Tree tree_;
  Workers& workers_;
  const Inform inform_;
  std::atomic<bool> is_closing_removed_ = false;
};

rpcrdma::Unexpected<std::string> wrong(const std::string& directory, const std::string& what) {
  return rpcrdma::Unexpected<std::string>(directory + ": " + what);
}

}  // namespace

std::unique_ptr<Workers> make_workers(std::size_t threads, std::size_t queue_max) {
  Workers::Settings settings;
  settings.threads = threads;
  settings.queue_max = queue_max;
  settings.begin = leave_modes_to_callers;
  return std::make_unique<Workers>(settings);
}

rpcrdma::Expected<std::unique_ptr<FileSystem>, std::string> open_directory(
    const std::string& directory, const Options& options, const HandleMaker& handles,
    Workers& workers, std::string& why_table) {
  files::File root(directory, O_PATH | O_DIRECTORY);
  if (!root.is_open()) return wrong(directory, std::strerror(errno));
  std::unique_ptr<Handles> keeper;
  why_table.clear();
  if (options.handles != HandleKind::kTable) {
    keeper = kernel_handles(root);
    if (keeper == nullptr) {
      why_table =
          "its files cannot be opened by handles of the kernel (" +
          std::string(std::strerror(errno)) +
          "), which needs root (CAP_DAC_READ_SEARCH) and a file system that can be exported";
      if (options.handles == HandleKind::kKernel) return wrong(directory, why_table);
    }
  }
  if (keeper == nullptr) {
    auto table = table_handles(root, options.table_path);
    if (!table) return wrong(directory, table.error());
    keeper = std::move(*table);
  }
  const Tree::Settings settings{options.fsid, options.open_files_max, options.is_async};
  return std::make_unique<PosixFileSystem>(std::move(root), std::move(keeper), handles, settings,
                                           workers, options.inform);
}

}  // namespace nfs::posix
