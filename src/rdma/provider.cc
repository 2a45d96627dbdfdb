#include "rdma/provider.h"

namespace rpcrdma::rdma {

std::string_view to_string(Errc code) noexcept {
  switch (code) {
    case Errc::kNoResources:
      return "out of resources";
    case Errc::kBadAddress:
      return "bad address";
    case Errc::kRefused:
      return "refused by the peer";
    case Errc::kTimedOut:
      return "timed out";
    case Errc::kClosed:
      return "connection closed";
    case Errc::kProtocol:
      return "protocol error";
    case Errc::kUnsupported:
      return "not supported";
    case Errc::kProvider:
      return "provider error";
  }
  return "unknown error";
}

std::string_view to_string(Status status) noexcept {
  switch (status) {
    case Status::kOk:
      return "ok";
    case Status::kFlushed:
      return "flushed";
    case Status::kLocalError:
      return "local error";
    case Status::kRemoteAccess:
      return "remote access error";
    case Status::kRetryExceeded:
      return "peer does not answer";
  }
  return "unknown status";
}

}  // namespace rpcrdma::rdma
