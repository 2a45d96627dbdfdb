// Calls that no client means: forged handles, names that lead elsewhere, numbers at the ends of
// their ranges. Each gets the error that RFC 1813 has for it, changes nothing, and the server goes
// on. Wrongly encoded calls are written by hand, since the generated client refuses to encode them.
#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "nfs/served_for_test.h"
#include "rpcrdma/xdr.h"

namespace nfs3 {
namespace {

using nfs::bytes_of;
using rpcrdma::AcceptStatus;
using rpcrdma::Bytes;
using testing::AnyOf;
using testing::UnorderedElementsAre;

constexpr std::uint64_t kTop = std::uint64_t{1} << 63U;
constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint32_t kCountMax = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint32_t kSecond = 1'000'000'000;  // nanoseconds

// XDR said by hand.
class Words {
 public:
  explicit Words(rpcrdma::MutableBytes room) : writer_(room) {}
  Words& u32(std::uint32_t value) { return writer_.u32(value), *this; }
  Words& u64(std::uint64_t value) { return writer_.u64(value), *this; }
  Words& opaque(Bytes value) { return writer_.opaque(value), *this; }
  Words& string(std::string_view value) { return writer_.string(value), *this; }
  std::size_t size() const { return writer_.position(); }

 private:
  rpcrdma::xdr::Writer writer_;
};

class HostileNfs : public testing::TestWithParam<std::string> {
 protected:
  struct Kind {
    const char* what;
    std::function<nfsstat3(const nfs_fh3&, const std::string&)> call;
  };

  void SetUp() override {
    nfs::ExporterOptions options;
    if (GetParam() == "table") options.handles = nfs::posix::HandleKind::kTable;
    served_.emplace(options);
    client_ = served_->connect(transport());
    nfs_.emplace(*client_);
    root_ = nfs::mounted(*client_, "/data");
    served_->write_file("file", "abc");
    file_ = handle_of(root_, "file");
  }
  // Whatever was said, the server is there, and nothing was lost.
  void TearDown() override {
    if (!served_) return;
    EXPECT_EQ(nfs_->NFSPROC3_GETATTR({root_})->status(), nfsstat3::NFS3_OK);
    const auto other = served_->connect(transport());
    EXPECT_TRUE(NFS_V3_Client(*other).NFSPROC3_NULL());
    EXPECT_EQ(served_->read_file("file"), "abc");
  }

  static std::string transport() { return GetParam() == "table" ? "rdma" : GetParam(); }
  nfs_fh3 handle_of(const nfs_fh3& directory, const std::string& name) {
    const auto found = nfs_->NFSPROC3_LOOKUP({{directory, name}}).value();
    EXPECT_EQ(found.status(), nfsstat3::NFS3_OK) << name;
    return found.resok() != nullptr ? found.resok()->object : nfs_fh3();
  }
  nfsstat3 status_of(const nfs_fh3& handle) { return nfs_->NFSPROC3_GETATTR({handle})->status(); }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& each : std::filesystem::directory_iterator(served_->folder())) {
      names.push_back(each.path().filename());
    }
    return names;
  }
  static mknoddata3 fifo(sattr3 attributes = {}) {
    mknoddata3 data;
    data.set_pipe_attributes(ftype3::NF3FIFO, std::move(attributes));
    return data;
  }
  static createhow3 guarded(sattr3 attributes = {}) {
    createhow3 how;
    how.set_obj_attributes(createmode3::GUARDED, std::move(attributes));
    return how;
  }

  std::vector<Kind> with_a_handle();
  std::vector<Kind> with_a_name();

  // A call of NFS as user 0 whose arguments are said by hand: what was accepted, and if the call
  // was, its status.
  struct Said {
    AcceptStatus accepted;
    nfsstat3 status;
    bool operator==(const Said&) const = default;
    friend void PrintTo(const Said& said, std::ostream* out) {
      *out << "accept_stat " << static_cast<int>(said.accepted) << ", nfsstat3 "
           << static_cast<int>(said.status);
    }
  };
  static constexpr Said kGarbage{AcceptStatus::kGarbageArgs, nfsstat3::NFS3_OK};
  static constexpr Said done(nfsstat3 status) { return {AcceptStatus::kSuccess, status}; }
  template <class Write>
  Said say(std::uint32_t procedure, const Write& write,
           std::uint32_t program = NFS_V3_Service::kProgram) {
    std::vector<std::byte> message(16384);
    Words words(message);
    for (const std::uint32_t each : {++xid_, 0U, 2U, program, 3U, procedure}) words.u32(each);
    for (const std::uint32_t each : {1U, 20U, 0U, 0U, 0U, 0U, 0U, 0U, 0U}) words.u32(each);
    write(words);
    auto call = client_->prepare_message(16384);
    call->arguments().xdr().opaque_fixed(Bytes(message).first(words.size()));
    call->expect_results(8192);
    auto reply = client_->call(std::move(*call));
    EXPECT_TRUE(reply) << reply.error().message();
    if (!reply) return {AcceptStatus::kSystemErr, nfsstat3::NFS3_OK};
    auto& results = reply->results().xdr();
    reply->ignore_rest();
    results.skip(20, "header");
    const auto accepted = static_cast<AcceptStatus>(results.u32("accept_stat"));
    if (accepted != AcceptStatus::kSuccess) return {accepted, nfsstat3::NFS3_OK};
    return done(static_cast<nfsstat3>(results.u32("status")));
  }

  std::optional<nfs::Served> served_;
  std::unique_ptr<rpcrdma::Client> client_;
  std::optional<NFS_V3_Client> nfs_;
  nfs_fh3 root_, file_;
  std::uint32_t xid_ = 0x7000'0000;
};
INSTANTIATE_TEST_SUITE_P(Over, HostileNfs, testing::Values("rdma", "tcp", "table"),
                         [](const auto& test) { return test.param; });

// Everything that takes a handle, with a name where it takes one.
std::vector<HostileNfs::Kind> HostileNfs::with_a_handle() {
  auto& nfs = *nfs_;
  std::vector<Kind> kinds{
      {"GETATTR", [&](auto& at, auto&) { return nfs.NFSPROC3_GETATTR({at})->status(); }},
      {"SETATTR",
       [&](auto& at, auto&) {
         return nfs.NFSPROC3_SETATTR({at, {}, {}})->status();
       }},
      {"LOOKUP",
       [&](auto& at, auto& n) {
         return nfs.NFSPROC3_LOOKUP({{at, n}})->status();
       }},
      {"ACCESS",
       [&](auto& at, auto&) {
         return nfs.NFSPROC3_ACCESS({at, 0x3f})->status();
       }},
      {"READLINK",
       [&](auto& at, auto&) {
         std::vector<std::byte> place(8);
         return nfs.NFSPROC3_READLINK({at}, place)->status();
       }},
      {"READ",
       [&](auto& at, auto&) {
         std::vector<std::byte> place(8);
         return nfs.NFSPROC3_READ({at, 0, 1}, place)->status();
       }},
      {"WRITE",
       [&](auto& at, auto&) {
         return nfs.NFSPROC3_WRITE({at, 0, 1, stable_how::UNSTABLE, bytes_of("x")})->status();
       }},
      {"READDIR",
       [&](auto& at, auto&) {
         return nfs.NFSPROC3_READDIR({at, 0, {}, 4096})->status();
       }},
      {"READDIRPLUS",
       [&](auto& at, auto&) {
         return nfs.NFSPROC3_READDIRPLUS({at, 0, {}, 4096, 8192})->status();
       }},
      {"FSSTAT", [&](auto& at, auto&) { return nfs.NFSPROC3_FSSTAT({at})->status(); }},
      {"FSINFO", [&](auto& at, auto&) { return nfs.NFSPROC3_FSINFO({at})->status(); }},
      {"PATHCONF", [&](auto& at, auto&) { return nfs.NFSPROC3_PATHCONF({at})->status(); }},
      {"COMMIT",
       [&](auto& at, auto&) {
         return nfs.NFSPROC3_COMMIT({at, 0, 0})->status();
       }},
      {"LINK, file",
       [&](auto& at, auto& n) {
         return nfs.NFSPROC3_LINK({at, {root_, n}})->status();
       }},
  };
  for (Kind& each : with_a_name()) kinds.push_back(std::move(each));
  return kinds;
}

// Returns the procedures that change the entry of a directory.
std::vector<HostileNfs::Kind> HostileNfs::with_a_name() {
  auto& nfs = *nfs_;
  return {
      {"CREATE",
       [&](auto& at, auto& n) {
         return nfs.NFSPROC3_CREATE({{at, n}, guarded()})->status();
       }},
      {"MKDIR",
       [&](auto& at, auto& n) {
         return nfs.NFSPROC3_MKDIR({{at, n}, {}})->status();
       }},
      {"SYMLINK",
       [&](auto& at, auto& n) {
         return nfs.NFSPROC3_SYMLINK({{at, n}, {{}, "x"}})->status();
       }},
      {"MKNOD",
       [&](auto& at, auto& n) {
         return nfs.NFSPROC3_MKNOD({{at, n}, fifo()})->status();
       }},
      {"REMOVE",
       [&](auto& at, auto& n) {
         return nfs.NFSPROC3_REMOVE({{at, n}})->status();
       }},
      {"RMDIR",
       [&](auto& at, auto& n) {
         return nfs.NFSPROC3_RMDIR({{at, n}})->status();
       }},
      {"RENAME, from",
       [&](auto& at, auto& n) {
         return nfs.NFSPROC3_RENAME({{at, n}, {root_, "renamed"}})->status();
       }},
      {"RENAME, to",
       [&](auto& at, auto& n) {
         return nfs.NFSPROC3_RENAME({{root_, "file"}, {at, n}})->status();
       }},
      {"LINK, directory",
       [&](auto& at, auto& n) {
         return nfs.NFSPROC3_LINK({file_, {at, n}})->status();
       }},
  };
}

// --- Handles ------------------------------------------------------------------------------------

TEST_P(HostileNfs, AHandleOfWhichAnyByteIsAnotherIsNone) {
  for (std::size_t i = 0; i < file_.data.size(); ++i) {
    for (const auto mask : {std::byte{1}, std::byte{0x80}, std::byte{0xff}}) {
      nfs_fh3 forged = file_;
      forged.data[i] ^= mask;
      EXPECT_EQ(status_of(forged), nfsstat3::NFS3ERR_BADHANDLE) << i;
    }
  }
}

TEST_P(HostileNfs, AHandleOfAnotherLengthIsNone) {
  for (std::size_t size = 0; size <= NFS3_FHSIZE; ++size) {
    nfs_fh3 forged = file_;
    forged.data.resize(size);
    if (size == file_.data.size()) continue;
    EXPECT_EQ(status_of(forged), nfsstat3::NFS3ERR_BADHANDLE) << size;
  }
  for (const std::uint32_t size : {65U, 66U, 4096U}) {
    EXPECT_EQ(say(1, [&](auto& out) { out.opaque(std::vector<std::byte>(size)); }), kGarbage);
  }
  for (const std::uint32_t size : {8U, 64U, 0x7fff'ffffU, kCountMax}) {
    EXPECT_EQ(say(1, [&](auto& out) { out.u32(size).u32(0); }), kGarbage) << size;
  }
}

TEST_P(HostileNfs, AHandleMadeOfTwoGoodOnesIsNone) {
  constexpr std::ptrdiff_t kHead = 5, kSeal = 16;
  served_->write_file("other", "");
  const nfs_fh3 other = handle_of(root_, "other");
  const nfs_fh3 read_only = handle_of(nfs::mounted(*client_, "/ro"), "file");
  for (const nfs_fh3& each : {other, read_only}) {
    ASSERT_EQ(each.data.size(), file_.data.size());
    nfs_fh3 forged = file_;  // another's inside
    std::copy(each.data.begin() + kHead, each.data.end() - kSeal, forged.data.begin() + kHead);
    if (forged.data != file_.data) {
      EXPECT_EQ(status_of(forged), nfsstat3::NFS3ERR_BADHANDLE);
    }
    forged = file_;  // another's seal
    std::copy(each.data.end() - kSeal, each.data.end(), forged.data.end() - kSeal);
    EXPECT_EQ(status_of(forged), nfsstat3::NFS3ERR_BADHANDLE);
  }
  nfs_fh3 forged = read_only;  // writable by the export of another
  std::copy_n(file_.data.begin(), kHead, forged.data.begin());
  EXPECT_EQ(status_of(forged), nfsstat3::NFS3ERR_BADHANDLE);
}

TEST_P(HostileNfs, AHandleOfAnotherServerIsNone) {
  const nfs::Served other;
  other.write_file("file", "theirs");
  const auto client = other.connect(transport());
  EXPECT_EQ(status_of(nfs::mounted(*client, "/data")), nfsstat3::NFS3ERR_BADHANDLE);
}

TEST_P(HostileNfs, NoProcedureTakesAForgedHandle) {
  nfs_fh3 forged = root_;
  forged.data.back() ^= std::byte{1};
  for (const Kind& each : with_a_handle()) {
    EXPECT_EQ(each.call(forged, "new"), nfsstat3::NFS3ERR_BADHANDLE) << each.what;
  }
  EXPECT_THAT(names(), UnorderedElementsAre("file"));
}

TEST_P(HostileNfs, AFileIsNoDirectoryToWorkIn) {
  served_->write_file("victim", "");
  const nfs_fh3 victim = handle_of(root_, "victim");
  for (const Kind& each : with_a_name()) {
    EXPECT_EQ(each.call(victim, "new"), nfsstat3::NFS3ERR_NOTDIR) << each.what;
  }
  EXPECT_THAT(names(), UnorderedElementsAre("file", "victim"));
}

TEST_P(HostileNfs, RemovedDirectoryIsStaleForEachProcedure) {
  std::filesystem::create_directory(served_->path("gone"));
  const nfs_fh3 gone = handle_of(root_, "gone");
  ASSERT_EQ(nfs_->NFSPROC3_RMDIR({{root_, "gone"}})->status(), nfsstat3::NFS3_OK);
  for (const Kind& each : with_a_handle()) {
    EXPECT_EQ(each.call(gone, "new"), nfsstat3::NFS3ERR_STALE) << each.what;
  }
  EXPECT_THAT(names(), UnorderedElementsAre("file"));
}

TEST_P(HostileNfs, TwoExportsAreTwoFileSystems) {
  const nfs_fh3 squash = nfs::mounted(*client_, "/squash");
  const auto rename = [&](const nfs_fh3& from, const nfs_fh3& to) {
    return nfs_->NFSPROC3_RENAME({{from, "file"}, {to, "moved"}})->status();
  };
  EXPECT_EQ(rename(root_, squash), nfsstat3::NFS3ERR_XDEV);
  EXPECT_EQ(rename(squash, root_), nfsstat3::NFS3ERR_XDEV);
  EXPECT_EQ(rename(nfs::mounted(*client_, "/ro"), root_), nfsstat3::NFS3ERR_ROFS);
  EXPECT_EQ(nfs_->NFSPROC3_LINK({handle_of(squash, "file"), {root_, "linked"}})->status(),
            nfsstat3::NFS3ERR_XDEV);
  EXPECT_THAT(names(), UnorderedElementsAre("file"));
}

// --- Names --------------------------------------------------------------------------------------

TEST_P(HostileNfs, NamesThatLeadElsewhereAreNone) {
  const auto nul = [](const char* text, std::size_t size) { return std::string(text, size); };
  // Outside the export nothing has these names: a server with the fault would remove and rename
  // what they stand for, and root runs it.
  const std::vector<std::string> wrong{"",
                                       "/",
                                       "//",
                                       "/no-such-name-4711",
                                       "file/",
                                       "a/b",
                                       "../no-such-name-4711",
                                       "file/../x",
                                       "./file",
                                       "../../no-such-name-4711",
                                       nul("\0", 1),
                                       nul("file\0", 5),
                                       nul("..\0", 3),
                                       nul("a\0/", 3)};
  for (const Kind& each : with_a_name()) {
    for (const std::string& name : wrong) {
      EXPECT_EQ(each.call(root_, name), nfsstat3::NFS3ERR_INVAL) << each.what << ' ' << name;
    }
    EXPECT_EQ(each.call(root_, "."), nfsstat3::NFS3ERR_INVAL) << each.what;
    const bool is_removal = std::string_view(each.what) == "RMDIR";
    EXPECT_EQ(each.call(root_, ".."),
              is_removal ? nfsstat3::NFS3ERR_EXIST : nfsstat3::NFS3ERR_INVAL)
        << each.what;
  }
  EXPECT_THAT(names(), UnorderedElementsAre("file"));
}

TEST_P(HostileNfs, LongNamesAreTakenToTheLimitAndNotBeyond) {
  const std::string longest(255, 'n');
  EXPECT_EQ(nfs_->NFSPROC3_MKDIR({{root_, longest}, {}})->status(), nfsstat3::NFS3_OK);
  EXPECT_THAT(names(), UnorderedElementsAre("file", longest));
  auto kinds = with_a_name();
  kinds.push_back({"LOOKUP", [&](auto& at, auto& name) {
                     return nfs_->NFSPROC3_LOOKUP({{at, name}})->status();
                   }});
  for (const std::size_t size : {256U, 257U, 4096U, 4097U, 65'537U, NFS3_TEXT_MAX}) {
    for (const Kind& each : kinds) {
      EXPECT_EQ(each.call(root_, std::string(size, 'n')), nfsstat3::NFS3ERR_NAMETOOLONG)
          << each.what << ' ' << size;
    }
  }
  const auto endless = [&](auto& out) { out.opaque(root_.data).u32(kCountMax).u32(0x61616161); };
  const auto absent = [&](auto& out) { out.opaque(root_.data).u32(NFS3_TEXT_MAX).u32(0x61616161); };
  for (const std::uint32_t procedure : {3U, 12U, 13U}) {
    EXPECT_EQ(say(procedure, endless), kGarbage) << procedure;
    EXPECT_EQ(say(procedure, absent), kGarbage) << procedure;
  }
  EXPECT_THAT(names(), UnorderedElementsAre("file", longest));
}

TEST_P(HostileNfs, NamesAreBytesOfAnyKind) {
  for (const std::string name : {"\xff\xfe\x80", "\xc0\xaf", "\n\x1b[1m", " ", "-rf", "..."}) {
    EXPECT_EQ(nfs_->NFSPROC3_CREATE({{root_, name}, guarded()})->status(), nfsstat3::NFS3_OK);
    EXPECT_TRUE(std::filesystem::exists(served_->path(name)));
    EXPECT_EQ(nfs_->NFSPROC3_REMOVE({{root_, name}})->status(), nfsstat3::NFS3_OK);
  }
}

TEST_P(HostileNfs, MountsNothingByPathsThatLeadElsewhere) {
  std::filesystem::create_directory(served_->path("a"));
  std::filesystem::create_symlink("/etc", served_->path("out"));
  using mount3::mountstat3;
  mount3::MOUNT_V3_Client mount(*client_);
  const std::vector<std::pair<std::string, mountstat3>> wrong{
      {"", mountstat3::MNT3ERR_NOENT},
      {"data", mountstat3::MNT3ERR_NOENT},
      {"//data", mountstat3::MNT3ERR_NOENT},
      {"/../data", mountstat3::MNT3ERR_NOENT},
      {"/data/.", mountstat3::MNT3ERR_INVAL},
      {"/data/a/..", mountstat3::MNT3ERR_INVAL},
      {"/data//../x", mountstat3::MNT3ERR_INVAL},
      {std::string("/data\0", 6), mountstat3::MNT3ERR_NOENT},
      {std::string("/data/a\0", 8), mountstat3::MNT3ERR_INVAL},
      {"/data/out", mountstat3::MNT3ERR_ACCES},
      {"/data/out/passwd", mountstat3::MNT3ERR_ACCES},
      {"/data/" + std::string(256, 'n'), mountstat3::MNT3ERR_NAMETOOLONG},
      {"/data/" + std::string(1018, 'n'), mountstat3::MNT3ERR_NAMETOOLONG},
      {"/elsewhere/a", mountstat3::MNT3ERR_ACCES},
  };
  for (const auto& [path, status] : wrong) {
    EXPECT_EQ(mount.MOUNTPROC3_MNT(path)->fhs_status(), status) << path;
  }
  // Slashes more than are needed lead nowhere else.
  for (const char* const path : {"/data/", "/data//", "/data//a", "/data/a///"}) {
    EXPECT_EQ(mount.MOUNTPROC3_MNT(path)->fhs_status(), mountstat3::MNT3_OK) << path;
  }
  EXPECT_EQ(mount.MOUNTPROC3_MNT("/data" + std::string(1019, '/'))->fhs_status(),
            mountstat3::MNT3_OK);
  const auto too_long = [](auto& out) { out.string("/data" + std::string(1020, '/')); };
  EXPECT_EQ(say(1, too_long, mount3::MOUNT_V3_Service::kProgram), kGarbage);
}

// --- Numbers ------------------------------------------------------------------------------------

TEST_P(HostileNfs, ReadsNoMoreThanThereIs) {
  std::vector<std::byte> place(64);
  for (const std::uint64_t offset : {std::uint64_t{3}, kTop - 1, kTop, kTop + 1, kMax - 1, kMax}) {
    for (const std::uint32_t count : {0U, 1U, 0x8000'0000U, kCountMax}) {
      const auto results = nfs_->NFSPROC3_READ({file_, offset, count}, place).value();
      ASSERT_EQ(results.status(), nfsstat3::NFS3_OK) << offset << ' ' << count;
      EXPECT_EQ(results.resok()->count, 0U);
      if (count > 0) {
        EXPECT_TRUE(results.resok()->eof) << offset << ' ' << count;
      }
    }
  }
  const auto all = nfs_->NFSPROC3_READ({file_, 0, kCountMax}, place).value();
  ASSERT_EQ(all.status(), nfsstat3::NFS3_OK);
  EXPECT_EQ(all.resok()->count, 3U);
}

TEST_P(HostileNfs, WritesNothingBehindTheEndOfNumbers) {
  for (const stable_how stable :
       {stable_how::UNSTABLE, stable_how::DATA_SYNC, stable_how::FILE_SYNC}) {
    for (const std::uint64_t offset : {kTop - 2, kTop - 1, kTop, kMax - 2, kMax - 1, kMax}) {
      const auto results =
          nfs_->NFSPROC3_WRITE({file_, offset, 3, stable, bytes_of("xyz")}).value();
      EXPECT_EQ(results.status(), nfsstat3::NFS3ERR_FBIG) << offset;
    }
  }
}

TEST_P(HostileNfs, WritesOnlyWhatIsThere) {
  for (const std::uint32_t count : {0U, 2U, 4U, 0x7fff'ffffU, 0x8000'0000U, kCountMax}) {
    const auto said = say(7, [&](auto& out) {
      out.opaque(file_.data).u64(0).u32(count).u32(2).opaque(bytes_of("xyz"));
    });
    EXPECT_EQ(said, done(nfsstat3::NFS3ERR_INVAL)) << count;
    // And data that is shorter than its own count says.
    if (count < 4) continue;
    EXPECT_EQ(say(7,
                  [&](auto& out) {
                    out.opaque(file_.data).u64(0).u32(count).u32(2).u32(count).u32(0x78787878);
                  })
                  .accepted,
              count == 4 ? AcceptStatus::kSuccess : AcceptStatus::kGarbageArgs)
        << count;
    served_->write_file("file", "abc");
  }
  EXPECT_EQ(
      say(7,
          [&](auto& out) { out.opaque(file_.data).u64(0).u32(3).u32(3).opaque(bytes_of("xyz")); }),
      kGarbage)
      << "stable_how has no 3";
}

TEST_P(HostileNfs, CommitsWhateverRangeIsAskedFor) {
  for (const std::uint64_t offset : {kTop, kMax}) {
    EXPECT_EQ(nfs_->NFSPROC3_COMMIT({file_, offset, kCountMax})->status(), nfsstat3::NFS3_OK);
  }
}

TEST_P(HostileNfs, ListsIntoNoRoomAndIntoAllTheRoomThereIs) {
  for (const std::uint32_t count : {0U, 1U}) {
    EXPECT_EQ(nfs_->NFSPROC3_READDIR({root_, 0, {}, count})->status(), nfsstat3::NFS3ERR_TOOSMALL);
    for (const std::uint32_t names : {0U, 1U, kCountMax}) {
      EXPECT_EQ(nfs_->NFSPROC3_READDIRPLUS({root_, 0, {}, names, count})->status(),
                nfsstat3::NFS3ERR_TOOSMALL);
    }
  }
  EXPECT_EQ(nfs_->NFSPROC3_READDIR({root_, 0, {}, kCountMax})->status(), nfsstat3::NFS3_OK);
  EXPECT_EQ(nfs_->NFSPROC3_READDIRPLUS({root_, 0, {}, kCountMax, kCountMax})->status(),
            nfsstat3::NFS3_OK);
}

// Those that a file system takes for places in a directory lead to its end at most.
TEST_P(HostileNfs, TakesNoCookieThatNobodyGave) {
  for (const std::uint64_t cookie : {kTop - 1, kTop, kTop + 1, kMax - 1, kMax}) {
    const auto plain = nfs_->NFSPROC3_READDIR({root_, cookie, {}, 4096}).value();
    EXPECT_THAT(plain.status(), AnyOf(nfsstat3::NFS3_OK, nfsstat3::NFS3ERR_BAD_COOKIE)) << cookie;
    if (plain.resok() != nullptr) {
      EXPECT_TRUE(plain.resok()->reply.entries.empty() && plain.resok()->reply.eof) << cookie;
    }
    const auto plus = nfs_->NFSPROC3_READDIRPLUS({root_, cookie, {}, 4096, 8192}).value();
    EXPECT_EQ(plus.status(), plain.status()) << cookie;
  }
  const cookieverf3 wrong{std::byte{1}};
  EXPECT_EQ(nfs_->NFSPROC3_READDIRPLUS({root_, 1, wrong, 4096, 8192})->status(),
            nfsstat3::NFS3ERR_BAD_COOKIE);
}

// --- Attributes and targets ---------------------------------------------------------------------

struct WrongAttributes {
  const char* what;
  sattr3 attributes;
  nfsstat3 status;
};

std::vector<WrongAttributes> wrong_attributes() {
  std::vector<WrongAttributes> all;
  const auto add = [&](const char* what, nfsstat3 status) -> sattr3& {
    all.push_back({what, {}, status});
    all.back().attributes.mode.set_mode(0777);
    return all.back().attributes;
  };
  add("atime", nfsstat3::NFS3ERR_INVAL).atime.set_atime_({1, kSecond});
  add("mtime", nfsstat3::NFS3ERR_INVAL).mtime.set_mtime_({1, kSecond + 1});
  // utimensat(2) takes these for "now" and "as it is".
  add("now", nfsstat3::NFS3ERR_INVAL).atime.set_atime_({1, 0x3fff'ffff});
  add("as it is", nfsstat3::NFS3ERR_INVAL).mtime.set_mtime_({1, 0x3fff'fffe});
  add("most", nfsstat3::NFS3ERR_INVAL).mtime.set_mtime_({1, kCountMax});
  // chown(2) takes this for "as it is".
  add("uid", nfsstat3::NFS3ERR_INVAL).uid.set_uid(kCountMax);
  add("gid", nfsstat3::NFS3ERR_INVAL).gid.set_gid(kCountMax);
  return all;
}

TEST_P(HostileNfs, SetsNothingWhenAnyOfItIsWrong) {
  ASSERT_EQ(::chmod(served_->path("file").c_str(), 0640), 0);
  auto all = wrong_attributes();
  sattr3 huge;
  huge.mode.set_mode(0777);
  for (const std::uint64_t size : {kTop, kMax}) {
    huge.size.set_size(size);
    all.push_back({"size", huge, nfsstat3::NFS3ERR_FBIG});
  }
  for (WrongAttributes& each : all) {
    if (each.attributes.size.size() == nullptr) each.attributes.size.set_size(1);
    EXPECT_EQ(nfs_->NFSPROC3_SETATTR({file_, each.attributes, {}})->status(), each.status)
        << each.what;
    const auto now = nfs_->NFSPROC3_GETATTR({file_}).value();
    EXPECT_EQ(now.resok()->obj_attributes.mode, 0640U) << each.what;
    EXPECT_EQ(now.resok()->obj_attributes.size, 3U) << each.what;
  }
}

TEST_P(HostileNfs, MakesNothingWithAttributesThatAreWrong) {
  for (const WrongAttributes& each : wrong_attributes()) {
    const sattr3& with = each.attributes;
    EXPECT_EQ(nfs_->NFSPROC3_CREATE({{root_, "n"}, guarded(with)})->status(), each.status)
        << each.what;
    createhow3 unchecked;
    unchecked.set_obj_attributes(createmode3::UNCHECKED, with);
    EXPECT_EQ(nfs_->NFSPROC3_CREATE({{root_, "n"}, unchecked})->status(), each.status) << each.what;
    EXPECT_EQ(nfs_->NFSPROC3_MKDIR({{root_, "n"}, with})->status(), each.status) << each.what;
    EXPECT_EQ(nfs_->NFSPROC3_SYMLINK({{root_, "n"}, {with, "x"}})->status(), each.status)
        << each.what;
    EXPECT_EQ(nfs_->NFSPROC3_MKNOD({{root_, "n"}, fifo(with)})->status(), each.status) << each.what;
  }
  sattr3 huge;
  huge.size.set_size(kMax);
  EXPECT_EQ(nfs_->NFSPROC3_CREATE({{root_, "n"}, guarded(huge)})->status(), nfsstat3::NFS3ERR_FBIG);
  EXPECT_THAT(names(), UnorderedElementsAre("file"));
}

TEST_P(HostileNfs, KnowsTheWaysToSetTimesAndNoOther) {
  for (const std::uint32_t how : {3U, kCountMax}) {
    EXPECT_EQ(say(2,
                  [&](auto& out) {
                    out.opaque(file_.data).u32(0).u32(0).u32(0).u32(0).u32(how).u32(0).u32(0);
                  }),
              kGarbage);
  }
}

TEST_P(HostileNfs, MakesNoLinkToNothing) {
  const auto link = [&](const std::string& target) {
    return nfs_->NFSPROC3_SYMLINK({{root_, "link"}, {{}, target}})->status();
  };
  EXPECT_EQ(link(""), nfsstat3::NFS3ERR_INVAL);
  EXPECT_EQ(link(std::string("a\0b", 3)), nfsstat3::NFS3ERR_INVAL);
  EXPECT_EQ(link(std::string("\0", 1)), nfsstat3::NFS3ERR_INVAL);
  for (const std::size_t size : {4096U, 4097U, 65'537U, NFS3_TEXT_MAX}) {
    EXPECT_EQ(link(std::string(size, 'x')), nfsstat3::NFS3ERR_NAMETOOLONG) << size;
  }
  EXPECT_THAT(names(), UnorderedElementsAre("file"));
  EXPECT_EQ(link(std::string(4095, 'x')), nfsstat3::NFS3_OK);
}

TEST_P(HostileNfs, MakesNoDeviceThatThereCannotBe) {
  if (::geteuid() != 0) GTEST_SKIP() << "devices are made by root alone";
  for (const auto& [major, minor] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{
           {kCountMax, 0}, {0, kCountMax}, {4096, 0}, {1, 1U << 20U}, {kCountMax, kCountMax}}) {
    for (const ftype3 type : {ftype3::NF3CHR, ftype3::NF3BLK}) {
      mknoddata3 data;
      data.set_device(type, {{}, {major, minor}});
      EXPECT_EQ(nfs_->NFSPROC3_MKNOD({{root_, "device"}, data})->status(), nfsstat3::NFS3ERR_INVAL)
          << major << ' ' << minor;
    }
  }
  for (const ftype3 type : {ftype3::NF3DIR, ftype3::NF3LNK}) {
    mknoddata3 data;
    data.set_void(type);
    EXPECT_EQ(nfs_->NFSPROC3_MKNOD({{root_, "device"}, data})->status(), nfsstat3::NFS3ERR_BADTYPE);
  }
  for (const std::uint32_t type : {0U, 8U, kCountMax}) {
    const auto odd = [&](auto& out) { out.opaque(root_.data).string("device").u32(type); };
    EXPECT_EQ(say(11, odd), kGarbage) << type;
  }
  EXPECT_THAT(names(), UnorderedElementsAre("file"));
}

}  // namespace
}  // namespace nfs3
