#include "blob/step_up.h"

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "blob.h"
#include "rpcrdma/generated/codec.h"
#include "stream/stream_client.h"

namespace blob {
namespace {

using rpcrdma::Client;
using rpcrdma::Errc;
using rpcrdma::Error;
using rpcrdma::Expected;
using rpcrdma::Unexpected;
using rpcrdma::stream::StreamClient;

constexpr std::uint32_t kReplySizeMax = 1024;  // bytes

struct Address {
  std::string host;  // without brackets
  std::uint16_t port = 0;
};

std::optional<Address> parse(std::string_view url) {
  constexpr std::string_view kScheme = "tcp://";
  if (!url.starts_with(kScheme)) return std::nullopt;
  url.remove_prefix(kScheme.size());
  if (url.ends_with('/')) url.remove_suffix(1);
  const std::size_t colon = url.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = url.substr(0, colon);
  const std::string_view port = url.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return std::nullopt;  // an IPv6 address without brackets
  }
  Address address{std::string(host), 0};
  const char* const end = port.data() + port.size();
  const auto parsed = std::from_chars(port.data(), end, address.port);
  if (host.empty() || parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return address;
}

constexpr std::string_view kNobodyThere = "; is the server running there, with --tcp-port?";
constexpr std::string_view kSomebodyElse =
    "; what listens there does not step connections up: start it by `rpcrdma serve --tcp-port` and "
    "use the tcp:// URL that it prints";

// `advice` stands behind what happened: what a person can do about it.
Unexpected<Error> failed(std::string_view url, Errc code, const std::string& cause,
                         std::string_view advice = {}) {
  return Unexpected<Error>(
      Error{code, "stepping up", std::string(url), cause + std::string(advice)});
}

}  // namespace

Expected<Client, Error> connect_and_step_up(std::string_view url,
                                            const rpcrdma::ClientOptions& options) {
  const auto address = parse(url);
  if (!address) {
    return failed(url, Errc::kBadUrl, "a connection that steps up begins at tcp://HOST:PORT");
  }
  auto plain = StreamClient::connect_tcp(
      "the server", address->host, address->port,
      {.timeout = options.provider.setup_timeout_client, .record_size_max = kReplySizeMax});
  if (!plain) {
    const Error& error = plain.error();
    return failed(url, error.code, error.cause,
                  error.code == Errc::kUnknownHost ? "" : kNobodyThere);
  }
  const auto results = plain->call({BLOB_PROGRAM, BLOB_V1, BLOB_STEP_UP}, {});
  if (!results) return failed(url, Errc::kNotAvailable, results.error().cause, kSomebodyElse);
  const auto answer = rpcrdma::from_bytes<step_up_status>(*results);
  if (!answer || *answer != step_up_status::STEP_UP_NOW) {
    return failed(url, Errc::kNotAvailable, "it has another answer than yes", kSomebodyElse);
  }
  auto client = Client::adopt(plain->release(), options);
  if (client) return client;
  return failed(url, client.error().code,
                "the server agreed, but RDMA was not set up: " + client.error().cause);
}

}  // namespace blob
