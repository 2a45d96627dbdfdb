#include "nfs/ceph/file_system.h"

#include <array>
#include <chrono>
#include <limits>
#include <utility>

#include "files/workers.h"
#include "nfs/back_end/dispatch.h"
#include "nfs/ceph/call.h"
#include "nfs/ceph/gateway_name.h"
#include "nfs/ceph/idle_closer.h"
#include "nfs/ceph/tree.h"

namespace nfs::ceph {
namespace {

using files::Job;
using files::kHostsAtATime;
using files::Workers;

// FileSystem::check() as a procedure.
struct Checking : Row<Check, nfs3::GETATTR3res, kLooking> {};

constexpr std::uint32_t kNoId = std::numeric_limits<std::uint32_t>::max();

// One call, on its way to a worker and back.
template <class Procedure>
class Operation final : public Job {
 public:
  using Results = typename Procedure::Results;

  Operation(Tree& tree, Request<Procedure> request) : tree_(tree), request_(std::move(request)) {}
  void run() override { end(results()); }
  // The client asks again after a while.
  void turn_away() override { end(failed<Results>(nfs3::nfsstat3::NFS3ERR_JUKEBOX)); }

 private:
  void end(Results results) { request_.done(std::move(results)); }
  Results results() {
    const Caller& caller = request_.caller;
    // To the library these numbers are "nobody said".
    if (caller.uid == kNoId || caller.gid == kNoId) {
      return failed<Results>(nfs3::nfsstat3::NFS3ERR_ACCES);
    }
    auto results = failed<Results>(nfs3::nfsstat3::NFS3ERR_JUKEBOX);
    // A call that changes nothing is repeated when it finds out that the session was lost.
    constexpr int kAttempts = Procedure::kTraits.work == Work::kLook ? 2 : 1;
    for (int i = 0; i < kAttempts && results.status() == nfs3::nfsstat3::NFS3ERR_JUKEBOX; ++i) {
      const Tree::Use session = tree_.session();
      if (!session) break;
      const Call call(tree_, *session, caller);
      results = run_with_memory<Procedure>(
          [&](auto... into) { return ceph::run(call, request_.args, into...); }, request_.into);
    }
    return results;
  }

  Tree& tree_;
  Request<Procedure> request_;
};

class CephFileSystem final : public FileSystemOf<CephFileSystem> {
 public:
  CephFileSystem(GatewayName name, Tree::Settings settings, std::unique_ptr<Session> session,
                 const HandleMaker& maker, const BackEndSettings& pools)
      : name_(std::move(name)),
        tree_(std::move(settings), std::move(session), maker),
        pools_{Workers(settings_of(pools)), Workers(settings_of(pools)),
               Workers(settings_of(pools))} {}

  std::vector<std::byte> root() const override {
    const auto bytes = tree_.root().encoded();
    return {bytes.begin(), bytes.end()};
  }

  void check(Done<nfs3::GETATTR3res> done) override {
    run(Request<Checking>{.done = std::move(done)});
  }

  bool stop(std::chrono::steady_clock::time_point until) noexcept override {
    bool all = true;
    for (Workers& pool : pools_) all = pool.stop(until) && all;
    return closer_.stop(until) && all;
  }

  void do_chores() override {
    for (Workers& pool : pools_) pool.turn_late_away();
  }

  void set_open_files_max(std::size_t count) override { tree_.set_open_files_max(count); }

  template <class Procedure>
  void run(Request<Procedure> request) {
    Workers& pool = pools_[static_cast<std::size_t>(Procedure::kTraits.work)];
    const std::uint64_t host = request.host;
    pool.submit(std::make_unique<Operation<Procedure>>(tree_, std::move(request)), host);
  }

 private:
  static Workers::Settings settings_of(const BackEndSettings& pools) {
    Workers::Settings settings;
    settings.threads = kHostsAtATime * pools.workers;
    settings.threads_of_host = pools.workers;
    settings.queue_max = pools.waiting_max;
    return settings;
  }

  const GatewayName name_;  // as long as the sessions last that have it
  Tree tree_;
  IdleCloser closer_{tree_};
  // One for each kind of Work. Looks go on while the object stores hang, and, as far as the gateway
  // has what they need, while the servers of metadata do. Last: their threads use the rest.
  std::array<Workers, 3> pools_;
};

}  // namespace

rpcrdma::Expected<std::unique_ptr<FileSystem>, std::string> open(const BackEndSettings& settings,
                                                                 const HandleMaker& handles) {
  using rpcrdma::Unexpected;
  Tree::Settings tree;
  tree.fsid = settings.fsid;
  tree.is_async = settings.is_async;
  tree.report = settings.report;
  SessionSettings& session = tree.session;
  session.path = settings.path;
  session.open_files_max = settings.open_files_max;
  const std::pair<const char*, std::string*> known[] = {// NOLINT(modernize-avoid-c-arrays)
                                                        {"conf", &session.configuration},
                                                        {"id", &session.user},
                                                        {"fs", &session.file_system},
                                                        {"gateway", &session.gateway}};
  for (const auto& [option, value] : settings.options) {
    for (const auto& [name, to] : known) {
      if (option == name) *to = value;
    }
  }
  auto name = session.gateway.empty() ? GatewayName::take(settings.state_path)
                                      : rpcrdma::Expected<GatewayName, std::string>(
                                            GatewayName::given(session.gateway, settings.fsid));
  if (!name) return Unexpected<std::string>(name.error());
  session.gateway = name->text();
  auto opened = Session::open(session);
  if (!opened) return Unexpected<std::string>(opened.error());
  return std::make_unique<CephFileSystem>(std::move(*name), std::move(tree), std::move(*opened),
                                          handles, settings);
}

}  // namespace nfs::ceph
