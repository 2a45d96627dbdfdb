// The size of this side's Receives, as it changes while the connection lives.
#ifndef RPCRDMA_ENGINE_V2_OWN_RECEIVE_SIZE_H_
#define RPCRDMA_ENGINE_V2_OWN_RECEIVE_SIZE_H_

#include <cstdint>
#include <optional>
#include <utility>

namespace rpcrdma::engine {

// It is raised by posting larger Receives, and in force when no smaller one is left.
// It is lowered at once: who asked for that sends no more already. Receives are used up in
// the order of posting, so that a number of messages says when those are gone that were there.
class OwnReceiveSize {
 public:
  // `size` is that of the Receives posted at first, `size_max` and `size_min` are the largest and
  // smallest that the peer may ask for; bytes.
  OwnReceiveSize(std::uint32_t size, std::uint32_t size_max, std::uint32_t size_min) noexcept
      : value_(size), max_(size_max), min_(size_min) {}

  enum class Answer : std::uint8_t { kDone, kRejected, kPending };
  // Handles a request of the peer for this size.
  Answer ask(std::uint32_t size) noexcept {
    if (size == value_ && !target_) return Answer::kDone;
    if (target_ || size < min_ || size > max_) return Answer::kRejected;
    if (size > value_) {
      raise(size, true);
      return Answer::kPending;
    }
    value_ = size;
    wanted_ = size;
    return Answer::kDone;
  }
  // The application raises it. False: it is being raised already, or would get no larger.
  bool set(std::uint32_t size) noexcept {
    if (target_ || size <= value_) return false;
    raise(size, false);
    return true;
  }

  // Receives of this size are to be posted from now on, if there is memory for them: once for each
  // change.
  std::optional<std::uint32_t> poll_wanted() noexcept {
    if (!wanted_) [[likely]]
      return std::nullopt;
    return std::exchange(wanted_, std::nullopt);
  }
  // They are, or cannot be. `messages`: by which number of received messages all Receives that are
  // posted now will have been used up.
  void handle_resized(bool succeeded, std::uint64_t messages) noexcept {
    if (!target_) return;  // lowered: larger ones do as well
    if (!succeeded) target_ = value_;
    used_up_at_ = succeeded ? messages : 0;
  }

  bool is_rising() const noexcept { return target_.has_value(); }
  // Returns whether the new size is in force after so many received messages.
  bool is_due(std::uint64_t messages) const noexcept {
    return target_ && used_up_at_ && *used_up_at_ <= messages;
  }
  // Precondition of both: is_due(). It is in force; whether the peer had asked for it.
  bool settle() noexcept {
    value_ = *target_;
    target_.reset();
    used_up_at_.reset();
    return is_solicited_;
  }
  std::uint32_t value() const noexcept { return value_; }  // in force, bytes

 private:
  void raise(std::uint32_t size, bool is_solicited) noexcept {
    target_ = wanted_ = size;
    is_solicited_ = is_solicited;
  }

  std::uint32_t value_;
  const std::uint32_t max_, min_;
  std::optional<std::uint32_t> wanted_;
  std::optional<std::uint32_t> target_;      // while it is raised
  std::optional<std::uint64_t> used_up_at_;  // once the larger ones are being posted
  bool is_solicited_ = false;
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_V2_OWN_RECEIVE_SIZE_H_
