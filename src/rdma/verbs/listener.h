// The passive side: connection requests that arrive, and their way to the user.
#ifndef RPCRDMA_RDMA_VERBS_LISTENER_H_
#define RPCRDMA_RDMA_VERBS_LISTENER_H_

#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rdma/verbs/cm.h"
#include "rdma/verbs/device_watch.h"
#include "rdma/verbs/shard.h"

namespace rpcrdma::rdma::verbs {

// A request that waits for the user's answer.
class Incoming final : public rdma::Incoming, private CmTarget {
 public:
  explicit Incoming(CmEvent& request);
  ~Incoming() override;  // refuses
  Incoming(const Incoming&) = delete;
  Incoming& operator=(const Incoming&) = delete;
  Bytes private_data() const noexcept override;
  std::string_view peer_address() const noexcept override { return peer_address_; }
  bool sends_with_invalidate() const noexcept override;
  bool detach() override;

 private:
  friend class QueuePair;
  void handle_cm(CmEvent& event) override;

  CmId id_;  // null once it was accepted
  CmEvent request_;
  std::string peer_address_;
  bool gone_ = false;      // the peer has given up
  bool has_left_ = false;  // its events are in a channel of its own
};

class Listener final : public rdma::Listener, private CmTarget {
 public:
  static Expected<std::unique_ptr<Listener>, Error> open(Shard& shard,
                                                         const posix::Address& address);
  ~Listener() override = default;
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  std::unique_ptr<rdma::Incoming> poll_incoming() override;
  std::optional<Error> failure() const noexcept override;
  std::string_view address() const noexcept override { return address_; }

 private:
  explicit Listener(Shard& shard) : shard_(shard) {}
  Expected<void, Error> try_devices() const;
  void handle_cm(CmEvent& event) override;

  Shard& shard_;
  CmId id_;
  std::string address_;
  std::deque<std::unique_ptr<Incoming>> incoming_;
  bool removed_ = false;                               // the device of its address
  std::vector<std::unique_ptr<DeviceWatch>> devices_;  // with a wildcard address
};

// Returns the private data that a peer sent. The InfiniBand connection manager pads it with zeros,
// so that its size is unknown there; data of nothing but zeros counts as none.
Bytes private_data_of(const CmEvent& event, bool is_padded);

}  // namespace rpcrdma::rdma::verbs

#endif  // RPCRDMA_RDMA_VERBS_LISTENER_H_
