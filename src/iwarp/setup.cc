#include "iwarp/setup.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "iwarp/crc32c.h"

namespace rpcrdma::iwarp {

std::string_view to_string(SetupError error) noexcept {
  switch (error) {
    case SetupError::kNone:
      return "no error";
    case SetupError::kTimedOut:
      return "MPA set-up timed out";
    case SetupError::kClosed:
      return "peer closed the connection during MPA set-up";
    case SetupError::kNotMpa:
      return "peer does not speak MPA";
    case SetupError::kTooLong:
      return "malformed MPA frame";
    case SetupError::kRejected:
      return "peer rejected the connection";
    case SetupError::kMarkers:
      return "peer insists on MPA markers";
    case SetupError::kRevision:
      return "no MPA revision in common";
    case SetupError::kNotEnhanced:
      return "MPA reply lacks IRD and ORD";
    case SetupError::kIrd:
      return "peer wants more RDMA Reads than we hold";
    case SetupError::kRtr:
      return "no MPA ready-to-receive message in common";
    case SetupError::kRefused:
      return "refused by us";
  }
  return "unknown error";
}

MpaSetup::MpaSetup(bool initiator, const Options& options, Instant now)
    : initiator_(initiator), wishes_(options.wishes), deadline_(now + options.timeout) {}

MpaSetup MpaSetup::initiator(const Options& options, Bytes private_data, Instant now) {
  return MpaSetup(options, private_data, now);
}

MpaSetup::MpaSetup(const Options& options, Bytes private_data, Instant now)
    : MpaSetup(true, options, now) {
  output_end_ = encode(make_request(wishes_, private_data), output_.data());
}

MpaSetup MpaSetup::responder(const Options& options, Instant now) {
  return MpaSetup(false, options, now);
}

std::size_t MpaSetup::bytes_wanted() const noexcept {
  if (state_ != State::kReceiving) return 0;
  if (input_size_ < kMpaHeaderSize) return kMpaHeaderSize - input_size_;
  const auto size = frame_size(initiator_, {input_.data(), kMpaHeaderSize});
  return *size - input_size_;  // the header was accepted before
}

Bytes MpaSetup::output() const noexcept {
  return Bytes(output_).subspan(output_begin_, output_end_ - output_begin_);
}

std::optional<Instant> MpaSetup::deadline() const noexcept {
  // The upper layer's decision is not the peer's time.
  if (state_ == State::kReceiving || state_ == State::kSending) return deadline_;
  return std::nullopt;
}

void MpaSetup::fail(SetupError error) {
  if (state_ == State::kFailed) return;
  state_ = State::kFailed;
  error_ = error;
}

void MpaSetup::handle_received(Bytes bytes) {
  while (!bytes.empty() && state_ == State::kReceiving) {
    const std::size_t size = std::min(bytes.size(), bytes_wanted());
    std::memcpy(input_.data() + input_size_, bytes.data(), size);
    input_size_ += size;
    bytes = bytes.subspan(size);
    const Bytes input(input_.data(), input_size_);
    // A wrong key is an error at its first wrong byte: there is no reason to wait for the rest.
    if (!key_matches(initiator_, input)) {
      if (initiator_) say_terminate(Fault::kLlpFrame);
      return fail(SetupError::kNotMpa);
    }
    if (input_size_ < kMpaHeaderSize) continue;
    const auto whole = frame_size(initiator_, input);
    if (!whole) return fail(SetupError::kTooLong);
    if (input_size_ == *whole) handle_frame();
  }
  RPCRDMA_ASSERT(bytes.empty() || state_ == State::kFailed, "bytes behind the MPA frame");
}

void MpaSetup::handle_frame() {
  const auto frame = decode(initiator_, {input_.data(), input_size_});
  if (!frame) return fail(SetupError::kTooLong);
  peer_ = *frame;
  if (initiator_) return handle_reply();
  if (peer_.markers) return refuse(SetupError::kMarkers);
  if (peer_.revision < 1 || peer_.revision > 2) return refuse(SetupError::kRevision);
  state_ = State::kDeciding;
}

void MpaSetup::handle_reply() {
  const auto agreed = judge_reply(peer_, wishes_);
  if (agreed) {
    negotiated_ = *agreed;
    state_ = State::kDone;
    return;
  }
  switch (agreed.error()) {
    case ReplyFault::kRejected:
      return fail(SetupError::kRejected);
    case ReplyFault::kMarkers:
      return fail(SetupError::kMarkers);
    case ReplyFault::kRevision:
      return fail(SetupError::kRevision);
    case ReplyFault::kNotEnhanced:
      return fail(SetupError::kNotEnhanced);
    case ReplyFault::kIrd:
      say_terminate(Fault::kLlpIrd);
      return fail(SetupError::kIrd);
    case ReplyFault::kRtr:
      say_terminate(Fault::kLlpRtr);
      return fail(SetupError::kRtr);
  }
}

void MpaSetup::handle_end_of_stream() {
  if (state_ != State::kDone) fail(SetupError::kClosed);
}

void MpaSetup::handle_sent(std::size_t size) {
  output_begin_ += size;
  RPCRDMA_ASSERT(output_begin_ <= output_end_, "more sent than there was");
  if (output_begin_ == output_end_ && state_ == State::kSending) state_ = State::kDone;
}

void MpaSetup::handle_timeout(Instant now) {
  if (deadline() && now >= deadline_) fail(SetupError::kTimedOut);
}

bool MpaSetup::accept(Bytes private_data) {
  RPCRDMA_ASSERT(state_ == State::kDeciding, "nothing to accept");
  const std::size_t room = kMpaPrivateDataMax - (peer_.enhanced ? kMpaEnhancedSize : 0);
  if (private_data.size() > room) return false;
  const Acceptance acceptance = iwarp::accept(peer_, wishes_, private_data);
  negotiated_ = acceptance.negotiated;
  output_end_ = encode(acceptance.reply, output_.data());
  state_ = State::kSending;
  return true;
}

void MpaSetup::reject(Bytes private_data) {
  RPCRDMA_ASSERT(state_ == State::kDeciding, "nothing to reject");
  output_end_ =
      encode(make_reject(peer_, private_data.first(std::min(private_data.size(), kMpaUserDataMax))),
             output_.data());
  fail(SetupError::kRefused);
}

void MpaSetup::refuse(SetupError error) {
  output_end_ = encode(make_reject(peer_, {}), output_.data());
  fail(error);
}

void MpaSetup::say_terminate(Fault fault) {
  // Only behind a Request that is out whole would the peer understand it.
  if (output_begin_ != output_end_) return;
  std::array<std::byte, fpdu_size(kTerminateSizeMax)> fpdu{};
  const std::size_t ulpdu = encode_terminate(fault, {}, fpdu.data());
  const std::size_t covered = kLengthSize + ulpdu + pad_size(ulpdu);
  Crc32c crc;
  crc.add(Bytes(fpdu).first(covered));
  store_crc(fpdu.data() + covered, crc.value());
  output_begin_ = 0;
  output_end_ = covered + kCrcSize;
  std::memcpy(output_.data(), fpdu.data(), output_end_);
}

}  // namespace rpcrdma::iwarp
