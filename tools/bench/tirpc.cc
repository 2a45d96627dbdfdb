// An rpcgen program on libtirpc over TCP, as a program of today would be: one call at a time.
#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>
#include <vector>

#include "tirpc_bench.h"
#include "tools/bench/contender.h"
#include "tools/bench/meter.h"

// The generated dispatcher calls these functions.
extern "C" {
void tirpc_bench_1(struct svc_req* request, SVCXPRT* transport);

bool_t tirpc_null_1_svc(void* /*result*/, struct svc_req* /*request*/) {
  return TRUE;
}

bool_t tirpc_read_1_svc(u_int size, tirpc_data* result, struct svc_req* /*request*/) {
  static std::vector<char> payload(1U << 20U, 'p');
  *result = {size, payload.data()};
  return TRUE;
}

bool_t tirpc_write_1_svc(tirpc_data data, u_int* result, struct svc_req* /*request*/) {
  *result = data.tirpc_data_len;
  return TRUE;
}

// The payload of a READ is ours and stays.
int tirpc_bench_1_freeresult(SVCXPRT* /*transport*/, xdrproc_t /*coder*/, caddr_t /*result*/) {
  return TRUE;
}
}

namespace rpcrdma::tools::bench {
namespace {

int tcp_socket() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int one = 1;
  if (fd < 0) throw std::runtime_error("libtirpc: no socket");
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  return fd;
}

void serve(const Announce& announce) {
  const int fd = tcp_socket();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(fd, generic, size) != 0 || listen(fd, 4) != 0 || getsockname(fd, generic, &size) != 0) {
    throw std::runtime_error("libtirpc: cannot listen");
  }
  SVCXPRT* transport = svc_vc_create(fd, 0, 0);
  // Without a netconfig, svc_reg() registers nothing with rpcbind.
  if (transport == nullptr ||
      !svc_reg(transport, TIRPC_BENCH, TIRPC_BENCH_V1, tirpc_bench_1, nullptr)) {
    throw std::runtime_error("libtirpc: cannot register the program");
  }
  announce(std::to_string(ntohs(address.sin_port)));
  svc_run();
}

class Tirpc final : public Contender {
 public:
  explicit Tirpc(const Layout& layout)
      : server_(layout.server_cpu, [](const Announce& announce, Tally&) { serve(announce); }),
        data_(1U << 20U) {}

  const Child* server() const override { return &server_; }
  Sample run(const Case& what, const Times& times, const Load& /*load*/) override {
    const Connection connection(static_cast<std::uint16_t>(std::stoi(server_.address())));
    Meter meter({.server = &server_}, times);
    Clock::time_point started = meter.now();
    for (;;) {
      if (!call(connection.client, what)) {
        throw std::runtime_error(what.name + ": a call of libtirpc failed");
      }
      meter.tick();
      if (meter.over()) return meter.sample(what.size);
      meter.ended(started);
      started = meter.now();
    }
  }

 private:
  struct Connection {
    explicit Connection(std::uint16_t port) {
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      address.sin_port = htons(port);
      const int fd = tcp_socket();
      if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
        throw std::runtime_error("libtirpc: cannot connect");
      }
      netbuf peer{sizeof(address), sizeof(address), &address};
      client = clnt_vc_create(fd, &peer, TIRPC_BENCH, TIRPC_BENCH_V1, 0, 0);
      if (client == nullptr) throw std::runtime_error("libtirpc: cannot make a client");
      clnt_control(client, CLSET_FD_CLOSE, nullptr);
    }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    ~Connection() { clnt_destroy(client); }

    CLIENT* client = nullptr;
  };

  bool call(CLIENT* client, const Case& what) {
    if (what.kind == Kind::kNull) return tirpc_null_1(nullptr, client) == RPC_SUCCESS;
    if (what.kind == Kind::kRead) {
      tirpc_data result{what.size, data_.data()};  // decoded in place: nothing is allocated
      return tirpc_read_1(what.size, &result, client) == RPC_SUCCESS &&
             result.tirpc_data_len == what.size;
    }
    u_int taken = 0;
    const tirpc_data data{what.size, data_.data()};
    return tirpc_write_1(data, &taken, client) == RPC_SUCCESS && taken == what.size;
  }

  Child server_;
  std::vector<char> data_;
};

}  // namespace

bool have_tirpc() noexcept {
  return true;
}

std::unique_ptr<Contender> make_tirpc(const Layout& layout) {
  return std::make_unique<Tirpc>(layout);
}

}  // namespace rpcrdma::tools::bench
