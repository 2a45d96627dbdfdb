// On whose behalf calls work: users, groups, and who root is.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nfs/served_for_test.h"

namespace nfs3 {
namespace {

constexpr std::uint32_t kUser = 1234, kGroup = 2345, kNobody = 65534;

class Permission : public testing::Test {
 protected:
  // One user at a server, in one export.
  struct User {
    std::unique_ptr<rpcrdma::Client> client;
    nfs_fh3 root;

    NFS_V3_Client nfs() const { return NFS_V3_Client(*client); }
    LOOKUP3res look_up(const nfs_fh3& directory, const std::string& name) const {
      return nfs().NFSPROC3_LOOKUP({{directory, name}}).value();
    }
    nfs_fh3 handle_of(const std::string& name) const {
      const auto found = look_up(root, name);
      EXPECT_EQ(found.status(), nfsstat3::NFS3_OK) << name;
      return found.resok() != nullptr ? found.resok()->object : nfs_fh3();
    }
    nfsstat3 read(const nfs_fh3& file) const {
      std::vector<std::byte> place(8);
      return nfs().NFSPROC3_READ({file, 0, 4}, place)->status();
    }
    nfsstat3 write(const nfs_fh3& file) const {
      static constexpr std::byte kData[] = {std::byte{'x'}};  // NOLINT(modernize-avoid-c-arrays)
      return nfs().NFSPROC3_WRITE({file, 0, 1, stable_how::UNSTABLE, kData})->status();
    }
    nfsstat3 create(const std::string& name, std::uint32_t mode = 0644) const {
      createhow3 how;
      how.set_obj_attributes(createmode3::GUARDED, {}).mode.set_mode(mode);
      return nfs().NFSPROC3_CREATE({{root, name}, how})->status();
    }
    nfsstat3 set(const nfs_fh3& file, const sattr3& attributes) const {
      return nfs().NFSPROC3_SETATTR({file, attributes, {}})->status();
    }
    std::uint32_t access(const nfs_fh3& file) const {
      const auto results = nfs().NFSPROC3_ACCESS({file, 0x3f}).value();
      return results.resok() != nullptr ? results.resok()->access : 0;
    }
  };

  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "identities are taken by root alone";
    served_.emplace();
  }

  User user(std::uint32_t uid, std::uint32_t gid = kGroup, std::vector<std::uint32_t> groups = {},
            const std::string& name = "/data") {
    User made{served_->connect("rdma", uid, gid, std::move(groups)), {}};
    made.root = nfs::mounted(*made.client, name);
    return made;
  }
  // A file of root's, or of somebody else.
  void make_file(const std::string& name, mode_t mode, std::uint32_t uid = 0,
                 std::uint32_t gid = 0) {
    served_->write_file(name, "content");
    EXPECT_EQ(::chown(served_->path(name).c_str(), uid, gid), 0);
    EXPECT_EQ(::chmod(served_->path(name).c_str(), mode), 0);
  }
  struct stat status_of(const std::string& name) const {
    struct stat status {};
    EXPECT_EQ(::lstat(served_->path(name).c_str(), &status), 0) << name;
    return status;
  }

  std::optional<nfs::Served> served_;
};

TEST_F(Permission, FilesBelongToTheUserThatMakesThem) {
  ASSERT_EQ(::chmod(served_->folder().c_str(), 0777), 0);
  const User somebody = user(kUser);
  ASSERT_EQ(somebody.create("new", 0606), nfsstat3::NFS3_OK);
  const struct stat made = status_of("new");
  EXPECT_EQ(made.st_uid, kUser);
  EXPECT_EQ(made.st_gid, kGroup);
  EXPECT_EQ(made.st_mode & 07777U, 0606U) << "whatever the server's umask";
}

TEST_F(Permission, ADirectoryOfRootsIsNotForUsersToChange) {
  const User somebody = user(kUser);
  make_file("file", 0644);
  EXPECT_EQ(somebody.create("new"), nfsstat3::NFS3ERR_ACCES);
  EXPECT_EQ(somebody.nfs().NFSPROC3_MKDIR({{somebody.root, "d"}, {}})->status(),
            nfsstat3::NFS3ERR_ACCES);
  EXPECT_EQ(somebody.nfs().NFSPROC3_REMOVE({{somebody.root, "file"}})->status(),
            nfsstat3::NFS3ERR_ACCES);
  EXPECT_EQ(
      somebody.nfs().NFSPROC3_RENAME({{somebody.root, "file"}, {somebody.root, "other"}})->status(),
      nfsstat3::NFS3ERR_ACCES);
}

TEST_F(Permission, ModesAreKept) {
  make_file("secret", 0600);
  make_file("readable", 0604);
  make_file("of_group", 0060, 0, kGroup);
  make_file("of_other_group", 0060, 0, 777);
  const User somebody = user(kUser), member = user(kUser, kGroup, {777});
  EXPECT_EQ(somebody.read(somebody.handle_of("secret")), nfsstat3::NFS3ERR_ACCES);
  EXPECT_EQ(somebody.read(somebody.handle_of("readable")), nfsstat3::NFS3_OK);
  EXPECT_EQ(somebody.write(somebody.handle_of("readable")), nfsstat3::NFS3ERR_ACCES);
  EXPECT_EQ(somebody.write(somebody.handle_of("of_group")), nfsstat3::NFS3_OK);
  EXPECT_EQ(somebody.write(somebody.handle_of("of_other_group")), nfsstat3::NFS3ERR_ACCES);
  EXPECT_EQ(member.write(member.handle_of("of_other_group")), nfsstat3::NFS3_OK);
}

TEST_F(Permission, AFileThatRootHasOpenIsNotOpenToOthers) {
  make_file("secret", 0600);
  const User root = user(0, 0), somebody = user(kUser);
  EXPECT_EQ(root.read(root.handle_of("secret")), nfsstat3::NFS3_OK);
  EXPECT_EQ(root.write(root.handle_of("secret")), nfsstat3::NFS3_OK);
  for (int i = 0; i < 20; ++i) {  // on each of the workers
    EXPECT_EQ(somebody.read(somebody.handle_of("secret")), nfsstat3::NFS3ERR_ACCES);
    EXPECT_EQ(somebody.write(somebody.handle_of("secret")), nfsstat3::NFS3ERR_ACCES);
    EXPECT_EQ(root.read(root.handle_of("secret")), nfsstat3::NFS3_OK);
  }
}

TEST_F(Permission, TheOwnerGoesOnWritingAFileThatIsReadOnly) {
  make_file("file", 0400, kUser, kGroup);
  const User owner = user(kUser);
  EXPECT_EQ(owner.write(owner.handle_of("file")), nfsstat3::NFS3_OK);
  make_file("hidden", 0000, kUser, kGroup);
  EXPECT_EQ(owner.read(owner.handle_of("hidden")), nfsstat3::NFS3_OK);
}

TEST_F(Permission, RightToExecuteLetsACallerLoadTheFile) {
  make_file("program", 0711);
  const User somebody = user(kUser);
  EXPECT_EQ(somebody.read(somebody.handle_of("program")), nfsstat3::NFS3_OK);
}

TEST_F(Permission, OnlyTheOwnerSetsAttributes) {
  make_file("file", 0666);
  const User somebody = user(kUser);
  sattr3 mode, owner, now, then;
  mode.mode.set_mode(0777);
  owner.uid.set_uid(kUser);
  now.mtime.set_void(time_how::SET_TO_SERVER_TIME);
  now.atime.set_void(time_how::SET_TO_SERVER_TIME);
  then.mtime.set_mtime_({1, 1});
  const nfs_fh3 file = somebody.handle_of("file");
  EXPECT_EQ(somebody.set(file, mode), nfsstat3::NFS3ERR_PERM);
  EXPECT_EQ(somebody.set(file, owner), nfsstat3::NFS3ERR_PERM);
  EXPECT_EQ(somebody.set(file, then), nfsstat3::NFS3ERR_PERM);
  EXPECT_EQ(somebody.set(file, now), nfsstat3::NFS3_OK) << "who may write may touch";
  sattr3 empty;
  empty.size.set_size(0);
  EXPECT_EQ(somebody.set(file, empty), nfsstat3::NFS3_OK);
  // A client's open(2) with O_TRUNC sends these, for a file with content and for an empty one.
  empty.mtime.set_void(time_how::SET_TO_SERVER_TIME);
  EXPECT_EQ(somebody.set(file, empty), nfsstat3::NFS3_OK);
  sattr3 opened_anew;
  opened_anew.mtime.set_void(time_how::SET_TO_SERVER_TIME);
  EXPECT_EQ(somebody.set(file, opened_anew), nfsstat3::NFS3_OK);
  make_file("file", 0644);
  EXPECT_EQ(somebody.set(somebody.handle_of("file"), empty), nfsstat3::NFS3ERR_ACCES);
  EXPECT_EQ(somebody.set(somebody.handle_of("file"), opened_anew), nfsstat3::NFS3ERR_ACCES);
}

TEST_F(Permission, WritingByAnotherTakesTheSetUserIdBitAway) {
  make_file("program", 04777);
  const User somebody = user(kUser);
  EXPECT_EQ(somebody.write(somebody.handle_of("program")), nfsstat3::NFS3_OK);
  EXPECT_EQ(status_of("program").st_mode & 07000U, 0U);
}

TEST_F(Permission, AccessTellsWhatMayBe) {
  make_file("file", 0640, kUser, kGroup);
  const User owner = user(kUser), member = user(5), stranger = user(5, 6);
  const nfs_fh3 file = owner.handle_of("file");
  EXPECT_EQ(owner.access(file), ACCESS3_READ | ACCESS3_MODIFY | ACCESS3_EXTEND);
  EXPECT_EQ(member.access(file), ACCESS3_READ);
  EXPECT_EQ(stranger.access(file), 0U);
  EXPECT_EQ(stranger.access(stranger.root), ACCESS3_READ | ACCESS3_LOOKUP);
}

TEST_F(Permission, DirectoriesAreListedAndSearchedByWhomTheyLet) {
  std::filesystem::create_directory(served_->path("d"));
  served_->write_file("d/file", "");
  const User root = user(0, 0), somebody = user(kUser);
  const nfs_fh3 directory = somebody.handle_of("d");
  const auto list = [&] {
    return somebody.nfs().NFSPROC3_READDIR({directory, 0, {}, 4096})->status();
  };
  ASSERT_EQ(::chmod(served_->path("d").c_str(), 0744), 0);
  EXPECT_EQ(list(), nfsstat3::NFS3_OK);
  EXPECT_EQ(somebody.look_up(directory, "file").status(), nfsstat3::NFS3ERR_ACCES);
  EXPECT_EQ(somebody.look_up(directory, "..").status(), nfsstat3::NFS3ERR_ACCES);
  const auto plus = somebody.nfs().NFSPROC3_READDIRPLUS({directory, 0, {}, 4096, 16384}).value();
  ASSERT_EQ(plus.status(), nfsstat3::NFS3_OK);
  for (const entryplus3& each : plus.resok()->reply.entries) {
    EXPECT_FALSE(each.name_handle.handle_follows()) << each.name;
  }
  ASSERT_EQ(::chmod(served_->path("d").c_str(), 0711), 0);
  EXPECT_EQ(list(), nfsstat3::NFS3ERR_ACCES);
  EXPECT_EQ(somebody.look_up(directory, "file").status(), nfsstat3::NFS3_OK);
}

TEST_F(Permission, RootIsNobodyWhereItIsSquashed) {
  make_file("secret", 0600);
  const User root = user(0, 0, {0}, "/squash");
  EXPECT_EQ(root.read(root.handle_of("secret")), nfsstat3::NFS3ERR_ACCES);
  EXPECT_EQ(root.create("new"), nfsstat3::NFS3ERR_ACCES);
  ASSERT_EQ(::chmod(served_->folder().c_str(), 0777), 0);
  EXPECT_EQ(root.create("new"), nfsstat3::NFS3_OK);
  EXPECT_EQ(status_of("new").st_uid, kNobody);
  EXPECT_EQ(status_of("new").st_gid, kNobody);
}

TEST_F(Permission, FilesOfASquashedRootBelongToNobody) {
  ASSERT_EQ(::chmod(served_->folder().c_str(), 0777), 0);
  const User root = user(0, 0, {0}, "/squash");
  createhow3 how;
  auto& attributes = how.set_obj_attributes(createmode3::GUARDED, {});
  attributes.uid.set_uid(kUser);
  attributes.gid.set_gid(kGroup);
  EXPECT_EQ(root.nfs().NFSPROC3_CREATE({{root.root, "new"}, how})->status(), nfsstat3::NFS3_OK);
  EXPECT_EQ(status_of("new").st_uid, kNobody);
  const User real_root = user(0, 0);
  EXPECT_EQ(real_root.nfs().NFSPROC3_CREATE({{real_root.root, "given"}, how})->status(),
            nfsstat3::NFS3_OK);
  EXPECT_EQ(status_of("given").st_uid, kUser);
  EXPECT_EQ(status_of("given").st_gid, kGroup);
}

TEST_F(Permission, IsThatOfTheCallerAlsoInWhatIsAnsweredAtOnce) {
  std::filesystem::create_directory(served_->path("closed"));
  ASSERT_EQ(::chmod(served_->path("closed").c_str(), 0700), 0);
  make_file("closed/file", 0644);
  make_file("open", 0644);
  const User root = user(0, 0), somebody = user(kUser);
  const nfs_fh3 closed = root.handle_of("closed");
  // Root has looked, so that everything is in memory.
  ASSERT_EQ(root.look_up(closed, "file").status(), nfsstat3::NFS3_OK);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(somebody.look_up(closed, "file").status(), nfsstat3::NFS3ERR_ACCES);
    EXPECT_EQ(somebody.access(closed), 0U);
    EXPECT_EQ(somebody.look_up(somebody.root, "open").status(), nfsstat3::NFS3_OK);
    EXPECT_EQ(root.look_up(closed, "file").status(), nfsstat3::NFS3_OK);
  }
}

TEST_F(Permission, AUserThatCannotBeIsRefused) {
  make_file("file", 0600);
  const User root = user(0, 0);
  const nfs_fh3 file = root.handle_of("file");
  for (const auto& [uid, gid] : {std::pair(~0U, 5U), std::pair(5U, ~0U), std::pair(~0U, ~0U)}) {
    const User nobody = user(uid, gid);
    EXPECT_EQ(nobody.read(file), nfsstat3::NFS3ERR_ACCES) << uid << " " << gid;
    EXPECT_EQ(nobody.create("new"), nfsstat3::NFS3ERR_ACCES);
  }
  const User in_no_group = user(5, 5, {~0U});
  EXPECT_EQ(in_no_group.read(file), nfsstat3::NFS3ERR_ACCES);
}

TEST_F(Permission, StickyDirectoriesProtectOthersFiles) {
  ASSERT_EQ(::chmod(served_->folder().c_str(), 01777), 0);
  make_file("of_root", 0666);
  make_file("own", 0666, kUser, kGroup);
  const User somebody = user(kUser);
  EXPECT_EQ(somebody.nfs().NFSPROC3_REMOVE({{somebody.root, "of_root"}})->status(),
            nfsstat3::NFS3ERR_PERM);
  EXPECT_EQ(somebody.nfs().NFSPROC3_REMOVE({{somebody.root, "own"}})->status(), nfsstat3::NFS3_OK);
}

}  // namespace
}  // namespace nfs3
