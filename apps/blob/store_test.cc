#include "blob/store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "blob/disk_for_test.h"
#include "blob/name.h"
#include "blob/sha256.h"

namespace blob {
namespace {

using Clock = std::chrono::steady_clock;
using rpcrdma::Bytes;

constexpr std::chrono::seconds kBound{20};

class StoreTest : public testing::Test {
 protected:
  StoreTest() {
    std::string pattern = testing::TempDir() + "rpcrdma-store.XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    EXPECT_EQ(store().open(), blob_status::BLOB_OK);
  }
  ~StoreTest() override { std::filesystem::remove_all(directory_); }

  // A new one each time: nothing is kept but what is in the directory.
  Store store() const { return Store(directory_, options_); }
  // Its clock shows what the files have, and what was added.
  void pass(std::chrono::milliseconds time) {
    passed_ += time;
    options_.now = [passed = passed_] {
      return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()) + passed;
    };
  }
  // The names of all blobs, sorted.
  std::vector<std::string> listed() {
    std::vector<std::string> names;
    for (const auto& each : store().list(0, 1U << 20U).entries) names.push_back(each.name);
    std::ranges::sort(names);
    return names;
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& each : std::filesystem::recursive_directory_iterator(directory_)) {
      names.push_back(std::filesystem::relative(each.path(), directory_).string());
    }
    std::ranges::sort(names);
    return names;
  }

  static std::vector<std::byte> data(std::size_t size) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
    return bytes;
  }
  static blob_sum sum_of(Bytes bytes) {
    Sha256Stream stream;
    stream.add(bytes);
    return stream.finish();
  }
  blob_status put(const blob_id& id, std::string_view name, Bytes bytes) {
    if (const blob_status status = store().put_begin(id, name, bytes.size());
        status != blob_status::BLOB_OK) {
      return status;
    }
    if (const blob_status status = store().put_data(id, 0, bytes); status != blob_status::BLOB_OK)
      return status;
    return store().put_commit(id, sum_of(bytes));
  }
  // Returns that of the file which takes the data of `id_`.
  std::uint64_t inode_of_upload() const {
    struct stat status {};
    EXPECT_EQ(::stat((directory_ + "/.uploads/" + to_hex(id_) + ".data").c_str(), &status), 0);
    return status.st_ino;
  }
  // Returns false where nothing has come to wait for the disk that hangs.
  static bool is_waiting() {
    for (const auto begin = Clock::now(); DiskForTest::waiting == 0;) {
      if (Clock::now() - begin > kBound) return false;
      std::this_thread::yield();
    }
    return true;
  }
  bool exists(const char* name) const { return std::filesystem::exists(directory_ + "/" + name); }

  std::string directory_;
  StoreOptions options_;
  std::chrono::milliseconds passed_{};
  const blob_id id_{std::byte{1}, std::byte{2}};
  const blob_id other_id_{std::byte{9}};
};

TEST_F(StoreTest, BlobAppearsOnlyWhenItIsCommitted) {
  const auto bytes = data(1000);
  ASSERT_EQ(store().put_begin(id_, "name", 1000), blob_status::BLOB_OK);
  ASSERT_EQ(store().put_data(id_, 0, bytes), blob_status::BLOB_OK);
  EXPECT_FALSE(exists("name"));
  EXPECT_EQ(store().stat("name").error(), blob_status::BLOB_NO_SUCH_BLOB);
  ASSERT_EQ(store().put_commit(id_, sum_of(bytes)), blob_status::BLOB_OK);
  EXPECT_EQ(store().stat("name")->size, 1000U);
  EXPECT_EQ(store().sum("name").value(), sum_of(bytes));
}

TEST_F(StoreTest, UploadGoesOnAfterARestart) {
  const auto bytes = data(10000);
  ASSERT_EQ(store().put_begin(id_, "name", bytes.size()), blob_status::BLOB_OK);
  ASSERT_EQ(store().put_data(id_, 5000, Bytes(bytes).subspan(5000)), blob_status::BLOB_OK);
  Store restarted(directory_);
  ASSERT_EQ(restarted.open(), blob_status::BLOB_OK);
  ASSERT_EQ(restarted.put_data(id_, 0, Bytes(bytes).first(5000)), blob_status::BLOB_OK);
  ASSERT_EQ(restarted.put_commit(id_, sum_of(bytes)), blob_status::BLOB_OK);
  EXPECT_EQ(restarted.sum("name").value(), sum_of(bytes));
}

TEST_F(StoreTest, EveryOperationMayBeRepeatedWithTheSameOutcome) {
  const auto bytes = data(5000);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(store().put_begin(id_, "name", bytes.size()), blob_status::BLOB_OK);
    EXPECT_EQ(store().put_data(id_, 0, bytes), blob_status::BLOB_OK);
    EXPECT_EQ(store().put_commit(id_, sum_of(bytes)), blob_status::BLOB_OK);
    EXPECT_EQ(store().sum("name").value(), sum_of(bytes));
  }
  for (int round = 0; round < 2; ++round) EXPECT_EQ(store().remove("name"), blob_status::BLOB_OK);
}

TEST_F(StoreTest, CommitThatWasCutOffBehindTheRenamingCanBeMadeAgain) {
  const auto bytes = data(1000);
  ASSERT_EQ(store().put_begin(id_, "name", 1000), blob_status::BLOB_OK);
  ASSERT_EQ(store().put_data(id_, 0, bytes), blob_status::BLOB_OK);
  for (const auto& file : std::filesystem::directory_iterator(directory_ + "/.uploads")) {
    if (file.path().extension() == ".data") {
      std::filesystem::rename(file.path(), directory_ + "/name");
      break;
    }
  }
  ASSERT_TRUE(exists("name"));
  EXPECT_EQ(store().put_commit(id_, sum_of(data(999))), blob_status::BLOB_INCOMPLETE);
  EXPECT_EQ(store().put_commit(id_, sum_of(bytes)), blob_status::BLOB_OK);
  EXPECT_EQ(store().put_commit(id_, sum_of(bytes)), blob_status::BLOB_OK);
  EXPECT_EQ(store().sum("name").value(), sum_of(bytes));
}

TEST_F(StoreTest, WrongSumLeavesTheOldBlobAndForgetsTheUpload) {
  ASSERT_EQ(put(id_, "name", data(100)), blob_status::BLOB_OK);
  const auto bytes = data(200);
  ASSERT_EQ(store().put_begin(other_id_, "name", 200), blob_status::BLOB_OK);
  ASSERT_EQ(store().put_data(other_id_, 0, bytes), blob_status::BLOB_OK);
  EXPECT_EQ(store().put_commit(other_id_, sum_of(data(199))), blob_status::BLOB_SUM_MISMATCH);
  EXPECT_EQ(store().stat("name")->size, 100U);
  EXPECT_EQ(store().put_commit(other_id_, sum_of(bytes)), blob_status::BLOB_NO_SUCH_UPLOAD);
}

TEST_F(StoreTest, IncompleteUploadIsNotCommitted) {
  ASSERT_EQ(store().put_begin(id_, "name", 200), blob_status::BLOB_OK);
  ASSERT_EQ(store().put_data(id_, 0, data(100)), blob_status::BLOB_OK);
  EXPECT_EQ(store().put_commit(id_, sum_of(data(100))), blob_status::BLOB_INCOMPLETE);
  EXPECT_FALSE(exists("name"));
}

TEST_F(StoreTest, DataBeyondTheAnnouncedSizeIsRefused) {
  ASSERT_EQ(store().put_begin(id_, "name", 100), blob_status::BLOB_OK);
  EXPECT_EQ(store().put_data(id_, 1, data(100)), blob_status::BLOB_BAD_RANGE);
  EXPECT_EQ(store().put_data(id_, ~std::uint64_t{0}, data(2)), blob_status::BLOB_BAD_RANGE);
}

TEST_F(StoreTest, UploadIdIsForOneNameAndSize) {
  ASSERT_EQ(store().put_begin(id_, "name", 100), blob_status::BLOB_OK);
  EXPECT_EQ(store().put_begin(id_, "other", 100), blob_status::BLOB_CONFLICT);
  EXPECT_EQ(store().put_begin(id_, "name", 101), blob_status::BLOB_CONFLICT);
  EXPECT_EQ(store().put_data(other_id_, 0, data(1)), blob_status::BLOB_NO_SUCH_UPLOAD);
}

TEST_F(StoreTest, NamesThatLeaveTheDirectoryAreRefused) {
  for (const std::string_view name :
       {std::string_view(""), std::string_view("."), std::string_view(".."),
        std::string_view("a/b"), std::string_view("/etc/passwd"), std::string_view("../x"),
        std::string_view("a\0b", 3), std::string_view(".uploads")}) {
    EXPECT_EQ(store().put_begin(id_, name, 1), blob_status::BLOB_BAD_NAME);
    EXPECT_EQ(store().stat(name).error(), blob_status::BLOB_BAD_NAME);
    EXPECT_EQ(store().sum(name).error(), blob_status::BLOB_BAD_NAME);
    EXPECT_EQ(store().remove(name), blob_status::BLOB_BAD_NAME);
    std::array<std::byte, 4> room{};
    EXPECT_EQ(store().get(name, 0, room).error(), blob_status::BLOB_BAD_NAME);
  }
  EXPECT_FALSE(valid_name(std::string(256, 'x')));
  EXPECT_TRUE(valid_name(std::string(255, 'x')));
}

TEST_F(StoreTest, GetTellsTheEnd) {
  ASSERT_EQ(put(id_, "name", data(100)), blob_status::BLOB_OK);
  std::array<std::byte, 60> room{};
  auto got = store().get("name", 0, room);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->size, 60U);
  EXPECT_FALSE(got->end);
  got = store().get("name", 60, room);
  EXPECT_EQ(got->size, 40U);
  EXPECT_TRUE(got->end);
  got = store().get("name", 1000, room);
  EXPECT_EQ(got->size, 0U);
  EXPECT_TRUE(got->end);
}

// --- Uploads that do not become blobs ----------------------------------------------------------

constexpr std::chrono::minutes kIdleMax{10};

TEST_F(StoreTest, UploadThatNothingComesToIsForgotten) {
  ASSERT_EQ(store().put_begin(id_, "name", 1000), blob_status::BLOB_OK);
  ASSERT_EQ(store().put_data(id_, 0, data(500)), blob_status::BLOB_OK);
  pass(kIdleMax - std::chrono::seconds(30));
  store().expire();
  EXPECT_EQ(files().size(), 3U);
  pass(std::chrono::seconds(30));
  store().expire();
  EXPECT_EQ(files(), std::vector<std::string>{});
  EXPECT_EQ(store().put_data(id_, 0, data(500)), blob_status::BLOB_NO_SUCH_UPLOAD);
  EXPECT_EQ(put(other_id_, "name", data(10)), blob_status::BLOB_OK) << "others go on";
}

TEST_F(StoreTest, UploadThatGoesOnIsNot) {
  ASSERT_EQ(store().put_begin(id_, "name", 1000), blob_status::BLOB_OK);
  const std::string folder = directory_ + "/.uploads";
  const auto age = [&] {
    for (const auto& each : std::filesystem::directory_iterator(folder)) {
      std::filesystem::last_write_time(each, std::filesystem::last_write_time(each) - 2 * kIdleMax);
    }
  };
  for (const std::size_t size : {std::size_t{500}, std::size_t{0}}) {
    age();
    ASSERT_EQ(store().put_data(id_, 0, data(size)), blob_status::BLOB_OK);
    store().expire();
    EXPECT_EQ(files().size(), 3U) << "data of " << size << " bytes keeps it";
  }
}

TEST_F(StoreTest, OnlyTheBlobIsLeftOfAnUploadInTheEnd) {
  const auto bytes = data(1000);
  ASSERT_EQ(put(id_, "name", bytes), blob_status::BLOB_OK);
  pass(kIdleMax - std::chrono::seconds(30));
  store().expire();
  EXPECT_EQ(store().put_commit(id_, sum_of(bytes)), blob_status::BLOB_OK) << "may be repeated";
  pass(std::chrono::seconds(30));
  store().expire();
  EXPECT_EQ(files(), std::vector<std::string>{"name"});
}

TEST_F(StoreTest, UploadsOfBeforeAreForgottenAtTheStart) {
  ASSERT_EQ(store().put_begin(id_, "name", 1000), blob_status::BLOB_OK);
  pass(kIdleMax);
  EXPECT_EQ(store().open(), blob_status::BLOB_OK);
  EXPECT_EQ(files(), std::vector<std::string>{});
}

TEST_F(StoreTest, UploadThatTheDiskHasNoRoomForIsDropped) {
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  ASSERT_EQ(store().put_begin(id_, "name", 20'000), blob_status::BLOB_OK);
  ASSERT_EQ(store().put_data(id_, 0, data(5000)), blob_status::BLOB_OK);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{.rlim_cur = 10'000, .rlim_max = old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  EXPECT_EQ(store().put_data(id_, 5000, data(15'000)), blob_status::BLOB_NO_SPACE);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(files(), std::vector<std::string>{".uploads"});
  EXPECT_EQ(put(other_id_, "name", data(100)), blob_status::BLOB_OK);
}

TEST_F(StoreTest, UploadOfUnknownSizeEndsWhereItsSumSays) {
  const auto bytes = data(5000);
  ASSERT_EQ(store().put_begin(id_, "name", BLOB_SIZE_UNKNOWN), blob_status::BLOB_OK);
  ASSERT_EQ(store().put_data(id_, 0, Bytes(bytes).first(2000)), blob_status::BLOB_OK);
  ASSERT_EQ(store().put_data(id_, 2000, Bytes(bytes).subspan(2000)), blob_status::BLOB_OK);
  for (const std::uint64_t offset : {~std::uint64_t{0}, ~std::uint64_t{0} / 2}) {
    EXPECT_EQ(store().put_data(id_, offset, data(1)), blob_status::BLOB_BAD_RANGE);
  }
  EXPECT_EQ(store().put_commit(id_, sum_of(bytes)), blob_status::BLOB_OK);
}

TEST_F(StoreTest, CommitInProgressIsNotForgotten) {
  Store* store_in_use = nullptr;
  options_.sync = [&](int) {
    store_in_use->expire();  // as if the sum had taken an hour
    return true;
  };
  pass(std::chrono::hours(1));
  Store slow(directory_, options_);
  store_in_use = &slow;
  const auto bytes = data(1000);
  ASSERT_EQ(slow.put_begin(id_, "name", bytes.size()), blob_status::BLOB_OK);
  ASSERT_EQ(slow.put_data(id_, 0, bytes), blob_status::BLOB_OK);
  EXPECT_EQ(slow.put_commit(id_, sum_of(bytes)), blob_status::BLOB_OK);
  EXPECT_EQ(slow.sum("name").value(), sum_of(bytes));
}

TEST_F(StoreTest, CommitsOfOneUploadAtTheSameTimeAllSucceed) {
  const auto bytes = data(200'000);
  const blob_sum sum = sum_of(bytes);
  Store shared(directory_);
  for (int round = 0; round < 20; ++round) {
    const blob_id id{static_cast<std::byte>(round), std::byte{7}};
    ASSERT_EQ(shared.put_begin(id, "name", bytes.size()), blob_status::BLOB_OK);
    ASSERT_EQ(shared.put_data(id, 0, bytes), blob_status::BLOB_OK);
    const auto commit = [&] { return shared.put_commit(id, sum); };
    auto other = std::async(std::launch::async, commit);
    EXPECT_EQ(commit(), blob_status::BLOB_OK);
    EXPECT_EQ(other.get(), blob_status::BLOB_OK);
  }
}

// --- Uploads that are forgotten while others come ------------------------------------------------

TEST_F(StoreTest, PutBeginWaitsForNoExpireThatIsUnderWay) {
  ASSERT_EQ(store().put_begin(other_id_, "other", 100), blob_status::BLOB_OK);
  std::promise<void> begun, end;
  const std::shared_future<void> over = end.get_future().share();
  std::once_flag once;
  options_.now = [&] {
    std::call_once(once, [&] {
      begun.set_value();
      over.wait();
    });
    return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch());
  };
  Store shared(directory_, options_);
  auto expired = std::async(std::launch::async, [&] { shared.expire(); });
  begun.get_future().wait();
  auto answer = std::async(std::launch::async, [&] { return shared.put_begin(id_, "name", 100); });
  EXPECT_EQ(answer.wait_for(kBound), std::future_status::ready);
  end.set_value();
  EXPECT_EQ(answer.get(), blob_status::BLOB_OK);
  expired.get();
}

TEST_F(StoreTest, PutBeginHasItsDirectoryThoughExpireTakesItAway) {
  Store shared(directory_);
  ASSERT_FALSE(exists(".uploads"));
  int count = 0;
  DiskForTest::after_mkdir = [&] {
    if (++count < 5) shared.expire();
  };
  EXPECT_EQ(shared.put_begin(id_, "name", 100), blob_status::BLOB_OK);
  DiskForTest::after_mkdir = nullptr;
  EXPECT_EQ(count, 5);
}

TEST_F(StoreTest, UploadToWhichDataComesIsNotForgotten) {
  std::atomic<int> hours = 0;
  options_.now = [&] {
    return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()) +
           std::chrono::hours(hours);
  };
  Store shared(directory_, options_);
  const auto bytes = data(1000);
  ASSERT_EQ(shared.put_begin(id_, "name", bytes.size()), blob_status::BLOB_OK);
  DiskForTest::hanging = inode_of_upload();
  auto answer = std::async(std::launch::async, [&] { return shared.put_data(id_, 0, bytes); });
  EXPECT_TRUE(is_waiting());
  hours = 1;
  shared.expire();
  DiskForTest::release();
  EXPECT_EQ(answer.get(), blob_status::BLOB_OK);
  EXPECT_EQ(shared.put_commit(id_, sum_of(bytes)), blob_status::BLOB_OK);
}

TEST_F(StoreTest, CallsOfAnUploadFailWithWhatEndedItWhileOneIsUnderWay) {
  Store shared(directory_);
  const auto bytes = data(1000);
  ASSERT_EQ(shared.put_begin(id_, "name", 2000), blob_status::BLOB_OK);
  DiskForTest::hanging = inode_of_upload();
  auto answer = std::async(std::launch::async, [&] { return shared.put_data(id_, 0, bytes); });
  EXPECT_TRUE(is_waiting());
  DiskForTest::full = inode_of_upload();
  EXPECT_EQ(shared.put_data(id_, 1000, bytes), blob_status::BLOB_NO_SPACE);
  EXPECT_EQ(shared.put_data(id_, 1000, bytes), blob_status::BLOB_NO_SPACE);
  EXPECT_EQ(shared.put_commit(id_, sum_of(bytes)), blob_status::BLOB_NO_SPACE);
  EXPECT_EQ(shared.put_begin(id_, "name", 2000), blob_status::BLOB_NO_SPACE);
  DiskForTest::release();
  EXPECT_EQ(answer.get(), blob_status::BLOB_OK);
  EXPECT_EQ(files(), std::vector<std::string>{".uploads"}) << "it gives back its room";
  EXPECT_EQ(shared.put_data(id_, 1000, bytes), blob_status::BLOB_NO_SUCH_UPLOAD);
  EXPECT_EQ(shared.put_begin(id_, "name", 2000), blob_status::BLOB_OK) << "it can begin again";
}

TEST_F(StoreTest, UploadIsLookedAtOnceMoreBeforeItIsForgotten) {
  const auto bytes = data(1000);
  ASSERT_EQ(store().put_begin(id_, "name", bytes.size()), blob_status::BLOB_OK);
  const timespec long_ago{.tv_sec = ::time(nullptr) - 3600, .tv_nsec = 0};
  for (const auto& each : std::filesystem::directory_iterator(directory_ + "/.uploads")) {
    const std::array<timespec, 2> times{long_ago, long_ago};
    ASSERT_EQ(::utimensat(AT_FDCWD, each.path().c_str(), times.data(), 0), 0);
  }
  bool has_come = false;
  Store* store_in_use = nullptr;
  options_.now = [&] {
    if (!std::exchange(has_come, true)) {
      EXPECT_EQ(store_in_use->put_data(id_, 0, bytes), blob_status::BLOB_OK);
    }
    return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch());
  };
  Store shared(directory_, options_);
  store_in_use = &shared;
  shared.expire();
  EXPECT_TRUE(has_come);
  EXPECT_EQ(shared.put_commit(id_, sum_of(bytes)), blob_status::BLOB_OK);
}

TEST_F(StoreTest, PutBeginsOfOneUploadAtTheSameTimeAllSucceed) {
  Store shared(directory_);
  for (int round = 0; round < 50; ++round) {
    const blob_id id{static_cast<std::byte>(round), std::byte{7}};
    const auto begin = [&] { return shared.put_begin(id, "name", 100); };
    auto other = std::async(std::launch::async, begin);
    EXPECT_EQ(begin(), blob_status::BLOB_OK);
    EXPECT_EQ(other.get(), blob_status::BLOB_OK);
  }
}

// --- What is on the disk -----------------------------------------------------------------------

TEST_F(StoreTest, CommitIsAnsweredWhenTheFileAndItsNameAreOnTheDisk) {
  std::vector<std::string> synced;
  options_.sync = [&](int descriptor) {
    struct stat status {};
    EXPECT_EQ(::fstat(descriptor, &status), 0);
    synced.push_back(std::string(S_ISDIR(status.st_mode) ? "directory" : "file") +
                     (exists("name") ? " after" : " before"));
    return true;
  };
  ASSERT_EQ(put(id_, "name", data(100)), blob_status::BLOB_OK);
  EXPECT_EQ(synced, (std::vector<std::string>{"file before", "directory after"}));
}

TEST_F(StoreTest, CommitFailsWhenTheDiskDoes) {
  options_.sync = [](int) {
    errno = EIO;
    return false;
  };
  EXPECT_EQ(put(id_, "name", data(100)), blob_status::BLOB_IO_ERROR);
  EXPECT_FALSE(exists("name"));
}

TEST_F(StoreTest, CommitSkipsTheDiskIfConfiguredSo) {
  options_.sync = nullptr;
  EXPECT_EQ(put(id_, "name", data(100)), blob_status::BLOB_OK);
}

// A blob of 100 bytes, of which the kernel may have all in memory.
class InMemory : public StoreTest {
 protected:
  void SetUp() override {
    struct statvfs mount {};
    ASSERT_EQ(::statvfs(directory_.c_str(), &mount), 0);
    sets_times_ = (mount.f_flag & ST_NOATIME) == 0;
    ASSERT_EQ(put(id_, "name", data(100)), blob_status::BLOB_OK);
    const files::File folder(directory_, O_PATH | O_DIRECTORY);
    const auto is_known = [&] {
      return files::open_beneath(folder.descriptor(), "name", O_PATH, files::Resolving::kInMemory)
          .is_open();
    };
    if (!succeeds(is_known)) {
      GTEST_SKIP() << "this kernel, or a filter of system calls, has no RESOLVE_CACHED";
    }
    set_time_of_access(std::chrono::hours(1));
  }
  // Tries several times, since the kernel may forget a name, or be in doubt while others rename.
  template <class Function>
  bool succeeds(Function function) {
    constexpr int kAttempts = 100;
    for (int i = 0; i < kAttempts; ++i) {
      if (!store().stat("name") || function()) return true;
    }
    return false;
  }
  // Reading sets it where it is long ago.
  void set_time_of_access(std::chrono::seconds from_now) const {
    const std::array<timespec, 2> times{timespec{::time(nullptr) + from_now.count(), 0},
                                        timespec{0, UTIME_OMIT}};
    EXPECT_EQ(::utimensat(AT_FDCWD, (directory_ + "/name").c_str(), times.data(), 0), 0);
  }
  // Returns what is read from the offset on; nullopt: it is not read at once.
  std::optional<Store::Got> read(std::uint64_t offset) {
    std::optional<Store::Got> got;
    succeeds([&] { return bool(got = store().get_at_once("name", offset, room_, removed_)); });
    return got;
  }

  bool sets_times_ = false;
  std::array<std::byte, 100> room_{};
  files::File removed_;
};

TEST_F(InMemory, BlobIsReadAtOnceOnlyWhereThatSetsNoTime) {
  if (!sets_times_) GTEST_SKIP() << "no time of access is ever set here";
  set_time_of_access(std::chrono::hours(-1));
  EXPECT_FALSE(read(0));
  set_time_of_access(std::chrono::hours(1));
  const auto got = read(1);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->size, 99U);
  EXPECT_TRUE(got->end);
  EXPECT_TRUE(std::ranges::equal(Bytes(room_).first(99), Bytes(data(100)).subspan(1)));
  EXPECT_FALSE(removed_.is_open());
}

TEST_F(InMemory, BlobThatIsRemovedWhileItIsReadIsLeftForTheCallerToClose) {
  DiskForTest::after_read_at_once = [&] {
    EXPECT_EQ(store().remove("name"), blob_status::BLOB_OK);
  };
  const auto got = read(0);
  DiskForTest::after_read_at_once = nullptr;
  ASSERT_TRUE(got);
  EXPECT_EQ(got->size, 100U);
  ASSERT_TRUE(removed_.is_open()) << "to close it may wait for the disk";
  EXPECT_EQ(removed_.status()->st_nlink, 0U);
}

// --- What else may lie in the directory --------------------------------------------------------

TEST_F(StoreTest, OnlyRegularFilesInTheDirectoryAreBlobs) {
  namespace fs = std::filesystem;
  const std::string outside = directory_ + ".outside";
  std::ofstream(outside) << "secret";
  ASSERT_EQ(::mkfifo((directory_ + "/fifo").c_str(), 0600), 0);
  fs::create_directory(directory_ + "/folder");
  fs::create_symlink(outside, directory_ + "/absolute");
  fs::create_symlink("../" + fs::path(outside).filename().string(), directory_ + "/relative");
  fs::create_symlink("fifo", directory_ + "/to_fifo");
  ASSERT_EQ(put(id_, "name", data(100)), blob_status::BLOB_OK);
  fs::create_symlink("name", directory_ + "/link");
  std::array<std::byte, 10> room{};
  for (const char* const name : {"fifo", "folder", "absolute", "relative", "to_fifo"}) {
    EXPECT_EQ(store().stat(name).error(), blob_status::BLOB_NO_SUCH_BLOB) << name;
    EXPECT_EQ(store().get(name, 0, room).error(), blob_status::BLOB_NO_SUCH_BLOB) << name;
    EXPECT_EQ(store().sum(name).error(), blob_status::BLOB_NO_SUCH_BLOB) << name;
  }
  EXPECT_EQ(store().sum("link").value(), sum_of(data(100)));
  EXPECT_EQ(listed(), (std::vector<std::string>{"link", "name"}));
  fs::remove(outside);
}

TEST_F(StoreTest, UploadReplacesNothingButFiles) {
  ASSERT_EQ(::mkfifo((directory_ + "/fifo").c_str(), 0600), 0);
  std::filesystem::create_directory(directory_ + "/folder");
  for (const char* const name : {"fifo", "folder"}) {
    EXPECT_EQ(store().put_begin(id_, name, 10), blob_status::BLOB_NOT_A_FILE);
  }
  const auto bytes = data(10);
  ASSERT_EQ(store().put_begin(id_, "late", 10), blob_status::BLOB_OK);
  ASSERT_EQ(store().put_data(id_, 0, bytes), blob_status::BLOB_OK);
  std::filesystem::create_directory(directory_ + "/late");
  EXPECT_EQ(store().put_commit(id_, sum_of(bytes)), blob_status::BLOB_NOT_A_FILE);
  EXPECT_EQ(store().remove("folder"), blob_status::BLOB_NOT_A_FILE);
}

TEST_F(StoreTest, DirectoryOfUploadsIsNoLink) {
  std::filesystem::remove_all(directory_ + "/.uploads");
  std::filesystem::create_symlink("/tmp", directory_ + "/.uploads");
  EXPECT_EQ(store().open(), blob_status::BLOB_IO_ERROR);
}

TEST_F(StoreTest, ReadOnlyStoreChangesNothing) {
  ASSERT_EQ(put(id_, "name", data(100)), blob_status::BLOB_OK);
  std::filesystem::remove_all(directory_ + "/.uploads");
  options_.is_read_only = true;
  EXPECT_EQ(store().open(), blob_status::BLOB_OK);
  EXPECT_EQ(store().put_begin(other_id_, "other", 1), blob_status::BLOB_READ_ONLY);
  EXPECT_EQ(store().put_data(id_, 0, data(1)), blob_status::BLOB_READ_ONLY);
  EXPECT_EQ(store().put_commit(id_, sum_of(data(1))), blob_status::BLOB_READ_ONLY);
  EXPECT_EQ(store().remove("name"), blob_status::BLOB_READ_ONLY);
  EXPECT_EQ(store().sum("name").value(), sum_of(data(100)));
  EXPECT_EQ(files(), std::vector<std::string>{"name"});
}

TEST_F(StoreTest, ListsBlobsAndNothingElse) {
  ASSERT_EQ(put(id_, "b", data(1)), blob_status::BLOB_OK);
  ASSERT_EQ(put(other_id_, "a", data(2)), blob_status::BLOB_OK);
  std::filesystem::create_directory(directory_ + "/folder");
  EXPECT_EQ(listed(), (std::vector<std::string>{"a", "b"}));
  const auto page = store().list(0, 1000);
  EXPECT_TRUE(page.end);
  for (const auto& each : page.entries) EXPECT_EQ(each.size, each.name == "b" ? 1U : 2U);
}

TEST_F(StoreTest, ListsABlobOnceWhateverOthersComeAndGoBetweenThePages) {
  std::set<std::string> expected;
  for (int i = 0; i < 40; ++i) {
    std::ofstream(directory_ + "/stays" + std::to_string(i));
    std::ofstream(directory_ + "/goes" + std::to_string(i));
    expected.insert("stays" + std::to_string(i));
  }
  std::set<std::string> seen;
  std::uint64_t place = 0;
  for (int turn = 0;; ++turn) {
    const auto page = store().list(place, 200);
    for (const auto& each : page.entries) {
      EXPECT_TRUE(seen.insert(each.name).second) << each.name << " twice";
    }
    if (page.end) break;
    ASSERT_GT(page.place, place);
    place = page.place;
    for (int i = 0; i < 10; ++i) {
      std::filesystem::remove(directory_ + "/goes" + std::to_string(10 * turn + i));
      std::ofstream(directory_ + "/comes" + std::to_string(10 * turn + i));
    }
  }
  for (const std::string& name : expected) EXPECT_TRUE(seen.contains(name)) << name;
}

}  // namespace
}  // namespace blob
