// Tracks each request of this side that the peer change one of its characteristics, from the
// request to its end (ROPT_REQXCH of draft-dnoveck-nfsv4-rpcrdma-xcharext-02).
#ifndef RPCRDMA_ENGINE_V2_CHANGE_REQUESTS_H_
#define RPCRDMA_ENGINE_V2_CHANGE_REQUESTS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "base/ring.h"
#include "engine/v2/small_value.h"
#include "rpcrdma/characteristics.h"
#include "wire/v2/characteristics.h"

namespace rpcrdma::engine {

// Keeps at most one request for each id, and sends one at a time. Each ends once, by
// poll_end().
class ChangeRequests {
 public:
  static constexpr std::size_t kMax = 4;  // open at a time

  struct Request {
    enum class State : std::uint8_t {
      kQueued,   // not sent yet
      kAsked,    // for RESPXCH
      kPending,  // for an UPDXCH that clears it
    };
    SmallValue want;
    State state = State::kQueued;
    bool is_cleared = false;  // that UPDXCH came in front of RESPXCH
    bool is_wanted = false;   // and its value is what was asked for
  };
  struct End {
    std::uint32_t id;
    ChangeResult result;
  };

  ChangeRequests() : ends_(kMax) {}

  // False: one for this id is open, or as many as may be.
  bool ask(const SmallValue& want) noexcept {
    // Each holds its place until its end was polled.
    if (find(want.id) != nullptr || count_ + ends_.size() == kMax) return false;
    requests_[count_++] = {.want = want};
    return true;
  }
  bool has_ends() const noexcept { return !ends_.empty(); }
  bool empty() const noexcept { return count_ == 0; }  // but for ends that were not polled
  bool has(std::uint32_t id) const noexcept {
    return std::ranges::any_of(open(), [id](const Request& each) { return each.want.id == id; });
  }
  // The oldest that is to be sent; null: there is none.
  const Request* next() const noexcept {
    for (const Request& request : open()) {
      if (request.state == Request::State::kQueued) return &request;
    }
    return nullptr;
  }
  // next() went out.
  void sent() noexcept {
    for (Request& request : open()) {
      if (request.state != Request::State::kQueued) continue;
      request.state = Request::State::kAsked;
      return;
    }
  }
  // Takes the answer to the request that was sent last. A value that the answer does not name is
  // rejected, and if it names a value twice the less hopeful word counts. Returns the value
  // that is in force now, if it changed.
  std::optional<SmallValue> answered(const wire::v2::RespXch& answer) {
    Request* request = asked();
    if (request == nullptr) return std::nullopt;
    if (answer.rejected.contains(0)) {
      end(*request, ChangeResult::kRejected);
    } else if (answer.pending.contains(0)) {
      request->state = Request::State::kPending;
      if (request->is_cleared) {
        end(*request, request->is_wanted ? ChangeResult::kGranted : ChangeResult::kOther);
      }
    } else if (answer.done.contains(0)) {
      const SmallValue now = request->want;
      end(*request, ChangeResult::kGranted);
      return now;
    } else {
      end(*request, ChangeResult::kRejected);
    }
    return std::nullopt;
  }
  // The id of the one that has no answer yet.
  std::optional<std::uint32_t> asked_id() noexcept {
    const Request* request = asked();
    return request == nullptr ? std::nullopt : std::optional(request->want.id);
  }
  // Ends the request, since the peer answered it by an error: it has no such requests.
  void refused() {
    if (Request* request = asked()) end(*request, ChangeResult::kRejected);
  }
  // UPDXCH, which names no request: it is for the one with its id.
  void updated(const wire::v2::CharacteristicValue& now, bool clears_pending) {
    Request* request = find(now.id);
    if (request == nullptr || request->state == Request::State::kQueued || !clears_pending) return;
    const bool is_wanted = request->want.is(now);
    if (request->state == Request::State::kPending) {
      return end(*request, is_wanted ? ChangeResult::kGranted : ChangeResult::kOther);
    }
    request->is_cleared = true;
    request->is_wanted = is_wanted;
  }
  void lost() {
    while (count_ > 0) end(requests_[0], ChangeResult::kLost);
  }
  std::optional<End> poll_end() {
    return ends_.empty() ? std::nullopt : std::optional(ends_.pop());
  }

 private:
  std::span<Request> open() noexcept { return std::span(requests_).first(count_); }
  std::span<const Request> open() const noexcept { return std::span(requests_).first(count_); }
  Request* find(std::uint32_t id) noexcept {
    const auto found =
        std::ranges::find(open(), id, [](const Request& each) { return each.want.id; });
    return found == open().end() ? nullptr : &*found;
  }
  Request* asked() noexcept {
    const auto found = std::ranges::find(open(), Request::State::kAsked, &Request::state);
    return found == open().end() ? nullptr : &*found;
  }
  void end(Request& request, ChangeResult result) {
    ends_.push({request.want.id, result});
    std::move(&request + 1, requests_.data() + count_, &request);
    --count_;
  }

  std::array<Request, kMax> requests_;  // the oldest first
  std::size_t count_ = 0;
  Ring<End> ends_;
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_V2_CHANGE_REQUESTS_H_
