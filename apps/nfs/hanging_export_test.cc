// An export whose storage does not answer, beside another one.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nfs/exporter.h"

namespace nfs {
namespace {

namespace fs = std::filesystem;
using nfs3::nfsstat3;

constexpr std::chrono::seconds kBound{20};
constexpr std::size_t kWorkers = 2;

// Two exports, and the threads of the first wait in calls as for a disk.
class HangingExport : public ::testing::Test {
 protected:
  HangingExport() {
    std::string name = (fs::temp_directory_path() / "nfs-hanging-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    top_ = name;
    ExporterOptions options;
    for (const char* const each : {"a", "b"}) {
      fs::create_directory(top_ / each);
      auto parsed = parse_export((top_ / each).string() + ":rw");
      EXPECT_TRUE(parsed) << parsed.error();
      options.exports.push_back(std::move(*parsed));
    }
    options.workers = kWorkers;
    options.patience = std::chrono::seconds(1);
    auto opened = Exporter::open(std::move(options));
    EXPECT_TRUE(opened) << opened.error();
    exporter_ = std::move(*opened);
    for (std::size_t i = 0; i < kWorkers; ++i) {
      auto begun = std::make_shared<std::promise<void>>();
      std::future<void> has_begun = begun->get_future();
      look_up(0, [this, begun](nfsstat3 /*status*/) {
        begun->set_value();
        over_.wait();
      });
      EXPECT_EQ(has_begun.wait_for(kBound), std::future_status::ready);
    }
  }
  ~HangingExport() override {
    end_.set_value();
    EXPECT_TRUE(exporter_->stop());
    exporter_.reset();
    fs::remove_all(top_);
  }
  FileSystem& files(std::size_t index) const {
    return *exporter_->exports().read(
        [index](const ExportList& list) { return list.all()[index].served->files.get(); });
  }
  // Asks for "..", which no thread but the back end's own answers.
  template <class Function>
  void look_up(std::size_t index, Function done) const {
    files(index).start(RequestOf<nfs3::NFSPROC3_LOOKUP>{
        .args = {{{files(index).root()}, ".."}},
        .done = [done = std::move(done)](const nfs3::LOOKUP3res& results) {
          done(results.status());
        }});
  }
  std::future<nfsstat3> look_up(std::size_t index) const {
    auto status = std::make_shared<std::promise<nfsstat3>>();
    look_up(index, [status](nfsstat3 result) { status->set_value(result); });
    return status->get_future();
  }

  fs::path top_;
  std::promise<void> end_;
  const std::shared_future<void> over_ = end_.get_future().share();
  std::unique_ptr<Exporter> exporter_;
};

TEST_F(HangingExport, TakesNoThreadOfAnother) {
  auto there = look_up(1);
  ASSERT_EQ(there.wait_for(kBound), std::future_status::ready);
  EXPECT_EQ(there.get(), nfsstat3::NFS3_OK);
}

TEST_F(HangingExport, IsNotReadyAndTheOtherIs) {
  const std::string why = exporter_->readiness().why_not(std::chrono::milliseconds(500));
  EXPECT_NE(why.find((top_ / "a").string() + " has not answered"), std::string::npos) << why;
  EXPECT_EQ(why.find((top_ / "b").string()), std::string::npos) << why;
}

TEST_F(HangingExport, TurnsWaitingCallsAwayAfterAWhile) {
  auto here = look_up(0);
  ASSERT_EQ(here.wait_for(kBound), std::future_status::ready)
      << "what waits keeps memory of the server";
  EXPECT_EQ(here.get(), nfsstat3::NFS3ERR_JUKEBOX);
}

TEST_F(HangingExport, EndsBehindADeadlineOfItsCaller) {
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_FALSE(exporter_->stop(begun - std::chrono::hours(1))) << "its calls still wait";
  EXPECT_LT(std::chrono::steady_clock::now() - begun, kBound) << "its own patience is a minute";
}

}  // namespace
}  // namespace nfs
