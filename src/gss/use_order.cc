#include "gss/use_order.h"

#include "base/assert.h"

namespace rpcrdma::gss {

// Allocates for a host that is new alone.
void UseOrder::set_rank(Items& of_host, std::size_t before) {
  if (before == 0) {
    ranks_.emplace(of_host.size(), &of_host);
    return;
  }
  auto rank = ranks_.extract({before, &of_host});
  if (of_host.empty()) return;
  rank.value().first = of_host.size();
  ranks_.insert(std::move(rank));
}

void UseOrder::add(Item& item) {
  all_.push_front(&item);
  item.place_ = all_.begin();
  Items& of_host = hosts_[item.host_];
  of_host.push_front(&item);
  item.place_of_host_ = of_host.begin();
  set_rank(of_host, of_host.size() - 1);
}

void UseOrder::remove(Item& item) {
  all_.erase(item.place_);
  const auto host = hosts_.find(item.host_);
  RPCRDMA_ASSERT(host != hosts_.end(), "an item is removed from an order that it is not in");
  host->second.erase(item.place_of_host_);
  set_rank(host->second, host->second.size() + 1);
  if (host->second.empty()) hosts_.erase(host);
}

void UseOrder::use(Item& item) noexcept {
  all_.splice(all_.begin(), all_, item.place_);
  Items& of_host = hosts_.find(item.host_)->second;
  of_host.splice(of_host.begin(), of_host, item.place_of_host_);
}

std::size_t UseOrder::size_of(const std::string& host) const {
  const auto found = hosts_.find(host);
  return found == hosts_.end() ? 0 : found->second.size();
}

UseOrder::Item& UseOrder::next_to_go() noexcept {
  const auto& [most, of_host] = *ranks_.rbegin();
  return most > few_ && most * hosts_.size() > all_.size() ? *of_host->back() : *all_.back();
}

UseOrder::Item& UseOrder::oldest_of(const std::string& host) {
  return *hosts_.at(host).back();
}

}  // namespace rpcrdma::gss
