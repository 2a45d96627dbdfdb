// Transport characteristics of a connection that speaks RPC-over-RDMA version two.
#ifndef RPCRDMA_VERSION_TWO_H_
#define RPCRDMA_VERSION_TWO_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "rpcrdma/characteristics.h"
#include "rpcrdma/client.h"
#include "rpcrdma/error.h"
#include "rpcrdma/export.h"
#include "rpcrdma/types.h"

namespace rpcrdma {

// A view of a client, see Client::version_two(), for its thread; the client must outlive it. All
// requests fail with kUnsupported on a connection that does not speak version two
// (ClientOptions::version), and hold for this connection only.
class RPCRDMA_EXPORT VersionTwo {
 public:
  // Returns what both sides have said about themselves; nullopt on other connections.
  std::optional<ConnectionCharacteristics> characteristics() const noexcept;
  // Asks the server for Receives of `size` bytes, `delay` from now. If the server grants it,
  // messages up to that size go inline; if it is smaller, they already do not from the request on.
  // `callback` reports the outcome, also when the connection ends first (kLost); the client's
  // destructor runs it too. Fails also while another such request is under way.
  Expected<void, Error> request_receive_size(std::uint32_t size, ChangeCallback callback,
                                             std::chrono::nanoseconds delay = {});
  // Raises the size of this side's Receives, at most 65536 bytes, and reports it to the server as
  // soon as no smaller one is posted; characteristics() then shows it. Replies up to that size come
  // inline if the server's own Receives are as large. A report takes a credit, so that nothing is
  // reported while the server grants a single one. Fails with kNoResources while the size is being
  // raised, or if it would not grow.
  Expected<void, Error> raise_receive_size(std::uint32_t size);
  // The same requests for characteristics of ClientOptions::characteristics, whose values are as
  // XDR encodes them; and this side's own, which is reported to the server. Fail also for a value
  // that is none of the type.
  Expected<void, Error> request_characteristic(std::uint32_t id, Bytes value,
                                               ChangeCallback callback,
                                               std::chrono::nanoseconds delay = {});
  Expected<void, Error> set_characteristic(std::uint32_t id, Bytes value);
  // Returns the server's, as it reported it last; nullopt: there is no such type.
  std::optional<std::vector<std::byte>> peer_characteristic(std::uint32_t id) const;

 private:
  friend class Client;
  explicit VersionTwo(ClientImpl& impl) noexcept : impl_(&impl) {}
  ClientImpl* impl_;
};

}  // namespace rpcrdma

#endif  // RPCRDMA_VERSION_TWO_H_
