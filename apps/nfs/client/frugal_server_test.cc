// Answers that a server may give and ours does not: fewer bytes than were asked for, a file that
// was made without a word about it, that it is too busy, and lists without end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "mount3.h"
#include "nfs/client/copying_for_test.h"
#include "nfs/exporter.h"
#include "nfs/results.h"
#include "nfs3.h"
#include "rpcrdma/server.h"

namespace nfs {
namespace {

nfs3::fattr3 attributes_of_file(std::size_t size) {
  nfs3::fattr3 made;
  made.type = nfs3::ftype3::NF3REG;
  made.mode = 0644;
  made.nlink = 1;
  made.size = size;
  made.fileid = 2;
  return made;
}

class FrugalMount : public mount3::MOUNT_V3_Service {
 public:
  void MOUNTPROC3_EXPORT(rpcrdma::Answer<mount3::exports> answer) override {
    answer.succeed({{"/data", {}}});
  }
  void MOUNTPROC3_MNT(rpcrdma::Answer<mount3::mountres3> answer,
                      mount3::dirpath /*path*/) override {
    mount3::mountres3 results;
    results.set_mountinfo().fhandle = {std::byte{1}};
    answer.succeed(results);
  }
};

// Has one file, "file".
class FrugalServer : public nfs3::NFS_V3_Service {
 public:
  static constexpr std::uint32_t kMost = 1000;  // bytes in one answer

  // The limits of the .x file are above those of a server.
  std::span<const rpcrdma::ProcedureTraits> all_traits() const noexcept override { return {}; }
  void NFSPROC3_FSINFO(rpcrdma::Answer<nfs3::FSINFO3res> answer,
                       nfs3::FSINFO3args /*args*/) override {
    if (is_busy(answer)) return;
    nfs3::FSINFO3res results;
    nfs3::FSINFO3resok& ok = results.set_resok();
    ok.rtmax = ok.wtmax = most;
    ok.rtpref = ok.wtpref = preferred;
    answer.succeed(results);
  }
  void NFSPROC3_GETATTR(rpcrdma::Answer<nfs3::GETATTR3res> answer,
                        nfs3::GETATTR3args /*args*/) override {
    if (is_busy(answer)) return;
    nfs3::GETATTR3res results;
    results.set_resok().obj_attributes = attributes_of_file(content.size());
    answer.succeed(results);
  }
  void NFSPROC3_LOOKUP(rpcrdma::Answer<nfs3::LOOKUP3res> answer, nfs3::LOOKUP3args args) override {
    if (is_busy(answer)) return;
    looked_up = args.what.name;
    nfs3::LOOKUP3res results;
    nfs3::LOOKUP3resok& ok = results.set_resok();
    ok.object = {{std::byte{2}}};
    ok.obj_attributes.set_attributes(attributes_of_file(content.size()));
    answer.succeed(results);
  }
  void NFSPROC3_READ(rpcrdma::Answer<nfs3::READ3res> answer, nfs3::READ3args args) override {
    if (is_busy(answer)) return;
    const std::size_t begin = std::min<std::size_t>(args.offset, content.size());
    const std::size_t count_max = args.offset >= reads_nothing_from ? 0 : kMost;
    const std::string_view part =
        std::string_view(content).substr(begin, std::min<std::size_t>(args.count, count_max));
    nfs3::READ3res results;
    nfs3::READ3resok& ok = results.set_resok();
    ok.count = static_cast<std::uint32_t>(part.size());
    ok.eof = begin + part.size() == content.size();
    ok.data = nfs::bytes_of(part);
    answer.succeed(results);
  }
  void NFSPROC3_CREATE(rpcrdma::Answer<nfs3::CREATE3res> answer,
                       nfs3::CREATE3args /*args*/) override {
    nfs3::CREATE3res results;
    results.set_resok();  // neither handle nor attributes
    answer.succeed(results);
  }

  // Lists pages of kPage names, with cookies that begin again after so many pages.
  void NFSPROC3_READDIRPLUS(rpcrdma::Answer<nfs3::READDIRPLUS3res> answer,
                            nfs3::READDIRPLUS3args args) override {
    if (is_busy(answer)) return;
    nfs3::READDIRPLUS3res results;
    nfs3::READDIRPLUS3resok& ok = results.set_resok();
    for (std::size_t i = 1; i <= kPage; ++i) {
      nfs3::entryplus3 entry;
      entry.cookie = args.cookie + i;
      entry.name = std::to_string(++names_listed);
      if (entry.cookie == kPage * pages_of_circle) entry.cookie = kPage;
      if (says & 1U) entry.name_handle.set_handle({{std::byte{2}}});
      if (says & 2U) entry.name_attributes.set_attributes(attributes_of_file(7));
      ok.reply.entries.push_back(std::move(entry));
    }
    ok.reply.eof = names_listed >= names;
    answer.succeed(results);
  }

  static constexpr std::uint64_t kPage = 20;
  std::atomic<std::uint64_t> names = 20 * kPage, names_listed = 0;
  std::uint64_t pages_of_circle = 1'000'000;
  std::atomic<unsigned> says = 0;  // of each that is listed: 1, its handle; 2, its attributes
  std::uint64_t reads_nothing_from = UINT64_MAX;
  std::atomic<std::size_t> busy_calls = 0;  // that are answered so before others are
  std::string content, looked_up;
  std::uint32_t most = 1U << 20U, preferred = 1U << 20U;

 private:
  template <class Results>
  bool is_busy(rpcrdma::Answer<Results>& answer) {
    if (busy_calls == 0) return false;
    --busy_calls;
    answer.succeed(failed<Results>(nfs3::nfsstat3::NFS3ERR_JUKEBOX));
    return true;
  }
};

class Frugal : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    rpcrdma::ServerOptions settings;
    settings.provider.name = "siwarp";
    Exporter::make_room_in(settings);
    auto listening = rpcrdma::Server::listen(GetParam() + "://127.0.0.1:0", settings);
    ASSERT_TRUE(listening) << listening.error().message();
    server_.emplace(std::move(*listening));
    ASSERT_TRUE(server_->add(nfs3::NFS_PROGRAM, nfs3::NFS_V3, service_));
    ASSERT_TRUE(server_->add(mount3::MOUNT_PROGRAM, mount3::MOUNT_V3, mount_));
    thread_ = std::thread([this] { server_->run(); });
  }
  void TearDown() override {
    mounted_.reset();
    server_->stop();
    thread_.join();
  }
  Mounted& mounted(MountOptions options = {}) {
    options.client.provider.name = "siwarp";
    options.credential.emplace().machine_name = "test";
    const std::string url = "nfs+" + GetParam() + "://" + std::string(server_->address()) + "/data";
    auto opened = Mounted::open(parse_nfs_url(url).value(), options);
    EXPECT_TRUE(opened) << opened.error().message();
    mounted_ = std::move(*opened);
    return *mounted_;
  }

  FrugalServer service_;
  FrugalMount mount_;
  std::optional<rpcrdma::Server> server_;
  std::thread thread_;
  std::unique_ptr<Mounted> mounted_;
};
INSTANTIATE_TEST_SUITE_P(Over, Frugal, testing::Values("rdma", "tcp"),
                         [](const auto& each) { return each.param; });

TEST_P(Frugal, ReadsOfFewerBytesGoOnWhereTheyEnded) {
  service_.content = bytes_of(std::size_t{10'500});
  std::string here = (fs::temp_directory_path() / "nfs-frugal-XXXXXX").string();
  ASSERT_NE(::mkdtemp(here.data()), nullptr);
  const auto ended = Copier(mounted(), {.verify = true}).download({"file"}, here + "/copy");
  EXPECT_EQ(messages(ended), "");
  EXPECT_TRUE(content_of(here + "/copy") == service_.content);
  remove_tree(here);
}

TEST_P(Frugal, FileThatWasMadeWithoutAWordIsLookedUp) {
  const auto made = mounted().wait_for(mounted_->create(mounted_->root(), "new", 0644));
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ(service_.looked_up, "new");
  EXPECT_EQ(made->attributes.fileid, 2U);
}

TEST_P(Frugal, ServerThatPrefersNoSizeIsAskedForItsLargest) {
  service_.preferred = 0;
  service_.most = 64U << 10U;
  EXPECT_EQ(mounted().read_size(), 64U << 10U);
  EXPECT_EQ(mounted_->write_size(), 64U << 10U);
}

TEST_P(Frugal, FileOfWhichNothingIsReadBeforeItsEndIsAFailure) {
  service_.content = std::string(3000, 'x');
  service_.reads_nothing_from = 2000;
  std::vector<std::byte> buffer(FrugalServer::kMost);
  const nfs3::nfs_fh3 file{{std::byte{2}}};
  EXPECT_EQ(mounted().wait_for(mounted_->read(file, 1000, buffer)).value().count, 1000U);
  const auto read = mounted_->wait_for(mounted_->read(file, 2000, buffer));
  ASSERT_FALSE(read) << "it ends at 3000";
  EXPECT_THAT(read.error().message(), testing::HasSubstr("before the end"));
  EXPECT_TRUE(mounted_->wait_for(mounted_->read(file, 3000, buffer)).value().is_at_end);
}

TEST_P(Frugal, ServerThatIsTooBusyIsAskedAgain) {
  service_.content = std::string(10, 'x');
  service_.busy_calls = 1;
  EXPECT_EQ(mounted().read_size(), service_.preferred) << "FSINFO, of mounting";
  service_.busy_calls = 2;
  const auto found = mounted_->wait_for(mounted_->look_up_path("file"));
  ASSERT_TRUE(found) << found.error().message();
  service_.busy_calls = 1;
  std::vector<std::byte> buffer(10);
  EXPECT_EQ(mounted_->wait_for(mounted_->read(found->handle, 0, buffer)).value().count, 10U);
  service_.busy_calls = 1;
  EXPECT_EQ(mounted_->wait_for(mounted_->list(mounted_->root())).value().size(), service_.names);
}

TEST_P(Frugal, ServerThatStaysTooBusyIsAFailureAfterTheTimeOfACall) {
  MountOptions options;
  options.client.call_timeout = std::chrono::seconds(2);
  mounted(options);
  service_.busy_calls = SIZE_MAX;
  const auto found = mounted_->wait_for(mounted_->look_up_path("file"));
  ASSERT_FALSE(found);
  EXPECT_TRUE(found.error().is_busy()) << found.error().message();
}

TEST_P(Frugal, ListThatGoesRoundInACircleIsAFailure) {
  service_.pages_of_circle = 3;
  const auto listed = mounted().wait_for(mounted_->list(mounted_->root()));
  ASSERT_FALSE(listed) << "it ended by itself";
  EXPECT_THAT(listed.error().message(), testing::HasSubstr("without end"));
}

// RFC 1813 leaves both to the server.
TEST_P(Frugal, NamesAreListedWithAllOrNothingOfTheirFiles) {
  for (const unsigned says : {0U, 1U, 2U, 3U}) {
    service_.says = says;
    service_.names_listed = 0;
    const auto listed = mounted().wait_for(mounted_->list(mounted_->root()));
    ASSERT_TRUE(listed) << listed.error().message();
    ASSERT_EQ(listed->size(), service_.names);
    EXPECT_EQ(listed->front().node.has_value(), says == 3) << says;
  }
}

TEST_P(Frugal, ListOfMoreNamesThanAreTakenIsAFailure) {
  MountOptions options;
  options.entries_max = service_.names;
  EXPECT_TRUE(mounted(options).wait_for(mounted_->list(mounted_->root())));
  service_.names_listed = 0;
  service_.names = 2 * options.entries_max;
  const auto listed = mounted_->wait_for(mounted_->list(mounted_->root()));
  ASSERT_FALSE(listed) << "it ended by itself";
  EXPECT_THAT(listed.error().message(), testing::HasSubstr("--entries-max"));
  EXPECT_LE(service_.names_listed, options.entries_max + FrugalServer::kPage);
}

}  // namespace
}  // namespace nfs
