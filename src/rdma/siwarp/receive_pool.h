// Memory for the messages of all connections of a provider (Capabilities::shares_receives).
#ifndef RPCRDMA_RDMA_SIWARP_RECEIVE_POOL_H_
#define RPCRDMA_RDMA_SIWARP_RECEIVE_POOL_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "iwarp/work.h"

namespace rpcrdma::rdma::siwarp {

// Buffers in sizes of powers of two. A round of the reactor takes the messages of many connections
// before it answers any, so that what came back is kept for the next round. Buffers that nobody has
// needed between two calls of trim() are freed, but for a few of each size. The pool
// outlives what it lends.
class ReceivePool {
  // The few of each size: so many bytes of them, but not fewer nor more buffers than these.
  static constexpr std::size_t kKeptBytes = std::size_t{512} * 1024;
  static constexpr std::size_t kKeptLeast = 2, kKeptMost = 64;
  // The most of a size that one call frees, in buffers and in bytes, so that it does not hold up a
  // round.
  static constexpr std::size_t kWalkMax = 4096;  // buffers, to those that came back first
  static constexpr std::size_t kFreedAtOnce = 1024, kFreedBytes = std::size_t{8} << 20U;

 public:
  // Buffers of one size.
  class Class {
   public:
    // `has_more`: set when there are more than the few, lent ones included.
    Class(std::size_t size, bool& has_more) noexcept
        : size_(size),
          kept_min_(std::clamp(kKeptBytes / size, kKeptLeast, kKeptMost)),
          has_more_(has_more) {}
    ~Class() { free_behind(0); }
    Class(const Class&) = delete;
    Class& operator=(const Class&) = delete;

    std::byte* take() {
      if (free_ == nullptr) return make_one();
      if (--kept_ < unused_) unused_ = kept_;
      return reinterpret_cast<std::byte*>(std::exchange(free_, free_->next));
    }
    void give_back(std::byte* buffer) noexcept {
      free_ = new (buffer) Free{free_};
      ++kept_;
    }
    std::size_t kept() const noexcept { return kept_; }  // buffers that are not lent

    // Frees some that were not lent since the last call, those that came back first; returns
    // whether there are more than the few.
    bool trim() noexcept {
      const std::size_t freed_max = std::clamp(kFreedBytes / size_, kKeptLeast, kFreedAtOnce);
      const std::size_t left = std::max(kept_min_, kept_ - std::min(unused_, freed_max));
      // A long walk to those that came back first would keep everybody waiting.
      if (left > kWalkMax) {
        free_first(kept_ - left);
      } else if (left < kept_) {
        free_behind(left);
      }
      unused_ = kept_;
      return made_ > kept_min_;
    }

   private:
    struct Free {
      Free* next;
    };
    [[gnu::noinline]] std::byte* make_one() {
      auto* const made = new (kAlignment) std::byte[size_];
      if (++made_ > kept_min_) has_more_ = true;
      return made;
    }
    void free_one(Free*& at) noexcept {
      ::operator delete[](std::exchange(at, at->next), kAlignment);
      --kept_;
      --made_;
    }
    void free_first(std::size_t count) noexcept {
      for (; count > 0; --count) free_one(free_);
    }
    void free_behind(std::size_t left) noexcept {
      Free** end = &free_;
      for (std::size_t i = 0; i < left; ++i) end = &(*end)->next;
      while (*end != nullptr) free_one(*end);
    }

    const std::size_t size_;  // bytes
    const std::size_t kept_min_;
    bool& has_more_;
    Free* free_ = nullptr;  // the one given back last, which is in the cache
    std::size_t made_ = 0;  // and not freed
    std::size_t kept_ = 0;
    std::size_t unused_ = 0;  // the fewest that were kept at once since the last trim()
  };

  // Returns the class of buffers that hold `size` bytes, at most 256 KiB, what a peer can know of a
  // Receive (RFC 8797 §4.1).
  Class& of(std::uint32_t size) {
    const auto number = static_cast<std::size_t>(std::bit_width(std::max(size, kSizeMin) - 1));
    RPCRDMA_ASSERT(number < kClasses, "a Receive that no message needs");
    return classes_[number];
  }

  // Returns whether there is more than a few of a size, so that trim() is to be called, now or when
  // it has come back.
  bool has_more() const noexcept { return has_more_; }
  // Frees buffers that nobody has needed since the last call, so many of each size at the most.
  void trim() noexcept {
    has_more_ = false;
    for (Class& each : classes_) {
      if (each.trim()) has_more_ = true;
    }
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  static constexpr std::size_t kClasses = 19;
  static constexpr std::uint32_t kSizeMin = sizeof(void*);
  // A little more than the size, so that buffers do not begin at the same place of their pages.
  static constexpr std::size_t bytes_of(std::size_t number) noexcept {
    return (std::size_t{1} << number) + 192;
  }
  template <std::size_t... kNumbers>
  static std::array<Class, kClasses> make_classes(bool& has_more,
                                                  std::index_sequence<kNumbers...>) {
    return {Class(bytes_of(kNumbers), has_more)...};
  }

  bool has_more_ = false;
  std::array<Class, kClasses> classes_ =
      make_classes(has_more_, std::make_index_sequence<kClasses>());
};

// The messages that have come for the Receives of one connection, by their numbers.
class PooledReceives final : public iwarp::ReceiveMemory {
 public:
  explicit PooledReceives(ReceivePool& pool) noexcept : pool_(pool) {}
  ~PooledReceives() {
    for (Message& message : messages_) give_back(message);
  }
  PooledReceives(const PooledReceives&) = delete;
  PooledReceives& operator=(const PooledReceives&) = delete;

  // The Receive is posted, again perhaps: what came for it before is not read any more.
  void posted(std::uint16_t number) {
    if (number >= messages_.size()) messages_.resize(number + std::size_t{1});
    give_back(messages_[number]);
  }
  void released(std::uint16_t number) {
    if (number < messages_.size()) give_back(messages_[number]);
  }
  // Null: none has come since it was posted.
  const std::byte* message(std::uint64_t id) const noexcept {
    return id < messages_.size() ? messages_[static_cast<std::size_t>(id)].memory : nullptr;
  }

  std::byte* take(std::uint64_t id, std::uint32_t size) override {
    Message& message = messages_[static_cast<std::size_t>(id)];
    RPCRDMA_ASSERT(message.memory == nullptr, "two messages for one Receive");
    message.from = &pool_.of(size);
    message.memory = message.from->take();
    return message.memory;
  }

 private:
  struct Message {
    std::byte* memory = nullptr;
    ReceivePool::Class* from = nullptr;  // of the memory
  };
  static void give_back(Message& message) noexcept {
    if (message.memory != nullptr) message.from->give_back(std::exchange(message.memory, nullptr));
  }

  ReceivePool& pool_;
  std::vector<Message> messages_;
};

}  // namespace rpcrdma::rdma::siwarp

#endif  // RPCRDMA_RDMA_SIWARP_RECEIVE_POOL_H_
