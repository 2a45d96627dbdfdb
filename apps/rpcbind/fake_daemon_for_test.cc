#include "rpcbind/fake_daemon_for_test.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "rpcrdma/generated/codec.h"
#include "rpcrdma/xdr.h"
#include "stream/record.h"

namespace rpcrdma::rpcbinding {
namespace {

void append(std::vector<std::byte>& out, std::initializer_list<std::uint32_t> words) {
  for (const std::uint32_t word : words) {
    out.resize(out.size() + xdr::kWordSize);
    xdr::store_word(out.data() + out.size() - xdr::kWordSize, word);
  }
}

}  // namespace

FakeDaemon::FakeDaemon() {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
  ::listen(listener_, 16);
  ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { serve(); });
}

FakeDaemon::~FakeDaemon() {
  ::shutdown(listener_, SHUT_RDWR);
  thread_.join();
  ::close(listener_);
}

void FakeDaemon::serve() {
  for (;;) {
    const int descriptor = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (descriptor < 0) return;
    serve_connection(descriptor);
    ::close(descriptor);
  }
}

void FakeDaemon::serve_connection(int descriptor) {
  for (;;) {
    stream::RecordReader reader(1U << 20U);
    while (!reader.done()) {
      std::byte buffer[512];
      const ssize_t size = ::recv(descriptor, buffer, std::min(sizeof(buffer), reader.wanted()), 0);
      if (size <= 0) return;
      reader.take(Bytes(buffer, static_cast<std::size_t>(size)));
    }
    const auto call = reader.record();
    const auto reply = answer({call.begin(), call.end()});
    std::vector<std::byte> bytes;
    append(bytes, {stream::kLastFragment | static_cast<std::uint32_t>(reply.size())});
    bytes.insert(bytes.end(), reply.begin(), reply.end());
    if (::send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) return;
  }
}

std::vector<std::byte> FakeDaemon::answer(const std::vector<std::byte>& call) {
  xdr::Reader reader(call);
  const std::uint32_t xid = reader.u32("xid");
  reader.u64("msg_type, rpcvers");
  reader.u32("prog");
  const std::uint32_t version = reader.u32("vers");
  const std::uint32_t procedure = reader.u32("proc");
  reader.opaque_fixed(16, "credential, verifier");
  std::vector<std::byte> reply;
  if (version > version_max) {
    append(reply, {xid, 1, 0, 0, 0, 2, 2, version_max});
    return reply;
  }
  append(reply, {xid, 1, 0, 0, 0, 0});
  rpcbind::rpcb argument;
  if (procedure != rpcbind::RPCBPROC_DUMP) {
    argument = from_bytes<rpcbind::rpcb>(reader.rest()).value_or(rpcbind::rpcb{});
  }
  const auto results = execute(procedure, argument);
  reply.insert(reply.end(), results.begin(), results.end());
  return reply;
}

std::vector<std::byte> FakeDaemon::execute(std::uint32_t procedure, const rpcbind::rpcb& argument) {
  std::vector<std::byte> results;
  const Key key{argument.r_prog, argument.r_vers, argument.r_netid};
  const bool known = entries.contains(key);
  if (nonsense) {
    append(results, {0xffffffff});
  } else if (procedure == rpcbind::RPCBPROC_SET) {
    const bool taken = known && entries[key].r_addr != argument.r_addr;
    if (!taken) entries[key] = argument;
    append(results, {taken ? 0U : 1U});
  } else if (procedure == rpcbind::RPCBPROC_UNSET) {
    const bool ours = known && std::ranges::find(of_others, key) == of_others.end();
    if (ours) entries.erase(key);
    append(results, {ours ? 1U : 0U});
  } else {
    rpcbind::rpcblist_ptr list;
    for (const auto& entry : entries) list.push_back({entry.second});
    results.resize(rpcbind::encoded_size_rpcblist_ptr(list));
    MessageWriter writer(results);
    rpcbind::encode_rpcblist_ptr(list, writer);
  }
  return results;
}

}  // namespace rpcrdma::rpcbinding
