#include "nfs/mount_service.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "files/host_number.h"

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

void tell(const ReportEvent& report, Event event, const rpcrdma::CallContext& context,
          std::string_view what) {
  if (report) report(event, fmt::format("{} {}", context.peer_address(), what));
}

// Says why a path below an export is not mounted.
const char* reason_of(mountstat3 status) {
  struct Reason {
    mountstat3 status;
    const char* text;
  };
  static constexpr std::array<Reason, 6> kReasons{{
      {mountstat3::MNT3ERR_NOENT, "there is no such directory in the export"},
      {mountstat3::MNT3ERR_NOTDIR, "this is no directory"},
      {mountstat3::MNT3ERR_ACCES,
       "its path leads out of the export, or to where the server may not look"},
      {mountstat3::MNT3ERR_INVAL, "its path has too many symbolic links"},
      {mountstat3::MNT3ERR_NAMETOOLONG, "its path is too long"},
      {mountstat3::MNT3ERR_IO, "the storage of the export reports an error"},
  }};
  const auto found = std::ranges::find(kReasons, status, &Reason::status);
  return found != kReasons.end() ? found->text : "the server could not look it up";
}

// Walks from the export's directory down to the one that is to be mounted, a component at a time.
// Follows symbolic links as a process on the server would, and never out of the export.
class Walk {
 public:
  // `asked` is the path as the client gave it, `path` what is left of it below the export.
  Walk(rpcrdma::Answer<mount3::mountres3> answer, ServedExport& served, const HandleKey& key,
       const ReportEvent& report, std::string_view asked, std::string_view path,
       const std::vector<rpcrdma::Protection>& security)
      : answer_(std::move(answer)),
        served_(served),
        key_(key),
        report_(report),
        host_(files::number_of_host(answer_.context().peer_address())),
        asked_(asked),
        path_(path) {
    here_.data = served_.files->root();
    for (const rpcrdma::Protection each : security) {
      flavors_.push_back(static_cast<int>(each));
    }
  }

  // Takes the next step; the walk goes with its last one.
  static void go_on(std::unique_ptr<Walk> walk) {
    const std::string name = walk->next();
    Walk& self = *walk;
    if (self.error_ != mountstat3::MNT3_OK) return self.refuse(self.error_);
    if (name.empty()) {
      // The directory has to be there, and to be one.
      self.served_.files->start(RequestOf<nfs3::NFSPROC3_GETATTR>{
          .args = {self.here_},
          .done = [walk =
                       std::move(walk)](nfs3::GETATTR3res results) mutable { walk->end(results); },
          .host = self.host_});
      return;
    }
    // The server looks up as itself: a handle gives nobody a right.
    self.served_.files->start(RequestOf<nfs3::NFSPROC3_LOOKUP>{
        .args = {{self.here_, name}},
        .done = [walk = std::move(walk)](
                    nfs3::LOOKUP3res results) mutable { enter(std::move(walk), results); },
        .host = self.host_});
  }

 private:
  // Goes into what was found, or reads where it leads.
  static void enter(std::unique_ptr<Walk> walk, const nfs3::LOOKUP3res& results) {
    Walk& self = *walk;
    const nfs3::LOOKUP3resok* const found = results.resok();
    if (found == nullptr) return self.refuse(status_of(results.status()));
    const auto opened = self.key_.open(found->object);
    if (!opened) return self.refuse(mountstat3::MNT3ERR_SERVERFAULT);
    nfs3::nfs_fh3 inner;
    inner.data.assign(opened->inner.begin(), opened->inner.end());
    const nfs3::fattr3* const attributes = found->obj_attributes.attributes();
    if (attributes == nullptr || attributes->type != nfs3::ftype3::NF3LNK) {
      self.above_.push_back(std::exchange(self.here_, std::move(inner)));
      return go_on(std::move(walk));
    }
    self.text_.resize(nfs3::NFS3_PATH_MAX);
    self.served_.files->start(RequestOf<nfs3::NFSPROC3_READLINK>{
        .args = {std::move(inner)},
        .into = self.text_,
        .done =
            [walk = std::move(walk)](const nfs3::READLINK3res& link) mutable {
              if (link.resok() == nullptr) return walk->refuse(status_of(link.status()));
              walk->follow(std::string(link.resok()->data));
              go_on(std::move(walk));
            },
        .host = self.host_});
  }

  // Returns the next component; empty: there is none, or error_ says why the walk ends.
  std::string next() {
    for (;;) {
      const std::size_t begin = path_.find_first_not_of('/', at_);
      if (begin == std::string::npos) return {};
      at_ = std::min(path_.find('/', begin), path_.size());
      std::string name = path_.substr(begin, at_ - begin);
      // No longer than a path without links can be.
      if (++steps_ > kStepsMax) return fail(mountstat3::MNT3ERR_NAMETOOLONG);
      if (name == ".") continue;
      if (name != "..") return name;
      if (above_.empty()) return fail(mountstat3::MNT3ERR_ACCES);
      here_ = std::move(above_.back());
      above_.pop_back();
    }
  }

  // Puts the text of a symbolic link in front of the rest of the path. An absolute one is a path of
  // this machine, as that of the export is.
  void follow(std::string text) {
    if (++links_ > kLinksMax) return (void)fail(mountstat3::MNT3ERR_INVAL);
    if (text.starts_with('/')) {
      const std::string& top = served_.made.directory;
      const bool is_inside = text.starts_with(top) &&
                             (text.size() == top.size() || top == "/" || text[top.size()] == '/');
      if (!is_inside) return (void)fail(mountstat3::MNT3ERR_ACCES);
      text.erase(0, top.size());
      here_.data = served_.files->root();
      above_.clear();
    }
    path_ = text + path_.substr(at_);
    at_ = 0;
  }

  std::string fail(mountstat3 error) {
    error_ = error;
    return {};
  }

  void refuse(mountstat3 error) {
    tell(report_, Event::kMountRefused, answer_.context(),
         fmt::format("may not mount {}: {}", asked_, reason_of(error)));
    answer_.succeed(refusal(error));
  }

  void end(const nfs3::GETATTR3res& results) {
    if (!results.resok()) return refuse(status_of(results.status()));
    if (results.resok()->obj_attributes.type != nfs3::ftype3::NF3DIR) {
      return refuse(mountstat3::MNT3ERR_NOTDIR);
    }
    tell(report_, Event::kMount, answer_.context(), fmt::format("mounts {}", asked_));
    mount3::mountres3 mounted;
    mounted.set_mountinfo({served_.handles.seal(here_.data).data, flavors_});
    answer_.succeed(mounted);
  }

  static constexpr unsigned kStepsMax = 512, kLinksMax = 40;

  rpcrdma::Answer<mount3::mountres3> answer_;
  ServedExport& served_;
  const HandleKey& key_;
  const ReportEvent& report_;
  const std::uint64_t host_;
  const std::string asked_;
  std::string path_;
  std::vector<int> flavors_;  // of its calls (RFC 2623 §2.7)
  std::size_t at_ = 0;
  unsigned steps_ = 0, links_ = 0;
  mountstat3 error_ = mountstat3::MNT3_OK;
  // The back end's own handles: the directory that was reached, and those above it.
  nfs3::nfs_fh3 here_;
  std::vector<nfs3::nfs_fh3> above_;
  std::vector<std::byte> text_;  // of a symbolic link
};

}  // namespace

void MountService::MOUNTPROC3_MNT(Answer<mount3::mountres3> answer, mount3::dirpath arg1) {
  std::string_view rest;
  ServedExport* served = nullptr;
  std::optional<std::vector<rpcrdma::Protection>> security;  // none: the client may not mount it
  exports_.read([&](const ExportList& exports) {
    const ExportList::Entry* const entry = exports.find_by_path(arg1, rest);
    if (entry == nullptr) return;
    served = entry->served;
    const ExportRules* const rules = entry->rules.rules_for(answer.context().peer_address());
    if (rules != nullptr) security = rules->security;
  });
  const auto refuse = [&](mountstat3 status, const char* why) {
    report(Event::kMountRefused, answer.context(), fmt::format("may not mount {}: {}", arg1, why));
    answer.succeed(refusal(status));
  };
  if (served == nullptr) return refuse(mountstat3::MNT3ERR_NOENT, "there is no such export");
  if (!security) {
    return refuse(mountstat3::MNT3ERR_ACCES, "the rules of the export have no such client");
  }
  for (std::string_view part = rest; !part.empty();) {
    const std::string_view name = part.substr(0, part.find('/'));
    part.remove_prefix(std::min(part.size(), name.size() + 1));
    if (name == "." || name == ".." || name.find('\0') != std::string_view::npos) {
      return refuse(mountstat3::MNT3ERR_INVAL, "its path has a component that means another one");
    }
  }
  Walk::go_on(std::make_unique<Walk>(std::move(answer), *served, exports_.key(), report_, arg1,
                                     rest, *security));
}

void MountService::MOUNTPROC3_DUMP(Answer<mount3::mountlist> answer) {
  answer.succeed({});
}

void MountService::MOUNTPROC3_UMNT(Answer<void> answer, mount3::dirpath arg1) {
  report(Event::kMount, answer.context(), fmt::format("unmounts {}", arg1));
  answer.succeed();
}

void MountService::MOUNTPROC3_UMNTALL(Answer<void> answer) {
  report(Event::kMount, answer.context(), "unmounts everything");
  answer.succeed();
}

void MountService::MOUNTPROC3_EXPORT(Answer<mount3::exports> answer) {
  mount3::exports list;
  exports_.read([&list](const ExportList& exports) {
    for (const ExportList::Entry& each : exports.all()) {
      mount3::exportnode node{each.rules.name, {}};
      // A list of nobody means everybody; beside others, everybody has to be named.
      const auto& clients = each.rules.clients;
      const bool is_for_all = clients.size() == 1 && clients.front().is_everybody();
      for (const ExportClient& client : clients) {
        if (!is_for_all) node.ex_groups.push_back({client.text});
      }
      list.push_back(std::move(node));
    }
  });
  answer.succeed(list);
}

void MountService::report(Event event, const rpcrdma::CallContext& context,
                          std::string_view what) const {
  tell(report_, event, context, what);
}

}  // namespace nfs
