#include "rdma/verbs/bounce.h"

#include <algorithm>

namespace rpcrdma::rdma::verbs {
namespace {

constexpr std::size_t kSizeMin = 4096;

}  // namespace

std::optional<Bounce::Taken> Bounce::take(std::size_t size) {
  auto found = std::ranges::find_if(
      buffers_, [size](const Buffer& buffer) { return !buffer.in_use && buffer.size >= size; });
  if (found == buffers_.end()) {
    Buffer made{std::make_unique_for_overwrite<std::byte[]>(std::max(size, kSizeMin)),
                std::max(size, kSizeMin), nullptr, false};
    ++registrations_;
    made.region.reset(ibv_reg_mr(&domain_, made.memory.get(), made.size, 0));
    if (!made.region) return std::nullopt;
    buffers_.push_back(std::move(made));
    found = buffers_.end() - 1;
  }
  found->in_use = true;
  const auto number = static_cast<std::uint32_t>(found - buffers_.begin());
  return Taken{Place{number + 1}, {found->memory.get(), size}, found->region->lkey};
}

void Bounce::give_back(Place place) {
  if (place == Place{}) return;
  buffers_[static_cast<std::uint32_t>(place) - 1].in_use = false;
}

}  // namespace rpcrdma::rdma::verbs
