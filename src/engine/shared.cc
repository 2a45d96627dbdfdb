#include "engine/shared.h"

namespace rpcrdma::engine {
namespace {

// The largest first message: its reader may speak version 1 only.
constexpr std::uint32_t kOfferSize = 1024;  // bytes

}  // namespace

// Version 2 ignores the sizes and the invalidation that the set-up announced.
void Shared::set_links(const LinkParameters& v1) noexcept {
  LinkParameters v2;
  v2.dialect = Dialect::kV2;
  v2.inline_send = v2.inline_receive = kReceiveSizeV2;  // the peer counts on it, whatever we prefer
  v2.reads_in_flight_max = v1.reads_in_flight_max;
  v2.chunks = v1.chunks;
  links = {v1, v2};
  link = v1;
  if (!is_offering) return;
  link = v2;
  link.inline_send = link.inline_receive = kOfferSize;
}

}  // namespace rpcrdma::engine
