// Takes captured packets in order and reports facts: the way into this module.
#ifndef RPCRDMA_EXPLAIN_DECODER_H_
#define RPCRDMA_EXPLAIN_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "explain/facts.h"
#include "explain/packet.h"

namespace rpcrdma::explain {

struct DecoderOptions {
  std::size_t connections_max = 16384;  // kept at a time; those that were silent longest go
  std::size_t memory_max = std::size_t{256} << 20U;  // of all connections, bytes, roughly; likewise
  bool keeps_bodies = false;                         // CallFact::arguments and results
  std::uint64_t seed = 0;  // of hashes; one that the maker of a capture does not know
};

// Never fails: what it does not understand it counts. Memory is bounded for each connection and in
// all.
class Decoder {
 public:
  explicit Decoder(Sink& sink, DecoderOptions options = {});
  ~Decoder();
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  void add(const Packet& packet);
  // Reports what is still open. No packet may follow.
  void finish();

  struct Counts {
    std::uint64_t packets = 0, other = 0, fragments = 0, unknown_links = 0;
  };
  const Counts& counts() const noexcept;

 private:
  class Connections;
  std::unique_ptr<Connections> connections_;
};

}  // namespace rpcrdma::explain

#endif  // RPCRDMA_EXPLAIN_DECODER_H_
