// Keeps the characteristics that each side of a connection of version 2 has announced, and derives
// the link's parameters from them (draft-dnoveck-nfsv4-rpcrdma-xcharext-02).
#ifndef RPCRDMA_ENGINE_V2_CHARACTERISTICS_H_
#define RPCRDMA_ENGINE_V2_CHARACTERISTICS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/types.h"
#include "engine/v2/experimental_values.h"
#include "engine/v2/own_receive_size.h"
#include "engine/v2/small_value.h"
#include "rpcrdma/characteristics.h"
#include "rpcrdma/types.h"
#include "wire/v2/characteristics.h"

namespace rpcrdma::engine {

// The answer to a request of the peer: sets of its values, by their indices as bits. Values behind
// them are in none, and so are rejected.
struct ChangeAnswer {
  std::uint64_t done = 0, rejected = 0, pending = 0;
};
static_assert(wire::v2::kSubsetMax == 64);

class CharacteristicTable {
 public:
  static constexpr std::size_t kInfoSizeMax = 448;  // bytes that any of write_*() takes

  CharacteristicTable(Role role, const Options& options);

  // Sets how many RDMA Reads this side may have under way. Returns whether it takes backward Calls
  // with chunks, which it has to read.
  bool handle_connected(std::uint32_t reads_in_flight_max) noexcept;

  // --- Ours.
  // Writes the information of INITXCH, which announces our values: every Call behind it counts on
  // them.
  std::uint32_t write_init(MutableBytes info) noexcept;
  // Writes the information of UPDXCH, which puts the new size of our Receives in force.
  // Precondition: it is due.
  std::uint32_t write_receive_size(MutableBytes info) noexcept;
  // Writes the information of an UPDXCH for a changed value of the application's.
  std::uint32_t write_experimental(MutableBytes info) noexcept;
  ExperimentalValues& experimental() noexcept { return experimental_; }
  const ExperimentalValues& experimental() const noexcept { return experimental_; }
  OwnReceiveSize& own_size() noexcept { return own_size_; }
  const OwnReceiveSize& own_size() const noexcept { return own_size_; }

  // --- Announcements of the peer. False, and nothing changes: a value is none of its type.
  // Values of unknown ids are ignored.
  bool hear(const wire::v2::InitXch& init) noexcept;
  bool hear(const wire::v2::UpdXch& update) noexcept;
  // Decides on a request of the peer: done, pending or rejected. nullopt: the information is
  // malformed, as when hear() returns false.
  std::optional<ChangeAnswer> judge(const wire::v2::ReqXch& request) noexcept;

  // --- Our requests to the peer. From the request to its end our Sends stay within the smaller
  // size.
  void handle_asked(const SmallValue& want) noexcept;
  void handle_granted(const SmallValue& now) noexcept { take(now.view()); }
  void handle_size_settled() noexcept { wanted_size_.reset(); }
  // The peer left a request without an answer: it may have followed it.
  void handle_no_answer() noexcept {
    if (wanted_size_) peer_.receive_size = std::min(peer_.receive_size, *wanted_size_);
  }
  // Returns the size if a request for this value asks for smaller Receives than the peer has.
  std::optional<std::uint32_t> lowers_to(const SmallValue& want) const noexcept;

  Characteristics own() const noexcept;
  const Characteristics& peer() const noexcept { return peer_; }

  // --- What follows.
  // The parameters of version 2, from those that hold without a word of either side. `may_send`:
  // our provider can send with invalidate.
  LinkParameters link(LinkParameters link, bool may_invalidate) const noexcept;

 private:
  static bool apply(const wire::v2::CharacteristicValue& value, Characteristics& values) noexcept;
  bool is_value(const wire::v2::CharacteristicValue& value) const;
  void take(const wire::v2::CharacteristicValue& value);  // precondition: is_value()
  OwnReceiveSize::Answer judge(const wire::v2::CharacteristicValue& value) noexcept;

  const Role role_;
  std::uint32_t send_size_;  // largest Send that we make, bytes
  // The same to a peer whose Receives are longer than that: they were made for arguments.
  std::uint32_t arguments_max_, send_size_with_arguments_;
  const bool sends_invalidation_;
  Characteristics own_at_first_;
  OwnReceiveSize own_size_;
  ExperimentalValues experimental_;
  bool is_own_known_ = false;  // to the peer
  Characteristics peer_;
  std::optional<std::uint32_t> wanted_size_;  // while the peer is asked for it, bytes
};

}  // namespace rpcrdma::engine

#endif  // RPCRDMA_ENGINE_V2_CHARACTERISTICS_H_
