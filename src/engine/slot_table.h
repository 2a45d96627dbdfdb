// The slots of calls under way: which are free, which have something to emit, and how ids name
// them.
#ifndef RPCRDMA_ENGINE_SLOT_TABLE_H_
#define RPCRDMA_ENGINE_SLOT_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/ring.h"
#include "engine/work_id.h"

namespace rpcrdma::engine {

// The state that SlotTable keeps in each slot.
struct SlotBase {
  std::uint16_t index = 0;       // of itself
  bool used = false;             // taken and not freed
  bool queued = false;           // in the ready queue
  std::uint32_t generation = 0;  // goes up when the slot is freed, so that old ids name no call
};

// `Slot` derives from SlotBase. The number of slots is fixed; nothing allocates afterwards.
template <class Slot>
class SlotTable {
 public:
  explicit SlotTable(std::size_t count) : slots_(count), free_(count), ready_(count) {
    for (std::size_t i = 0; i < count; ++i) {
      slots_[i].index = static_cast<std::uint16_t>(i);
      free_[count - 1 - i] = slots_[i].index;
    }
  }

  std::size_t size() const noexcept { return slots_.size(); }
  auto begin() noexcept { return slots_.begin(); }
  auto end() noexcept { return slots_.end(); }
  auto begin() const noexcept { return slots_.begin(); }
  auto end() const noexcept { return slots_.end(); }
  Slot& operator[](std::size_t index) { return slots_[index]; }
  const Slot& operator[](std::size_t index) const { return slots_[index]; }

  bool full() const noexcept { return free_.empty(); }
  // The slot that take() will give. Precondition of both: !full().
  Slot& next() { return slots_[free_.back()]; }
  Slot& take() {
    Slot& slot = next();
    free_.pop_back();
    slot.used = true;
    return slot;
  }
  void free(Slot& slot) {
    slot.used = false;
    ++slot.generation;
    free_.push_back(slot.index);
  }

  static CallId id(const Slot& slot) noexcept { return to_call_id(slot.index, slot.generation); }
  static WorkId work_id(const Slot& slot, WorkKind kind, std::size_t part = 0) noexcept {
    return to_id({kind, static_cast<std::uint8_t>(part), slot.index, slot.generation});
  }
  // Null: that call has ended.
  Slot* find(CallId id) noexcept {
    const std::uint16_t index = slot_of(id);
    if (index >= slots_.size()) return nullptr;
    Slot& slot = slots_[index];
    return slot.used && slot.generation == generation_of(id) ? &slot : nullptr;
  }
  // The slot in which the work was posted, whatever has become of it since.
  Slot& posted_by(const WorkName& name) { return slots_.at(name.slot); }
  static bool is_same_use(const Slot& slot, const WorkName& name) noexcept {
    return slot.generation == name.generation;
  }

  // The slot has something to emit.
  void make_ready(Slot& slot) {
    if (slot.queued) return;
    slot.queued = true;
    ready_.push(slot.index);
  }
  bool has_ready() const noexcept { return !ready_.empty(); }
  // Lets ready slots emit, in the order in which they became ready, until `emit(slot)` returns
  // false: it has no room left, and is the first to go on next time. `after()` runs behind each
  // slot that is done.
  template <class Emit, class After>
  void emit_ready(Emit&& emit, After&& after) {
    while (!ready_.empty()) {
      Slot& slot = slots_[ready_.front()];
      if (!emit(slot)) return;
      slot.queued = false;
      ready_.drop();
      after();
    }
  }

 private:
  std::vector<Slot> slots_;
  // The one freed last is taken first: what belongs to it is in the cache, and a connection with
  // few calls at a time touches the memory of few slots.
  std::vector<std::uint16_t> free_;
  Ring<std::uint16_t> ready_;
};

// Keeps the parts of slots that only some calls need, and lends them again. It grows to the number
// in use at a time, at most one for each slot. A part that is lent again still has its old content.
template <class Part>
class PartPool {
 public:
  Part* take() {
    if (kept_.empty()) {
      parts_.push_back(std::make_unique<Part>());
      kept_.reserve(parts_.size());
      return parts_.back().get();
    }
    Part* part = kept_.back();
    kept_.pop_back();
    return part;
  }
  void give_back(Part* part) { kept_.push_back(part); }

  // All that there are, in use or not.
  template <class Visit>
  void each(Visit&& visit) const {
    for (const auto& part : parts_) visit(*part);
  }

 private:
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<Part*> kept_;
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_SLOT_TABLE_H_
