// RFC 5666 §3, last paragraph: two programs that talk RPC over TCP agree to step up, and go on with
// RPC over RDMA on the same connection, between two record-marked messages.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>

#include "rpcrdma/client.h"
#include "rpcrdma/function_service.h"
#include "rpcrdma/server.h"
#include "rpcrdma/take_over.h"
#include "support/checked_reply.h"

namespace rpcrdma::test {
namespace {

constexpr std::uint32_t kAdoptedProgram = 0x20010004;
constexpr std::uint32_t kBulkMax = 1U << 20U;

// A record of RFC 5531 §11: a mark with the last bit, and the bytes.
std::string record(const std::string& text) {
  std::array<std::byte, 4> mark;
  xdr::store_word(mark.data(), 0x80000000U | static_cast<std::uint32_t>(text.size()));
  return std::string(reinterpret_cast<const char*>(mark.data()), mark.size()) + text;
}
void send_all(int fd, const std::string& bytes) {
  ASSERT_EQ(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}
// Reads exactly one record, and no byte behind it.
std::string receive_record(int fd) {
  std::array<std::byte, 4> mark;
  if (::recv(fd, mark.data(), mark.size(), MSG_WAITALL) != 4) return "no record";
  std::string text(xdr::load_word(mark.data()) & 0x7fffffffU, '\0');
  const auto size = static_cast<ssize_t>(text.size());
  return ::recv(fd, text.data(), text.size(), MSG_WAITALL) == size ? text : "half a record";
}

// Two ends of a TCP connection over loopback.
struct Tcp {
  Tcp() {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener, 1), 0);
    EXPECT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
    client = ::socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(::connect(client, reinterpret_cast<sockaddr*>(&address), size), 0);
    server = ::accept(listener, nullptr, nullptr);
    ::close(listener);
  }
  int client = -1, server = -1;
};

void fill(FunctionService& service) {
  service.on(1,
             [](CallContext& context) {
               const Bytes data = context.arguments().bulk(kBulkMax, "data");
               if (!context.arguments().finish()) return AcceptStatus::kGarbageArgs;
               const MutableBytes copy =
                   context.result_memory(static_cast<std::uint32_t>(data.size()));
               std::copy(data.begin(), data.end(), copy.begin());
               context.results().bulk(copy);
               return AcceptStatus::kSuccess;
             },
             {.bulk_argument_size_max = kBulkMax});
}

void expect_echo(Client& client, std::size_t size) {
  std::vector<std::byte> data(size, std::byte{0x5a}), place(size);
  auto call = client.prepare({kAdoptedProgram, 1, 1});
  ASSERT_TRUE(call) << call.error().message();
  call->arguments().bulk(data);
  call->place_result(place);
  auto reply = client.call(std::move(*call));
  ASSERT_TRUE(reply) << reply.error().message();
  const Bytes back = read(*reply)->bulk(kBulkMax, "data");
  EXPECT_TRUE(std::ranges::equal(back, data));
}

TEST(Adopt, ConnectionStepsUpBetweenTwoRecords) {
  Tcp tcp;
  FunctionService service;
  fill(service);
  auto server = Server::listen("rdma://127.0.0.1:0");
  ASSERT_TRUE(server);
  ASSERT_TRUE(server->add(kAdoptedProgram, 1, service));
  std::thread serving([&] {
    EXPECT_EQ(receive_record(tcp.server), "may I step up?");
    send_all(tcp.server, record("yes"));
    const auto adopted = server->adopt(tcp.server);
    EXPECT_TRUE(adopted) << adopted.error().message();
    server->run();
  });
  send_all(tcp.client, record("may I step up?"));
  EXPECT_EQ(receive_record(tcp.client), "yes");
  {
    auto client = TakeOver::adopt(tcp.client);
    ASSERT_TRUE(client) << client.error().message();
    EXPECT_EQ(client->connection().peer_address.substr(0, 10), "127.0.0.1:");
    for (const std::size_t size : {1U, 5000U, 1U << 20U}) expect_echo(*client, size);
    EXPECT_GT(client->counters().write_chunks, 0U);
    // Beside it the server is there for everybody else.
    auto other = Client::connect("rdma://" + std::string(server->address()));
    ASSERT_TRUE(other) << other.error().message();
    expect_echo(*other, 5000);
  }
  server->stop();
  serving.join();
}

TEST(Adopt, RefusesAndClosesADescriptorThatIsNoTcpConnection) {
  auto server = Server::listen("rdma://127.0.0.1:0");
  ASSERT_TRUE(server);
  for (const bool connected : {false, true}) {
    int pair[2] = {::socket(AF_INET, SOCK_STREAM, 0), -1};
    if (connected) {
      ::close(pair[0]);
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    }
    const int copy = ::dup(pair[0]);
    const auto adopted = server->adopt(pair[0]);
    ASSERT_FALSE(adopted);
    EXPECT_EQ(adopted.error().code, Errc::kUnsupported);
    EXPECT_EQ(::close(pair[0]), -1) << "it was closed";
    const auto client = TakeOver::adopt(copy);
    ASSERT_FALSE(client);
    EXPECT_EQ(client.error().code, Errc::kUnsupported);
    EXPECT_NE(client.error().cause.find("no TCP connection"), std::string::npos);
    EXPECT_EQ(::close(copy), -1);
    if (pair[1] >= 0) ::close(pair[1]);
  }
}

TEST(Adopt, ReportsAPeerThatDoesNotStepUp) {
  Tcp tcp;
  ::close(tcp.server);
  const auto client = TakeOver::adopt(tcp.client);
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().operation, "connecting");
}

}  // namespace
}  // namespace rpcrdma::test
