// Tests the service from a client's side, over RDMA and over TCP, and with handles in a table.
#include "nfs/service.h"

#include <fcntl.h>
#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "files/file.h"
#include "nfs/served_for_test.h"
#include "nfs3_fields.h"

namespace nfs3 {
namespace {

using nfs::bytes_of;
using rpcrdma::Bytes;
using testing::Contains;
using testing::ElementsAre;
using testing::Not;

class Nfs : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    nfs::ExporterOptions options;
    if (has_table()) options.handles = nfs::posix::HandleKind::kTable;
    served_.emplace(options);
    client_ = served_->connect(transport());
    nfs_.emplace(*client_);
    root_ = nfs::mounted(*client_, "/data");
  }

  static bool has_table() { return GetParam() == "table"; }
  static std::string transport() { return has_table() ? "rdma" : GetParam(); }
  LOOKUP3res look_up(const nfs_fh3& directory, const std::string& name) {
    return nfs_->NFSPROC3_LOOKUP({{directory, name}}).value();
  }
  nfs_fh3 handle_of(const std::string& name) {
    const auto found = look_up(root_, name);
    EXPECT_EQ(found.status(), nfsstat3::NFS3_OK) << name;
    return found.resok() != nullptr ? found.resok()->object : nfs_fh3();
  }
  fattr3 attributes_of(const nfs_fh3& handle) {
    const auto results = nfs_->NFSPROC3_GETATTR({handle}).value();
    EXPECT_EQ(results.status(), nfsstat3::NFS3_OK);
    return results.resok() != nullptr ? results.resok()->obj_attributes : fattr3();
  }
  nfsstat3 status_of(const nfs_fh3& handle) { return nfs_->NFSPROC3_GETATTR({handle})->status(); }
  std::string read(const nfs_fh3& handle, std::uint64_t offset, std::uint32_t count,
                   bool* eof = nullptr) {
    std::vector<std::byte> place(count + 4);
    const auto results = nfs_->NFSPROC3_READ({handle, offset, count}, place).value();
    EXPECT_EQ(results.status(), nfsstat3::NFS3_OK);
    if (results.resok() == nullptr) return {};
    if (eof != nullptr) *eof = results.resok()->eof;
    const Bytes data = results.resok()->data;
    EXPECT_EQ(data.size(), results.resok()->count);
    return {reinterpret_cast<const char*>(data.data()), data.size()};
  }
  nfsstat3 read_status(const std::string& name) {
    std::vector<std::byte> place(4);
    return nfs_->NFSPROC3_READ({handle_of(name), 0, 1}, place)->status();
  }
  WRITE3res write(const nfs_fh3& handle, std::uint64_t offset, std::string_view data,
                  stable_how stable = stable_how::UNSTABLE) {
    return nfs_
        ->NFSPROC3_WRITE(
            {handle, offset, static_cast<std::uint32_t>(data.size()), stable, bytes_of(data)})
        .value();
  }
  static sattr3 with_mode(std::uint32_t mode) {
    sattr3 attributes;
    attributes.mode.set_mode(mode);
    return attributes;
  }
  CREATE3res create(const std::string& name, createmode3 mode,
                    sattr3 attributes = with_mode(0644)) {
    createhow3 how;
    how.set_obj_attributes(mode, std::move(attributes));
    return nfs_->NFSPROC3_CREATE({{root_, name}, how}).value();
  }
  std::vector<std::string> names_of(const nfs_fh3& directory, std::uint32_t count = 4096) {
    std::vector<std::string> names;
    READDIR3args args{directory, 0, {}, count};
    for (;;) {
      const auto results = nfs_->NFSPROC3_READDIR(args).value();
      EXPECT_EQ(results.status(), nfsstat3::NFS3_OK);
      if (results.resok() == nullptr) return names;
      for (const entry3& each : results.resok()->reply.entries) names.push_back(each.name);
      if (results.resok()->reply.eof) return names;
      args.cookie = results.resok()->reply.entries.back().cookie;
      args.cookieverf = results.resok()->cookieverf;
    }
  }

  std::optional<nfs::Served> served_;
  std::unique_ptr<rpcrdma::Client> client_;
  std::optional<NFS_V3_Client> nfs_;
  nfs_fh3 root_;
};
INSTANTIATE_TEST_SUITE_P(Over, Nfs, testing::Values("rdma", "tcp", "table"),
                         [](const auto& test) { return test.param; });

TEST_P(Nfs, MountsAnExportAndWhatIsInIt) {
  EXPECT_FALSE(root_.data.empty());
  EXPECT_EQ(attributes_of(root_).type, ftype3::NF3DIR);
  std::filesystem::create_directories(served_->path("a/b"));
  const auto below = nfs::mounted(*client_, "/data/a/b");
  EXPECT_EQ(below.data, look_up(look_up(root_, "a").resok()->object, "b").resok()->object.data);
}

TEST_P(Nfs, RefusesToMountWhatIsNotExported) {
  mount3::MOUNT_V3_Client mount(*client_);
  served_->write_file("file", "");
  const std::map<std::string, mount3::mountstat3> wrong{
      {"/", mount3::mountstat3::MNT3ERR_NOENT},
      {"/dat", mount3::mountstat3::MNT3ERR_NOENT},
      {"/data2", mount3::mountstat3::MNT3ERR_NOENT},
      {"/data/none", mount3::mountstat3::MNT3ERR_NOENT},
      {"/data/file", mount3::mountstat3::MNT3ERR_NOTDIR},
      {"/data/..", mount3::mountstat3::MNT3ERR_INVAL},
      {"/data/../data", mount3::mountstat3::MNT3ERR_INVAL},
      {"/elsewhere", mount3::mountstat3::MNT3ERR_ACCES},
  };
  for (const auto& [path, status] : wrong) {
    EXPECT_EQ(mount.MOUNTPROC3_MNT(path)->fhs_status(), status) << path;
  }
}

TEST_P(Nfs, ListsExports) {
  mount3::MOUNT_V3_Client mount(*client_);
  const auto list = mount.MOUNTPROC3_EXPORT().value();
  std::vector<std::string> names;
  for (const auto& each : list) names.push_back(each.ex_dir);
  EXPECT_THAT(names, ElementsAre("/data", "/squash", "/ro", "/elsewhere"));
  EXPECT_TRUE(list[0].ex_groups.empty()) << "everybody";
  EXPECT_EQ(list[3].ex_groups.at(0).gr_name, "192.0.2.1");
  EXPECT_TRUE(mount.MOUNTPROC3_DUMP()->empty());
  EXPECT_TRUE(mount.MOUNTPROC3_UMNT("/data"));
}

TEST_P(Nfs, ReadsWhatIsInAFile) {
  served_->write_file("file", "0123456789");
  const nfs_fh3 file = handle_of("file");
  bool eof = true;
  EXPECT_EQ(read(file, 0, 4, &eof), "0123");
  EXPECT_FALSE(eof);
  EXPECT_EQ(read(file, 4, 6, &eof), "456789");
  EXPECT_TRUE(eof) << "the last byte is in it";
  EXPECT_EQ(read(file, 8, 100, &eof), "89");
  EXPECT_TRUE(eof);
  EXPECT_EQ(read(file, 10, 1, &eof), "");
  EXPECT_TRUE(eof);
  EXPECT_EQ(read(file, ~std::uint64_t{0}, 1, &eof), "");
  EXPECT_TRUE(eof);
  EXPECT_EQ(read(file, 3, 0, &eof), "");
  EXPECT_FALSE(eof);
}

TEST_P(Nfs, LeavesAFileThatIsReadToThoseWhoExecuteIt) {
  std::filesystem::copy_file("/bin/true", served_->path("program"));
  read(handle_of("program"), 0, 100);
  const std::string command = "'" + served_->path("program") + "'";
  EXPECT_EQ(std::system(command.c_str()), 0);  // NOLINT(concurrency-mt-unsafe)
}

TEST_P(Nfs, LeavesAFileThatWasWrittenToThoseWhoExecuteIt) {
  std::filesystem::copy_file("/bin/true", served_->path("program"));
  const nfs_fh3 program = handle_of("program");
  const std::string command = "'" + served_->path("program") + "'";
  ASSERT_EQ(write(program, 0, "\x7f", stable_how::FILE_SYNC).status(), nfsstat3::NFS3_OK);
  EXPECT_EQ(std::system(command.c_str()), 0);  // NOLINT(concurrency-mt-unsafe)
  ASSERT_EQ(write(program, 0, "\x7f").status(), nfsstat3::NFS3_OK);
  ASSERT_EQ(nfs_->NFSPROC3_COMMIT({program, 0, 0})->status(), nfsstat3::NFS3_OK);
  EXPECT_EQ(std::system(command.c_str()), 0);  // NOLINT(concurrency-mt-unsafe)
}

TEST_P(Nfs, ReadsAMebibyteAtATimeAndNotMore) {
  const std::string content(3U << 20U, 'x');
  served_->write_file("file", content);
  const nfs_fh3 file = handle_of("file");
  EXPECT_EQ(read(file, 0, 1U << 20U).size(), 1U << 20U);
  EXPECT_EQ(read(file, 0, 2U << 20U).size(), 1U << 20U);
}

TEST_P(Nfs, WritesAndTellsWhatIsStable) {
  served_->write_file("file", "");
  const nfs_fh3 file = handle_of("file");
  const auto unstable = write(file, 0, "abc");
  ASSERT_EQ(unstable.status(), nfsstat3::NFS3_OK);
  EXPECT_EQ(unstable.resok()->count, 3U);
  EXPECT_EQ(unstable.resok()->committed, stable_how::UNSTABLE);
  EXPECT_EQ(unstable.resok()->file_wcc.after.attributes()->size, 3U);
  const auto stable = write(file, 5, std::string(300'000, 'y'), stable_how::FILE_SYNC);
  EXPECT_EQ(stable.resok()->committed, stable_how::FILE_SYNC);
  EXPECT_EQ(stable.resok()->verf, unstable.resok()->verf);
  const auto committed = nfs_->NFSPROC3_COMMIT({file, 0, 0}).value();
  ASSERT_EQ(committed.status(), nfsstat3::NFS3_OK);
  EXPECT_EQ(committed.resok()->verf, unstable.resok()->verf);
  EXPECT_EQ(served_->read_file("file"), "abc" + std::string(2, '\0') + std::string(300'000, 'y'));
}

TEST_P(Nfs, GoesOnWritingAFileThatWasMadeReadOnly) {
  const auto made = create("file", createmode3::GUARDED, with_mode(0444));
  ASSERT_EQ(made.status(), nfsstat3::NFS3_OK);
  const nfs_fh3 file = *made.resok()->obj.handle();
  EXPECT_EQ(write(file, 0, "a").status(), nfsstat3::NFS3_OK);
  EXPECT_EQ(nfs_->NFSPROC3_COMMIT({file, 0, 0})->status(), nfsstat3::NFS3_OK);
  EXPECT_EQ(write(file, 1, "b", stable_how::FILE_SYNC).status(), nfsstat3::NFS3_OK);
  EXPECT_EQ(write(file, 2, "c").status(), nfsstat3::NFS3_OK);
  EXPECT_EQ(served_->read_file("file"), "abc");
}

TEST_P(Nfs, RefusesWritesThatCannotBe) {
  served_->write_file("file", "abc");
  std::filesystem::create_directory(served_->path("directory"));
  std::filesystem::create_symlink("file", served_->path("link"));
  const nfs_fh3 file = handle_of("file");
  EXPECT_EQ(write(file, ~std::uint64_t{0}, "x").status(), nfsstat3::NFS3ERR_FBIG);
  EXPECT_EQ(write(file, (~std::uint64_t{0} >> 1U), "x").status(), nfsstat3::NFS3ERR_FBIG);
  EXPECT_EQ(write(handle_of("directory"), 0, "x").status(), nfsstat3::NFS3ERR_ISDIR);
  EXPECT_EQ(write(handle_of("link"), 0, "x").status(), nfsstat3::NFS3ERR_INVAL);
  const WRITE3args wrong_count{file, 0, 4, stable_how::UNSTABLE, bytes_of("abc")};
  EXPECT_EQ(nfs_->NFSPROC3_WRITE(wrong_count)->status(), nfsstat3::NFS3ERR_INVAL);
  EXPECT_EQ(served_->read_file("file"), "abc");
}

TEST_P(Nfs, KeepsHandlesButNotTheVerifierOverARestart) {
  served_->write_file("file", "abc");
  const nfs_fh3 file = handle_of("file");
  const auto before = write(file, 0, "x").resok()->verf;
  client_.reset();
  served_->restart();
  client_ = served_->connect(transport());
  nfs_.emplace(*client_);
  EXPECT_EQ(read(file, 0, 3), "xbc");
  EXPECT_NE(write(file, 0, "y").resok()->verf, before);
}

TEST_P(Nfs, KnowsNoHandlesOfTheDirectoryThatHadItsNameBefore) {
  const nfs_fh3 before = root_;
  client_.reset();
  served_->replace_folder();
  client_ = served_->connect(transport());
  nfs_.emplace(*client_);
  EXPECT_EQ(status_of(before), nfsstat3::NFS3ERR_STALE);
  EXPECT_EQ(status_of(nfs::mounted(*client_, "/data")), nfsstat3::NFS3_OK);
}

TEST_P(Nfs, AnswersAtOnceWhatIsInMemory) {
  served_->write_file("file", "abc");
  served_->write_file("unknown", "abc");
  const nfs_fh3 file = handle_of("file");
  EXPECT_EQ(read(file, 0, 3), "abc");
  if (has_table() || !served_->may_answer_at_once()) {
    // A table may have to be read.
    served_->stop_workers();
    EXPECT_EQ(status_of(file), nfsstat3::NFS3ERR_JUKEBOX);
    EXPECT_EQ(look_up(root_, "file").status(), nfsstat3::NFS3ERR_JUKEBOX);
    return;
  }
  const auto access = [&] { return nfs_->NFSPROC3_ACCESS({file, ACCESS3_READ})->status(); };
  EXPECT_EQ(access(), nfsstat3::NFS3_OK);
  served_->stop_workers();
  EXPECT_EQ(status_of(file), nfsstat3::NFS3_OK);
  EXPECT_EQ(access(), nfsstat3::NFS3_OK);
  EXPECT_EQ(handle_of("file").data, file.data);
  EXPECT_EQ(look_up(file, "file").status(), nfsstat3::NFS3ERR_NOTDIR);
  const files::File opened(served_->path("file"), O_RDONLY);
  // The time of access would be set, for which a journal may have to be waited for.
  const auto make_old = [&] {
    const std::array<timespec, 2> times{timespec{1, 0}, timespec{0, UTIME_OMIT}};
    ASSERT_EQ(::futimens(opened.descriptor(), times.data()), 0);
  };
  struct statfs system {};
  ASSERT_EQ(::fstatfs(opened.descriptor(), &system), 0);
  std::array<char, 4> place{};
  const iovec part{place.data(), place.size()};
  bool eof = false;
  if (system.f_type == TMPFS_MAGIC) {
    make_old();
    EXPECT_EQ(read(file, 1, 100, &eof), "bc");
    EXPECT_TRUE(eof);
  } else if (::preadv2(opened.descriptor(), &part, 1, 0, RWF_NOWAIT) == 3) {
    // Not every file system can say that it would have to read.
    EXPECT_EQ(read(file, 1, 100, &eof), "bc");
    EXPECT_TRUE(eof);
    make_old();
    struct statvfs mount {};
    ASSERT_EQ(::fstatvfs(opened.descriptor(), &mount), 0);
    const bool sets_time = (mount.f_flag & ST_NOATIME) == 0;
    EXPECT_EQ(read_status("file"), sets_time ? nfsstat3::NFS3ERR_JUKEBOX : nfsstat3::NFS3_OK);
    EXPECT_EQ(opened.status()->st_atim.tv_sec, 1);
  }
  // The server does not try calls that may have to wait.
  EXPECT_EQ(look_up(root_, "..").status(), nfsstat3::NFS3ERR_JUKEBOX);
  EXPECT_EQ(create("new", createmode3::GUARDED).status(), nfsstat3::NFS3ERR_JUKEBOX);
  EXPECT_EQ(read_status("unknown"), nfsstat3::NFS3ERR_JUKEBOX) << "it is not open";
}

TEST_P(Nfs, FindsAFileThatWasRenamedAndLosesOneThatIsGone) {
  served_->write_file("file", "abc");
  const nfs_fh3 file = handle_of("file");
  std::filesystem::rename(served_->path("file"), served_->path("other"));
  if (has_table()) (void)handle_of("other");
  EXPECT_EQ(read(file, 0, 3), "abc");
  std::filesystem::remove(served_->path("other"));
  EXPECT_EQ(status_of(file), nfsstat3::NFS3ERR_STALE);
}

TEST_P(Nfs, RefusesHandlesThatItDidNotMake) {
  EXPECT_EQ(status_of({}), nfsstat3::NFS3ERR_BADHANDLE);
  nfs_fh3 forged = root_;
  forged.data[6] ^= std::byte{1};
  EXPECT_EQ(status_of(forged), nfsstat3::NFS3ERR_BADHANDLE);
  forged.data.assign(NFS3_FHSIZE, std::byte{0});
  EXPECT_EQ(status_of(forged), nfsstat3::NFS3ERR_BADHANDLE);
}

TEST_P(Nfs, CreatesFilesInTheThreeWays) {
  const auto made = create("new", createmode3::GUARDED, with_mode(04751));
  ASSERT_EQ(made.status(), nfsstat3::NFS3_OK);
  EXPECT_EQ(made.resok()->obj_attributes.attributes()->mode, 04751U);
  EXPECT_EQ(made.resok()->dir_wcc.before.attributes_follow(), !nfs::Served::is_elsewhere());
  EXPECT_TRUE(made.resok()->dir_wcc.after.attributes_follow());
  EXPECT_EQ(made.resok()->obj.handle()->data, handle_of("new").data);
  EXPECT_EQ(create("new", createmode3::GUARDED).status(), nfsstat3::NFS3ERR_EXIST);
  write(handle_of("new"), 0, "abc");
  EXPECT_EQ(create("new", createmode3::UNCHECKED).status(), nfsstat3::NFS3_OK);
  EXPECT_EQ(served_->read_file("new"), "abc") << "only a length that is given changes it";
  sattr3 empty;
  empty.size.set_size(0);
  EXPECT_EQ(create("new", createmode3::UNCHECKED, empty).status(), nfsstat3::NFS3_OK);
  EXPECT_EQ(served_->read_file("new"), "");
  EXPECT_EQ(attributes_of(handle_of("new")).mode & 0777U, 0751U) << "nor its mode";
}

TEST_P(Nfs, CreatesExclusivelyOnceForEachVerifier) {
  createhow3 how;
  how.set_verf({std::byte{0xff}, std::byte{1}, std::byte{2}, std::byte{3}, std::byte{0xfe},
                std::byte{5}, std::byte{6}, std::byte{7}});
  const CREATE3args args{{root_, "new"}, how};
  const auto first = nfs_->NFSPROC3_CREATE(args).value();
  ASSERT_EQ(first.status(), nfsstat3::NFS3_OK);
  const auto again = nfs_->NFSPROC3_CREATE(args).value();
  ASSERT_EQ(again.status(), nfsstat3::NFS3_OK) << "its own, whose answer was lost";
  EXPECT_EQ(again.resok()->obj.handle()->data, first.resok()->obj.handle()->data);
  how.set_verf({std::byte{9}});
  EXPECT_EQ(nfs_->NFSPROC3_CREATE({{root_, "new"}, how})->status(), nfsstat3::NFS3ERR_EXIST);
}

TEST_P(Nfs, NeverOpensWhatIsNoFileWhenItCreates) {
  ASSERT_EQ(::mkfifo(served_->path("fifo").c_str(), 0666), 0);
  EXPECT_EQ(create("fifo", createmode3::UNCHECKED).status(), nfsstat3::NFS3ERR_EXIST);
  EXPECT_EQ(read_status("fifo"), nfsstat3::NFS3ERR_INVAL);
}

TEST_P(Nfs, MakesDirectoriesLinksAndNodes) {
  const auto made = nfs_->NFSPROC3_MKDIR({{root_, "directory"}, with_mode(01755)}).value();
  ASSERT_EQ(made.status(), nfsstat3::NFS3_OK);
  EXPECT_EQ(made.resok()->obj_attributes.attributes()->mode, 01755U);
  EXPECT_EQ(nfs_->NFSPROC3_MKDIR({{root_, "directory"}, {}})->status(), nfsstat3::NFS3ERR_EXIST);
  const auto link = nfs_->NFSPROC3_SYMLINK({{root_, "link"}, {{}, "over/there"}}).value();
  ASSERT_EQ(link.status(), nfsstat3::NFS3_OK);
  std::vector<std::byte> place(4096);
  const auto target = nfs_->NFSPROC3_READLINK({handle_of("link")}, place).value();
  ASSERT_EQ(target.status(), nfsstat3::NFS3_OK);
  EXPECT_EQ(target.resok()->data, "over/there");
  mknoddata3 fifo;
  fifo.set_pipe_attributes(ftype3::NF3FIFO, with_mode(0640));
  const auto node = nfs_->NFSPROC3_MKNOD({{root_, "fifo"}, fifo}).value();
  ASSERT_EQ(node.status(), nfsstat3::NFS3_OK);
  EXPECT_EQ(node.resok()->obj_attributes.attributes()->type, ftype3::NF3FIFO);
  mknoddata3 wrong;
  wrong.set_void(ftype3::NF3REG);
  EXPECT_EQ(nfs_->NFSPROC3_MKNOD({{root_, "reg"}, wrong})->status(), nfsstat3::NFS3ERR_BADTYPE);
  EXPECT_EQ(nfs_->NFSPROC3_READLINK({root_}, place)->status(), nfsstat3::NFS3ERR_INVAL);
}

TEST_P(Nfs, RemovesRenamesAndLinks) {
  served_->write_file("a", "abc");
  ASSERT_EQ(nfs_->NFSPROC3_LINK({handle_of("a"), {root_, "b"}})->status(), nfsstat3::NFS3_OK);
  EXPECT_EQ(attributes_of(handle_of("b")).nlink, 2U);
  std::filesystem::create_directory(served_->path("d"));
  ASSERT_EQ(nfs_->NFSPROC3_RENAME({{root_, "a"}, {handle_of("d"), "c"}})->status(),
            nfsstat3::NFS3_OK);
  EXPECT_EQ(served_->read_file("d/c"), "abc");
  EXPECT_EQ(nfs_->NFSPROC3_RMDIR({{root_, "d"}})->status(), nfsstat3::NFS3ERR_NOTEMPTY);
  EXPECT_EQ(nfs_->NFSPROC3_REMOVE({{root_, "d"}})->status(), nfsstat3::NFS3ERR_ISDIR);
  EXPECT_EQ(nfs_->NFSPROC3_RMDIR({{root_, "b"}})->status(), nfsstat3::NFS3ERR_NOTDIR);
  const nfs_fh3 file = handle_of("b");
  ASSERT_EQ(nfs_->NFSPROC3_REMOVE({{root_, "b"}})->status(), nfsstat3::NFS3_OK);
  EXPECT_EQ(attributes_of(file).nlink, 1U);
  ASSERT_EQ(nfs_->NFSPROC3_REMOVE({{handle_of("d"), "c"}})->status(), nfsstat3::NFS3_OK);
  EXPECT_EQ(status_of(file), nfsstat3::NFS3ERR_STALE) << "nothing keeps it open";
  EXPECT_EQ(nfs_->NFSPROC3_REMOVE({{root_, "b"}})->status(), nfsstat3::NFS3ERR_NOENT);
  EXPECT_EQ(nfs_->NFSPROC3_RENAME({{root_, "none"}, {root_, "x"}})->status(),
            nfsstat3::NFS3ERR_NOENT);
}

// Counts the files of such names that this process has open, in which the server is.
int count_victims() {
  int victims = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(each.path(), gone).string();
    if (target.find("-victim") != std::string::npos) ++victims;
  }
  return victims;
}

// The server is in this process: what it keeps open would keep its room on the disk.
TEST_P(Nfs, KeepsNothingOpenOfAFileThatItRemoved) {
  if (nfs::Served::is_elsewhere()) GTEST_SKIP() << "it has no file of this machine open";
  for (const char* const name : {"a-victim", "b-victim", "c-victim"}) {
    served_->write_file(name, "abc");
    write(handle_of(name), 0, "x");
  }
  EXPECT_GT(count_victims(), 0);
  ASSERT_EQ(nfs_->NFSPROC3_REMOVE({{root_, "a-victim"}})->status(), nfsstat3::NFS3_OK);
  ASSERT_EQ(nfs_->NFSPROC3_RENAME({{root_, "b-victim"}, {root_, "c-victim"}})->status(),
            nfsstat3::NFS3_OK);
  ASSERT_EQ(nfs_->NFSPROC3_REMOVE({{root_, "c-victim"}})->status(), nfsstat3::NFS3_OK);
  EXPECT_EQ(count_victims(), 0);
}

TEST_P(Nfs, KeepsNothingOpenOfAFileThatOthersRemoved) {
  if (nfs::Served::is_elsewhere()) GTEST_SKIP() << "it has no file of this machine open";
  served_->write_file("d-victim", "abc");
  write(handle_of("d-victim"), 0, "x");
  ASSERT_GT(count_victims(), 0);
  std::filesystem::remove(served_->path("d-victim"));
  constexpr std::chrono::seconds kBound{30};
  const auto until = std::chrono::steady_clock::now() + kBound;
  while (count_victims() > 0 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_EQ(count_victims(), 0) << "no call came";
}

TEST_P(Nfs, TellsNothingOfWhatIsAboveTheExport) {
  const auto listed = nfs_->NFSPROC3_READDIR({root_, 0, {}, 4096}).value();
  for (const entry3& each : listed.resok()->reply.entries) {
    EXPECT_EQ(each.fileid, attributes_of(root_).fileid) << each.name;
  }
}

TEST_P(Nfs, RefusesNamesThatAreNone) {
  served_->write_file("a", "");
  const std::string nul("a\0b", 3);
  for (const std::string& name :
       {std::string(), std::string("a/b"), std::string("../nothing-of-that-name"), nul}) {
    EXPECT_EQ(look_up(root_, name).status(), nfsstat3::NFS3ERR_INVAL) << name;
    EXPECT_EQ(create(name, createmode3::GUARDED).status(), nfsstat3::NFS3ERR_INVAL) << name;
    EXPECT_EQ(nfs_->NFSPROC3_REMOVE({{root_, name}})->status(), nfsstat3::NFS3ERR_INVAL);
    EXPECT_EQ(nfs_->NFSPROC3_RENAME({{root_, "a"}, {root_, name}})->status(),
              nfsstat3::NFS3ERR_INVAL);
  }
  for (const char* const name : {".", ".."}) {
    EXPECT_EQ(create(name, createmode3::GUARDED).status(), nfsstat3::NFS3ERR_INVAL) << name;
    EXPECT_EQ(nfs_->NFSPROC3_RENAME({{root_, "a"}, {root_, name}})->status(),
              nfsstat3::NFS3ERR_INVAL);
  }
  EXPECT_EQ(look_up(root_, std::string(255, 'n')).status(), nfsstat3::NFS3ERR_NOENT);
}

TEST_P(Nfs, StaysInTheExport) {
  EXPECT_EQ(look_up(root_, "..").resok()->object.data, root_.data);
  EXPECT_EQ(look_up(root_, ".").resok()->object.data, root_.data);
  std::filesystem::create_directories(served_->path("a/b"));
  const nfs_fh3 a = handle_of("a");
  const nfs_fh3 b = look_up(a, "b").resok()->object;
  EXPECT_EQ(look_up(b, "..").resok()->object.data, a.data);
  EXPECT_EQ(look_up(a, "..").resok()->object.data, root_.data);
  // A link is shown, not followed.
  std::filesystem::create_symlink("/etc/passwd", served_->path("link"));
  EXPECT_EQ(attributes_of(handle_of("link")).type, ftype3::NF3LNK);
  EXPECT_EQ(look_up(handle_of("link"), "x").status(), nfsstat3::NFS3ERR_NOTDIR);
  // One that is moved out has no parent any more.
  const std::string outside = served_->folder() + "-outside";
  std::filesystem::create_directory(outside);
  // By its length alone the path of `b` would seem to go on here.
  std::filesystem::create_directory(served_->path("outside"));
  std::filesystem::rename(served_->path("a/b"), outside + "/b");
  const auto above = look_up(b, "..");
  if (nfs::Served::is_elsewhere() && above.resok() != nullptr) {
    EXPECT_EQ(above.resok()->object.data, a.data) << "where it was last seen";
  } else {
    EXPECT_EQ(above.status(), nfsstat3::NFS3ERR_STALE);
  }
  std::filesystem::remove_all(outside);
}

TEST_P(Nfs, TakesHandlesOfOneExportForThatAlone) {
  served_->write_file("a", "abc");
  const nfs_fh3 read_only = nfs::mounted(*client_, "/ro");
  const nfs_fh3 file = look_up(read_only, "a").resok()->object;
  EXPECT_EQ(nfs_->NFSPROC3_LINK({handle_of("a"), {read_only, "b"}})->status(),
            nfsstat3::NFS3ERR_XDEV);
  EXPECT_EQ(nfs_->NFSPROC3_RENAME({{root_, "a"}, {read_only, "b"}})->status(),
            nfsstat3::NFS3ERR_XDEV);
  EXPECT_EQ(write(file, 0, "x").status(), nfsstat3::NFS3ERR_ROFS);
  EXPECT_EQ(read(file, 0, 3), "abc");
}

TEST_P(Nfs, ChangesNothingInAnExportThatIsReadOnly) {
  served_->write_file("a", "abc");
  const nfs_fh3 top = nfs::mounted(*client_, "/ro");
  const nfs_fh3 file = look_up(top, "a").resok()->object;
  createhow3 how;
  EXPECT_EQ(nfs_->NFSPROC3_CREATE({{top, "n"}, how})->status(), nfsstat3::NFS3ERR_ROFS);
  EXPECT_EQ(nfs_->NFSPROC3_MKDIR({{top, "n"}, {}})->status(), nfsstat3::NFS3ERR_ROFS);
  EXPECT_EQ(nfs_->NFSPROC3_SYMLINK({{top, "n"}, {{}, "a"}})->status(), nfsstat3::NFS3ERR_ROFS);
  mknoddata3 fifo;
  fifo.set_pipe_attributes(ftype3::NF3FIFO, {});
  EXPECT_EQ(nfs_->NFSPROC3_MKNOD({{top, "n"}, fifo})->status(), nfsstat3::NFS3ERR_ROFS);
  EXPECT_EQ(nfs_->NFSPROC3_REMOVE({{top, "a"}})->status(), nfsstat3::NFS3ERR_ROFS);
  EXPECT_EQ(nfs_->NFSPROC3_RMDIR({{top, "a"}})->status(), nfsstat3::NFS3ERR_ROFS);
  EXPECT_EQ(nfs_->NFSPROC3_RENAME({{top, "a"}, {top, "b"}})->status(), nfsstat3::NFS3ERR_ROFS);
  EXPECT_EQ(nfs_->NFSPROC3_LINK({file, {top, "b"}})->status(), nfsstat3::NFS3ERR_ROFS);
  EXPECT_EQ(nfs_->NFSPROC3_SETATTR({file, with_mode(0), {}})->status(), nfsstat3::NFS3ERR_ROFS);
  const auto access = nfs_->NFSPROC3_ACCESS({file, 0x3f}).value();
  EXPECT_EQ(access.resok()->access & (ACCESS3_MODIFY | ACCESS3_EXTEND | ACCESS3_DELETE), 0U);
  EXPECT_NE(access.resok()->access & ACCESS3_READ, 0U);
  EXPECT_THAT(names_of(root_), Not(Contains("n")));
}

TEST_P(Nfs, SetsAttributesUnlessTheGuardSaysThatTheyChanged) {
  served_->write_file("a", "abcdef");
  const nfs_fh3 file = handle_of("a");
  const auto set = [&](sattr3 attributes, sattrguard3 guard = {}) {
    return nfs_->NFSPROC3_SETATTR({file, std::move(attributes), guard}).value();
  };
  sattr3 all = with_mode(0600);
  all.size.set_size(3);
  // Another's is for root to set.
  const std::uint32_t uid = ::geteuid() == 0 ? 5 : ::geteuid();
  const std::uint32_t gid = ::geteuid() == 0 ? 6 : ::getegid();
  all.uid.set_uid(uid);
  all.gid.set_gid(gid);
  all.atime.set_atime_({100, 1});
  all.mtime.set_mtime_({200, 2});
  const auto done = set(all);
  ASSERT_EQ(done.status(), nfsstat3::NFS3_OK);
  // Where others may change it meanwhile nothing is said of before.
  const auto* const before = done.resok()->obj_wcc.before.attributes();
  ASSERT_EQ(before == nullptr, nfs::Served::is_elsewhere());
  if (before != nullptr) {
    EXPECT_EQ(before->size, 6U);
  }
  const fattr3 now = attributes_of(file);
  EXPECT_EQ(std::tuple(now.mode, now.size, now.uid, now.gid), std::tuple(0600U, 3U, uid, gid));
  EXPECT_EQ(std::tuple(now.atime.seconds, now.atime.nseconds), std::tuple(100U, 1U));
  EXPECT_EQ(std::tuple(now.mtime.seconds, now.mtime.nseconds), std::tuple(200U, 2U));
  sattr3 first_second;
  first_second.atime.set_atime_({0, 123'456'789});
  first_second.mtime.set_mtime_({0, 987'654'321});
  ASSERT_EQ(set(first_second).status(), nfsstat3::NFS3_OK);
  EXPECT_EQ(attributes_of(file).atime, (nfstime3{0, 123'456'789}));
  EXPECT_EQ(attributes_of(file).mtime, (nfstime3{0, 987'654'321}));
  sattrguard3 guard;
  guard.set_obj_ctime(attributes_of(file).ctime);
  EXPECT_EQ(set(with_mode(0640), guard).status(), nfsstat3::NFS3_OK);
  guard.set_obj_ctime({1, 1});
  EXPECT_EQ(set(with_mode(0644), guard).status(), nfsstat3::NFS3ERR_NOT_SYNC);
  EXPECT_EQ(attributes_of(file).mode, 0640U);
  sattr3 wrong;
  wrong.mtime.set_mtime_({1, 1'000'000'000});
  EXPECT_EQ(set(wrong).status(), nfsstat3::NFS3ERR_INVAL);
  sattr3 huge;
  huge.size.set_size(~std::uint64_t{0});
  EXPECT_EQ(set(huge).status(), nfsstat3::NFS3ERR_FBIG);
}

TEST_P(Nfs, ListsADirectoryInPagesOfAnySize) {
  std::set<std::string> wanted{".", ".."};
  for (int i = 0; i < 300; ++i) {
    const std::string name =
        "entry" + std::string(static_cast<std::size_t>(i % 40), 'x') + std::to_string(i);
    served_->write_file(name, "");
    wanted.insert(name);
  }
  for (const std::uint32_t count : {400U, 1024U, 4096U, 1U << 20U}) {
    const auto names = names_of(root_, count);
    EXPECT_EQ(std::set(names.begin(), names.end()), wanted) << count;
    EXPECT_EQ(names.size(), wanted.size()) << "each once";
  }
  EXPECT_EQ(nfs_->NFSPROC3_READDIR({root_, 0, {}, 20})->status(), nfsstat3::NFS3ERR_TOOSMALL);
}

TEST_P(Nfs, ListsNoMoreAtATimeThanFsinfoPrefers) {
  constexpr int kFiles = 1500;  // of 60 letters: more than 64 KiB in a listing
  for (int i = 0; i < kFiles; ++i) {
    served_->write_file(std::to_string(10'000 + i) + std::string(55, 'n'), "");
  }
  constexpr std::uint32_t kMuch = 1U << 20U;
  const auto names = nfs_->NFSPROC3_READDIR({root_, 0, {}, kMuch}).value();
  ASSERT_EQ(names.status(), nfsstat3::NFS3_OK);
  EXPECT_FALSE(names.resok()->reply.eof);
  EXPECT_LE(encoded_size(names), nfs::kServerListingMax);
  const auto with_attributes = nfs_->NFSPROC3_READDIRPLUS({root_, 0, {}, kMuch, kMuch}).value();
  ASSERT_EQ(with_attributes.status(), nfsstat3::NFS3_OK);
  EXPECT_FALSE(with_attributes.resok()->reply.eof);
  EXPECT_LE(encoded_size(with_attributes), nfs::kServerListingMax);
}

TEST_P(Nfs, GoesOnListingWhereEntriesWereRemoved) {
  for (int i = 0; i < 100; ++i) served_->write_file("f" + std::to_string(i), "");
  const auto first = nfs_->NFSPROC3_READDIR({root_, 0, {}, 1024}).value();
  std::set<std::string> seen;
  for (const entry3& each : first.resok()->reply.entries) seen.insert(each.name);
  for (const std::string& name : seen) {
    if (name[0] == 'f') std::filesystem::remove(served_->path(name));
  }
  READDIR3args args{root_, first.resok()->reply.entries.back().cookie, first.resok()->cookieverf,
                    1U << 16U};
  const auto rest = nfs_->NFSPROC3_READDIR(args).value();
  ASSERT_EQ(rest.status(), nfsstat3::NFS3_OK);
  for (const entry3& each : rest.resok()->reply.entries) {
    EXPECT_TRUE(seen.insert(each.name).second) << each.name << " twice";
  }
  EXPECT_EQ(seen.size(), 102U);
  args.cookieverf[0] = std::byte{1};
  EXPECT_EQ(nfs_->NFSPROC3_READDIR(args)->status(), nfsstat3::NFS3ERR_BAD_COOKIE);
}

TEST_P(Nfs, ListsAttributesAndHandlesToo) {
  served_->write_file("a", "abc");
  const auto results = nfs_->NFSPROC3_READDIRPLUS({root_, 0, {}, 4096, 1U << 15U}).value();
  ASSERT_EQ(results.status(), nfsstat3::NFS3_OK);
  EXPECT_TRUE(results.resok()->reply.eof);
  const auto& entries = results.resok()->reply.entries;
  const auto found = std::ranges::find(entries, "a", &entryplus3::name);
  ASSERT_NE(found, entries.end());
  EXPECT_EQ(found->name_attributes.attributes()->size, 3U);
  EXPECT_EQ(found->name_handle.handle()->data, handle_of("a").data);
  EXPECT_EQ(found->fileid, found->name_attributes.attributes()->fileid);
}

TEST_P(Nfs, SaysWhatTheFileSystemIs) {
  const auto info = nfs_->NFSPROC3_FSINFO({root_}).value();
  ASSERT_EQ(info.status(), nfsstat3::NFS3_OK);
  EXPECT_EQ(info.resok()->rtmax, nfs::kServerTransferMax);
  EXPECT_EQ(info.resok()->wtmax, nfs::kServerTransferMax);
  const auto space = nfs_->NFSPROC3_FSSTAT({root_}).value();
  ASSERT_EQ(space.status(), nfsstat3::NFS3_OK);
  EXPECT_GT(space.resok()->tbytes, 0U);
  const auto limits = nfs_->NFSPROC3_PATHCONF({root_}).value();
  ASSERT_EQ(limits.status(), nfsstat3::NFS3_OK);
  EXPECT_EQ(limits.resok()->name_max, 255U);
}

}  // namespace
}  // namespace nfs3
