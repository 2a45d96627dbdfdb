// Reports of a queue pair to its owner and its provider, beside completions.
#ifndef RPCRDMA_RDMA_NEWS_H_
#define RPCRDMA_RDMA_NEWS_H_

#include <optional>
#include <utility>
#include <vector>

#include "base/ring.h"
#include "rpcrdma/provider.h"

namespace rpcrdma::rdma {

// The place of a queue pair in a list of its provider, where it is once at most.
template <class QueuePair>
class Listing {
 public:
  // The list outlives it; null: the provider has none. It clears the list, and calls unlist() for
  // each queue pair.
  Listing(QueuePair& owner, std::vector<QueuePair*>* list) noexcept : owner_(owner), list_(list) {}
  ~Listing() { close(); }
  Listing(const Listing&) = delete;
  Listing& operator=(const Listing&) = delete;

  void add() {
    if (list_ != nullptr && !std::exchange(is_listed_, true)) list_->push_back(&owner_);
  }
  void unlist() noexcept { is_listed_ = false; }
  // Takes the queue pair out, for ever.
  void close() noexcept {
    if (is_listed_) std::erase(*list_, &owner_);
    is_listed_ = false;
    list_ = nullptr;
  }

 private:
  QueuePair& owner_;
  std::vector<QueuePair*>* list_;
  bool is_listed_ = false;
};

// Notifies the listener of a queue pair, lists the queue pair among those that may have something
// to poll, and keeps link events until they are polled.
template <class QueuePair>
class News : public Listing<QueuePair> {
 public:
  using Listing<QueuePair>::Listing;

  void set_listener(NewsListener& listener) noexcept { listener_ = &listener; }
  void report() {
    if (listener_ != nullptr) listener_->handle_news();
    this->add();
  }
  void report(LinkEvent event) {
    events_.push(event);
    report();
  }
  bool has_event() const noexcept { return !events_.empty(); }
  std::optional<LinkEvent> poll() {
    if (events_.empty()) return std::nullopt;
    return events_.pop();
  }
  // Reports nothing any more.
  void close() noexcept {
    listener_ = nullptr;
    Listing<QueuePair>::close();
  }

 private:
  NewsListener* listener_ = nullptr;
  Ring<LinkEvent> events_{4};
};

}  // namespace rpcrdma::rdma

#endif  // RPCRDMA_RDMA_NEWS_H_
