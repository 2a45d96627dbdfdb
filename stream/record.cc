#include "stream/record.h"

#include <algorithm>

#include "rpcrdma/oncrpc.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::stream {
namespace {

constexpr std::size_t kReadMax = 16U << 10U;  // bytes at a time

Unexpected<ReplyFailure> failed(Errc code, std::string cause) {
  return Unexpected<ReplyFailure>(ReplyFailure{code, std::move(cause)});
}

Unexpected<ReplyFailure> unreadable(const xdr::Reader& reader) {
  return failed(Errc::kBadReply,
                "its reply cannot be decoded: " + std::string(xdr::to_string(reader.error().code)) +
                    " (" + std::string(reader.error().field) + ")");
}

ReplyFailure denied(xdr::Reader& reader) {
  const std::uint32_t why = reader.u32("reject_stat");
  if (why == static_cast<std::uint32_t>(RejectStatus::kRpcMismatch)) {
    return {Errc::kDenied, "it does not speak RPC version 2"};
  }
  if (why != static_cast<std::uint32_t>(RejectStatus::kAuthError)) {
    reader.fail(xdr::Errc::kBadEnum, "reject_stat");
  }
  const std::uint32_t auth = reader.u32("auth_stat");
  return {Errc::kDenied,
          "it rejects calls without a credential (auth_stat " + std::to_string(auth) + ")"};
}

ReplyFailure not_executed(std::uint32_t status, xdr::Reader& reader) {
  switch (AcceptStatus{status}) {
    case AcceptStatus::kProgUnavail:
      return {Errc::kNotAvailable, "it does not serve the program"};
    case AcceptStatus::kProgMismatch: {
      const std::uint32_t low = reader.u32("low");
      const std::uint32_t high = reader.u32("high");
      return {Errc::kNotAvailable, "it serves versions " + std::to_string(low) + " to " +
                                       std::to_string(high) + " of the program only"};
    }
    case AcceptStatus::kProcUnavail:
      return {Errc::kNotAvailable, "it does not have the procedure"};
    case AcceptStatus::kGarbageArgs:
      return {Errc::kBadArguments, "it could not decode the arguments"};
    case AcceptStatus::kSystemErr:
      return {Errc::kServerFault, "it failed (SYSTEM_ERR)"};
    case AcceptStatus::kSuccess:
      break;
  }
  reader.fail(xdr::Errc::kBadEnum, "accept_stat");
  return {};
}

}  // namespace

// --- Records -----------------------------------------------------------------------------------

std::size_t RecordReader::wanted() const noexcept {
  switch (state_) {
    case State::kHeader:
      return xdr::kWordSize - header_size_;
    case State::kFragment:
      return std::min<std::size_t>(fragment_left_, kReadMax);
    case State::kDone:
    case State::kFailed:
      break;
  }
  return 0;
}

void RecordReader::take(Bytes bytes) {
  bytes = bytes.first(std::min(bytes.size(), wanted()));
  if (state_ == State::kHeader) {
    for (const std::byte byte : bytes) {
      header_ = (header_ << 8U) | std::to_integer<std::uint32_t>(byte);
    }
    header_size_ += bytes.size();
    if (header_size_ == xdr::kWordSize) begin_fragment();
  } else if (state_ == State::kFragment) {
    record_.insert(record_.end(), bytes.begin(), bytes.end());
    fragment_left_ -= static_cast<std::uint32_t>(bytes.size());
  }
  if (state_ == State::kFragment && fragment_left_ == 0) {
    state_ = last_ ? State::kDone : State::kHeader;
  }
}

void RecordReader::begin_fragment() {
  last_ = (header_ & kLastFragment) != 0;
  fragment_left_ = header_ & ~kLastFragment;
  header_ = 0;
  header_size_ = 0;
  state_ = State::kFragment;
  if (fragment_left_ > size_max_ - record_.size()) {
    state_ = State::kFailed;
    failure_ = "its record is longer than any that is expected";
  } else if (fragment_left_ == 0 && !last_) {
    // Lawful, but without end for a peer that sends nothing else.
    state_ = State::kFailed;
    failure_ = "its record has empty fragments";
  }
}

// --- Replies -----------------------------------------------------------------------------------

Expected<Bytes, ReplyFailure> open_reply(Bytes record, std::uint32_t xid) {
  constexpr std::uint32_t kReply = 1;     // msg_type
  constexpr std::uint32_t kAccepted = 0;  // reply_stat
  constexpr std::uint32_t kDenied = 1;
  xdr::Reader reader(record);
  const std::uint32_t reply_xid = reader.u32("xid");
  if (reader.u32("msg_type") != kReply) reader.fail(xdr::Errc::kBadEnum, "msg_type");
  const std::uint32_t reply_status = reader.u32("reply_stat");
  if (reply_status > kDenied) reader.fail(xdr::Errc::kBadEnum, "reply_stat");
  if (!reader.ok()) return unreadable(reader);
  if (reply_xid != xid) return failed(Errc::kBadReply, "it answered a call that was not made");
  if (reply_status != kAccepted) {
    ReplyFailure failure = denied(reader);
    if (!reader.ok()) return unreadable(reader);
    return Unexpected<ReplyFailure>(std::move(failure));
  }
  reader.u32("verifier");
  reader.opaque(kAuthBodySizeMax, "verifier");
  const std::uint32_t status = reader.u32("accept_stat");
  if (!reader.ok()) return unreadable(reader);
  if (status != static_cast<std::uint32_t>(AcceptStatus::kSuccess)) {
    ReplyFailure failure = not_executed(status, reader);
    if (!reader.ok()) return unreadable(reader);
    return Unexpected<ReplyFailure>(std::move(failure));
  }
  return reader.rest();
}

}  // namespace rpcrdma::stream
