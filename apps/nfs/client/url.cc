#include "nfs/client/url.h"

#include <algorithm>
#include <charconv>

namespace nfs {
namespace {

using rpcrdma::Unexpected;

constexpr std::string_view kRdma = "nfs+rdma://", kTcp = "nfs+tcp://";

Unexpected<std::string> wrong(std::string_view text, const std::string& what) {
  return Unexpected<std::string>("'" + std::string(text) + "': " + what +
                                 "; expected nfs+rdma://HOST[:PORT]/EXPORT[/PATH] or nfs+tcp://…");
}

// nullopt: a '%' without two digits behind it, or a NUL.
std::optional<std::string> decoded(std::string_view text) {
  std::string path;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      path += text[i];
      continue;
    }
    unsigned byte = 0;
    if (i + 2 >= text.size()) return std::nullopt;
    const auto [end, error] = std::from_chars(&text[i] + 1, &text[i] + 3, byte, 16);
    if (error != std::errc{} || end != &text[i] + 3 || byte == 0) return std::nullopt;
    path += static_cast<char>(byte);
    i += 2;
  }
  return path;
}

// One '/' between names, none at the end.
std::string tidied(std::string_view text) {
  std::string path;
  while (!text.empty()) {
    const std::string_view name = text.substr(0, text.find('/'));
    text.remove_prefix(std::min(text.size(), name.size() + 1));
    if (name.empty() || name == ".") continue;
    path += '/';
    path += name;
  }
  return path.empty() ? "/" : path;
}

// "HOST", "HOST:PORT", "[ADDRESS]" and so on; what is wrong with it, or empty.
std::string take_server(std::string_view text, NfsUrl::Server& into) {
  const std::size_t bracket = text.starts_with('[') ? text.find(']') : 0;
  if (bracket == std::string_view::npos) return "a ']' is missing";
  if (const std::size_t colon = text.find(':', bracket); colon != std::string_view::npos) {
    const std::string_view number = text.substr(colon + 1);
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), into.port);
    if (error != std::errc{} || end != number.data() + number.size() || into.port == 0) {
      return "'" + std::string(number) + "' is no port";
    }
    text = text.substr(0, colon);
  }
  if (text.empty() || text.find('@') != std::string_view::npos) return "it names no host";
  into.host = std::string(text);
  return {};
}

std::size_t longest_name(std::string_view path) {
  std::size_t longest = 0;
  while (!path.empty()) {
    const std::size_t size = std::min(path.find('/'), path.size());
    longest = std::max(longest, size);
    path.remove_prefix(std::min(size + 1, path.size()));
  }
  return longest;
}

constexpr std::size_t kServersMax = 16;
constexpr std::size_t kNameMax = 255;  // bytes, of every file system of Linux

}  // namespace

bool is_nfs_url(std::string_view text) {
  return text.starts_with("nfs+") || text.starts_with("nfs://");
}

rpcrdma::Expected<NfsUrl, std::string> parse_nfs_url(std::string_view text) {
  NfsUrl url;
  url.is_rdma = text.starts_with(kRdma);
  if (!url.is_rdma && !text.starts_with(kTcp)) return wrong(text, "no scheme that is known here");
  std::string_view rest = text.substr(url.is_rdma ? kRdma.size() : kTcp.size());
  std::string_view authority = rest.substr(0, rest.find('/'));
  rest.remove_prefix(authority.size());
  for (bool is_last = false; !is_last;) {
    const std::size_t comma = authority.find(',');
    NfsUrl::Server& server = url.servers.emplace_back();
    server.port = url.is_rdma ? NfsUrl::kRdmaPort : NfsUrl::kTcpPort;
    if (const std::string what = take_server(authority.substr(0, comma), server); !what.empty()) {
      return wrong(text, what);
    }
    is_last = comma == std::string_view::npos;
    if (!is_last) authority.remove_prefix(comma + 1);
  }
  if (url.servers.size() > kServersMax) return wrong(text, "it names more than 16 servers");
  const auto path = decoded(rest);
  if (!path) return wrong(text, "'%' stands before two hexadecimal digits, and not for a NUL");
  url.path = tidied(*path);
  if (("/" + *path + "/").find("/../") != std::string::npos) {
    return wrong(text, "'..' is not taken back here");
  }
  if (longest_name(url.path) > kNameMax) return wrong(text, "a name has more than 255 bytes");
  return url;
}

std::vector<std::string> NfsUrl::transport_urls() const {
  std::vector<std::string> urls;
  for (const Server& each : servers) {
    urls.push_back((is_rdma ? "rdma://" : "tcp://") + each.host + ":" + std::to_string(each.port));
  }
  return urls;
}

std::string NfsUrl::text() const {
  std::string text(is_rdma ? kRdma : kTcp);
  for (const Server& each : servers) {
    text += (&each == servers.data() ? "" : ",") + each.host + ":" + std::to_string(each.port);
  }
  return text + path;
}

}  // namespace nfs
