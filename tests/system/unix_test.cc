// The same service over Unix sockets: unix:///PATH beside tcp:// and rdma://, through the public
// headers.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rpcrdma/client.h"
#include "rpcrdma/server.h"
#include "rpcrdma/take_over.h"
#include "support/checked_reply.h"
#include "support/raw_peer.h"
#include "support/raw_rpc.h"
#include "support/rpc_fixture.h"
#include "tcp/record.h"

namespace rpcrdma::test {
namespace {

constexpr std::size_t kPathMax = 107;  // unix(7): sun_path has 108 bytes, the last is zero

bool is_there(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

int unix_socket(const std::string& path,
                const std::function<int(int, const sockaddr*, socklen_t)>& what) {
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, path.size());
  EXPECT_EQ(what(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  return descriptor;
}

// Leaves what a server leaves that was killed.
void leave_socket(const std::string& path) {
  ::close(unix_socket(path, ::bind));
}

class UnixTest : public ::testing::Test {
 protected:
  UnixTest() {
    std::string name = ::testing::TempDir() + "rpcrdma.XXXXXX";
    folder_ = ::mkdtemp(name.data());
    path_ = folder_ + "/socket";
  }
  ~UnixTest() override {
    server_.reset();
    ::unlink(path_.c_str());
    ::rmdir(folder_.c_str());
  }
  void start(const ServerOptions& options = {}) {
    auto server = Server::listen(url(), options);
    ASSERT_TRUE(server) << server.error().message();
    server_.emplace(std::move(*server));
    ASSERT_TRUE(server_->add(TestService::kProgram, TestService::kVersion, service_));
  }
  // Serves while a client, which blocks, does something.
  void beside(const std::function<void()>& clients) {
    std::thread serving([this] { server_->run(); });
    clients();
    server_->stop();
    serving.join();
  }
  std::string url() const { return "unix://" + path_; }
  static Expected<Reply, Error> call(Client& client, std::uint32_t procedure) {
    auto call = client.prepare({TestService::kProgram, TestService::kVersion, procedure});
    if (!call) return Unexpected<Error>(call.error());
    return client.call(std::move(*call));
  }

  std::string folder_, path_;
  TestService service_;
  std::optional<Server> server_;
};

TEST_F(UnixTest, ServesCallsAndSaysThePath) {
  start();
  EXPECT_EQ(server_->address(), path_);
  EXPECT_EQ(server_->provider_name(), "tcp");
  const Message data = pattern(300'001, 7);
  beside([&] {
    auto client = Client::connect(url());
    ASSERT_TRUE(client) << client.error().message();
    EXPECT_EQ(client->connection().peer_address, path_);
    EXPECT_EQ(client->connection().provider_name, "tcp");
    auto echo = client->prepare({TestService::kProgram, TestService::kVersion, TestService::kEcho});
    ASSERT_TRUE(echo);
    echo->arguments().bulk(data);
    auto reply = client->call(std::move(*echo));
    ASSERT_TRUE(reply) << reply.error().message();
    EXPECT_TRUE(std::ranges::equal(read(*reply)->bulk(400'000, "data"), data));
  });
}

TEST_F(UnixTest, BeginConnectDoesNotBlock) {
  start();
  auto client = Client::begin_connect(url());
  ASSERT_TRUE(client) << client.error().message();
  client->progress();
  EXPECT_TRUE(client->connected()) << "before the server has accepted it";
  beside([&] { EXPECT_TRUE(call(*client, TestService::kNull)); });
}

TEST_F(UnixTest, ClientReconnectsToAServerThatHasComeBack) {
  ClientOptions options;
  options.reconnect.enabled = true;
  start();
  std::optional<Client> client;
  beside([&] {
    auto made = Client::connect(url(), options);
    ASSERT_TRUE(made) << made.error().message();
    client.emplace(std::move(*made));
    EXPECT_TRUE(call(*client, TestService::kNull));
  });
  server_.reset();
  start();
  beside([&] {
    const auto reply = call(*client, TestService::kNull);
    EXPECT_TRUE(reply) << reply.error().message();
  });
}

TEST_F(UnixTest, NamesPeersByUserAndProcess) {
  ServerOptions options;
  std::vector<std::string> peers;
  options.on_connection = [&](const ConnectionEvent& event) { peers.emplace_back(event.peer); };
  start(options);
  beside([&] {
    auto client = Client::connect(url());
    ASSERT_TRUE(client);
    EXPECT_TRUE(call(*client, TestService::kNull));
  });
  ASSERT_FALSE(peers.empty());
  EXPECT_EQ(peers[0], "local (user " + std::to_string(::getuid()) + ", process " +
                          std::to_string(::getpid()) + ")");
}

TEST_F(UnixTest, TakesASocketThatListensAlreadyAndLeavesItsFile) {
  const int given = unix_socket(path_, ::bind);
  ASSERT_EQ(::listen(given, 8), 0);
  auto server = Server::listen("tcp://127.0.0.1:0");
  ASSERT_TRUE(server);
  server_.emplace(std::move(*server));
  ASSERT_TRUE(server_->add(TestService::kProgram, TestService::kVersion, service_));
  const auto listening = server_->add_listener(given);
  ASSERT_TRUE(listening) << listening.error().message();
  EXPECT_EQ(*listening, path_);
  beside([&] {
    auto client = Client::connect(url());
    ASSERT_TRUE(client) << client.error().message();
    EXPECT_TRUE(call(*client, TestService::kNull));
  });
  server_.reset();
  EXPECT_TRUE(is_there(path_)) << "it is the service manager's";
  EXPECT_EQ(::fcntl(given, F_GETFD), -1) << "the socket was the server's";
}

TEST_F(UnixTest, RefusesAndClosesADescriptorThatDoesNotListen) {
  start();
  const std::string file = folder_ + "/other";
  for (const int given : {unix_socket(file, ::bind), ::socket(AF_INET, SOCK_DGRAM, 0),
                          ::open("/dev/null", O_RDONLY | O_CLOEXEC)}) {
    const auto listening = server_->add_listener(given);
    ASSERT_FALSE(listening);
    EXPECT_EQ(listening.error().code, Errc::kUnsupported);
    EXPECT_EQ(listening.error().peer, "descriptor " + std::to_string(given));
    EXPECT_EQ(::fcntl(given, F_GETFD), -1) << "it was left open";
  }
  ::unlink(file.c_str());
}

TEST_F(UnixTest, StandsBesideTcpAndRdma) {
  ServerOptions options;
  options.provider.name = "siwarp";
  auto server = Server::listen("rdma://127.0.0.1:0", options);
  ASSERT_TRUE(server);
  server_.emplace(std::move(*server));
  ASSERT_TRUE(server_->add(TestService::kProgram, TestService::kVersion, service_));
  const auto tcp = server_->add_listener("tcp://127.0.0.1:0");
  const auto local = server_->add_listener(url());
  ASSERT_TRUE(tcp && local);
  EXPECT_EQ(*local, path_);
  beside([&] {
    for (const std::string& each :
         {"rdma://" + std::string(server_->address()), "tcp://" + *tcp, "unix://" + *local}) {
      ClientOptions client_options;
      client_options.provider.name = "siwarp";
      auto client = Client::connect(each, client_options);
      ASSERT_TRUE(client) << client.error().message();
      EXPECT_TRUE(call(*client, TestService::kNull)) << each;
    }
  });
  EXPECT_EQ(server_->counters().calls, 3U);
}

TEST_F(UnixTest, RecordsAreThoseOfTcpAndWhatIsNoCallEndsItsConnection) {
  start();
  const auto pump = [this] { server_->progress(); };
  RawPeer peer(unix_socket(path_, ::connect), pump);
  RawPeer hostile(unix_socket(path_, ::connect), pump);
  const Message null = raw_call(7, 0);
  const auto size = static_cast<std::uint32_t>(null.size());
  ASSERT_TRUE(hostile.send(words({tcp::kLastFragment | 8, 7, 1})));
  EXPECT_TRUE(hostile.receive_to_end());
  ASSERT_TRUE(peer.send(join({words({tcp::kLastFragment | size}), null})));
  EXPECT_EQ(to_words(peer.receive(28)).at(1), 7U);
}

// --- The file --------------------------------------------------------------------------------

TEST_F(UnixTest, FileGoesWithTheListener) {
  start();
  EXPECT_TRUE(is_there(path_));
  server_.reset();
  EXPECT_FALSE(is_there(path_));
  start();
  server_->stop();
  server_->progress();
  EXPECT_FALSE(is_there(path_)) << "a server that stops takes no more connections";
}

TEST_F(UnixTest, FileOfAnotherServerIsLeft) {
  start();
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  auto second = Server::listen(url());
  ASSERT_TRUE(second) << second.error().message();
  server_.reset();
  EXPECT_TRUE(is_there(path_));
  const auto client = Client::connect(url());
  EXPECT_TRUE(client) << client.error().message();
}

TEST_F(UnixTest, PathThatIsTakenIsLeftAsItIsAndReportedWithARemedy) {
  const auto expect_taken = [this] {
    const auto server = Server::listen(url());
    ASSERT_FALSE(server);
    EXPECT_EQ(server.error().code, Errc::kNoResources);
    EXPECT_EQ(server.error().peer, path_);
    EXPECT_NE(server.error().cause.find("remove it if its server is gone"), std::string::npos)
        << server.error().message();
    EXPECT_TRUE(is_there(path_));
  };
  leave_socket(path_);
  expect_taken();
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  std::ofstream(path_) << "no socket";
  expect_taken();
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  start();
  expect_taken();
  EXPECT_TRUE(Client::connect(url())) << "the server that is there goes on";
}

TEST_F(UnixTest, PathsOfEverySizeThatASocketHasWork) {
  ASSERT_LT(folder_.size() + 1, kPathMax);
  path_ = folder_ + "/" + std::string(kPathMax - folder_.size() - 1, 'x');
  start();
  EXPECT_EQ(server_->address(), path_);
  EXPECT_TRUE(is_there(path_));
  EXPECT_TRUE(Client::connect(url()));
  path_ += "x";
  const auto client = Client::connect(url());
  const auto server = Server::listen(url());
  ASSERT_TRUE(!client && !server);
  for (const Error& error : {client.error(), server.error()}) {
    EXPECT_EQ(error.code, Errc::kBadUrl);
    EXPECT_NE(error.cause.find("108 bytes"), std::string::npos) << error.cause;
    EXPECT_NE(error.cause.find("at most 107"), std::string::npos) << error.cause;
  }
  path_.pop_back();
}

TEST(UnixUrls, AreJudged) {
  using std::string_literals::operator""s;
  for (const std::string& url : {"unix://"s, "unix://x/y"s, "unix://run"s, "unix:/run/x"s,
                                 "unix:///"s, "unix:///x/"s, "unix:///x\0y"s}) {
    const auto client = Client::begin_connect(url);
    const auto server = Server::listen(url);
    ASSERT_TRUE(!client && !server) << url;
    EXPECT_EQ(client.error().code, Errc::kBadUrl) << url;
    EXPECT_EQ(server.error().code, Errc::kBadUrl) << url;
  }
}

TEST_F(UnixTest, SaysWhyThereIsNoConnection) {
  const auto missing = Client::connect(url());
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Errc::kUnreachable);
  EXPECT_EQ(missing.error().peer, path_);
  EXPECT_NE(missing.error().cause.find("is the server running"), std::string::npos);
  leave_socket(path_);
  const auto stale = Client::connect(url());
  ASSERT_FALSE(stale);
  EXPECT_EQ(stale.error().code, Errc::kRefused);
  EXPECT_NE(stale.error().cause.find("has gone"), std::string::npos);
}

TEST_F(UnixTest, SaysThatTheQueueOfTheServerIsFull) {
  const int full = unix_socket(path_, ::bind);
  ASSERT_EQ(::listen(full, 0), 0);
  std::vector<Client> queued;
  Expected<Client, Error> client = Client::connect(url());
  for (int i = 0; i < 8 && client; ++i) {
    queued.push_back(std::move(*client));
    client = Client::connect(url());
  }
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code, Errc::kUnreachable);
  EXPECT_NE(client.error().cause.find("has not taken"), std::string::npos)
      << client.error().message();
  ::close(full);
}

TEST_F(UnixTest, PathIsNotShared) {
  ServerOptions options;
  options.share_port = true;
  const auto server = Server::listen(url(), options);
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().code, Errc::kUnsupported);
  EXPECT_FALSE(is_there(path_));
}

TEST_F(UnixTest, ClientCannotStepUp) {
  start();
  auto client = Client::connect(url());
  ASSERT_TRUE(client);
  const auto stepped = TakeOver::step_up(*client);
  ASSERT_FALSE(stepped);
  EXPECT_EQ(stepped.error().code, Errc::kUnsupported);
  EXPECT_TRUE(client->connected()) << "it is as it was";
}

// A Unix socket says that it is closed while what the peer has sent is still to be read.
TEST_F(UnixTest, ReplyThatCameBeforeTheServerWentIsShown) {
  start();
  auto client = Client::connect(url());
  ASSERT_TRUE(client) << client.error().message();
  auto call = client->prepare({TestService::kProgram, TestService::kVersion, TestService::kWhoAmI});
  ASSERT_TRUE(call);
  std::optional<std::uint32_t> uid;
  ASSERT_TRUE(client->start(std::move(*call), [&](Expected<Reply, Error> reply) {
    ASSERT_TRUE(reply) << reply.error().message();
    uid = read(*reply)->xdr().u32("uid");
  }));
  while (server_->counters().calls == 0) server_->progress();
  server_.reset();
  client->progress();
  EXPECT_EQ(uid, 0xffffffff);
}

}  // namespace
}  // namespace rpcrdma::test
