#include "engine/v2/characteristics.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/assert.h"
#include "base/bounded_vector.h"
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
  values.backward = options.backward_calls > 0 ? options.backward_support : BackwardSupport::kNone;
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

CharacteristicTable::CharacteristicTable(Role role, const Options& options)
    : role_(role),
      send_size_(std::max({options.inline_send, receive_size(options), kReceiveSizeV2})),
      arguments_max_(options.inline_arguments_max),
      send_size_with_arguments_(longest_send(options)),
      sends_invalidation_(role == Role::kServer && options.remote_invalidation),
      own_at_first_(own_values(role, options)),
      own_size_(own_at_first_.receive_size,
                std::max(own_at_first_.receive_size, options.receive_size_max), kReceiveSizeV2),
      experimental_(options.characteristics) {}

bool CharacteristicTable::handle_connected(std::uint32_t reads_in_flight_max) noexcept {
  if (role_ == Role::kServer) return false;
  Characteristics& own = own_at_first_;
  if (reads_in_flight_max == 0) own.backward = std::min(own.backward, BackwardSupport::kInline);
  return own.backward == BackwardSupport::kGeneral;
}

// --- Ours --------------------------------------------------------------------------------------

Characteristics CharacteristicTable::own() const noexcept {
  Characteristics own = own_at_first_;
  own.receive_size = own_size_.value();
  return own;
}

// A server has only the first to tell: the others are of requesters, and of clients.
std::uint32_t CharacteristicTable::write_init(MutableBytes info) noexcept {
  using enum v2::CharacteristicId;
  const Characteristics own = this->own();
  const Word words[] = {word_of(own.receive_size), word_of(own.takes_invalidation ? 1 : 0),
                        word_of(static_cast<std::uint32_t>(own.backward))};
  BoundedVector<v2::CharacteristicValue, 3 + ExperimentalValues::kMax> values;
  (void)values.push_back({static_cast<std::uint32_t>(kReceiveSize), words[0]});
  if (role_ == Role::kClient) {
    (void)values.push_back({static_cast<std::uint32_t>(kRemoteInvalidation), words[1]});
    (void)values.push_back({static_cast<std::uint32_t>(kBackward), words[2]});
  }
  experimental_.for_each_own(
      [&](const SmallValue& value) { (void)values.push_back(value.view()); });
  constexpr std::uint32_t kStay[] = {1, 2};  // remote invalidation and backward calls
  xdr::Writer writer(info);
  v2::write_init(writer, values.view(),
                 std::span(kStay).first(role_ == Role::kClient ? std::size(kStay) : 0));
  is_own_known_ = true;
  experimental_.told_all();
  return size_of(writer);
}

std::uint32_t CharacteristicTable::write_receive_size(MutableBytes info) noexcept {
  const bool is_solicited = own_size_.settle();
  // The peer counts on replies as large as its own Receives and ours (ADR 24); and still does for
  // Calls under way when ours have become smaller again.
  send_size_ = std::max(send_size_, own_size_.value());
  const Word word = word_of(own_size_.value());
  xdr::Writer writer(info);
  v2::write_update(writer, {static_cast<std::uint32_t>(v2::CharacteristicId::kReceiveSize), word},
                   is_solicited);
  return size_of(writer);
}

std::uint32_t CharacteristicTable::write_experimental(MutableBytes info) noexcept {
  const SmallValue value = *experimental_.due();
  experimental_.told(value.id);
  xdr::Writer writer(info);
  v2::write_update(writer, value.view(), false);
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

bool CharacteristicTable::is_value(const v2::CharacteristicValue& value) const {
  Characteristics nobodys;
  return apply(value, nobodys) && experimental_.is_value(value);
}

void CharacteristicTable::take(const v2::CharacteristicValue& value) {
  (void)apply(value, peer_);
  experimental_.hear(value);
}

bool CharacteristicTable::hear(const v2::InitXch& init) noexcept {
  bool is_good = true;
  init.start.for_each([&](std::uint32_t, const v2::CharacteristicValue& value) {
    is_good = is_good && is_value(value);
  });
  if (!is_good) return false;
  init.start.for_each([&](std::uint32_t, const v2::CharacteristicValue& value) { take(value); });
  return true;
}

bool CharacteristicTable::hear(const v2::UpdXch& update) noexcept {
  if (!is_value(update.now)) return false;
  take(update.now);
  return true;
}

std::optional<ChangeAnswer> CharacteristicTable::judge(const v2::ReqXch& request) noexcept {
  bool is_good = true;
  request.want.for_each([&](std::uint32_t, const v2::CharacteristicValue& value) {
    is_good = is_good && is_value(value);
  });
  if (!is_good) return std::nullopt;
  ChangeAnswer answer;
  request.want.for_each([&](std::uint32_t index, const v2::CharacteristicValue& value) {
    if (index >= v2::kSubsetMax) return;
    const std::uint64_t bit = std::uint64_t{1} << index;
    switch (judge(value)) {
      case OwnReceiveSize::Answer::kDone:
        answer.done |= bit;
        break;
      case OwnReceiveSize::Answer::kRejected:
        answer.rejected |= bit;
        break;
      case OwnReceiveSize::Answer::kPending:
        answer.pending |= bit;
        break;
    }
  });
  return answer;
}

// Precondition: it is a value of its type, if we know that. All but the size stay as they are.
OwnReceiveSize::Answer CharacteristicTable::judge(const v2::CharacteristicValue& value) noexcept {
  const auto stays = [](bool is_the_same) {
    return is_the_same ? OwnReceiveSize::Answer::kDone : OwnReceiveSize::Answer::kRejected;
  };
  switch (v2::CharacteristicId{value.id}) {
    case v2::CharacteristicId::kReceiveSize:
      return own_size_.ask(*v2::as_number(value));
    case v2::CharacteristicId::kRemoteInvalidation:
      return stays(*v2::as_boolean(value) == own_at_first_.takes_invalidation);
    case v2::CharacteristicId::kBackward:
      return stays(*v2::as_number(value) == static_cast<std::uint32_t>(own_at_first_.backward));
  }
  return experimental_.judge(value);
}

// --- What we ask for ---------------------------------------------------------------------------

std::optional<std::uint32_t> CharacteristicTable::lowers_to(const SmallValue& want) const noexcept {
  if (v2::CharacteristicId{want.id} != v2::CharacteristicId::kReceiveSize) return std::nullopt;
  const auto size = v2::as_number(want.view());
  return size && *size < peer_.receive_size ? size : std::nullopt;
}

void CharacteristicTable::handle_asked(const SmallValue& want) noexcept {
  if (v2::CharacteristicId{want.id} != v2::CharacteristicId::kReceiveSize) return;
  wanted_size_ = v2::as_number(want.view());
  if (wanted_size_) send_size_ = std::max(send_size_, *wanted_size_);
}

// --- What follows ------------------------------------------------------------------------------

LinkParameters CharacteristicTable::link(LinkParameters link, bool may_invalidate) const noexcept {
  const bool has_long = peer_.receive_size > arguments_max_;
  const std::uint32_t largest = std::max(send_size_, has_long ? send_size_with_arguments_ : 0);
  link.inline_send = std::min(largest, peer_.receive_size);
  // The peer may have it from the request on, whatever it has said meanwhile.
  if (wanted_size_) link.inline_send = std::min(link.inline_send, *wanted_size_);
  // Nothing says how much a peer sends, but one that takes large messages has them (ADR 24).
  if (is_own_known_) {
    link.inline_receive = std::min(own_size_.value(), std::max(peer_.receive_size, kReceiveSizeV2));
  }
  if (role_ == Role::kServer) {
    link.chunks = peer_.backward == BackwardSupport::kGeneral;
    link.calls = peer_.backward != BackwardSupport::kNone;
  }
  link.remote_invalidation = sends_invalidation_ && may_invalidate && peer_.takes_invalidation;
  return link;
}

}  // namespace rpcrdma::engine
