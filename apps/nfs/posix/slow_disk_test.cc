// Changes, and data, on a disk that is slow or fails.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>

#include "nfs/posix/disk_for_test.h"
#include "nfs/posix/file_system.h"

namespace nfs::posix {
namespace {

namespace fs = std::filesystem;
using nfs3::nfsstat3;
using nfs3::stable_how;

constexpr std::chrono::seconds kBound{20};

struct AsItIs final : HandleMaker {
  nfs3::nfs_fh3 seal(std::span<const std::byte> inner) const override {
    return {{inner.begin(), inner.end()}};
  }
};

class SlowDisk : public testing::Test {
 protected:
  SlowDisk() {
    std::string name = (fs::temp_directory_path() / "slow-disk-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    for (const char* const each : {"one", "two"}) std::ofstream(folder_ / each) << "x";
    std::string why;
    Options options;
    options.workers = 4;
    files_ = std::move(*open_directory(folder_, options, maker_, why));
    root_.data = files_->root();
  }
  ~SlowDisk() override {
    DiskForTest::is_slow = false;
    DiskForTest::sync_error = 0;
    DiskForTest::write_error = 0;
    EXPECT_TRUE(files_->stop(std::chrono::steady_clock::now() + kBound));
    files_.reset();
    fs::remove_all(folder_);
  }
  template <std::uint32_t kNumber>
  using Results = std::future<typename Procedure<kNumber>::Results>;
  template <std::uint32_t kNumber>
  Results<kNumber> begin(typename Procedure<kNumber>::Args args) {
    using Kind = typename Procedure<kNumber>::Results;
    auto ended = std::make_shared<std::promise<Kind>>();
    auto results = ended->get_future();
    files_->start(RequestOf<kNumber>{
        {}, std::move(args), {}, [ended](Kind kind) { ended->set_value(std::move(kind)); }});
    return results;
  }
  // Makes a call that has to end although the disk is slow.
  template <std::uint32_t kNumber>
  auto call(typename Procedure<kNumber>::Args args) {
    auto results = begin<kNumber>(std::move(args));
    if (results.wait_for(kBound) != std::future_status::ready) {
      ADD_FAILURE() << "it waits for the disk, or for a call that does";
      DiskForTest::is_slow = false;
    }
    return results.get();
  }
  // Begins a call, and returns when it waits for the disk.
  template <std::uint32_t kNumber>
  Results<kNumber> begin_on_slow_disk(typename Procedure<kNumber>::Args args) {
    DiskForTest::is_slow = true;
    auto results = begin<kNumber>(std::move(args));
    const auto until = std::chrono::steady_clock::now() + kBound;
    while (DiskForTest::waiting == 0 && std::chrono::steady_clock::now() < until) {
      std::this_thread::yield();
    }
    EXPECT_EQ(DiskForTest::waiting, 1);
    return results;
  }
  // Something that changes the directory, and fails without having changed it.
  nfsstat3 remove_what_is_not_there() {
    return call<nfs3::NFSPROC3_REMOVE>({{root_, "not-there"}}).status();
  }
  nfs3::nfs_fh3 handle_of(const char* name) {
    return call<nfs3::NFSPROC3_LOOKUP>({{root_, name}}).resok()->object;
  }
  nfs3::WRITE3res write(const nfs3::nfs_fh3& file, stable_how stable) {
    return call<nfs3::NFSPROC3_WRITE>({file, 0, 1, stable, std::as_bytes(std::span("y", 1))});
  }
  nfs3::writeverf3 verifier() {
    return write(handle_of("one"), stable_how::UNSTABLE).resok()->verf;
  }

  const AsItIs maker_;
  fs::path folder_;
  std::unique_ptr<FileSystem> files_;
  nfs3::nfs_fh3 root_;
};

TEST_F(SlowDisk, LeavesADirectoryToOthersWhileADirectoryInItIsMade) {
  auto made = begin_on_slow_disk<nfs3::NFSPROC3_MKDIR>({{root_, "new"}, {}});
  EXPECT_EQ(remove_what_is_not_there(), nfsstat3::NFS3ERR_NOENT);
  fs::create_directory(folder_ / "of-another");
  DiskForTest::is_slow = false;
  const auto results = made.get();
  ASSERT_EQ(results.status(), nfsstat3::NFS3_OK);
  const auto& wcc = results.resok()->dir_wcc;
  struct stat now {};
  ASSERT_EQ(::stat(folder_.c_str(), &now), 0);
  EXPECT_LT(wcc.after.attributes()->nlink, now.st_nlink)
      << "a change of somebody else is not the client's own";
}

TEST_F(SlowDisk, LeavesADirectoryToOthersWhileANameIsTakenAway) {
  auto removed = begin_on_slow_disk<nfs3::NFSPROC3_REMOVE>({{root_, "one"}});
  EXPECT_EQ(remove_what_is_not_there(), nfsstat3::NFS3ERR_NOENT);
  DiskForTest::is_slow = false;
  EXPECT_EQ(removed.get().status(), nfsstat3::NFS3_OK);
}

TEST_F(SlowDisk, LeavesADirectoryToOthersWhileAFileIsRenamed) {
  auto renamed = begin_on_slow_disk<nfs3::NFSPROC3_RENAME>({{root_, "one"}, {root_, "three"}});
  EXPECT_EQ(remove_what_is_not_there(), nfsstat3::NFS3ERR_NOENT);
  DiskForTest::is_slow = false;
  EXPECT_EQ(renamed.get().status(), nfsstat3::NFS3_OK);
}

TEST_F(SlowDisk, LeavesADirectoryToOthersWhileAFileGetsAnotherName) {
  auto linked = begin_on_slow_disk<nfs3::NFSPROC3_LINK>({handle_of("one"), {root_, "three"}});
  EXPECT_EQ(remove_what_is_not_there(), nfsstat3::NFS3ERR_NOENT);
  DiskForTest::is_slow = false;
  EXPECT_EQ(linked.get().status(), nfsstat3::NFS3_OK);
}

TEST_F(SlowDisk, LeavesAFileToOthersWhileItsModeIsSet) {
  nfs3::sattr3 mode;
  mode.mode.set_mode(0600);
  const nfs3::nfs_fh3 file = handle_of("one");
  auto set = begin_on_slow_disk<nfs3::NFSPROC3_SETATTR>({file, mode, {}});
  nfs3::sattrguard3 guard;
  guard.set_obj_ctime({1, 1});
  EXPECT_EQ(call<nfs3::NFSPROC3_SETATTR>({file, mode, guard}).status(), nfsstat3::NFS3ERR_NOT_SYNC);
  DiskForTest::is_slow = false;
  EXPECT_EQ(set.get().status(), nfsstat3::NFS3_OK);
}

// There are 64 locks of directories and of attributes, so that some of the files share one.
TEST_F(SlowDisk, LeavesOtherFilesToOthersWhileOneIsCommitted) {
  auto committed = begin_on_slow_disk<nfs3::NFSPROC3_COMMIT>({handle_of("one"), 0, 0});
  nfs3::sattrguard3 guard;
  guard.set_obj_ctime({1, 1});
  for (int i = 0; i < 200; ++i) {
    const std::string name = std::to_string(i);
    std::ofstream(folder_ / name) << "x";
    const auto status = call<nfs3::NFSPROC3_SETATTR>({handle_of(name.c_str()), {}, guard}).status();
    ASSERT_EQ(status, nfsstat3::NFS3ERR_NOT_SYNC);
  }
  DiskForTest::is_slow = false;
  EXPECT_EQ(committed.get().status(), nfsstat3::NFS3_OK);
}

class FailingDisk : public SlowDisk {};

TEST_F(FailingDisk, LosesWhatWasNotCommittedWhenItFailsToSync) {
  const nfs3::nfs_fh3 file = handle_of("two");
  auto last = verifier();
  const auto expect_changed = [&](const char* after) {
    DiskForTest::sync_error = 0;
    const auto now = verifier();
    EXPECT_NE(now, last) << after;
    last = now;
  };
  DiskForTest::sync_error = EIO;
  EXPECT_EQ(call<nfs3::NFSPROC3_COMMIT>({file, 0, 0}).status(), nfsstat3::NFS3ERR_IO);
  expect_changed("a COMMIT");
  for (const int error : {EIO, ENOSPC}) {
    DiskForTest::sync_error = error;
    EXPECT_NE(write(file, stable_how::FILE_SYNC).status(), nfsstat3::NFS3_OK);
    expect_changed("a stable WRITE");
  }
  DiskForTest::sync_error = EIO;
  EXPECT_EQ(call<nfs3::NFSPROC3_MKDIR>({{root_, "new"}, {}}).status(), nfsstat3::NFS3ERR_IO);
  expect_changed("a MKDIR");
  EXPECT_FALSE(fs::exists(folder_ / "new"));
}

// A client may meet its quota as often as it likes.
TEST_F(FailingDisk, KeepsTheVerifierWhenAWriteFailsForItself) {
  const nfs3::nfs_fh3 file = handle_of("two");
  const auto before = verifier();
  for (const int error : {EFBIG, ENOSPC, EDQUOT}) {
    DiskForTest::write_error = error;
    EXPECT_NE(write(file, stable_how::DATA_SYNC).status(), nfsstat3::NFS3_OK);
    DiskForTest::write_error = 0;
    EXPECT_EQ(verifier(), before) << error;
  }
}

}  // namespace
}  // namespace nfs::posix
