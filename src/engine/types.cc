#include "engine/types.h"

namespace rpcrdma::engine {

std::string_view to_string(CallError error) noexcept {
  switch (error) {
    case CallError::kVersion:
      return "the peer does not speak our version of RPC-over-RDMA (RDMA_ERROR ERR_VERS)";
    case CallError::kChunk:
      return "the peer could not use the call's chunks (RDMA_ERROR ERR_CHUNK)";
    case CallError::kBadReply:
      return "the reply's chunks do not fit what the call offered";
    case CallError::kTimedOut:
      return "no reply in time";
    case CallError::kConnectionLost:
      return "the connection was lost";
    case CallError::kCanceled:
      return "canceled";
    case CallError::kNoMemory:
      return "the provider could not expose the call's memory";
  }
  return "unknown error";
}

std::string_view to_string(GivenUp why) noexcept {
  switch (why) {
    case GivenUp::kNot:
      return {};
    case GivenUp::kSilent:
      return "closed by this side: a call timed out, and nothing had arrived since it was sent";
    case GivenUp::kNoCredits:
      return "closed by this side: calls that timed out or were canceled hold every credit";
    case GivenUp::kNoVersion:
      return "closed by this side: the peer speaks no version of RPC-over-RDMA that was offered";
    case GivenUp::kNoAnswer:
      return "closed by this side: the offer of RPC-over-RDMA version 2 was not answered";
    case GivenUp::kUnserved:
      return "closed by this side: the peer completed none of our RDMA Reads, Writes and Sends in "
             "the peer timeout";
    case GivenUp::kSlowReads:
      return "closed by this side: the peer served the Read chunks of a Call too slowly (pull "
             "timeout, pull rate)";
    case GivenUp::kSlowReplies:
      return "closed by this side: the peer took the results of calls too slowly (peer timeout, "
             "pull rate)";
    case GivenUp::kUnfenced:
      return "closed by this side: the memory of a call that was given up could not be taken back "
             "while the connection lived";
    case GivenUp::kUnconfirmed:
      return "closed by this side: the peer did not confirm in time that it has read a reply "
             "(RDMA_DONE)";
    case GivenUp::kOverrun:
      return "closed by this side: the peer sent more Calls than its credits allow";
    case GivenUp::kBadInvalidation:
      return "closed by this side: the peer invalidated a steering tag that was not its call's";
  }
  return {};
}

std::string_view to_string(StartError error) noexcept {
  switch (error) {
    case StartError::kTooLarge:
      return "the call has more pieces than a header may name";
    case StartError::kReplyRoomNeeded:
      return "the reply may be longer than a message and has no room of its own";
    case StartError::kNoReadChunks:
      return "the call is longer than a message, and the server takes no Read chunks";
    case StartError::kQueueFull:
      return "too many calls are under way";
    case StartError::kNotConnected:
      return "not connected";
    case StartError::kNotTaken:
      return "the client takes no calls (XCHAR_BRS NONE)";
  }
  return "unknown error";
}

}  // namespace rpcrdma::engine
