// The parts of Profile::kRfc5666 that concern a connection as a whole.
#ifndef RPCRDMA_ENGINE_RFC5666_PROFILE_H_
#define RPCRDMA_ENGINE_RFC5666_PROFILE_H_

#include <algorithm>
#include <cstdint>

#include "engine/types.h"

namespace rpcrdma::engine::rfc5666 {

inline bool is_chosen(const Options& options) noexcept {
  return options.profile == Profile::kRfc5666;
}

// Receives besides those that are granted, so that no RDMA_DONE finds none.
inline std::uint32_t exposed_replies_max(const Options& options) noexcept {
  return is_chosen(options) ? options.rfc5666.exposed_replies_max : 0;
}

// RFC 5666 §3.8: with one credit a client could not make a Call before its RDMA_DONE is known to
// have come.
inline std::uint32_t credits_min(const Options& options) noexcept {
  return exposed_replies_max(options) > 0 ? std::min(2U, options.credits) : 1;
}

// RFC 5666 §6: what holds until the Connection Configuration Protocol has said more.
inline LinkParameters link_at_first(std::uint32_t reads_in_flight_max) noexcept {
  LinkParameters link;
  link.reads_in_flight_max = std::min(reads_in_flight_max, link.reads_in_flight_max);
  return link;
}

}  // namespace rpcrdma::engine::rfc5666

#endif  // RPCRDMA_ENGINE_RFC5666_PROFILE_H_
