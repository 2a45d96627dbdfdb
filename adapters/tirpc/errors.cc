#include "errors.h"

#include <cerrno>

namespace rpcrdma::tirpc {

namespace {

rpc_err make(clnt_stat status, int number) noexcept {
  rpc_err made{};
  made.re_status = status;
  made.re_errno = number;
  return made;
}

}  // namespace

rpc_err call_error(const Error& error) noexcept {
  switch (error.code) {
    case Errc::kTimedOut:
      return make(RPC_TIMEDOUT, 0);
    case Errc::kConnectionLost:
    case Errc::kCanceled:
      return make(RPC_CANTRECV, ECONNRESET);
    case Errc::kChunk:  // the server may have executed the call: nothing that is tried again
    case Errc::kBadReply:
      return make(RPC_CANTDECODERES, 0);
    case Errc::kTooLarge:
    case Errc::kBadArguments:
      return make(RPC_CANTENCODEARGS, 0);
    case Errc::kTooManyCalls:
    case Errc::kNoResources:
      return make(RPC_CANTSEND, ENOBUFS);
    case Errc::kVersion:
      return make(RPC_CANTSEND, EPROTO);
    case Errc::kBadUrl:
    case Errc::kUnreachable:
    case Errc::kRefused:
    case Errc::kDenied:
    case Errc::kNotAvailable:
    case Errc::kServerFault:
    case Errc::kUnsupported:
    case Errc::kUnknownHost:
    case Errc::kSecurity:
      break;
  }
  return make(RPC_FAILED, 0);
}

rpc_err unsent_error(const Error& error) noexcept {
  if (error.code == Errc::kConnectionLost || error.code == Errc::kCanceled) {
    return make(RPC_CANTSEND, EPIPE);
  }
  return call_error(error);
}

void set_create_error(Errc code) noexcept {
  const auto failed = [](clnt_stat status, int number) noexcept {
    get_rpc_createerr().cf_stat = status;
    get_rpc_createerr().cf_error = make(status, number);
  };
  switch (code) {
    case Errc::kUnknownHost:
      return failed(RPC_UNKNOWNHOST, 0);
    case Errc::kBadUrl:
      return failed(RPC_UNKNOWNADDR, 0);
    case Errc::kNotAvailable:
      return failed(RPC_PROGNOTREGISTERED, 0);
    case Errc::kUnsupported:
      return failed(RPC_UNKNOWNPROTO, 0);
    case Errc::kTimedOut:
      return failed(RPC_TIMEDOUT, ETIMEDOUT);
    case Errc::kUnreachable:
    case Errc::kRefused:
      return failed(RPC_SYSTEMERROR, ECONNREFUSED);
    case Errc::kNoResources:
      return failed(RPC_SYSTEMERROR, ENOBUFS);
    case Errc::kVersion:
      return failed(RPC_SYSTEMERROR, EPROTO);
    case Errc::kConnectionLost:
    case Errc::kChunk:
    case Errc::kBadReply:
    case Errc::kCanceled:
    case Errc::kTooLarge:
    case Errc::kTooManyCalls:
    case Errc::kDenied:
    case Errc::kBadArguments:
    case Errc::kServerFault:
    case Errc::kSecurity:
      break;
  }
  return failed(RPC_SYSTEMERROR, EIO);
}

}  // namespace rpcrdma::tirpc
