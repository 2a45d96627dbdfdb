// Characteristics of the application's own (the experimental range of
// draft-dnoveck-nfsv4-rpcrdma-xcharext-02): the values of both sides, and the changes that have to
// be announced.
#ifndef RPCRDMA_ENGINE_V2_EXPERIMENTAL_VALUES_H_
#define RPCRDMA_ENGINE_V2_EXPERIMENTAL_VALUES_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/v2/own_receive_size.h"
#include "engine/v2/small_value.h"
#include "rpcrdma/characteristics.h"
#include "wire/v2/characteristics.h"

namespace rpcrdma::engine {

// Ids that no type was registered for are not kept.
class ExperimentalValues {
 public:
  static constexpr std::size_t kMax = 8;  // types that are used

  // `types` outlive it. Those whose initial value is too long, or whose id is not experimental, are
  // left out.
  explicit ExperimentalValues(std::span<const CharacteristicType> types) {
    for (const CharacteristicType& type : types.first(std::min(types.size(), kMax))) {
      const auto initial = SmallValue::of(type.id, type.initial);
      if (!initial || type.id < kExperimentalFirst || find(type.id) != nullptr) continue;
      values_.push_back({&type, *initial, *initial});
    }
  }

  bool empty() const noexcept { return values_.empty(); }
  // Return the value of this side and of the peer; nullptr: there is no such type.
  const SmallValue* own(std::uint32_t id) const noexcept {
    const Value* value = find(id);
    return value == nullptr ? nullptr : &value->own;
  }
  const SmallValue* peer(std::uint32_t id) const noexcept {
    const Value* value = find(id);
    return value == nullptr ? nullptr : &value->peer;
  }

  // False: it is of a type that is known here, and none of its values.
  bool is_value(const wire::v2::CharacteristicValue& value) const {
    const Value* known = find(value.id);
    return known == nullptr || (SmallValue::of(value.id, value.data) &&
                                (!known->type->is_value || known->type->is_value(value.data)));
  }
  // The peer has it. Precondition of this and judge(): is_value().
  void hear(const wire::v2::CharacteristicValue& said) {
    Value* known = find(said.id);
    if (known == nullptr) return;
    const SmallValue now = *SmallValue::of(said.id, said.data);
    if (now.is(known->peer.view()) && now.size == known->peer.size) return;
    known->peer = now;
    known->has_changed = true;
  }
  // The peer asks for it.
  OwnReceiveSize::Answer judge(const wire::v2::CharacteristicValue& want) {
    Value* known = find(want.id);
    if (known == nullptr) return OwnReceiveSize::Answer::kRejected;
    const SmallValue value = *SmallValue::of(want.id, want.data);
    const bool is_the_same = value.size == known->own.size && value.is(known->own.view());
    if (!is_the_same && (!known->type->grants || !known->type->grants(want.data))) {
      return OwnReceiveSize::Answer::kRejected;
    }
    known->own = value;
    return OwnReceiveSize::Answer::kDone;
  }

  // Sets this side's value from now on, which has to be announced. False: no type here has this id,
  // or the value is none of the type.
  bool set(const SmallValue& value) {
    Value* known = find(value.id);
    if (known == nullptr || !is_value(value.view())) return false;
    known->own = value;
    known->is_due = true;
    return true;
  }
  // Returns the next value that is to be announced; null: there is none.
  const SmallValue* due() const noexcept {
    for (const Value& value : values_) {
      if (value.is_due) return &value.own;
    }
    return nullptr;
  }
  void told(std::uint32_t id) noexcept { find(id)->is_due = false; }
  // INITXCH has told all of them.
  void told_all() noexcept {
    for (Value& value : values_) value.is_due = false;
  }
  template <class Take>
  void for_each_own(Take&& take) const {
    for (const Value& value : values_) take(value.own);
  }

  bool has_changed() const noexcept { return std::ranges::any_of(values_, &Value::has_changed); }
  // The type of which the peer has another value since this was asked; null: none.
  const CharacteristicType* poll_changed() noexcept {
    for (Value& value : values_) {
      if (value.has_changed) {
        value.has_changed = false;
        return value.type;
      }
    }
    return nullptr;
  }

 private:
  struct Value {
    const CharacteristicType* type;
    SmallValue own, peer;
    bool is_due = false;
    bool has_changed = false;  // the peer's
  };
  static constexpr std::uint32_t kExperimentalFirst = wire::v2::kExperimentalFirst;

  const Value* find(std::uint32_t id) const noexcept {
    for (const Value& value : values_) {
      if (value.type->id == id) return &value;
    }
    return nullptr;
  }
  Value* find(std::uint32_t id) noexcept {
    for (Value& value : values_) {
      if (value.type->id == id) return &value;
    }
    return nullptr;
  }

  std::vector<Value> values_;
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_V2_EXPERIMENTAL_VALUES_H_
