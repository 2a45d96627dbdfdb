// What each side of a connection of version 2 has said about itself, and what follows from it
// (draft-dnoveck-nfsv4-rpcrdma-xcharext-02).
#ifndef RPCRDMA_ENGINE_V2_CHARACTERISTICS_H_
#define RPCRDMA_ENGINE_V2_CHARACTERISTICS_H_

#include <cstddef>
#include <cstdint>

#include "engine/types.h"
#include "rpcrdma/characteristics.h"
#include "rpcrdma/types.h"
#include "wire/v2/characteristics.h"

namespace rpcrdma::engine {

class CharacteristicTable {
 public:
  static constexpr std::size_t kInfoSizeMax = 96;  // bytes that any of write_*() takes

  CharacteristicTable(Role role, const Options& options) noexcept;

  // --- Ours.
  // The information of INITXCH, which makes our values known: every Call behind it counts on them.
  std::uint32_t write_init(MutableBytes info) noexcept;
  // That of RESPXCH to a request for so many values, none of which is granted.
  static std::uint32_t write_refusal(std::uint32_t count, MutableBytes info) noexcept;

  // --- The peer's.
  enum class Verdict : std::uint8_t {
    kHeard,    // or left alone: values of unknown ids, answers to no request
    kRequest,  // to be answered by RESPXCH
    kUnknown,  // the type of an option that we do not have
    kBad,      // it does not decode, or a value does not; nothing of it counts
  };
  // `wanted`: with kRequest, how many values it asks for.
  Verdict take(std::uint32_t type, Bytes info, std::uint32_t& wanted) noexcept;

  const Characteristics& own() const noexcept { return own_; }
  const Characteristics& peer() const noexcept { return peer_; }

  // --- What follows.
  // The parameters of version 2, from those that hold without a word of either side. `may_send`:
  // our provider can send with invalidate.
  LinkParameters link(LinkParameters link, bool may_invalidate) const noexcept;

 private:
  static bool apply(const wire::v2::CharacteristicValue& value, Characteristics& values) noexcept;

  const Role role_;
  const std::uint32_t send_size_;  // largest Send that we make, bytes
  const bool sends_invalidation_;
  const Characteristics own_;
  bool is_own_known_ = false;  // to the peer
  Characteristics peer_;
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_V2_CHARACTERISTICS_H_
