#include "rpc/errors.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace rpcrdma {

std::string_view to_string(Errc code) noexcept {
  switch (code) {
    case Errc::kBadUrl:
      return "bad address";
    case Errc::kUnreachable:
      return "unreachable";
    case Errc::kRefused:
      return "connection refused";
    case Errc::kTimedOut:
      return "timed out";
    case Errc::kConnectionLost:
      return "connection lost";
    case Errc::kVersion:
      return "version not supported by the peer";
    case Errc::kChunk:
      return "chunks refused by the peer";
    case Errc::kBadReply:
      return "bad reply";
    case Errc::kCanceled:
      return "canceled";
    case Errc::kTooLarge:
      return "too large";
    case Errc::kTooManyCalls:
      return "too many calls";
    case Errc::kNoResources:
      return "out of resources";
    case Errc::kDenied:
      return "denied";
    case Errc::kNotAvailable:
      return "not available";
    case Errc::kBadArguments:
      return "bad arguments";
    case Errc::kServerFault:
      return "server fault";
    case Errc::kUnsupported:
      return "not supported";
    case Errc::kUnknownHost:
      return "unknown host";
    case Errc::kSecurity:
      return "not secure";
  }
  return "unknown error";
}

std::string Error::message() const {
  const std::string at = peer.empty() ? std::string() : fmt::format(" ({})", peer);
  return fmt::format("{}{} failed: {}: {}", operation, at, to_string(code), cause);
}

}  // namespace rpcrdma

namespace rpcrdma::rpc {
namespace {

Errc to_errc(const rdma::Error& error) {
  switch (error.code) {
    case rdma::Errc::kNoResources:
      return Errc::kNoResources;
    case rdma::Errc::kBadAddress:
      return Errc::kBadUrl;
    case rdma::Errc::kRefused:
      return Errc::kRefused;
    case rdma::Errc::kTimedOut:
      return Errc::kTimedOut;
    case rdma::Errc::kUnsupported:
      return Errc::kUnsupported;
    case rdma::Errc::kClosed:
    case rdma::Errc::kProtocol:
      return Errc::kConnectionLost;
    case rdma::Errc::kProvider:
      return error.provider_code == ECONNREFUSED ? Errc::kRefused : Errc::kUnreachable;
  }
  return Errc::kConnectionLost;
}

std::string describe(const rdma::Error& error) {
  if (error.provider_code == EADDRINUSE) return address_in_use(error.operation);
  std::string text(error.operation.empty() ? to_string(error.code) : error.operation);
  // The operation alone is no cause.
  if (error.provider_code == 0 && error.code == rdma::Errc::kBadAddress &&
      !error.operation.empty()) {
    text += ": this is no address and port, or its interface (behind '%') is not there";
  }
  if (error.provider_code != 0) text += fmt::format(": {}", std::strerror(error.provider_code));
  if (error.provider_code == ECONNREFUSED) text += "; is a server running there, on this port?";
  return text;
}

}  // namespace

Error to_error(const rdma::Error& error, std::string_view operation, std::string_view peer,
               std::string_view remedy) {
  std::string cause = describe(error);
  if (!remedy.empty()) cause += fmt::format("; {}", remedy);
  return {to_errc(error), std::string(operation), std::string(peer), std::move(cause)};
}

std::string address_in_use(std::string_view operation) {
  return fmt::format(
      "another program listens at this address and port ({}: {}): end that program, or choose "
      "another port, 0 for any free one",
      operation, std::strerror(EADDRINUSE));
}

Error is_stopping(std::string_view peer) {
  return {Errc::kCanceled, "accepting", std::string(peer), "the server is stopping"};
}

Error not_accepted(const rdma::Error& error, std::string_view address) {
  std::string cause = std::strerror(error.provider_code);
  rlimit files{};
  if (error.provider_code == EMFILE && ::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    cause += fmt::format(
        ": this process may have {} descriptors (RLIMIT_NOFILE); raise that (ulimit -n), or lower "
        "ServerOptions::connections_max",
        files.rlim_cur);
  }
  if (error.provider_code == EINVAL) {
    cause = "another process has shut the listening socket down; start the server again";
  }
  return {Errc::kNoResources, "accepting", std::string(address), std::move(cause)};
}

Error no_provider(std::string_view operation, std::string_view address) {
  return {Errc::kUnsupported, std::string(operation), std::string(address),
          "there is no provider: the pointer to it is null"};
}

Error to_error(engine::CallError error, const rdma::Error& reason, std::string_view peer,
               std::string_view remedy) {
  const auto make = [&](Errc code) {
    return Error{code, "the call", std::string(peer), std::string(to_string(error))};
  };
  const auto explained = [&](Errc code, std::string_view what) {
    std::string cause = fmt::format("{} ({})", what, describe(reason));
    if (!remedy.empty()) cause += fmt::format("; {}", remedy);
    return Error{code, "the call", std::string(peer), std::move(cause)};
  };
  switch (error) {
    case engine::CallError::kVersion:
      return make(Errc::kVersion);
    case engine::CallError::kChunk:
      return make(Errc::kChunk);
    case engine::CallError::kBadReply:
      return make(Errc::kBadReply);
    case engine::CallError::kTimedOut:
      return make(Errc::kTimedOut);
    case engine::CallError::kCanceled:
      return make(Errc::kCanceled);
    case engine::CallError::kNoMemory:
      return explained(Errc::kNoResources, to_string(error));
    case engine::CallError::kConnectionLost:
      return explained(Errc::kConnectionLost, "the connection ended before the reply");
  }
  return make(Errc::kConnectionLost);
}

Error to_error(engine::StartError error, std::string_view peer) {
  Errc code = Errc::kTooLarge;
  switch (error) {
    case engine::StartError::kTooLarge:
    case engine::StartError::kReplyRoomNeeded:
    case engine::StartError::kNoReadChunks:
      code = Errc::kTooLarge;
      break;
    case engine::StartError::kNotTaken:
      code = Errc::kUnsupported;
      break;
    case engine::StartError::kQueueFull:
      code = Errc::kTooManyCalls;
      break;
    case engine::StartError::kNotConnected:
      code = Errc::kConnectionLost;
      break;
  }
  return {code, "starting the call", std::string(peer), std::string(to_string(error))};
}

std::optional<Error> to_error(const oncrpc::ReplyHeader* header, const Procedure& procedure,
                              std::string_view peer) {
  const auto make = [&](Errc code, std::string cause) {
    return Error{code,
                 fmt::format("procedure {} of program {} version {}", procedure.number,
                             procedure.program, procedure.version),
                 std::string(peer), std::move(cause)};
  };
  if (header == nullptr) return make(Errc::kBadReply, "the reply is no RPC reply to this call");
  if (const auto* mismatch = std::get_if<oncrpc::RpcMismatch>(&header->body)) {
    return make(Errc::kDenied, fmt::format("the server speaks RPC versions {} to {}",
                                           mismatch->versions.low, mismatch->versions.high));
  }
  if (const auto* auth = std::get_if<oncrpc::AuthError>(&header->body)) {
    return make(Errc::kDenied, std::string(to_string(auth->why)));
  }
  const auto& accepted = std::get<oncrpc::Accepted>(header->body);
  switch (accepted.status) {
    case AcceptStatus::kSuccess:
      return std::nullopt;
    case AcceptStatus::kProgMismatch:
      return make(Errc::kNotAvailable, fmt::format("the server has versions {} to {} of it",
                                                   accepted.versions.low, accepted.versions.high));
    case AcceptStatus::kProgUnavail:
    case AcceptStatus::kProcUnavail:
      return make(Errc::kNotAvailable, std::string(to_string(accepted.status)));
    case AcceptStatus::kGarbageArgs:
      return make(
          Errc::kBadArguments,
          fmt::format("{} by the server, or are more than it takes "
                      "(ServerOptions::bulk_size_max; over TCP TcpOptions::record_size_max)",
                      to_string(accepted.status)));
    case AcceptStatus::kSystemErr:
      return make(Errc::kServerFault, std::string(to_string(accepted.status)));
  }
  return make(Errc::kBadReply, std::string(to_string(accepted.status)));
}

Error no_call(std::string_view peer) {
  return {Errc::kBadArguments, "starting a call", std::string(peer),
          "its message does not begin with an XID and msg_type CALL (RFC 5531 §9)"};
}

Error xid_in_use(std::string_view peer) {
  return {Errc::kBadArguments, "starting a call", std::string(peer),
          "its message has the XID of a call that is under way"};
}

}  // namespace rpcrdma::rpc
