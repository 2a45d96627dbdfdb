// Paths: what MOUNT makes of them, to whom it lists them, and the way up from below long ones.
#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nfs/served_for_test.h"

namespace nfs3 {
namespace {

using mount3::mountstat3;
using testing::ElementsAre;

class Paths : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    nfs::ExporterOptions options;
    if (GetParam() == "table") options.handles = nfs::posix::HandleKind::kTable;
    begin(std::move(options));
  }
  void begin(nfs::ExporterOptions options) {
    client_.reset();
    served_.emplace(std::move(options));
    client_ = served_->connect("tcp");
    root_ = nfs::mounted(*client_, "/data");
  }

  NFS_V3_Client nfs() const { return NFS_V3_Client(*client_); }
  LOOKUP3res look_up(const nfs_fh3& directory, const std::string& name) const {
    return nfs().NFSPROC3_LOOKUP({{directory, name}}).value();
  }
  // The end of a path, a component at a time.
  nfs_fh3 handle_of(const std::filesystem::path& path) const {
    nfs_fh3 here = root_;
    for (const auto& each : path) {
      const auto found = look_up(here, each.string());
      EXPECT_EQ(found.status(), nfsstat3::NFS3_OK) << each;
      if (found.resok() == nullptr) return {};
      here = found.resok()->object;
    }
    return here;
  }
  void link(const std::string& name, const std::string& text) const {
    std::filesystem::create_symlink(text, served_->path(name));
  }
  mount3::mountres3 mount(const std::string& below) const {
    mount3::MOUNT_V3_Client client(*client_);
    return client.MOUNTPROC3_MNT("/data/" + below).value();
  }

  std::optional<nfs::Served> served_;
  std::unique_ptr<rpcrdma::Client> client_;
  nfs_fh3 root_;
};
INSTANTIATE_TEST_SUITE_P(Of, Paths, testing::Values("kernel", "table"),
                         [](const auto& test) { return test.param; });

TEST_P(Paths, MountsAndRefusedMountsAreReportedWithTheirReasons) {
  std::vector<std::string> reports;  // the server has one thread, and answers each call afterwards
  nfs::ExporterOptions options;
  options.report_event = [&reports](nfs::Event event, const std::string& what) {
    const bool is_refused = what.find("may not") != std::string::npos;
    EXPECT_EQ(event, is_refused ? nfs::Event::kMountRefused : nfs::Event::kMount);
    reports.push_back(what.substr(what.find(' ') + 1));
  };
  begin(std::move(options));
  mount3::MOUNT_V3_Client client(*client_);
  EXPECT_EQ(client.MOUNTPROC3_MNT("/none").value().fhs_status(), mountstat3::MNT3ERR_NOENT);
  EXPECT_EQ(client.MOUNTPROC3_MNT("/elsewhere").value().fhs_status(), mountstat3::MNT3ERR_ACCES);
  EXPECT_EQ(client.MOUNTPROC3_MNT("/data/../x").value().fhs_status(), mountstat3::MNT3ERR_INVAL);
  EXPECT_EQ(client.MOUNTPROC3_MNT("/data/gone").value().fhs_status(), mountstat3::MNT3ERR_NOENT);
  EXPECT_TRUE(client.MOUNTPROC3_UMNT("/data"));
  EXPECT_TRUE(client.MOUNTPROC3_UMNTALL());
  EXPECT_THAT(
      reports,
      ElementsAre("mounts /data", "may not mount /none: there is no such export",
                  "may not mount /elsewhere: the rules of the export have no such client",
                  "may not mount /data/../x: its path has a component that means another one",
                  "may not mount /data/gone: there is no such directory in the export",
                  "unmounts /data", "unmounts everything"));
}

TEST_P(Paths, FollowSymbolicLinksInsideTheExportInAMount) {
  std::filesystem::create_directories(served_->path("a/b"));
  link("in", "a");
  link("a/up", "../a/b");
  link("there", served_->folder() + "/a");
  link("top", served_->folder());
  link("dots", "./a//./b/../b/");
  link("chain", "in/up");
  for (const auto& [path, end] :
       {std::pair("in", "a"), std::pair("in/b", "a/b"), std::pair("a/up", "a/b"),
        std::pair("there/b", "a/b"), std::pair("top/a", "a"), std::pair("dots", "a/b"),
        std::pair("chain", "a/b"), std::pair("top/chain/", "a/b")}) {
    const auto mounted = mount(path);
    ASSERT_EQ(mounted.fhs_status(), mountstat3::MNT3_OK) << path;
    EXPECT_EQ(mounted.mountinfo()->fhandle, handle_of(end).data) << path;
  }
}

TEST_P(Paths, LeadNowhereElseInAMount) {
  std::filesystem::create_directories(served_->path("a/b"));
  served_->write_file("file", "");
  const std::string name = std::filesystem::path(served_->folder()).filename();
  link("away", "/etc");
  link("beside", served_->folder() + "-beside");
  link("above", "..");
  link("a/above", "b/../../..");
  link("around", "../" + name + "/a");
  link("over", served_->folder() + "/../" + name + "/a");
  link("none", "a/none");
  link("no-directory", "file");
  link("loop", "loop");
  link("other", "another");
  link("another", "other");
  for (const char* const path :
       {"away", "away/passwd", "beside", "above", "a/above", "around", "over"}) {
    EXPECT_EQ(mount(path).fhs_status(), mountstat3::MNT3ERR_ACCES) << path;
  }
  EXPECT_EQ(mount("none").fhs_status(), mountstat3::MNT3ERR_NOENT);
  EXPECT_EQ(mount("no-directory").fhs_status(), mountstat3::MNT3ERR_NOTDIR);
  EXPECT_EQ(mount("loop").fhs_status(), mountstat3::MNT3ERR_INVAL);
  EXPECT_EQ(mount("other/a").fhs_status(), mountstat3::MNT3ERR_INVAL);
}

// A link that is followed again and again makes the server do no more than a bounded number of
// steps.
TEST_P(Paths, AreBoundedInAMountIfLinksMakeThemLonger) {
  std::filesystem::create_directory(served_->path("a"));
  std::string text = "a";
  while (text.size() < 3000) text += "/../a";
  link("long", text);
  EXPECT_EQ(mount("long").fhs_status(), mountstat3::MNT3ERR_NAMETOOLONG);
}

TEST_P(Paths, AreListedForEverybodyIfEverybodyMayMountThem) {
  nfs::ExporterOptions options;
  for (const char* const rules :
       {"client=192.0.2.0/24,client=*,name=/both", "client=192.0.2.0/24,name=/some"}) {
    options.exports.push_back(
        nfs::parse_export(std::filesystem::temp_directory_path().string() + ":" + rules).value());
  }
  begin(std::move(options));
  mount3::MOUNT_V3_Client client(*client_);
  const auto list = client.MOUNTPROC3_EXPORT().value();
  const auto groups_of = [&](const char* name) {
    std::vector<std::string> groups;
    for (const auto& each : list) {
      if (each.ex_dir != name) continue;
      for (const auto& group : each.ex_groups) groups.push_back(group.gr_name);
    }
    return groups;
  };
  EXPECT_THAT(groups_of("/both"), ElementsAre("192.0.2.0/24", "*"));
  EXPECT_THAT(groups_of("/some"), ElementsAre("192.0.2.0/24"));
  EXPECT_THAT(groups_of("/data"), ElementsAre()) << "nobody is named, and everybody meant";
}

TEST_P(Paths, HaveAWayUpAtAnyLength) {
  std::vector<nfs_fh3> way{root_};
  const std::string name(250, 'd');
  constexpr std::size_t kDepth = 40;  // 10,000 bytes
  while (way.size() <= kDepth) {
    const auto made = nfs().NFSPROC3_MKDIR({{way.back(), name}, {}}).value();
    ASSERT_EQ(made.status(), nfsstat3::NFS3_OK) << way.size();
    way.push_back(*made.resok()->obj.handle());
  }
  for (std::size_t depth = kDepth; depth > 0; --depth) {
    const auto above = look_up(way[depth], "..");
    EXPECT_EQ(above.status(), nfsstat3::NFS3_OK) << depth;
    if (above.resok() == nullptr) break;
    EXPECT_EQ(above.resok()->object.data, way[depth - 1].data) << depth;
  }
  // Moved out of the export, they have none.
  const std::string outside = served_->folder() + "-outside";
  if (!nfs::Served::is_elsewhere()) {
    std::filesystem::create_directory(outside);
    std::filesystem::rename(served_->path(name), outside + "/" + name);
    EXPECT_EQ(look_up(way[kDepth], "..").status(), nfsstat3::NFS3ERR_STALE);
    EXPECT_EQ(look_up(way[2], "..").status(), nfsstat3::NFS3ERR_STALE);
    std::filesystem::rename(outside + "/" + name, served_->path(name));
    std::filesystem::remove(outside);
  }
  for (; way.size() > 1; way.pop_back()) {
    EXPECT_EQ(nfs().NFSPROC3_RMDIR({{way[way.size() - 2], name}})->status(), nfsstat3::NFS3_OK);
  }
}

}  // namespace
}  // namespace nfs3
