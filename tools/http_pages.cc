#include "tools/http_pages.h"

#include <fmt/core.h>
#include <microhttpd.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>

#include "tools/command.h"
#include "tools/http_ages.h"

namespace rpcrdma::tools {
namespace {

constexpr unsigned kConnectionsMax = 64;        // each has a thread
constexpr unsigned kConnectionsOfAHostMax = 8;  // one that says nothing holds up no other
constexpr unsigned kIdle_s = 5;
constexpr std::size_t kMemory = 8U << 10U;  // bytes, of one connection and all that it has sent
// A connection lasts no longer, since its idle time begins anew with each byte.
constexpr std::chrono::seconds kTimeMax{15};

MHD_Result answer(MHD_Connection* connection, unsigned status, std::string text,
                  const char* content_type = "text/plain; charset=utf-8") {
  MHD_Response* const response =
      MHD_create_response_from_buffer(text.size(), text.data(), MHD_RESPMEM_MUST_COPY);
  if (response == nullptr) return MHD_NO;
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
  MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
  // A client keeps no connection between its requests.
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
  if (status == MHD_HTTP_METHOD_NOT_ALLOWED) {
    MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  }
  const MHD_Result queued = MHD_queue_response(connection, status, response);
  MHD_destroy_response(response);
  return queued;
}

// A socket that listens; negative: errno, negated.
int listen_at(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
    return -EADDRNOTAVAIL;
  }
  const int socket = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  if (socket >= 0) (void)::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const bool listens = socket >= 0 && ::bind(socket, found->ai_addr, found->ai_addrlen) == 0 &&
                       ::listen(socket, static_cast<int>(kConnectionsMax)) == 0;
  const int error = errno;
  ::freeaddrinfo(found);
  if (listens) return socket;
  if (socket >= 0) ::close(socket);
  return -error;
}

class Daemon final : public HttpPages {
 public:
  Daemon(const Place& place, std::vector<Page> pages) : pages_(std::move(pages)) {
    const int socket = listen_at(place.host, place.port);
    if (socket < 0) {
      fail(kFailed,
           fmt::format("cannot listen for HTTP on {} port {}: {}{}", place.host, place.port,
                       std::strerror(-socket),
                       socket == -EADDRINUSE
                           ? fmt::format("; another program listens there: end that program, or "
                                         "choose another {}, 0 for any free one",
                                         place.option)
                           : ""));
    }
    // By poll(), since descriptors may have numbers that select() does not know.
    constexpr unsigned kFlags = MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_THREAD_PER_CONNECTION;
    daemon_ = MHD_start_daemon(kFlags, 0, nullptr, nullptr, &Daemon::handle, this,
                               MHD_OPTION_LISTEN_SOCKET, socket, MHD_OPTION_CONNECTION_LIMIT,
                               kConnectionsMax, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
                               kConnectionsOfAHostMax, MHD_OPTION_CONNECTION_TIMEOUT, kIdle_s,
                               MHD_OPTION_NOTIFY_CONNECTION, &Daemon::note, this,
                               MHD_OPTION_CONNECTION_MEMORY_LIMIT, kMemory, MHD_OPTION_END);
    if (daemon_ == nullptr) {
      ::close(socket);
      fail(kFailed, "cannot begin with HTTP: libmicrohttpd has no thread or memory for it");
    }
    const MHD_DaemonInfo* const info = MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_BIND_PORT);
    const bool is_v6 = place.host.find(':') != std::string::npos;
    url_ = fmt::format("http://{}{}{}:{}", is_v6 ? "[" : "", place.host, is_v6 ? "]" : "",
                       info != nullptr ? info->port : place.port);
  }
  ~Daemon() override { MHD_stop_daemon(daemon_); }
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

 private:
  static void note(void* self, MHD_Connection* connection, void** state,
                   MHD_ConnectionNotificationCode what) noexcept {
    HttpAges& ages = static_cast<Daemon*>(self)->ages_;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
      const std::unique_ptr<HttpAges::Handle> handle(static_cast<HttpAges::Handle*>(*state));
      if (handle) ages.end(*handle);
      return;
    }
    const MHD_ConnectionInfo* const info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info == nullptr) return;
    try {
      auto handle = std::make_unique<HttpAges::Handle>();
      *handle = ages.begin(info->connect_fd);
      *state = handle.release();
    } catch (const std::bad_alloc&) {
      (void)::shutdown(info->connect_fd, SHUT_RDWR);
    }
  }

  // An exception must not pass through a library in C, nor end the server.
  static MHD_Result handle(void* self, MHD_Connection* connection, const char* path,
                           const char* method, const char* /*version*/, const char* /*data*/,
                           std::size_t* /*size*/, void** /*state*/) noexcept try {
    const std::string_view asked = method;
    if (asked != MHD_HTTP_METHOD_GET && asked != MHD_HTTP_METHOD_HEAD) {
      return answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD are served\n");
    }
    const std::vector<Page>& pages = static_cast<Daemon*>(self)->pages_;
    const auto page = std::ranges::find(pages, std::string_view(path), &Page::path);
    if (page == pages.end()) {
      std::string served;
      for (const Page& each : pages) served += (served.empty() ? "" : " and ") + each.path;
      return answer(connection, MHD_HTTP_NOT_FOUND, "only " + served + " is served\n");
    }
    Answer made = page->answer();
    return answer(connection, made.is_available ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
                  std::move(made.text), page->content_type);
  } catch (const std::exception&) {
    return MHD_NO;  // which closes the connection
  }

  const std::vector<Page> pages_;
  HttpAges ages_{kTimeMax};
  MHD_Daemon* daemon_ = nullptr;
};

}  // namespace

std::unique_ptr<HttpPages> HttpPages::open(const Place& place, std::vector<Page> pages) try {
  return std::make_unique<Daemon>(place, std::move(pages));
} catch (const std::system_error& error) {
  fail(kFailed, fmt::format("cannot begin with HTTP: {}", error.what()));
}

}  // namespace rpcrdma::tools
