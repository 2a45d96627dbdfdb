#include "stream/stream_client.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <random>
#include <utility>

#include "rpcrdma/xdr.h"
#include "stream/record.h"

namespace rpcrdma::stream {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kCallHeaderSize = 40;      // bytes, with AUTH_NONE twice
constexpr std::size_t kArgumentsMax = 64 << 10;  // bytes; what is sent here is far smaller
constexpr std::string_view kOperation = "asking";

Error error_of(Errc code, const std::string& peer, std::string_view cause) {
  return Error{code, std::string(kOperation), peer, std::string(cause)};
}

std::string text_of(int number) {
  return std::generic_category().message(number);
}

// poll() until the deadline: 0, or why not: ETIMEDOUT, or its errno.
int wait_ready(int descriptor, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return ETIMEDOUT;
    pollfd entry{descriptor, events, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::min<std::int64_t>(left, 1 << 30)));
    if (ready > 0) return 0;
    if (ready < 0 && errno != EINTR) return errno;
  }
}

// A connected socket, or 0 and the errno.
std::pair<int, int> connect_socket(const sockaddr* address, socklen_t size,
                                   Clock::time_point deadline) {
  const int descriptor =
      ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return {-1, errno};
  int error = ::connect(descriptor, address, size) == 0 ? 0 : errno;
  // A Unix socket says EAGAIN when the daemon's queue is full; there is nothing to wait for then.
  if (error == EINPROGRESS || error == EINTR) {
    error = wait_ready(descriptor, POLLOUT, deadline);
    socklen_t length = sizeof(error);
    if (error == 0) ::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length);
  }
  if (error == 0) return {descriptor, 0};
  ::close(descriptor);
  return {-1, error};
}

Errc code_of(int error) {
  return error == ETIMEDOUT ? Errc::kTimedOut : Errc::kUnreachable;
}

std::string endpoint_text(std::string_view host, std::string_view port) {
  const bool six = host.find(':') != std::string_view::npos;
  return (six ? "[" : "") + std::string(host) + (six ? "]:" : ":") + std::string(port);
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

}  // namespace

// --- Connecting --------------------------------------------------------------------------------

Expected<StreamClient, Error> StreamClient::connect_unix(std::string_view who,
                                                         const std::string& path,
                                                         const StreamOptions& options) {
  const std::string peer = std::string(who) + " at " + path;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return Unexpected<Error>(
        error_of(Errc::kUnreachable, peer, "the path is empty or too long for a socket"));
  }
  std::ranges::copy(path, address.sun_path);
  const auto [descriptor, error] = connect_socket(reinterpret_cast<const sockaddr*>(&address),
                                                  sizeof(address), Clock::now() + options.timeout);
  if (descriptor < 0) return Unexpected<Error>(error_of(code_of(error), peer, text_of(error)));
  return StreamClient(descriptor, peer, options);
}

Expected<StreamClient, Error> StreamClient::connect_tcp(std::string_view who,
                                                        const std::string& host, std::uint16_t port,
                                                        const StreamOptions& options) {
  const std::string port_text = std::to_string(port);
  const std::string peer = std::string(who) + " at " + endpoint_text(host, port_text);
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int result = ::getaddrinfo(host.c_str(), port_text.c_str(), &hints, &found);
  if (result != 0) {
    return Unexpected<Error>(
        error_of(Errc::kUnknownHost, peer,
                 std::string(gai_strerror(result)) + "; check the name, or use a numeric address"));
  }
  const std::unique_ptr<addrinfo, FreeAddresses> owner(found);
  const auto deadline = Clock::now() + options.timeout;
  int error = EADDRNOTAVAIL;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    const auto connected = connect_socket(entry->ai_addr, entry->ai_addrlen, deadline);
    if (connected.first >= 0) return StreamClient(connected.first, peer, options);
    error = connected.second;
  }
  return Unexpected<Error>(error_of(code_of(error), peer, text_of(error)));
}

StreamClient::StreamClient(int descriptor, std::string peer, const StreamOptions& options)
    : descriptor_(descriptor),
      peer_(std::move(peer)),
      options_(options),
      next_xid_(std::random_device()()) {
  const int flags = ::fcntl(descriptor_.value(), F_GETFL);
  ::fcntl(descriptor_.value(), F_SETFL, flags | O_NONBLOCK);
}

std::string StreamClient::peer_address() const {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (::getpeername(descriptor_.value(), any, &size) != 0 ||
      (address.ss_family != AF_INET && address.ss_family != AF_INET6) ||
      ::getnameinfo(any, size, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return {};
  }
  return endpoint_text(host.data(), port.data());
}

// --- Calls -------------------------------------------------------------------------------------

Expected<std::vector<std::byte>, Error> StreamClient::call(const Procedure& procedure,
                                                           Bytes arguments) {
  if (!descriptor_) {
    return Unexpected<Error>(
        error_of(Errc::kConnectionLost, peer_, "the connection is closed since an earlier error"));
  }
  if (arguments.size() > kArgumentsMax) {
    return Unexpected<Error>(error_of(Errc::kTooLarge, peer_, "the arguments are too long"));
  }
  const auto deadline = Clock::now() + options_.timeout;
  const std::uint32_t xid = next_xid_++;
  const std::size_t size = kCallHeaderSize + arguments.size();
  std::vector<std::byte> message(xdr::kWordSize + size);
  xdr::Writer writer(message);
  writer.u32(kLastFragment | static_cast<std::uint32_t>(size));
  constexpr std::uint32_t kCall = 0;  // msg_type
  constexpr std::uint32_t kRpcVersion = 2;
  for (const std::uint32_t word : {xid, kCall, kRpcVersion, procedure.program, procedure.version,
                                   procedure.number, 0U, 0U, 0U, 0U}) {
    writer.u32(word);
  }
  std::ranges::copy(arguments, message.begin() + static_cast<std::ptrdiff_t>(writer.position()));
  if (auto sent = send(message, deadline); !sent) return Unexpected<Error>(sent.error());
  const auto record = receive(deadline);
  if (!record) return record;
  const auto results = open_reply(*record, xid);
  if (results) return std::vector<std::byte>(results->begin(), results->end());
  if (results.error().code == Errc::kBadReply) {
    return give_up(Errc::kBadReply, results.error().cause);
  }
  return Unexpected<Error>(error_of(results.error().code, peer_, results.error().cause));
}

Expected<void, Error> StreamClient::send(Bytes data, Clock::time_point deadline) {
  while (!data.empty()) {
    const ssize_t sent = ::send(descriptor_.value(), data.data(), data.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      data = data.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (auto ready = wait_for(POLLOUT, deadline); !ready) return ready;
    } else if (errno != EINTR) {
      return give_up(Errc::kConnectionLost, text_of(errno));
    }
  }
  return {};
}

Expected<std::vector<std::byte>, Error> StreamClient::receive(Clock::time_point deadline) {
  RecordReader reader(options_.record_size_max);
  std::array<std::byte, 4096> buffer;
  while (!reader.done()) {
    // Asked each time, or a peer that always has a byte more would never be late.
    if (Clock::now() >= deadline) return give_up(Errc::kTimedOut, "it did not answer in time");
    const ssize_t received =
        ::recv(descriptor_.value(), buffer.data(), std::min(buffer.size(), reader.wanted()), 0);
    if (received > 0) {
      reader.take(Bytes(buffer).first(static_cast<std::size_t>(received)));
      if (!reader.failure().empty()) return give_up(Errc::kBadReply, reader.failure());
    } else if (received == 0) {
      return give_up(Errc::kConnectionLost, "it closed the connection instead of answering");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (auto ready = wait_for(POLLIN, deadline); !ready) {
        return Unexpected<Error>(ready.error());
      }
    } else if (errno != EINTR) {
      return give_up(Errc::kConnectionLost, text_of(errno));
    }
  }
  const Bytes record = reader.record();
  return std::vector<std::byte>(record.begin(), record.end());
}

Expected<void, Error> StreamClient::wait_for(short events, Clock::time_point deadline) {
  const int error = wait_ready(descriptor_.value(), events, deadline);
  if (error == 0) return {};
  if (error == ETIMEDOUT) return give_up(Errc::kTimedOut, "it did not answer in time");
  return give_up(Errc::kConnectionLost, text_of(error));
}

Unexpected<Error> StreamClient::give_up(Errc code, std::string_view cause) {
  descriptor_.reset();
  return Unexpected<Error>(error_of(code, peer_, cause));
}

}  // namespace rpcrdma::stream
