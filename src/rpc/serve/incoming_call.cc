#include "rpc/serve/incoming_call.h"

#include <algorithm>

#include "base/assert.h"
#include "rpc/serve/serving.h"

namespace rpcrdma::rpc {

std::string_view IncomingCall::peer_address() const noexcept {
  return serving_.carrier().peer_address();
}

std::uint64_t IncomingCall::connection_number() const noexcept {
  return serving_.number();
}

MutableBytes IncomingCall::result_memory(std::uint32_t size) {
  const MutableBytes memory = serving_.carrier().borrow(*this, size);
  return memory.empty() ? memory : memory.first(size);
}

bool IncomingCall::reserve_results(std::uint32_t size_max) {
  const std::size_t size = kReplyRoom + std::size_t{size_max};
  if (results_buffer_.size() < size) {
    results_buffer_ = serving_.carrier().room(*this, size);
    if (results_buffer_.empty()) return false;
  }
  std::construct_at(&results_, results_buffer_.subspan(kReplyRoom));
  return true;
}

void IncomingCall::succeed() {
  const bool is_empty = is_whole_ && results_.size() == 0 && results_.items().empty();
  status_ = results_.ok() && !is_empty ? AcceptStatus::kSuccess : AcceptStatus::kSystemErr;
  serving_.handle_answered(*this);
}

void IncomingCall::fail(AcceptStatus status) {
  status_ = status;
  serving_.handle_answered(*this);
}

// --- Authentication ----------------------------------------------------------------------------

void IncomingCall::Step::finish() {
  serving_.handle_step_ended(call_);
}

bool IncomingCall::unwrap() {
  const StepEnd end = auth_.unwrap(arguments_.xdr().rest(), step_);
  if (end == StepEnd::kDone) finish_unwrap();
  return end == StepEnd::kDone;
}

void IncomingCall::finish_unwrap() {
  auth_.stage = CallAuth::Stage::kNone;
  status_ = auth_.call.arguments ? AcceptStatus::kSuccess : AcceptStatus::kGarbageArgs;
  if (auth_.call.arguments) {
    std::construct_at(&arguments_, *auth_.call.arguments, 0);
  }
}

bool IncomingCall::seal() {
  const bool has_results = status_ == AcceptStatus::kSuccess;
  const Bytes stream = has_results ? Bytes(results_buffer_).subspan(kReplyRoom) : Bytes{};
  return auth_.seal(has_results ? &results_ : nullptr, stream, step_) == StepEnd::kDone;
}

bool IncomingCall::take_refusal(const oncrpc::ReplyHeader& refusal) noexcept {
  const auto* const accepted = std::get_if<oncrpc::Accepted>(&refusal.body);
  if (auth_.with == nullptr || accepted == nullptr) return false;
  status_ = accepted->status;
  versions_ = accepted->versions;
  return true;
}

// --- The header of its reply -------------------------------------------------------------------

const Credential& IncomingCall::reply_verifier() const {
  const Credential& verifier = auth_.call.reply_verifier;
  RPCRDMA_ASSERT(verifier.body.size() <= kAuthBodySizeMax,
                 "a ServerAuth has set a verifier over its limit (RFC 5531 section 8.2)");
  return verifier;
}

oncrpc::ReplyHeader IncomingCall::plain_header() const {
  const Credential verifier = auth_.with != nullptr ? reply_verifier() : Credential{};
  return {header_.xid, oncrpc::Accepted{status_, versions_, verifier}};
}

std::size_t IncomingCall::write_sealed_header() {
  const oncrpc::Accepted accepted{.verifier = reply_verifier()};
  const Bytes before = auth_.call.enclosure ? auth_.call.enclosure->before : Bytes{};
  const std::size_t size =
      oncrpc::kReplyHeaderSizeMin + xdr::padded_memory(accepted.verifier.body.size());
  RPCRDMA_ASSERT(before.size() <= Enclosure::kBeforeSizeMax && size + before.size() <= kReplyRoom,
                 "a ServerAuth has set more in front of the results than there is room for");
  const std::size_t start = kReplyRoom - before.size() - size;
  xdr::Writer writer(results_buffer_.subspan(start, size + before.size()));
  oncrpc::encode_reply({header_.xid, accepted}, writer);
  writer.opaque_fixed(before);
  return start;
}

WrappedResults IncomingCall::take_wrapped() {
  if (!auth_.call.is_wrapped || status_ != AcceptStatus::kSuccess) return {};
  RPCRDMA_ASSERT(!auth_.call.wrapped || !auth_.call.enclosure,
                 "a ServerAuth has both replaced the results and enclosed them (auth.h)");
  if (auth_.call.wrapped) return {.replaced = auth_.call.wrapped};
  if (auth_.call.enclosure) return {.after = auth_.call.enclosure->after};
  status_ = AcceptStatus::kSystemErr;
  return {};
}

Bytes IncomingCall::put_behind(Bytes data) noexcept {
  const MutableBytes left = results_buffer_.subspan(kReplyRoom + results_.size());
  if (left.size() < data.size()) return data;
  std::ranges::copy(data, left.begin());
  return left.first(data.size());
}

void IncomingCall::end_call() noexcept {
  auth_.end();
  kept_header_.clear();
  service_ = nullptr;
  is_whole_ = false;
  versions_ = {};
  results_buffer_ = {};
}

}  // namespace rpcrdma::rpc
