#include "blob/step_up.h"

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include "blob.h"
#include "rpcrdma/take_over.h"

namespace blob {
namespace {

using rpcrdma::Client;
using rpcrdma::ClientOptions;
using rpcrdma::Errc;
using rpcrdma::Error;
using rpcrdma::Expected;
using rpcrdma::Unexpected;

constexpr std::uint32_t kReplySizeMax = 1024;  // bytes

constexpr std::string_view kNothingThere = "; is the server running there, with --tcp-port?";
constexpr std::string_view kAnotherServer =
    "; what listens there does not step connections up: start it by `rpcrdma serve --tcp-port` and "
    "use the tcp:// URL that it prints";

// `advice` stands behind what happened: what a person can do about it.
Unexpected<Error> failed(std::string_view url, Errc code, const std::string& cause,
                         std::string_view advice = {}) {
  return Unexpected<Error>(
      Error{code, "stepping up", std::string(url), cause + std::string(advice)});
}

// Returns the options for the one call that is made over plain TCP.
ClientOptions plain_options(const ClientOptions& options) {
  ClientOptions plain;
  plain.provider.setup_timeout_client = options.provider.setup_timeout_client;
  plain.call_timeout = options.provider.setup_timeout_client;
  plain.tcp.record_size_max = kReplySizeMax;
  if (std::holds_alternative<rpcrdma::AuthSys>(options.auth)) plain.auth = options.auth;
  plain.calls_max = 1;
  return plain;
}

}  // namespace

Expected<Client, Error> connect_and_step_up(std::string_view url, const ClientOptions& options) {
  constexpr std::string_view kWanted = "a connection that steps up begins at tcp://HOST:PORT";
  if (!url.starts_with("tcp://")) return failed(url, Errc::kBadUrl, std::string(kWanted));
  auto plain = Client::connect(url, plain_options(options));
  if (!plain) {
    const Error& error = plain.error();
    if (error.code == Errc::kBadUrl) {
      std::string why(kWanted);
      why += ": ";  // GCC 12 warns of overflows in a sum that are not there
      return failed(url, error.code, why += error.cause);
    }
    return failed(url, error.code, error.cause,
                  error.code == Errc::kUnknownHost ? "" : kNothingThere);
  }
  const auto answer = BLOB_V1_Client(*plain).BLOB_STEP_UP();
  if (!answer) return failed(url, Errc::kNotAvailable, answer.error().cause, kAnotherServer);
  if (*answer != step_up_status::STEP_UP_NOW) {
    return failed(url, Errc::kNotAvailable, "it has another answer than yes", kAnotherServer);
  }
  auto client = rpcrdma::TakeOver::step_up(*plain, options);
  if (client) return client;
  return failed(url, client.error().code,
                "the server agreed, but RDMA was not set up: " + client.error().cause);
}

}  // namespace blob
