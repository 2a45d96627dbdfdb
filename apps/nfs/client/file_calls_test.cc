#include "nfs/client/file_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "nfs/client/mounted.h"
#include "nfs/relay_for_test.h"
#include "nfs/served_for_test.h"

namespace nfs {
namespace {

using nfs3::nfsstat3;
using rpcrdma::Task;

MountOptions software() {
  MountOptions options;
  options.client.provider.name = "siwarp";
  options.credential.emplace().machine_name = "test";
  options.client.reconnect.enabled = true;
  return options;
}

nfs3::createverf3 verifier_of(std::string_view text) {
  nfs3::createverf3 verifier;
  std::ranges::copy(bytes_of(text), verifier.begin());
  return verifier;
}

class FileCallsTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    mounted_ =
        Mounted::open(parse_nfs_url(served_.url(GetParam(), "/data")).value(), software()).value();
    calls_.emplace(mounted_->call_maker());
  }
  template <class T>
  T done(Task<Result<T>> task) {
    auto result = mounted_->wait_for(std::move(task));
    EXPECT_TRUE(result) << result.error().message();
    return std::move(*result);
  }
  nfs3::diropargs3 in_root(const std::string& name) const { return {mounted_->root(), name}; }
  nfs3::nfs_fh3 handle(const std::string& name) {
    const nfs3::LOOKUP3args args{in_root(name)};
    auto found = done(calls_->look_up(args));
    EXPECT_NE(found.resok(), nullptr) << name;
    return found.resok() != nullptr ? found.resok()->object : nfs3::nfs_fh3();
  }

  Served served_;
  std::unique_ptr<Mounted> mounted_;
  std::optional<FileCalls> calls_;
};
INSTANTIATE_TEST_SUITE_P(Over, FileCallsTest, testing::Values("rdma", "tcp"),
                         [](const auto& each) { return each.param; });

TEST_P(FileCallsTest, ExclusiveCreationWithTheSameVerifierFindsTheSameFile) {
  nfs3::CREATE3args args{in_root("new"), {}};
  args.how.set_verf(verifier_of("12345678"));
  const auto made = done(calls_->create(args));
  ASSERT_EQ(made.status(), nfsstat3::NFS3_OK);
  const auto again = done(calls_->create(args));
  ASSERT_EQ(again.status(), nfsstat3::NFS3_OK);
  EXPECT_EQ(made.resok()->obj.handle()->data, again.resok()->obj.handle()->data);
  args.how.set_verf(verifier_of("87654321"));
  const auto refused = done(calls_->create(args));
  EXPECT_EQ(refused.status(), nfsstat3::NFS3ERR_EXIST);
  EXPECT_NE(directory_change(refused), nullptr);
}

TEST_P(FileCallsTest, LinkGivesAFileASecondName) {
  served_.write_file("one", "text");
  const nfs3::LINK3args args{handle("one"), in_root("two")};
  const auto linked = done(calls_->link(args));
  ASSERT_EQ(linked.status(), nfsstat3::NFS3_OK);
  ASSERT_NE(linked.resok()->file_attributes.attributes(), nullptr);
  EXPECT_EQ(linked.resok()->file_attributes.attributes()->nlink, 2U);
  EXPECT_EQ(served_.read_file("two"), "text");
}

// Only a call whose answer was lost may have made it.
TEST_P(FileCallsTest, SymbolicLinkThatWasThereIsNotMadeAgain) {
  const auto make = [this] {
    return mounted_->wait_for(mounted_->make_symbolic_link(mounted_->root(), "link", "target"));
  };
  ASSERT_TRUE(make());
  const auto again = make();
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().status, nfsstat3::NFS3ERR_EXIST);
}

TEST_P(FileCallsTest, AccessSaysWhatIsAllowedWithTheAttributes) {
  served_.write_file("file", "12345");
  const nfs3::ACCESS3args args{handle("file"), nfs3::ACCESS3_READ | nfs3::ACCESS3_MODIFY};
  const auto asked = done(calls_->access(args));
  ASSERT_NE(asked.resok(), nullptr);
  EXPECT_EQ(asked.resok()->access, nfs3::ACCESS3_READ | nfs3::ACCESS3_MODIFY);
  ASSERT_NE(asked.resok()->obj_attributes.attributes(), nullptr);
  EXPECT_EQ(asked.resok()->obj_attributes.attributes()->size, 5U);
}

TEST_P(FileCallsTest, CredentialOfACallReplacesThatOfTheConnection) {
  served_.write_file("file", "12345");
  ASSERT_EQ(::chmod(served_.path("file").c_str(), 0600), 0);
  rpcrdma::AuthSys somebody;
  somebody.uid = 12345;
  somebody.gid = 12345;
  const nfs3::ACCESS3args args{handle("file"), nfs3::ACCESS3_READ};
  CallAs as{.credential = &somebody};
  EXPECT_EQ(done(calls_->access(args, as)).resok()->access, 0U);
  const rpcrdma::AuthSys root;
  as.credential = &root;
  EXPECT_EQ(done(calls_->access(args, as)).resok()->access, nfs3::ACCESS3_READ);
}

TEST_P(FileCallsTest, MakesAFifo) {
  nfs3::MKNOD3args args{in_root("fifo"), {}};
  args.what.set_pipe_attributes(nfs3::ftype3::NF3FIFO, {}).mode.set_mode(0600);
  ASSERT_EQ(done(calls_->make_node(args)).status(), nfsstat3::NFS3_OK);
  struct stat status {};
  ASSERT_EQ(::lstat(served_.path("fifo").c_str(), &status), 0);
  EXPECT_TRUE(S_ISFIFO(status.st_mode));
}

TEST_P(FileCallsTest, RepliesHaveTheAttributesOfWhatTheyChange) {
  served_.write_file("file", "");
  const nfs3::nfs_fh3 file = handle("file");
  const std::string text = "hello";
  const nfs3::WRITE3args write{file, 0, 5, nfs3::stable_how::UNSTABLE, bytes_of(text)};
  const auto written = done(calls_->write(write));
  ASSERT_NE(written.resok(), nullptr);
  ASSERT_NE(file_change(written)->after.attributes(), nullptr);
  EXPECT_EQ(file_change(written)->after.attributes()->size, 5U);
  std::vector<std::byte> into(100);
  const nfs3::READ3args read{file, 0, 100};
  const auto got = done(calls_->read(read, into));
  EXPECT_EQ(got.count, 5U);
  EXPECT_TRUE(got.is_at_end);
  ASSERT_TRUE(got.attributes);
  EXPECT_EQ(got.attributes->size, 5U);
  nfs3::SETATTR3args set{file, {}, {}};
  set.new_attributes.mode.set_mode(0640);
  const auto changed = done(calls_->set_attributes(set));
  ASSERT_NE(changed.resok(), nullptr);
  EXPECT_EQ(changed.resok()->obj_wcc.after.attributes()->mode & 07777U, 0640U);
  const nfs3::RENAME3args move{in_root("file"), in_root("moved")};
  const auto moved = done(calls_->rename(move));
  ASSERT_NE(moved.resok(), nullptr);
  EXPECT_NE(moved.resok()->todir_wcc.after.attributes(), nullptr);
  const nfs3::REMOVE3args remove{in_root("moved")};
  const auto removed = done(calls_->remove(remove));
  ASSERT_NE(removed.resok(), nullptr);
  EXPECT_NE(removed.resok()->dir_wcc.after.attributes(), nullptr);
}

TEST_P(FileCallsTest, ReadsADirectoryPageByPage) {
  std::set<std::string> expected;
  for (int i = 0; i < 300; ++i) {
    const std::string name = std::string(100, 'x') + std::to_string(i);
    expected.insert(name);
    served_.write_file(name, "");
  }
  nfs3::READDIRPLUS3args args{mounted_->root(), 0, {}, 8192, 8192};
  std::set<std::string> names;
  int pages = 0;
  for (bool is_last = false; !is_last; ++pages) {
    auto page = done(calls_->read_directory_plus(args));
    ASSERT_NE(page.resok(), nullptr);
    for (const nfs3::entryplus3& each : page.resok()->reply.entries) {
      args.cookie = each.cookie;
      if (each.name.starts_with('x')) {
        EXPECT_TRUE(names.insert(each.name).second) << each.name;
      }
    }
    args.cookieverf = page.resok()->cookieverf;
    is_last = page.resok()->reply.eof;
  }
  EXPECT_EQ(names, expected);
  EXPECT_GT(pages, 5);
}

TEST_P(FileCallsTest, LimitsComeWithTheirCalls) {
  const nfs3::PATHCONF3args names{mounted_->root()};
  EXPECT_GE(done(calls_->name_limits(names)).resok()->name_max, 255U);
  const nfs3::FSINFO3args limits{mounted_->root()};
  EXPECT_GE(done(calls_->server_limits(limits)).resok()->rtmax, 4096U);
  const nfs3::FSSTAT3args space{mounted_->root()};
  EXPECT_GT(done(calls_->space(space)).resok()->tbytes, 0U);
}

TEST_P(FileCallsTest, ARefusalIsAReply) {
  const nfs3::LOOKUP3args args{in_root("nothing")};
  const auto refused = done(calls_->look_up(args));
  EXPECT_EQ(refused.status(), nfsstat3::NFS3ERR_NOENT);
  ASSERT_NE(refused.resfail(), nullptr);
  EXPECT_NE(refused.resfail()->dir_attributes.attributes(), nullptr);
}

TEST_P(FileCallsTest, RunsInAnotherEventLoop) {
  served_.write_file("file", "");
  const nfs3::LOOKUP3args args{in_root("file")};
  const int descriptor = mounted_->connections().wait_fd();
  auto task = calls_->look_up(args);
  task.start();
  while (!task.done()) {
    pollfd entry{descriptor, POLLIN, 0};
    ASSERT_GT(::poll(&entry, 1, 60'000), 0);
    mounted_->connections().progress();
  }
  EXPECT_EQ(mounted_->connections().wait_fd(), descriptor);
  EXPECT_NE(std::move(task).result()->resok(), nullptr);
}

TEST_P(FileCallsTest, OtherEventLoopSeesTheNextConnection) {
  served_.restart();
  const nfs3::GETATTR3args args{mounted_->root()};
  const int descriptor = mounted_->connections().wait_fd();
  auto task = calls_->get_attributes(args);
  task.start();
  const auto deadline = Connections::Clock::now() + std::chrono::seconds(60);
  while (!task.done()) {
    ASSERT_LT(Connections::Clock::now(), deadline);
    int left = 60'000;
    if (const auto next = mounted_->connections().next_time()) {
      left = std::max(0, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(
                                              *next - Connections::Clock::now())
                                              .count()));
    }
    pollfd entry{descriptor, POLLIN, 0};
    ::poll(&entry, 1, left);
    mounted_->connections().progress();
  }
  EXPECT_EQ(std::move(task).result()->status(), nfsstat3::NFS3_OK);
}

TEST(FileCalls, SayThatAnEarlierCallMayHaveBeenExecuted) {
  Served served;
  Relay relay(served.address("tcp"));
  const auto url = parse_nfs_url("nfs+tcp://" + relay.address() + "/data").value();
  auto mounted = Mounted::open(url, software()).value();
  FileCalls calls(mounted->call_maker());
  bool was_repeated = false;
  const nfs3::MKDIR3args args{{mounted->root(), "directory"}, {}};
  const CallAs as{.was_repeated = &was_repeated};
  relay.lose_after(0);
  auto made = mounted->wait_for(calls.make_directory(args, as));
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_TRUE(relay.has_lost_it());
  EXPECT_TRUE(was_repeated);
  EXPECT_THAT(made->status(), testing::AnyOf(nfsstat3::NFS3_OK, nfsstat3::NFS3ERR_EXIST));
  was_repeated = false;
  const nfs3::GETATTR3args again{mounted->root()};
  EXPECT_TRUE(mounted->wait_for(calls.get_attributes(again, as)));
  EXPECT_FALSE(was_repeated);
}

// Replies that no server means.
class LyingServer : public nfs3::NFS_V3_Service {
 public:
  // The .x file's limits are above those of a server.
  std::span<const rpcrdma::ProcedureTraits> all_traits() const noexcept override { return {}; }
  void NFSPROC3_READ(rpcrdma::Answer<nfs3::READ3res> answer, nfs3::READ3args args) override {
    nfs3::READ3res results;
    nfs3::READ3resok& ok = results.set_resok();
    ok.count = args.offset == 0 ? 100 : 0;
    ok.data = bytes_of("four").first(args.offset == 0 ? 4 : 0);
    answer.succeed(results);
  }
  void NFSPROC3_WRITE(rpcrdma::Answer<nfs3::WRITE3res> answer, nfs3::WRITE3args args) override {
    nfs3::WRITE3res results;
    results.set_resok().count = args.offset == 0 ? args.count + 1 : 0;
    answer.succeed(results);
  }
};

class Lied : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    rpcrdma::ServerOptions settings;
    settings.provider.name = "siwarp";
    Exporter::make_room_in(settings);
    auto server = rpcrdma::Server::listen(GetParam() + "://127.0.0.1:0", settings);
    ASSERT_TRUE(server) << server.error().message();
    server_.emplace(std::move(*server));
    ASSERT_TRUE(server_->add(nfs3::NFS_PROGRAM, nfs3::NFS_V3, service_));
    thread_ = std::thread([this] { server_->run(); });
    Connections::Options options;
    options.client.provider.name = "siwarp";
    options.urls = {GetParam() + "://" + std::string(server_->address())};
    connections_.emplace(options);
    ASSERT_TRUE(connections_->first());
    call_maker_.emplace(*connections_, std::chrono::seconds(60));
    calls_.emplace(*call_maker_);
  }
  void TearDown() override {
    connections_.reset();
    server_->stop();
    thread_.join();
  }
  template <class T>
  std::string refused(Task<Result<T>> task) {
    task.start();
    while (!task.done()) {
      connections_->wait();
      connections_->progress();
    }
    const auto result = std::move(task).result();
    return result ? "" : result.error().message();
  }

  LyingServer service_;
  std::optional<rpcrdma::Server> server_;
  std::thread thread_;
  std::optional<Connections> connections_;
  std::optional<CallMaker> call_maker_;
  std::optional<FileCalls> calls_;
};
INSTANTIATE_TEST_SUITE_P(Over, Lied, testing::Values("rdma", "tcp"),
                         [](const auto& each) { return each.param; });

TEST_P(Lied, ReadsThatContradictThemselvesFail) {
  std::vector<std::byte> into(100);
  const nfs3::READ3args too_many{{}, 0, 100};
  EXPECT_THAT(refused(calls_->read(too_many, into)), testing::HasSubstr("contradicts"));
  const nfs3::READ3args nothing{{}, 1, 100};
  EXPECT_THAT(refused(calls_->read(nothing, into)), testing::HasSubstr("contradicts"));
}

TEST_P(Lied, WritesOfAnotherSizeFail) {
  const nfs3::WRITE3args more{{}, 0, 4, nfs3::stable_how::UNSTABLE, bytes_of("four")};
  EXPECT_THAT(refused(calls_->write(more)), testing::HasSubstr("contradicts"));
  const nfs3::WRITE3args none{{}, 1, 4, nfs3::stable_how::UNSTABLE, bytes_of("four")};
  EXPECT_THAT(refused(calls_->write(none)), testing::HasSubstr("contradicts"));
}

}  // namespace
}  // namespace nfs
