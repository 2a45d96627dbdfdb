#include "nfs/ceph/file_system.h"

#include <array>
#include <chrono>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>

#include "nfs/back_end/dispatch.h"
#include "nfs/back_end/workers.h"
#include "nfs/ceph/call.h"
#include "nfs/ceph/gateway_name.h"
#include "nfs/ceph/idle_closer.h"
#include "nfs/ceph/tree.h"

namespace nfs::ceph {
namespace {

// What calls wait for. Those of the first kind go on while the object stores hang, and as far as
// the gateway has what is asked for, while the servers of metadata do; FSSTAT is none of them.
enum class Pool : std::uint8_t { kLooks, kChanges, kData };

template <class Args>
constexpr Pool pool_of() {
  constexpr bool kIsData = std::is_same_v<Args, nfs3::READ3args> ||
                           std::is_same_v<Args, nfs3::WRITE3args> ||
                           std::is_same_v<Args, nfs3::COMMIT3args>;
  constexpr bool kIsLook =
      std::is_same_v<Args, Check> || std::is_same_v<Args, nfs3::GETATTR3args> ||
      std::is_same_v<Args, nfs3::LOOKUP3args> || std::is_same_v<Args, nfs3::ACCESS3args> ||
      std::is_same_v<Args, nfs3::READLINK3args> || std::is_same_v<Args, nfs3::FSINFO3args> ||
      std::is_same_v<Args, nfs3::PATHCONF3args>;
  return kIsData ? Pool::kData : kIsLook ? Pool::kLooks : Pool::kChanges;
}

constexpr std::uint32_t kNoId = std::numeric_limits<std::uint32_t>::max();

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
  void run() override { end(results()); }
  void end(Results results) { done_(std::move(results)); }

 private:
  Results results() {
    // To the library these numbers are "nobody said".
    if (caller_.uid == kNoId || caller_.gid == kNoId) {
      return failed<Results>(nfs3::nfsstat3::NFS3ERR_ACCES);
    }
    auto results = failed<Results>(nfs3::nfsstat3::NFS3ERR_JUKEBOX);
    // What changes nothing is done again when it finds out that the session was lost.
    constexpr int kAttempts = pool_of<Args>() == Pool::kLooks ? 2 : 1;
    for (int i = 0; i < kAttempts && results.status() == nfs3::nfsstat3::NFS3ERR_JUKEBOX; ++i) {
      const Tree::Use session = tree_.session();
      if (!session) break;
      const Call call(tree_, *session, caller_);
      results = std::apply([&](auto... more) { return ceph::run(call, args_, more...); }, more_);
    }
    return results;
  }

  Tree& tree_;
  const Caller caller_;
  const Args args_;
  FileSystem::Done<Results> done_;
  const std::tuple<More...> more_;
};

class CephFileSystem final : public DispatchingFileSystem<CephFileSystem> {
 public:
  // Calls that have waited for so long before they began are in front of a cluster that hangs: more
  // are not taken, and clients ask again.
  static constexpr std::chrono::seconds kPatience{10};

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

  void check(Done<nfs3::GETATTR3res> done) override { start({}, Check{}, std::move(done)); }

  bool stop(std::chrono::steady_clock::time_point until) noexcept override {
    bool all = true;
    for (Workers& pool : pools_) all = pool.stop(until) && all;
    return closer_.stop(until) && all;
  }

  template <class Results, class Args, class... More>
  void start(Caller caller, Args args, Done<Results> done, More... more) {
    using Made = Operation<Results, Args, More...>;
    auto job =
        std::make_unique<Made>(tree_, std::move(caller), std::move(args), std::move(done), more...);
    const auto refused = pools_[static_cast<std::size_t>(pool_of<Args>())].submit(std::move(job));
    if (refused == nullptr) return;
    // The client asks again after a while.
    static_cast<Made&>(*refused).end(failed<Results>(nfs3::nfsstat3::NFS3ERR_JUKEBOX));
  }

 private:
  static Workers::Settings settings_of(const BackEndSettings& pools) {
    Workers::Settings settings;
    settings.threads = pools.workers;
    settings.queue_max = pools.waiting_max;
    settings.patience = kPatience;
    return settings;
  }

  const GatewayName name_;  // as long as the sessions last that have it
  Tree tree_;
  IdleCloser closer_{tree_};
  std::array<Workers, 3> pools_;  // last: their threads use the rest
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
  auto name =
      session.gateway.empty()
          ? GatewayName::take(settings.state_path)
          : rpcrdma::Expected<GatewayName, std::string>(GatewayName::given(session.gateway));
  if (!name) return Unexpected<std::string>(name.error());
  session.gateway = name->text();
  auto opened = Session::open(session);
  if (!opened) return Unexpected<std::string>(opened.error());
  return std::make_unique<CephFileSystem>(std::move(*name), std::move(tree), std::move(*opened),
                                          handles, settings);
}

}  // namespace nfs::ceph
