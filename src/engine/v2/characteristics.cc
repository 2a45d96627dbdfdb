#include "engine/v2/characteristics.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <span>
#include <variant>

#include "base/assert.h"
#include "rpcrdma/xdr.h"

namespace rpcrdma::engine {
namespace {

namespace v2 = wire::v2;

// No peer can have less: the offer of version 2 has to fit.
constexpr std::uint32_t kReceiveSizeMin = 1024;  // bytes

Characteristics own_values(Role role, const Options& options) noexcept {
  Characteristics values;
  values.receive_size = receive_size(options);
  if (role == Role::kServer) return values;
  values.takes_invalidation = options.remote_invalidation;
  values.backward = options.backward_calls > 0 ? BackwardSupport::kInline : BackwardSupport::kNone;
  return values;
}

using Word = std::array<std::byte, xdr::kWordSize>;

Word word_of(std::uint32_t value) noexcept {
  Word word;
  xdr::store_word(word.data(), value);
  return word;
}

std::uint32_t size_of(const xdr::Writer& writer) noexcept {
  RPCRDMA_ASSERT(writer.ok(), "the information of an option is longer than its room");
  return static_cast<std::uint32_t>(writer.position());
}

}  // namespace

CharacteristicTable::CharacteristicTable(Role role, const Options& options) noexcept
    : role_(role),
      send_size_(std::max(options.inline_send, kReceiveSizeV2)),
      sends_invalidation_(role == Role::kServer && options.remote_invalidation),
      own_(own_values(role, options)) {}

// --- Ours --------------------------------------------------------------------------------------

// A server has only the first to tell: the others are of requesters, and of clients.
std::uint32_t CharacteristicTable::write_init(MutableBytes info) noexcept {
  using enum v2::CharacteristicId;
  const Word words[] = {word_of(own_.receive_size), word_of(own_.takes_invalidation ? 1 : 0),
                        word_of(static_cast<std::uint32_t>(own_.backward))};
  const v2::CharacteristicValue values[] = {
      {static_cast<std::uint32_t>(kReceiveSize), words[0]},
      {static_cast<std::uint32_t>(kRemoteInvalidation), words[1]},
      {static_cast<std::uint32_t>(kBackward), words[2]}};
  constexpr std::uint32_t kStay[] = {1, 2};  // all but the size
  xdr::Writer writer(info);
  if (role_ == Role::kServer) {
    v2::write_init(writer, std::span(values).first(1), {});
  } else {
    v2::write_init(writer, values, kStay);
  }
  is_own_known_ = true;
  return size_of(writer);
}

std::uint32_t CharacteristicTable::write_refusal(std::uint32_t count, MutableBytes info) noexcept {
  std::array<std::uint32_t, v2::kSubsetMax> all;
  std::iota(all.begin(), all.end(), 0U);
  xdr::Writer writer(info);
  v2::write_response(writer, {}, std::span(all).first(std::min(count, v2::kSubsetMax)), {});
  return size_of(writer);
}

// --- The peer's --------------------------------------------------------------------------------

// False: the value is none of its type. Unknown ids are left alone.
bool CharacteristicTable::apply(const v2::CharacteristicValue& value,
                                Characteristics& values) noexcept {
  switch (v2::CharacteristicId{value.id}) {
    case v2::CharacteristicId::kReceiveSize: {
      const auto size = v2::as_number(value);
      if (size) values.receive_size = std::max(*size, kReceiveSizeMin);
      return size.has_value();
    }
    case v2::CharacteristicId::kRemoteInvalidation: {
      const auto takes = v2::as_boolean(value);
      if (takes) values.takes_invalidation = *takes;
      return takes.has_value();
    }
    case v2::CharacteristicId::kBackward: {
      const auto backward = v2::as_backward_support(value);
      if (backward) values.backward = BackwardSupport{static_cast<std::uint8_t>(*backward)};
      return backward.has_value();
    }
  }
  return true;
}

CharacteristicTable::Verdict CharacteristicTable::take(std::uint32_t type, Bytes info,
                                                       std::uint32_t& wanted) noexcept {
  const auto option = v2::decode_option(type, info);
  if (!option) return Verdict::kBad;
  if (std::holds_alternative<v2::UnknownOption>(*option)) return Verdict::kUnknown;
  // All of it counts, or nothing.
  Characteristics values = peer_;
  bool is_good = true;
  if (const auto* init = std::get_if<v2::InitXch>(&*option)) {
    init->start.for_each([&](std::uint32_t, const v2::CharacteristicValue& value) {
      is_good = apply(value, values) && is_good;
    });
  } else if (const auto* update = std::get_if<v2::UpdXch>(&*option)) {
    is_good = apply(update->now, values);
  } else if (const auto* request = std::get_if<v2::ReqXch>(&*option)) {
    Characteristics ours = own_;  // only to see whether the values are some
    request->want.for_each([&](std::uint32_t, const v2::CharacteristicValue& value) {
      is_good = apply(value, ours) && is_good;
    });
    wanted = request->want.size();
  }
  if (!is_good) return Verdict::kBad;
  peer_ = values;
  return std::holds_alternative<v2::ReqXch>(*option) ? Verdict::kRequest : Verdict::kHeard;
}

// --- What follows ------------------------------------------------------------------------------

LinkParameters CharacteristicTable::link(LinkParameters link, bool may_invalidate) const noexcept {
  link.inline_send = std::min(send_size_, peer_.receive_size);
  // Nothing says how much a peer sends, but one that takes large messages has them (ADR 24).
  if (is_own_known_) {
    link.inline_receive = std::min(own_.receive_size, std::max(peer_.receive_size, kReceiveSizeV2));
  }
  link.remote_invalidation = sends_invalidation_ && may_invalidate && peer_.takes_invalidation;
  return link;
}

}  // namespace rpcrdma::engine
