#include "rpc/errors.h"

#include <fmt/format.h>

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
  }
  return "unknown error";
}

std::string Error::message() const {
  return fmt::format("{} ({}) failed: {}: {}", operation, peer, to_string(code), cause);
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
  std::string text(error.operation.empty() ? to_string(error.code) : error.operation);
  if (error.provider_code != 0) text += fmt::format(": {}", std::strerror(error.provider_code));
  if (error.provider_code == ECONNREFUSED) text += "; is a server running there, on this port?";
  if (error.provider_code == EADDRINUSE) text += "; choose another port, or 0 for any free one";
  return text;
}

}  // namespace

Error to_error(const rdma::Error& error, std::string_view operation, std::string_view peer,
               std::string_view remedy) {
  std::string cause = describe(error);
  if (!remedy.empty()) cause += fmt::format("; {}", remedy);
  return {to_errc(error), std::string(operation), std::string(peer), std::move(cause)};
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
    case engine::StartError::kQueueFull:
      code = Errc::kTooManyCalls;
      break;
    case engine::StartError::kNotConnected:
      code = Errc::kConnectionLost;
      break;
  }
  return {code, "starting the call", std::string(peer), std::string(to_string(error))};
}

}  // namespace rpcrdma::rpc
