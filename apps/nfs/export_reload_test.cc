#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nfs/exporter.h"
#include "nfs/posix/disk_for_test.h"

// The exports of a server that runs are replaced.
namespace nfs {
namespace {

namespace fs = std::filesystem;

class ExportReload : public ::testing::Test {
 protected:
  ExportReload() {
    std::string name = (fs::temp_directory_path() / "nfs-reload-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    top_ = name;
    for (const char* const each : {"a", "b"}) fs::create_directory(top_ / each);
    ExporterOptions options;
    options.exports = {made("a:rw,name=/a"), made("b:ro,name=/b")};
    options.handles = posix::HandleKind::kTable;
    options.open_files_max = kOpenFilesMax;
    auto opened = Exporter::open(std::move(options));
    EXPECT_TRUE(opened) << opened.error();
    exporter_ = std::move(*opened);
  }
  ~ExportReload() override {
    EXPECT_TRUE(exporter_->stop());
    exporter_.reset();
    fs::remove_all(top_);
  }

  Export made(const std::string& text) const {
    auto parsed = parse_export((top_ / text).string());
    EXPECT_TRUE(parsed) << parsed.error();
    return *parsed;
  }
  template <class Function>
  auto read(Function&& use) const {
    return exporter_->exports().read(use);
  }
  ServedExport* first() const {
    return read([](const ExportList& list) { return list.all().front().served; });
  }
  // Returns the name by which a call finds the export; empty: it is stale.
  std::string name_of(ExportId id) const {
    return read([id](const ExportList& list) {
      const ExportList::Entry* const entry = list.find(id);
      return entry != nullptr ? entry->rules.name : std::string();
    });
  }
  std::vector<std::string> names() const {
    return read([](const ExportList& list) {
      std::vector<std::string> all;
      for (const ExportList::Entry& each : list.all()) all.push_back(each.rules.name);
      return all;
    });
  }
  bool is_read_only(const std::string& name) const {
    return read([&name](const ExportList& list) {
      std::string_view rest;
      return list.find_by_path(name, rest)->rules.rules_for("192.0.2.1:900")->is_read_only;
    });
  }
  std::string refusal(std::vector<Export> exports) {
    auto set = exporter_->set_exports(std::move(exports));
    return set ? "" : set.error();
  }

  // Looks at more files of this export than it may keep open.
  void use_files_of(const ServedExport& served, const std::string& directory) const {
    for (std::size_t i = 0; i < 2 * kOpenFilesMax; ++i) {
      const std::string name = std::to_string(i);
      std::ofstream(top_ / directory / name) << "x";
      std::promise<nfs3::nfsstat3> ended;
      served.files->start(RequestOf<nfs3::NFSPROC3_LOOKUP>{
          {}, {{{served.files->root()}, name}}, {}, [&ended](const nfs3::LOOKUP3res& results) {
            ended.set_value(results.status());
          }});
      EXPECT_EQ(ended.get_future().get(), nfs3::nfsstat3::NFS3_OK);
    }
  }
  // Waits until this share of files is open, of which the directory itself is one: what loses its
  // room is closed a moment later.
  void expect_open_in(const std::string& directory, std::size_t share) const {
    const std::size_t count = share > 0 ? share - 1 : 0;
    const std::string below = (top_ / directory).string() + "/";
    const auto open = [&below] {
      std::size_t found = 0;
      for (const auto& each : fs::directory_iterator("/proc/self/fd")) {
        std::error_code error;  // descriptors of workers come and go
        found += fs::read_symlink(each.path(), error).string().starts_with(below) ? 1U : 0U;
      }
      return found;
    };
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (open() != count && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    EXPECT_EQ(open(), count) << directory;
  }

  static constexpr std::size_t kOpenFilesMax = 96;
  int directories_ = 0;  // made by tests
  fs::path top_;
  std::unique_ptr<Exporter> exporter_;
};

TEST_F(ExportReload, OpenFilesAreSharedAmongTheExportsOfTheNewList) {
  const ServedExport& a = *first();
  use_files_of(a, "a");
  expect_open_in("a", kOpenFilesMax / 2);
  fs::create_directory(top_ / "c");
  ASSERT_EQ(refusal({made("a:rw,name=/a"), made("b:ro,name=/b"), made("c:rw,name=/c")}), "");
  expect_open_in("a", kOpenFilesMax / 3);
  ASSERT_EQ(refusal({made("a:rw,name=/a")}), "");
  use_files_of(a, "a");
  expect_open_in("a", kOpenFilesMax);
}

TEST_F(ExportReload, ExportThatIsGoneKeepsNoFileOpenUntilItComesBack) {
  const ServedExport& a = *first();
  use_files_of(a, "a");
  ASSERT_EQ(refusal({made("b:ro,name=/b")}), "");
  expect_open_in("a", 0);
  ASSERT_EQ(refusal({made("a:rw,name=/a"), made("b:ro,name=/b")}), "");
  use_files_of(a, "a");
  expect_open_in("a", kOpenFilesMax / 2);
}

TEST_F(ExportReload, ListThatCannotBeServedLeavesOpenFilesAsTheyAre) {
  use_files_of(*first(), "a");
  EXPECT_NE(refusal({made("a:rw,name=/a"), made("b:ro,name=/b"), made("none:rw")}), "");
  expect_open_in("a", kOpenFilesMax / 2);
}

TEST_F(ExportReload, ListThatCannotBeServedBindsNoNames) {
  fs::create_directory(top_ / "c");
  EXPECT_FALSE(
      exporter_->set_exports({made("a:rw,name=/a"), made("b:rw,name=/y"), made("none:rw")}));
  EXPECT_EQ(names(), (std::vector<std::string>{"/a", "/b"}));
  const auto again = exporter_->set_exports({made("a:rw,name=/a"), made("c:rw,name=/y")});
  EXPECT_TRUE(again) << again.error();
  const auto twice = exporter_->set_exports({made("a:rw,name=/a"), made("b:rw,name=/a")});
  ASSERT_FALSE(twice);
  EXPECT_NE(twice.error().find("another name"), std::string::npos) << twice.error();
}

TEST_F(ExportReload, RulesFollowAndTheHandlesStay) {
  const ExportId id = first()->id;
  ASSERT_EQ(refusal({made("a:ro,name=/a"), made("b:rw,name=/b")}), "");
  EXPECT_TRUE(is_read_only("/a"));
  EXPECT_FALSE(is_read_only("/b"));
  EXPECT_EQ(name_of(id), "/a");
}

TEST_F(ExportReload, CallUnderWayKeepsTheFilesOfAnExportThatIsGone) {
  ServedExport* const served = first();
  ASSERT_EQ(refusal({made("b:rw,name=/b")}), "");
  EXPECT_EQ(served->made.name, "/a");
  EXPECT_NE(served->files, nullptr);
}

TEST_F(ExportReload, ExportThatIsGoneIsStaleAndComesBackWithItsHandles) {
  ServedExport* const served = first();
  ASSERT_EQ(refusal({made("b:ro,name=/b")}), "");
  EXPECT_EQ(name_of(served->id), "");
  EXPECT_EQ(names(), std::vector<std::string>{"/b"});
  ASSERT_EQ(refusal({made("a:rw,name=/a"), made("b:ro,name=/b")}), "");
  EXPECT_EQ(name_of(served->id), "/a");
  EXPECT_EQ(first(), served) << "the directory was not opened twice";
}

// A file system may have been mounted there: what is written goes elsewhere than one would expect.
TEST_F(ExportReload, DirectoryThatHasAnotherInItsPlaceIsNamed) {
  const auto notes = [this] {
    return exporter_->set_exports({made("a:rw,name=/a"), made("b:ro,name=/b")}).value();
  };
  EXPECT_EQ(notes(), std::vector<std::string>());
  fs::rename(top_ / "a", top_ / "elsewhere");
  EXPECT_EQ(notes(), std::vector<std::string>()) << "nothing is in its place";
  fs::create_directory(top_ / "a");
  const std::vector<std::string> named = notes();
  ASSERT_EQ(named.size(), 1U);
  EXPECT_EQ(named[0].find("/a: " + (top_ / "a").string() + " is another directory now"), 0U)
      << named[0];
}

TEST_F(ExportReload, MistakeChangesNothing) {
  EXPECT_NE(refusal({made("b:rw,name=/b"), made("nowhere:rw,name=/c")}).find("nowhere"),
            std::string::npos);
  EXPECT_NE(refusal({made("a:rw,name=/a"), made("b:rw,name=/a")}).find("'/a' is exported already"),
            std::string::npos);
  EXPECT_NE(refusal({made("b:rw,name=/a")}).find("change with a restart"), std::string::npos)
      << "tables of handles go by names";
  EXPECT_EQ(names(), (std::vector<std::string>{"/a", "/b"}));
  EXPECT_TRUE(is_read_only("/b"));
}

TEST_F(ExportReload, ReadersSeeTheOldListOrTheNewOne) {
  ASSERT_EQ(refusal({made("a:rw,name=/a"), made("b:rw,name=/b")}), "");
  std::atomic<bool> ends = false;
  std::thread reader([&] {
    while (!ends) {
      read([](const ExportList& list) {
        ASSERT_EQ(list.all().size(), 2U);
        EXPECT_EQ(list.all()[0].rules.clients.front().rules.is_read_only,
                  list.all()[1].rules.clients.front().rules.is_read_only);
      });
    }
  });
  for (int i = 0; i < 100; ++i) {
    const std::string rule = i % 2 == 0 ? "ro" : "rw";
    EXPECT_EQ(refusal({made("a:" + rule + ",name=/a"), made("b:" + rule + ",name=/b")}), "");
  }
  ends = true;
  reader.join();
}

// "sync" of an export is more than the option for all of them.
TEST_F(ExportReload, ChangesAreOnTheDiskWhereTheExportOrTheServerSaysSo) {
  const auto syncs_of = [this](const char* text, bool is_async) {
    ExporterOptions options;
    options.exports = {made(text)};
    options.is_async = is_async;
    options.handles = posix::HandleKind::kTable;
    auto opened = Exporter::open(std::move(options));
    EXPECT_TRUE(opened) << opened.error();
    FileSystem& files = *(*opened)
                             ->exports()
                             .read([](const ExportList& list) { return list.all().front().served; })
                             ->files;
    const std::string name = std::string("new") + std::to_string(++directories_);
    posix::DiskForTest::syncs = 0;
    std::promise<nfs3::nfsstat3> ended;
    files.start(RequestOf<nfs3::NFSPROC3_MKDIR>{
        {}, {{{files.root()}, name}, {}}, {}, [&ended](const nfs3::MKDIR3res& results) {
          ended.set_value(results.status());
        }});
    EXPECT_EQ(ended.get_future().get(), nfs3::nfsstat3::NFS3_OK);
    const int syncs = posix::DiskForTest::syncs;
    EXPECT_TRUE((*opened)->stop());
    return syncs;
  };
  EXPECT_GT(syncs_of("b:rw,name=/b", false), 0);
  EXPECT_EQ(syncs_of("b:rw,name=/b", true), 0);
  EXPECT_GT(syncs_of("b:rw,sync,name=/b", true), 0);
}

}  // namespace
}  // namespace nfs
