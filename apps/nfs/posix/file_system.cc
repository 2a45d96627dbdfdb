#include "nfs/posix/file_system.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "files/workers.h"
#include "nfs/back_end/dispatch.h"
#include "nfs/posix/calls.h"
#include "nfs/posix/impatience.h"
#include "nfs/results.h"

namespace nfs::posix {
namespace {

using files::Job;
using files::kHostsAtATime;
using files::Workers;

// A longer READ would hold up the other calls of the thread.
constexpr std::size_t kShortRead = 32U << 10U;  // bytes

// A thread that serves connections is always the server (identity.h); a worker, from which a result
// may lead to the next call, is not.
template <class Procedure>
bool needs_change_of_identity(const Caller& caller) noexcept {
  const bool is_server = caller.uid == 0 && !has_identity_of_a_caller();
  return Procedure::kTraits.needs_identity && !is_server && can_take_identities();
}

template <class Procedure>
typename Procedure::Results execute(Tree& tree, const Request<Procedure>& request) {
  return run_with_memory<Procedure>(
      [&](auto... into) { return posix::run(tree, request.caller, request.args, into...); },
      request.into);
}

// Returns the result, unless the call may have to wait.
template <class Procedure>
std::optional<typename Procedure::Results> execute_at_once(Tree& tree,
                                                           const Request<Procedure>& request) {
  if constexpr (!Procedure::kTraits.is_often_ready) return std::nullopt;
  if (!tree.may_answer_at_once() || needs_change_of_identity<Procedure>(request.caller) ||
      tree.open_files().has_much_to_close() || request.into.size() > kShortRead) {
    return std::nullopt;
  }
  Impatience impatience;
  auto results = execute(tree, request);
  if (impatience.has_given_up()) return std::nullopt;
  return results;
}

// Closes what a call that was answered at once was the last to use.
class Closing final : public Job {
 public:
  explicit Closing(Tree& tree) : tree_(tree) {}
  void run() override { tree_.open_files().sync_what_leaves(); }
  void turn_away() override {}  // the next call that a thread makes does it

 private:
  Tree& tree_;
};

// One call, on its way to a worker and back.
template <class Procedure>
class Operation final : public Job {
 public:
  using Results = typename Procedure::Results;

  Operation(Tree& tree, Request<Procedure> request) : tree_(tree), request_(std::move(request)) {}
  void run() override {
    if (Procedure::kTraits.needs_identity && !take_identity(request_.caller)) {
      return end(failed<Results>(nfs3::nfsstat3::NFS3ERR_ACCES));
    }
    Results results = execute(tree_, request_);
    // Too many descriptors, perhaps; the client asks again.
    if (results.status() == nfs3::nfsstat3::NFS3ERR_JUKEBOX) tree_.open_files().shrink();
    tree_.open_files().close_what_left();
    end(std::move(results));
    tree_.open_files().sync_what_leaves();
  }
  // The client asks again after a while.
  void turn_away() override { end(failed<Results>(nfs3::nfsstat3::NFS3ERR_JUKEBOX)); }

 private:
  void end(Results results) { request_.done(std::move(results)); }

  Tree& tree_;
  Request<Procedure> request_;
};

class PosixFileSystem final : public FileSystemOf<PosixFileSystem> {
 public:
  using Inform = std::function<void(const std::string&)>;

  PosixFileSystem(files::File root, std::string directory, std::unique_ptr<Handles> handles,
                  const HandleMaker& maker, const Tree::Settings& settings,
                  const Workers::Settings& pool, Inform inform)
      : directory_(std::move(directory)),
        place_(place_of(root)),
        tree_(std::move(root), std::move(handles), maker, settings),
        inform_(std::move(inform)),
        workers_(pool) {}

  std::vector<std::byte> root() const override {
    const auto bytes = tree_.root().view();
    return {bytes.begin(), bytes.end()};
  }

  // A disk that takes longer hangs.
  std::chrono::seconds patience_at_end() const noexcept override { return std::chrono::minutes(1); }
  bool stop(std::chrono::steady_clock::time_point until) noexcept override {
    return workers_.stop(until);
  }

  // Asks a worker: while all of them wait for a disk, an answer out of memory proves nothing.
  void check(Done<nfs3::GETATTR3res> done) override {
    RequestOf<nfs3::NFSPROC3_GETATTR> request{.done = std::move(done)};
    request.args.object.data = root();
    submit(std::move(request));
  }

  // Closing runs on a worker, since it may wait for a disk, and skips its turn while the last one
  // still runs.
  void do_chores() override {
    workers_.turn_late_away();
    if (is_closing_removed_.exchange(true)) return;
    workers_.submit(std::make_unique<ClosingRemoved>(*this));
  }

  void set_open_files_max(std::size_t count) override { tree_.open_files().set_files_max(count); }

  bool has_been_replaced() const override {
    const files::File now(directory_, O_PATH | O_DIRECTORY);
    return now.is_open() && place_of(now) != place_;
  }

  template <class Procedure>
  void run(Request<Procedure> request) {
    if (auto results = execute_at_once(tree_, request)) {
      if (tree_.open_files().has_much_to_close()) {
        workers_.submit(std::make_unique<Closing>(tree_));
      }
      return request.done(std::move(*results));
    }
    submit(std::move(request));
  }

 private:
  class ClosingRemoved final : public Job {
   public:
    explicit ClosingRemoved(PosixFileSystem& files) : files_(files) {}
    void run() override { files_.close_removed(); }
    void turn_away() override { files_.is_closing_removed_ = false; }

   private:
    PosixFileSystem& files_;
  };

  template <class Procedure>
  void submit(Request<Procedure> request) {
    const std::uint64_t host = request.host;
    workers_.submit(std::make_unique<Operation<Procedure>>(tree_, std::move(request)), host);
  }

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

  using Place = std::pair<dev_t, ino_t>;
  static Place place_of(const files::File& directory) noexcept {
    struct stat status {};
    if (::fstat(directory.descriptor(), &status) != 0) return {};
    return {status.st_dev, status.st_ino};
  }

  const std::string directory_;
  const Place place_;
  Tree tree_;
  const Inform inform_;
  std::atomic<bool> is_closing_removed_ = false;
  Workers workers_;  // last: its threads use the rest
};

// A thread may have been started by one that has a caller's identity, and has it then.
void become_worker() noexcept {
  take_own_identity();
  leave_modes_to_callers();
}

rpcrdma::Unexpected<std::string> wrong(const std::string& directory, const std::string& what) {
  return rpcrdma::Unexpected<std::string>(directory + ": " + what);
}

}  // namespace

rpcrdma::Expected<std::unique_ptr<FileSystem>, std::string> open_directory(
    const std::string& directory, const Options& options, const HandleMaker& handles,
    std::string& why_table) {
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
  Workers::Settings pool;
  pool.threads = kHostsAtATime * options.workers;
  pool.threads_of_host = options.workers;
  pool.queue_max = options.waiting_max;
  pool.patience = options.patience;
  pool.begin = become_worker;
  return std::make_unique<PosixFileSystem>(std::move(root), directory, std::move(keeper), handles,
                                           settings, pool, options.inform);
}

}  // namespace nfs::posix
