// Changes, and data, on a disk that is slow, fails or is full, and where descriptors run out.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
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

#include "nfs/file_size_limit_for_test.h"
#include "nfs/posix/disk_for_test.h"
#include "nfs/posix/file_system.h"
#include "nfs/status_text.h"

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
  explicit SlowDisk(HandleKind kind = HandleKind::kAny) {
    std::string name = (fs::temp_directory_path() / "slow-disk-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    for (const char* const each : {"one", "two"}) std::ofstream(folder_ / each) << "x";
    std::string why;
    Options options;
    options.workers = 4;
    options.handles = kind;
    if (kind == HandleKind::kTable) {
      fs::create_directory(state());
      options.table_path = state() / "table";
    }
    files_ = std::move(*open_directory(folder_, options, maker_, why));
    root_.data = files_->root();
  }
  ~SlowDisk() override {
    DiskForTest::is_slow = false;
    DiskForTest::sync_error = 0;
    DiskForTest::failing = 0;
    DiskForTest::write_error = 0;
    EXPECT_TRUE(files_->stop(std::chrono::steady_clock::now() + kBound));
    files_.reset();
    fs::remove_all(folder_);
    fs::remove_all(state());
  }
  fs::path state() const { return folder_.string() + "-state"; }
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

// The kernel tells an error of writing back to those that have the file open.
TEST_F(FailingDisk, LosesNothingSilentlyOfAFileThatIsClosedBeforeItsCommit) {
  const nfs3::nfs_fh3 file = handle_of("two");
  const auto before = write(file, stable_how::UNSTABLE).resok()->verf;
  DiskForTest::sync_error = EIO;
  files_->set_open_files_max(0);
  const auto until = std::chrono::steady_clock::now() + kBound;
  const auto has_changed = [&] {
    // A worker runs it, and syncs behind its answer what is to go.
    (void)remove_what_is_not_there();
    // Nothing is written, but the verifier is in the answer.
    const auto nothing = call<nfs3::NFSPROC3_WRITE>({file, 0, 0, stable_how::UNSTABLE, {}});
    return nothing.resok()->verf != before;
  };
  bool is_told = has_changed();
  while (!is_told && std::chrono::steady_clock::now() < until) is_told = has_changed();
  EXPECT_TRUE(is_told) << "its COMMIT would succeed with the old verifier";
}

TEST_F(FailingDisk, ReportsARenameOfWhichOneDirectoryIsNotOnTheDisk) {
  for (const char* const each : {"from", "to"}) fs::create_directory(folder_ / each);
  for (const char* const failing : {"from", "to"}) {
    std::ofstream(folder_ / "from/file") << "x";
    const nfs3::RENAME3args args{{handle_of("from"), "file"}, {handle_of("to"), "file"}};
    struct stat status {};
    ASSERT_EQ(::stat((folder_ / failing).c_str(), &status), 0);
    DiskForTest::failing = status.st_ino;
    DiskForTest::sync_error = EIO;
    EXPECT_EQ(call<nfs3::NFSPROC3_RENAME>(args).status(), nfsstat3::NFS3ERR_IO) << failing;
    DiskForTest::sync_error = 0;
  }
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

// Leaves this process so many descriptors, while it lives.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(unsigned left) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    int first = 0;
    for (unsigned free = 0;; ++first) {
      if (::fcntl(first, F_GETFD) < 0 && free++ == left) break;
    }
    const rlimit lower{static_cast<rlim_t>(first), before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &lower), 0);
  }
  ~DescriptorLimit() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;

 private:
  rlimit before_{};
};

class FewDescriptors : public SlowDisk {
 protected:
  // Makes the call in a new directory, with more and more descriptors, until it succeeds. One that
  // has failed has changed nothing: `is_done` says whether it has.
  template <std::uint32_t kNumber, class ArgsIn, class IsDone>
  void expect_nothing_done_unless_it_succeeds(const ArgsIn& args_in, const IsDone& is_done) {
    constexpr unsigned kMost = 12;
    unsigned refused = 0;
    const auto made = [&](const std::string& name) {
      fs::create_directories(folder_ / name / "folder");
      std::ofstream(folder_ / name / "file") << "x";
      return args_in(handle_of(name.c_str()));
    };
    // The sanitizer of virtual calls needs descriptors the first time that it sees a class.
    const auto with_many = made(std::to_string(kNumber));
    DiskForTest::syncs = 0;
    (void)call<kNumber>(with_many);
    const int syncs = DiskForTest::syncs;
    for (unsigned left = 0; left <= kMost; ++left) {
      const std::string name = std::to_string(kNumber) + "-" + std::to_string(left);
      const fs::path directory = folder_ / name;
      const auto args = made(name);
      nfsstat3 status{};
      DiskForTest::syncs = 0;
      {
        const DescriptorLimit limit(left);
        status = call<kNumber>(args).status();
      }
      EXPECT_EQ(is_done(directory), status == nfsstat3::NFS3_OK)
          << "procedure " << kNumber << ", " << left << " left: " << to_text(status);
      if (status == nfsstat3::NFS3_OK) {
        EXPECT_EQ(DiskForTest::syncs, syncs) << "procedure " << kNumber << ", " << left << " left";
        break;
      }
      EXPECT_EQ(status, nfsstat3::NFS3ERR_JUKEBOX);
      ++refused;
      EXPECT_LT(left, kMost) << "it never succeeds";
    }
    EXPECT_GT(refused, 0U) << "procedure " << kNumber;
  }
  // Returns whether a directory has a name.
  static auto has(const char* name) {
    return [name](const fs::path& directory) {
      return fs::exists(fs::symlink_status(directory / name));
    };
  }
  static auto lacks(const char* name) {
    return [name](const fs::path& directory) { return !fs::exists(directory / name); };
  }
};

TEST_F(FewDescriptors, MakeNothingOfWhichTheClientIsNotTold) {
  expect_nothing_done_unless_it_succeeds<nfs3::NFSPROC3_MKDIR>(
      [](const auto& directory) {
        return nfs3::MKDIR3args{{directory, "new"}, {}};
      },
      has("new"));
  expect_nothing_done_unless_it_succeeds<nfs3::NFSPROC3_SYMLINK>(
      [](const auto& directory) {
        return nfs3::SYMLINK3args{{directory, "new"}, {{}, "target"}};
      },
      has("new"));
  expect_nothing_done_unless_it_succeeds<nfs3::NFSPROC3_CREATE>(
      [](const auto& directory) {
        nfs3::createhow3 how;
        how.set_obj_attributes(nfs3::createmode3::GUARDED, nfs3::sattr3());
        return nfs3::CREATE3args{{directory, "new"}, how};
      },
      has("new"));
  expect_nothing_done_unless_it_succeeds<nfs3::NFSPROC3_LINK>(
      [this](const auto& directory) {
        return nfs3::LINK3args{handle_of("one"), {directory, "new"}};
      },
      has("new"));
}

TEST_F(FewDescriptors, TakeNothingAwayOfWhichTheClientIsNotTold) {
  expect_nothing_done_unless_it_succeeds<nfs3::NFSPROC3_REMOVE>(
      [](const auto& directory) {
        return nfs3::REMOVE3args{{directory, "file"}};
      },
      lacks("file"));
  expect_nothing_done_unless_it_succeeds<nfs3::NFSPROC3_RMDIR>(
      [](const auto& directory) {
        return nfs3::RMDIR3args{{directory, "folder"}};
      },
      lacks("folder"));
  expect_nothing_done_unless_it_succeeds<nfs3::NFSPROC3_RENAME>(
      [](const auto& directory) {
        return nfs3::RENAME3args{{directory, "file"}, {directory, "new"}};
      },
      has("new"));
}

TEST_F(FewDescriptors, SetNoAttributesOfWhichTheClientIsNotTold) {
  expect_nothing_done_unless_it_succeeds<nfs3::NFSPROC3_SETATTR>(
      [](const auto& directory) {
        nfs3::sattr3 mode;
        mode.mode.set_mode(0700);
        return nfs3::SETATTR3args{directory, mode, {}};
      },
      [](const fs::path& directory) {
        return fs::status(directory).permissions() == fs::perms::owner_all;
      });
}

class FullDiskOfHandles : public SlowDisk {
 protected:
  FullDiskOfHandles() : SlowDisk(HandleKind::kTable) {}
};

// The disk of the table has no room any more, that of the files has.
TEST_F(FullDiskOfHandles, MakesNothingThatHasNoHandle) {
  nfs3::createhow3 how;
  how.set_obj_attributes(nfs3::createmode3::GUARDED, nfs3::sattr3());
  std::uintmax_t size = 0;
  for (const auto& each : fs::directory_iterator(state())) size = std::max(size, each.file_size());
  const FileSizeLimit limit(size);
  unsigned refused = 0;
  for (int i = 0; i < 300; ++i) {
    const std::string name = "new-" + std::to_string(i);
    const nfsstat3 status = i % 2 == 0 ? call<nfs3::NFSPROC3_MKDIR>({{root_, name}, {}}).status()
                                       : call<nfs3::NFSPROC3_CREATE>({{root_, name}, how}).status();
    EXPECT_EQ(fs::exists(folder_ / name), status == nfsstat3::NFS3_OK) << name;
    refused += status == nfsstat3::NFS3_OK ? 0 : 1;
  }
  EXPECT_GT(refused, 0U);
}

}  // namespace
}  // namespace nfs::posix
