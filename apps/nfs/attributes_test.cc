// Attributes: how they are set, what a refusal leaves as it was, and when they are read.
#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "files/file.h"
#include "nfs/file_size_limit_for_test.h"
#include "nfs/served_for_test.h"

namespace nfs3 {
namespace {

using nfs::FileSizeLimit;
using testing::UnorderedElementsAre;

constexpr std::uint32_t kUser = 1234, kGroup = 2345, kOtherGroup = 777;

class Attributes : public testing::Test {
 protected:
  struct User {
    std::unique_ptr<rpcrdma::Client> client;
    nfs_fh3 root;

    NFS_V3_Client nfs() const { return NFS_V3_Client(*client); }
    nfs_fh3 handle_of(const std::string& name) const {
      const auto found = nfs().NFSPROC3_LOOKUP({{root, name}}).value();
      EXPECT_EQ(found.status(), nfsstat3::NFS3_OK) << name;
      return found.resok() != nullptr ? found.resok()->object : nfs_fh3();
    }
    nfsstat3 set(const std::string& name, const sattr3& attributes) const {
      return nfs().NFSPROC3_SETATTR({handle_of(name), attributes, {}})->status();
    }
    nfsstat3 create(const std::string& name, const createhow3& how) const {
      return nfs().NFSPROC3_CREATE({{root, name}, how})->status();
    }
  };

  void SetUp() override {
    served_.emplace();
    ASSERT_EQ(::chmod(served_->folder().c_str(), 0777), 0);
  }
  // A user at the server; without root everybody is the user that runs the test.
  User user(std::uint32_t uid, std::uint32_t gid = kGroup,
            std::vector<std::uint32_t> groups = {}) const {
    User made{served_->connect("tcp", uid, gid, std::move(groups)), {}};
    made.root = nfs::mounted(*made.client, "/data");
    return made;
  }
  User own_user() const { return user(::geteuid(), ::getegid()); }
  void make_file(const std::string& name, mode_t mode, std::uint32_t uid, std::uint32_t gid) const {
    served_->write_file(name, "content");
    EXPECT_EQ(::chown(served_->path(name).c_str(), uid, gid), 0);
    EXPECT_EQ(::chmod(served_->path(name).c_str(), mode), 0);
  }
  struct stat status_of(const std::string& name) const {
    struct stat status {};
    EXPECT_EQ(::lstat(served_->path(name).c_str(), &status), 0) << name;
    return status;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& each : std::filesystem::directory_iterator(served_->folder())) {
      names.push_back(each.path().filename());
    }
    return names;
  }
  static createhow3 guarded(sattr3 attributes) {
    createhow3 how;
    how.set_obj_attributes(createmode3::GUARDED, std::move(attributes));
    return how;
  }
  static createhow3 exclusive(const createverf3& verifier) {
    createhow3 how;
    how.set_verf(verifier);
    return how;
  }

  std::optional<nfs::Served> served_;
};

// Each call sets the size together with something that the caller may not set.
TEST_F(Attributes, RefusedSetattrChangesNothing) {
  if (::geteuid() != 0) GTEST_SKIP() << "identities are taken by root alone";
  sattr3 mode, uid, gid, time;
  mode.mode.set_mode(0777);
  uid.uid.set_uid(kUser);
  gid.gid.set_gid(kGroup);
  time.mtime.set_mtime_({1, 1});
  sattr3 given_away, foreign_group;
  given_away.uid.set_uid(kUser + 1);
  foreign_group.gid.set_gid(kOtherGroup);
  const auto refuse = [&](const User& by, const char* name, sattr3 attributes, const char* what) {
    attributes.size.set_size(0);
    const struct stat before = status_of(name);
    EXPECT_EQ(by.set(name, attributes), nfsstat3::NFS3ERR_PERM) << what;
    const struct stat now = status_of(name);
    EXPECT_EQ(served_->read_file(name), "content") << what;
    EXPECT_EQ(std::tuple(now.st_mode, now.st_uid, now.st_gid),
              std::tuple(before.st_mode, before.st_uid, before.st_gid))
        << what;
    EXPECT_EQ(now.st_mtim.tv_sec, before.st_mtim.tv_sec) << what;
  };
  make_file("roots", 0666, 0, 0);
  make_file("own", 0666, kUser, kGroup);
  const User somebody = user(kUser);
  refuse(somebody, "roots", mode, "a mode by another than the owner");
  refuse(somebody, "roots", uid, "an owner by another than the owner");
  refuse(somebody, "roots", gid, "a group by another than the owner");
  refuse(somebody, "roots", time, "a time by another than the owner");
  given_away.mode.set_mode(0600);
  refuse(somebody, "own", given_away, "a file given away by its owner");
  refuse(somebody, "own", foreign_group, "a group that the owner is not in");
}

// The largest size cannot be foreseen, and so comes first.
TEST_F(Attributes, SizeThatCannotBeChangesNothingElse) {
  const User somebody = own_user();
  make_file("file", 0640, ::geteuid(), ::getegid());
  sattr3 attributes;
  attributes.mode.set_mode(0600);
  attributes.size.set_size(2U << 30U);
  attributes.mtime.set_mtime_({1, 1});
  const FileSizeLimit limit(1U << 30U);
  EXPECT_EQ(somebody.set("file", attributes), nfsstat3::NFS3ERR_FBIG);
  EXPECT_EQ(status_of("file").st_mode & 07777U, 0640U);
  EXPECT_NE(status_of("file").st_mtim.tv_sec, 1);
  EXPECT_EQ(served_->read_file("file"), "content");
}

TEST_F(Attributes, RefusedCreateLeavesNothingBehind) {
  const User somebody = own_user();
  sattr3 attributes;
  attributes.size.set_size(2U << 30U);
  const FileSizeLimit limit(1U << 30U);
  EXPECT_EQ(somebody.create("new", guarded(attributes)), nfsstat3::NFS3ERR_FBIG);
  EXPECT_THAT(names(), UnorderedElementsAre());
  // A file that was there stays.
  served_->write_file("old", "content");
  createhow3 how;
  how.set_obj_attributes(createmode3::UNCHECKED, attributes);
  EXPECT_EQ(somebody.create("old", how), nfsstat3::NFS3ERR_FBIG);
  EXPECT_EQ(served_->read_file("old"), "content");
}

TEST_F(Attributes, AreSetWithoutTheModeForASymbolicLink) {
  const User somebody = own_user();
  std::filesystem::create_symlink("nowhere", served_->path("link"));
  sattr3 attributes;
  attributes.mode.set_mode(0600);
  attributes.mtime.set_mtime_({100, 1});
  EXPECT_EQ(somebody.set("link", attributes), nfsstat3::NFS3_OK);
  EXPECT_EQ(status_of("link").st_mtim.tv_sec, 100);
}

TEST_F(Attributes, MayNameAGroupOfTheCallerForANewFile) {
  if (::geteuid() != 0) GTEST_SKIP() << "identities are taken by root alone";
  const User member = user(kUser, kGroup, {kOtherGroup});
  sattr3 attributes;
  attributes.mode.set_mode(02751);
  attributes.gid.set_gid(kOtherGroup);
  EXPECT_EQ(member.create("file", guarded(attributes)), nfsstat3::NFS3_OK);
  EXPECT_EQ(member.nfs().NFSPROC3_MKDIR({{member.root, "directory"}, attributes})->status(),
            nfsstat3::NFS3_OK);
  EXPECT_EQ(member.nfs().NFSPROC3_SYMLINK({{member.root, "link"}, {attributes, "x"}})->status(),
            nfsstat3::NFS3_OK);
  for (const char* const name : {"file", "directory", "link"}) {
    EXPECT_EQ(status_of(name).st_uid, kUser) << name;
    EXPECT_EQ(status_of(name).st_gid, kOtherGroup) << name;
  }
  EXPECT_EQ(status_of("file").st_mode & 07777U, 02751U) << "the new group takes no bit away";
  attributes.gid.set_gid(kOtherGroup + 1);
  EXPECT_EQ(member.create("other", guarded(attributes)), nfsstat3::NFS3_OK);
  EXPECT_EQ(status_of("other").st_gid, kGroup) << "the caller is not in that group";
}

// Reading sets the time of access of what is read, unless the mount says otherwise.
TEST_F(Attributes, AreThoseFromAfterWhatWasRead) {
  const User somebody = own_user();
  make_file("file", 0644, ::geteuid(), ::getegid());
  std::filesystem::create_directory(served_->path("directory"));
  std::filesystem::create_symlink("file", served_->path("link"));
  struct statvfs mount {};
  ASSERT_EQ(::statvfs(served_->folder().c_str(), &mount), 0);
  if ((mount.f_flag & (ST_NOATIME | ST_NODIRATIME)) != 0 || nfs::Served::is_elsewhere()) {
    GTEST_SKIP() << "reading sets no time of access in this folder";
  }
  // The time of access lies before the last change, so that relatime sets it too.
  const auto make_old = [&](const char* name) {
    const std::array<timespec, 2> times{timespec{1, 0}, timespec{0, UTIME_OMIT}};
    ASSERT_EQ(::utimensat(AT_FDCWD, served_->path(name).c_str(), times.data(), AT_SYMLINK_NOFOLLOW),
              0);
  };
  const auto expect_now = [&](const post_op_attr& attributes, const char* name) {
    ASSERT_NE(attributes.attributes(), nullptr) << name;
    EXPECT_EQ(attributes.attributes()->atime.seconds, status_of(name).st_atim.tv_sec) << name;
    EXPECT_NE(attributes.attributes()->atime.seconds, 1U) << name;
  };
  std::vector<std::byte> place(PATH_MAX);
  const nfs_fh3 file = somebody.handle_of("file"), link = somebody.handle_of("link"),
                directory = somebody.handle_of("directory");
  make_old("file");
  const auto read = somebody.nfs().NFSPROC3_READ({file, 0, 7}, place).value();
  expect_now(read.resok()->file_attributes, "file");
  make_old("link");
  const auto target = somebody.nfs().NFSPROC3_READLINK({link}, place).value();
  expect_now(target.resok()->symlink_attributes, "link");
  make_old("directory");
  const auto list = somebody.nfs().NFSPROC3_READDIR({directory, 0, {}, 4096}).value();
  expect_now(list.resok()->dir_attributes, "directory");
  make_old("directory");
  const auto plus = somebody.nfs().NFSPROC3_READDIRPLUS({directory, 0, {}, 4096, 8192}).value();
  expect_now(plus.resok()->dir_attributes, "directory");
}

TEST_F(Attributes, KeepEachBitOfTheVerifierOfAnExclusiveCreate) {
  const User somebody = own_user();
  createverf3 verifier{};
  for (std::size_t i = 0; i < verifier.size(); ++i) {
    verifier[i] = static_cast<std::byte>(0x11U * (i + 1));
  }
  ASSERT_EQ(somebody.create("new", exclusive(verifier)), nfsstat3::NFS3_OK);
  EXPECT_EQ(somebody.create("new", exclusive(verifier)), nfsstat3::NFS3_OK) << "made again";
  for (std::size_t bit = 0; bit < verifier.size() * 8; ++bit) {
    createverf3 other = verifier;
    other[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_EQ(somebody.create("new", exclusive(other)), nfsstat3::NFS3ERR_EXIST) << bit;
  }
}

TEST_F(Attributes, AreNoVerifierIfTheFileHoldsData) {
  const User somebody = own_user();
  createverf3 verifier{};
  verifier[0] = verifier[4] = std::byte{7};
  ASSERT_EQ(somebody.create("new", exclusive(verifier)), nfsstat3::NFS3_OK);
  const struct stat made = status_of("new");
  const std::array<timespec, 2> times{made.st_atim, made.st_mtim};
  const auto set_times = [&] {
    ASSERT_EQ(::utimensat(AT_FDCWD, served_->path("new").c_str(), times.data(), 0), 0);
  };
  ASSERT_EQ(::chmod(served_->path("new").c_str(), 0600), 0);
  served_->write_file("new", "content");
  ASSERT_EQ(::chmod(served_->path("new").c_str(), made.st_mode & 07777U), 0);
  set_times();
  EXPECT_EQ(somebody.create("new", exclusive(verifier)), nfsstat3::NFS3ERR_EXIST) << "its data";
  ASSERT_EQ(::truncate(served_->path("new").c_str(), 0), 0);
  ASSERT_EQ(::chmod(served_->path("new").c_str(), 0644), 0);
  set_times();
  EXPECT_EQ(somebody.create("new", exclusive(verifier)), nfsstat3::NFS3ERR_EXIST) << "its mode";
}

TEST_F(Attributes, ReportTheFileSystemsOwnLimits) {
  const User somebody = own_user();
  const auto info = somebody.nfs().NFSPROC3_FSINFO({somebody.root}).value();
  ASSERT_EQ(info.status(), nfsstat3::NFS3_OK);
  const std::uint64_t size_max = info.resok()->maxfilesize;
  served_->write_file("file", "");
  const files::File file(served_->path("file"), O_RDWR);
  const auto can_be_at = [&](std::uint64_t offset) {
    return ::lseek(file.descriptor(), static_cast<off_t>(offset), SEEK_SET) >= 0;
  };
  EXPECT_TRUE(can_be_at(size_max)) << size_max;
  if (size_max != std::numeric_limits<std::int64_t>::max()) {
    EXPECT_FALSE(can_be_at(size_max + 1)) << size_max;
  }
  const auto limits = somebody.nfs().NFSPROC3_PATHCONF({somebody.root}).value();
  ASSERT_EQ(limits.status(), nfsstat3::NFS3_OK);
  const long links_max = ::pathconf(served_->folder().c_str(), _PC_LINK_MAX);
  // The library says 127 of a file system that it does not know.
  EXPECT_EQ(limits.resok()->linkmax, links_max == 127 ? 32000 : links_max);
  EXPECT_EQ(limits.resok()->name_max, ::pathconf(served_->folder().c_str(), _PC_NAME_MAX));
}

}  // namespace
}  // namespace nfs3
