#include "nfs/mount_service.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace nfs {
namespace {

using mount3::mountstat3;

mount3::mountres3 refusal(mountstat3 status) {
  mount3::mountres3 results;
  results.set_void(status);
  return results;
}

mountstat3 status_of(nfs3::nfsstat3 status) {
  using nfs3::nfsstat3;
  struct Pair {
    nfsstat3 from;
    mountstat3 to;
  };
  static constexpr std::array<Pair, 8> kPairs{{
      {nfsstat3::NFS3_OK, mountstat3::MNT3_OK},
      {nfsstat3::NFS3ERR_NOENT, mountstat3::MNT3ERR_NOENT},
      {nfsstat3::NFS3ERR_STALE, mountstat3::MNT3ERR_NOENT},
      {nfsstat3::NFS3ERR_NOTDIR, mountstat3::MNT3ERR_NOTDIR},
      {nfsstat3::NFS3ERR_ACCES, mountstat3::MNT3ERR_ACCES},
      {nfsstat3::NFS3ERR_PERM, mountstat3::MNT3ERR_ACCES},
      {nfsstat3::NFS3ERR_NAMETOOLONG, mountstat3::MNT3ERR_NAMETOOLONG},
      {nfsstat3::NFS3ERR_IO, mountstat3::MNT3ERR_IO},
  }};
  const auto found = std::ranges::find(kPairs, status, &Pair::from);
  return found != kPairs.end() ? found->to : mountstat3::MNT3ERR_SERVERFAULT;
}

// From the export's directory down to the one that is to be mounted, a component at a time.
class Walk {
 public:
  Walk(rpcrdma::Answer<mount3::mountres3> answer, ServedExport& served, const HandleKey& key,
       std::string_view path, const ExportRules& rules)
      : answer_(std::move(answer)), served_(served), key_(key), path_(path) {
    here_.data = served.files->root();
    for (const rpcrdma::Protection each : rules.security) {
      flavors_.push_back(static_cast<int>(each));
    }
  }

  // Takes the next step; the walk goes with its last one.
  static void go_on(std::unique_ptr<Walk> walk) {
    const std::string name = walk->next();
    Walk& self = *walk;
    if (name.empty()) {
      // That the directory is there, and is one.
      self.served_.files->get_attributes(
          {}, {self.here_},
          [walk = std::move(walk)](nfs3::GETATTR3res results) mutable { walk->end(results); });
      return;
    }
    // As the server: a handle gives nobody a right.
    self.served_.files->look_up(
        {}, {{self.here_, name}}, [walk = std::move(walk)](nfs3::LOOKUP3res results) mutable {
          if (!results.resok()) return walk->answer_.succeed(refusal(status_of(results.status())));
          const auto opened = walk->key_.open(results.resok()->object);
          if (!opened) return walk->answer_.succeed(refusal(mountstat3::MNT3ERR_SERVERFAULT));
          walk->here_.data.assign(opened->inner.begin(), opened->inner.end());
          go_on(std::move(walk));
        });
  }

 private:
  std::string next() {
    const std::size_t begin = path_.find_first_not_of('/', at_);
    if (begin == std::string::npos) return {};
    const std::size_t end = std::min(path_.find('/', begin), path_.size());
    at_ = end;
    return path_.substr(begin, end - begin);
  }

  void end(const nfs3::GETATTR3res& results) {
    if (!results.resok()) return answer_.succeed(refusal(status_of(results.status())));
    if (results.resok()->obj_attributes.type != nfs3::ftype3::NF3DIR) {
      return answer_.succeed(refusal(mountstat3::MNT3ERR_NOTDIR));
    }
    mount3::mountres3 mounted;
    mounted.set_mountinfo({served_.handles.seal(here_.data).data, flavors_});
    answer_.succeed(mounted);
  }

  rpcrdma::Answer<mount3::mountres3> answer_;
  ServedExport& served_;
  const HandleKey& key_;
  const std::string path_;
  std::vector<int> flavors_;  // of its calls (RFC 2623 §2.7)
  std::size_t at_ = 0;
  nfs3::nfs_fh3 here_;  // the back end's own handle
};

}  // namespace

void MountService::MOUNTPROC3_MNT(Answer<mount3::mountres3> answer, mount3::dirpath arg1) {
  std::string_view rest;
  ServedExport* const served = exports_.find_by_path(arg1, rest);
  if (served == nullptr) return answer.succeed(refusal(mountstat3::MNT3ERR_NOENT));
  const ExportRules* const rules = served->rules.rules_for(answer.context().peer_address());
  if (rules == nullptr) {
    return answer.succeed(refusal(mountstat3::MNT3ERR_ACCES));
  }
  for (std::string_view part = rest; !part.empty();) {
    const std::string_view name = part.substr(0, part.find('/'));
    part.remove_prefix(std::min(part.size(), name.size() + 1));
    if (name == "." || name == ".." || name.find('\0') != std::string_view::npos) {
      return answer.succeed(refusal(mountstat3::MNT3ERR_INVAL));
    }
  }
  Walk::go_on(std::make_unique<Walk>(std::move(answer), *served, exports_.key(), rest, *rules));
}

void MountService::MOUNTPROC3_DUMP(Answer<mount3::mountlist> answer) {
  answer.succeed({});
}

void MountService::MOUNTPROC3_UMNT(Answer<void> answer, mount3::dirpath /*arg1*/) {
  answer.succeed();
}

void MountService::MOUNTPROC3_UMNTALL(Answer<void> answer) {
  answer.succeed();
}

void MountService::MOUNTPROC3_EXPORT(Answer<mount3::exports> answer) {
  mount3::exports list;
  for (const ServedExport& each : exports_.all()) {
    mount3::exportnode node{each.rules.name, {}};
    // A list of nobody means everybody; beside others, everybody has to be named.
    const auto& clients = each.rules.clients;
    const bool is_for_all = clients.size() == 1 && clients.front().addresses.contains_all();
    for (const ExportClient& client : clients) {
      if (!is_for_all) node.ex_groups.push_back({client.text});
    }
    list.push_back(std::move(node));
  }
  answer.succeed(list);
}

}  // namespace nfs
