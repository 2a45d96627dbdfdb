#include "rpc/url.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "posix/address.h"
#include "rpcrdma/options.h"

namespace rpcrdma::rpc {
namespace {

Unexpected<Error> bad(std::string_view url, std::string cause) {
  return Unexpected<Error>(
      Error{Errc::kBadUrl, "reading the address", std::string(url), std::move(cause)});
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

// Returns the address as the system reads it: in a URL the '%' before a zone is written "%25" (RFC
// 6874), which is taken as it is, too.
std::string without_escape(std::string_view host) {
  const auto escape = host.find("%25");
  std::string plain(host);
  if (escape != std::string_view::npos && host.size() > escape + 3) plain.erase(escape + 1, 2);
  return plain;
}

constexpr std::string_view kTcpScheme = "tcp://";
constexpr std::string_view kUnixScheme = "unix://";

// `port_default`: nothing if the port has to be there.
Expected<Url, Error> parse(std::string_view url, std::string_view scheme,
                           std::optional<std::uint16_t> port_default) {
  std::string_view rest = url.substr(scheme.size());
  if (rest.ends_with('/')) rest.remove_suffix(1);
  Url result{{}, port_default.value_or(0)};
  std::string_view port;
  if (rest.starts_with('[')) {
    const auto end = rest.find(']');
    if (end == std::string_view::npos)
      return bad(url, "the ']' behind the IPv6 address is missing");
    result.host = without_escape(rest.substr(1, end - 1));
    rest.remove_prefix(end + 1);
    if (!rest.empty() && rest[0] != ':') return bad(url, "only :PORT may follow the host");
    if (!rest.empty()) port = rest.substr(1);
  } else {
    const auto colon = rest.find(':');
    result.host = rest.substr(0, colon);
    if (colon != std::string_view::npos) port = rest.substr(colon + 1);
    if (port.find(':') != std::string_view::npos) {
      return bad(
          url, "an IPv6 address stands in brackets, as in " + std::string(scheme) + "[::1]:20049");
    }
  }
  if (result.host.empty()) return bad(url, "the host is missing");
  if (result.host.find('/') != std::string::npos) return bad(url, "nothing may follow the port");
  if (port.empty() && port_default) return result;
  if (port.empty()) return bad(url, "the port is missing");
  const auto parsed = std::from_chars(port.data(), port.data() + port.size(), result.port);
  if (parsed.ec != std::errc() || parsed.ptr != port.data() + port.size()) {
    return bad(url, "the port is not a number from 0 to 65535");
  }
  return result;
}

// The URLs of the single hosts of a list.
std::vector<std::string> urls_of_list(std::string_view url) {
  const std::size_t begin = std::min(url.find("://") + 3, url.size());
  const std::string_view scheme = url.substr(0, begin);
  std::vector<std::string> urls;
  for (std::string_view rest = url.substr(begin);;) {
    const std::size_t end = rest.find(',');
    urls.emplace_back(scheme).append(rest.substr(0, end));
    if (end == std::string_view::npos) return urls;
    rest.remove_prefix(end + 1);
  }
}

}  // namespace

static Expected<Url, Error> parse_any(std::string_view url) {
  return url.starts_with(kTcpScheme) ? parse_tcp_url(url) : parse_url(url);
}

Expected<Url, Error> parse_url(std::string_view url) {
  constexpr std::string_view kScheme = "rdma://";
  if (!url.starts_with(kScheme))
    return bad(url, "it starts with none of rdma://, tcp:// and unix://");
  return parse(url, kScheme, kDefaultPort);
}

Expected<Url, Error> parse_tcp_url(std::string_view url) {
  if (!url.starts_with(kTcpScheme)) return bad(url, "it does not start with tcp://");
  return parse(url, kTcpScheme, std::nullopt);
}

Expected<std::string, Error> parse_unix_url(std::string_view url) {
  if (!url.starts_with(kUnixScheme)) return bad(url, "it does not start with unix://");
  const std::string_view path = url.substr(kUnixScheme.size());
  if (!posix::is_local_path(path)) {
    return bad(url, "the path of a socket is absolute, as in unix:///run/rpcbind.sock");
  }
  if (path.size() > posix::kLocalPathMax) {
    return bad(url, "the path has " + std::to_string(path.size()) +
                        " bytes, and that of a socket at most " +
                        std::to_string(posix::kLocalPathMax) + "; choose a shorter one");
  }
  if (path.ends_with('/') || !posix::local_address(path)) {
    return bad(url, "this is no path of a file");
  }
  return std::string(path);
}

bool is_stream_url(std::string_view url) noexcept {
  return url.starts_with(kTcpScheme) || url.starts_with(kUnixScheme);
}

bool has_host_name(std::string_view url) {
  if (url.starts_with(kUnixScheme)) return false;
  return std::ranges::any_of(urls_of_list(url), [](const std::string& each) {
    const auto parsed = parse_any(each);
    if (!parsed) return false;
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_flags = AI_NUMERICHOST;
    addrinfo* list = nullptr;
    const int result = getaddrinfo(parsed->host.c_str(), nullptr, &hints, &list);
    const std::unique_ptr<addrinfo, FreeAddresses> owner(list);
    return result != 0;
  });
}

// Looks each host of SCHEME://HOST[:PORT],HOST[:PORT] up. A name that is not known leaves the
// others, like a server that is down.
static Expected<std::vector<std::string>, Error> addresses_of_list(std::string_view url) {
  std::vector<std::string> all;
  std::optional<Error> unknown;
  for (const std::string& each : urls_of_list(url)) {
    const auto parsed = parse_any(each);
    if (!parsed) return Unexpected<Error>(parsed.error());
    const auto addresses = resolve(*parsed, false);
    if (!addresses && addresses.error().code != Errc::kUnknownHost) return addresses;
    if (addresses) {
      all.insert(all.end(), addresses->begin(), addresses->end());
    } else if (!unknown) {
      unknown = addresses.error();
    }
  }
  if (all.empty()) return Unexpected<Error>(std::move(*unknown));
  return all;
}

Expected<std::vector<std::string>, Error> addresses_of(std::string_view url, bool to_listen) {
  if (url.starts_with(kUnixScheme)) {
    auto path = parse_unix_url(url);
    if (!path) return Unexpected<Error>(std::move(path.error()));
    return std::vector<std::string>{std::move(*path)};
  }
  if (to_listen || url.find(',') == std::string_view::npos) {
    const auto parsed = parse_any(url);
    if (!parsed) return Unexpected<Error>(parsed.error());
    return resolve(*parsed, to_listen);
  }
  return addresses_of_list(url);
}

// A link-local address is good on each link of the machine, so that it is none without one.
static bool lacks_zone(const addrinfo& entry) noexcept {
  if (entry.ai_family != AF_INET6) return false;
  sockaddr_in6 six{};
  std::memcpy(&six, entry.ai_addr, std::min<std::size_t>(sizeof(six), entry.ai_addrlen));
  return IN6_IS_ADDR_LINKLOCAL(&six.sin6_addr) && six.sin6_scope_id == 0;
}

Expected<std::vector<std::string>, Error> resolve(const Url& url, bool to_listen) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = to_listen ? AI_PASSIVE : 0;
  addrinfo* list = nullptr;
  const int result = getaddrinfo(url.host.c_str(), nullptr, &hints, &list);
  if (result != 0) {
    return Unexpected<Error>(
        Error{Errc::kUnknownHost, "looking the host up", url.host,
              std::string(gai_strerror(result)) + "; check the name, or use a numeric address"});
  }
  const std::unique_ptr<addrinfo, FreeAddresses> owner(list);
  std::vector<std::string> addresses;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    if (lacks_zone(*entry)) {
      return Unexpected<Error>(
          Error{Errc::kBadUrl, "looking the host up", url.host,
                "a link-local address needs its link, as in fe80::1%eth0 (`ip -6 address` shows "
                "them)"});
    }
    char text[NI_MAXHOST];
    if (getnameinfo(entry->ai_addr, entry->ai_addrlen, text, sizeof(text), nullptr, 0,
                    NI_NUMERICHOST) != 0) {
      continue;
    }
    const std::string port = std::to_string(url.port);
    addresses.push_back(entry->ai_family == AF_INET6 ? "[" + std::string(text) + "]:" + port
                                                     : std::string(text) + ":" + port);
  }
  return addresses;
}

std::string host_of_url(std::string_view url) {
  if (url.starts_with(kUnixScheme)) return "localhost";
  const auto parsed = parse_any(urls_of_list(url).front());
  return parsed ? parsed->host : std::string();
}

}  // namespace rpcrdma::rpc
