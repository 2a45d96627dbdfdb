// A way to connect two providers: what the conformance suite runs on.
#ifndef RPCRDMA_TESTS_CONFORMANCE_FABRIC_H_
#define RPCRDMA_TESTS_CONFORMANCE_FABRIC_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "rpcrdma/provider.h"

namespace rpcrdma::test {

// Two providers that can reach each other. To add a back end: derive, and name it in fabrics.cc.
class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual rdma::Provider& client() = 0;
  virtual rdma::Provider& server() = 0;
  // Where the server can listen, with a port of its own choice.
  virtual std::string listen_address() const = 0;
  // Where nobody listens, but could.
  virtual std::string dead_address() const = 0;
  // Drives both providers until the condition holds. False: it did not within a generous bound, or
  // never will.
  virtual bool pump_until(const std::function<bool()>& condition) = 0;

  // --- What hardware decides; a provider of our own can do all of it.

  // Steering tags and addresses are random.
  virtual bool chooses_tags() const { return true; }
  // A Send that may be copied is, if it is small.
  virtual bool copies_sends() const { return true; }
  // The side whose memory or Receive a peer's mistake was about learns of the mistake, not only of
  // the end.
  virtual bool tells_mistakes() const { return true; }
  // Memory that is exposed for writing cannot be read.
  virtual bool knows_who_may_read() const { return true; }
  // A tag of one connection cannot be invalidated by another one.
  virtual bool knows_whose_tag_it_is() const { return true; }
  // A message that finds no Receive is sent again, if the peer has set that up.
  virtual bool sends_again() const { return false; }
  // A shared Receive comes back when its connection ends in the middle of a message.
  virtual bool keeps_shared_receives() const { return true; }
  // The counters of a side have what its peer reads and writes in its memory, too.
  virtual bool counts_what_the_peer_does() const { return true; }
  // The counters have the bytes on the wire.
  virtual bool counts_wire_bytes() const { return true; }
  // The payload of work that nobody asked a completion of is counted when the completion of later
  // work shows that it is done. A provider of our own counts it when it is sent.
  virtual bool counts_when_complete() const { return false; }
  // The counters have the bytes of a Send that was copied; a device's do not, since its library
  // copies.
  virtual bool counts_copied_sends() const { return true; }
  // The sizes of private data are exact; else it is filled up with zeros.
  virtual bool keeps_private_data_sizes() const { return true; }
};

struct FabricKind {
  std::string name;
  std::function<std::unique_ptr<Fabric>()> make;
};
inline void PrintTo(const FabricKind& kind, std::ostream* out) {
  *out << kind.name;
}

// All that the suite runs on.
std::vector<FabricKind> fabrics();

// One list each.
std::vector<FabricKind> sim_fabrics();
std::vector<FabricKind> siwarp_fabrics();
std::vector<FabricKind> own_provider_fabrics();
// Empty unless RPCRDMA_LAB_ADDRESS names an address on an RDMA device: `make lab` does.
std::vector<FabricKind> verbs_fabrics();
// The same, where connections that are accepted share kSharedReceives Receives of kSharedSize
// bytes.
inline constexpr std::uint32_t kSharedReceives = 8, kSharedSize = 65536;
std::vector<FabricKind> verbs_sharing_fabrics();

}  // namespace rpcrdma::test

#endif  // RPCRDMA_TESTS_CONFORMANCE_FABRIC_H_
