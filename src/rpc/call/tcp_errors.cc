#include "rpc/call/tcp_errors.h"

#include <cerrno>
#include <system_error>
#include <utility>

namespace rpcrdma::rpc {

Error tcp_failure(std::string_view operation, std::string_view peer,
                  const posix::SystemError& error) {
  std::string cause =
      std::string(error.operation) + ": " + std::generic_category().message(error.code);
  if (posix::is_local_path(peer)) {
    if (error.code == ENOENT) cause += "; is the server running?";
    if (error.code == ECONNREFUSED) cause += "; the server that made this socket has gone";
    if (error.code == EAGAIN) cause += "; the server has not taken those that came before";
  }
  const bool is_refused = error.code == ECONNREFUSED;
  return {is_refused ? Errc::kRefused : Errc::kUnreachable, std::string(operation),
          std::string(peer), std::move(cause)};
}

std::string longest_reply(const ClientOptions& options) {
  return "a reply is longer than TcpOptions::record_size_max, " +
         std::to_string(options.tcp.record_size_max);
}

std::string cause_of_end(const tcp::End& end, const ClientOptions& options) {
  switch (end.kind) {
    case tcp::EndKind::kLost:
      if (end.code != 0) return std::generic_category().message(end.code);
      return "the server closed it inside of a record";
    case tcp::EndKind::kTooLarge:
      return longest_reply(options);
    case tcp::EndKind::kTooManyFragments:
      return "a reply has more fragments than TcpOptions::fragments_max, " +
             std::to_string(options.tcp.fragments_max);
    case tcp::EndKind::kStalled:
    case tcp::EndKind::kSlow:
      if (end.code == ENOMEM) {
        return "a reply has waited for memory for too long: let go of replies that were read, or "
               "raise ClientOptions::memory_max";
      }
      return "the server stopped in the middle of a reply";
    case tcp::EndKind::kNone:
    case tcp::EndKind::kClosed:
    case tcp::EndKind::kAborted:
      return "the server closed it";
  }
  return "it has ended";
}

}  // namespace rpcrdma::rpc
