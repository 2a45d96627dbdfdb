// All connections of a capture: finds the one to which a packet belongs.
#ifndef RPCRDMA_EXPLAIN_CONNECTIONS_H_
#define RPCRDMA_EXPLAIN_CONNECTIONS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "explain/cm_requests.h"
#include "explain/conversation.h"
#include "explain/decoder.h"
#include "explain/roce.h"
#include "explain/roce_link.h"
#include "explain/tcp_link.h"

namespace rpcrdma::explain {

struct EndpointHash {
  std::size_t operator()(const Endpoint& endpoint) const noexcept;

  std::uint64_t seed = 0;
};

// The parts that every connection has, whatever carries it.
class Connection : public Judge {
 public:
  Connection(std::uint64_t number, Transport transport, Sink& sink, Shared& shared);
  void report(RuleId id, int side, const Where& where, std::optional<std::uint32_t> xid,
              std::string detail) override;
  void forget_uncertain() override { held_.clear(); }
  // Reports what was held back, up to those of this packet.
  void release(std::uint64_t packet);

  ConnectionFact fact;

 protected:
  // Memory in bytes, roughly.
  std::size_t held_footprint() const noexcept;

  Sink& sink_;
  Shared& shared_;

 private:
  std::deque<Finding> held_;  // findings that need all bytes
};

class TcpConnection : public Connection {
 public:
  TcpConnection(std::uint64_t number, const Endpoint& client, const Endpoint& server, Sink& sink,
                Shared& shared);
  int side_of(const Endpoint& endpoint) const noexcept {
    return endpoint == fact.sides[0].endpoint ? 0 : 1;
  }
  void add(const Segment& segment);
  void finish();
  // Returns whether a SYN begins another connection between the same ports, rather than this one
  // once more.
  bool is_succeeded_by(const Segment& syn) const noexcept;
  std::size_t footprint() const noexcept;

 private:
  // Made for the first payload: a capture may have many connections without any.
  struct Parts {
    Parts(TcpConnection& of, Shared& shared) noexcept;

    Conversation conversation;
    TcpLink link;
  };

  Parts& parts();
  void note_syn(int side, std::uint32_t first);
  void note_end(int side, const Segment& segment);

  std::unique_ptr<Parts> parts_;
  std::optional<std::uint32_t> first_[2];  // sequence number of each side's first byte
  bool is_client_known_ = false;
  bool has_fin_[2] = {false, false};
  bool is_other_ = false, is_finished_ = false;
};

class RoceConnection;
// Connections of which packets of one direction were seen, by receiver and sender.
using UnpairedConnections = std::multimap<std::pair<Endpoint, Endpoint>, RoceConnection*>;

class RoceConnection : public Connection {
 public:
  RoceConnection(std::uint64_t number, Sink& sink, Shared& shared);
  void finish(bool has_ended);
  // Returns whether it was set up between these, and nothing was sent since: a message of the
  // connection manager came twice.
  bool is_set_up_as(const Endpoint& client, const Endpoint& server) const noexcept {
    return fact.has_beginning && fact.sides[0].endpoint == client &&
           fact.sides[1].endpoint == server && fact.sides[0].packets + fact.sides[1].packets == 0;
  }
  std::size_t footprint() const noexcept;

  Conversation conversation;
  RoceLink link;
  std::uint32_t source_port[2] = {0, 0};
  // Its place among those of one direction, as long as it is there.
  std::optional<UnpairedConnections::iterator> unpaired;
};

class Decoder::Connections {
 public:
  Connections(Sink& sink, DecoderOptions options)
      : sink_(sink),
        options_(options),
        tcp_(kBuckets, PairHash{{options.seed}}),
        halves_(kBuckets, EndpointHash{options.seed}) {
    shared_.keeps_bodies = options.keeps_bodies;
  }

  void add(const Packet& packet);
  void finish();
  const Counts& counts() const noexcept { return counts_; }

 private:
  using Pair = std::pair<Endpoint, Endpoint>;
  struct PairHash {
    std::size_t operator()(const Pair& pair) const noexcept;

    EndpointHash hash;
  };
  struct Half {
    RoceConnection* connection;
    int sender;
  };

  static constexpr std::size_t kBuckets = 64;  // of the tables, at first

  void add_tcp(const Segment& segment);
  TcpConnection& tcp_of(const Segment& segment);
  TcpConnection& make_tcp(const Pair& pair, const Segment& segment);
  void add_roce(const Segment& segment);
  void add_cm(const Segment& segment, const CmMessage& message);
  void pair_cm(const Segment& segment, const CmMessage& reply, const CmRequest& request);
  Half half_of(const Segment& segment, const RocePacket& packet);
  RoceConnection* find_half(const Segment& segment, const RocePacket& packet);
  RoceConnection& make_roce(const Where& where);
  void forget_half(const RoceConnection& connection);
  // Brings up to date what a connection takes, and makes room if all take too much.
  void weigh(std::size_t before, std::size_t after);
  void drop_silent();
  void finish_tcp(std::uint64_t last_packet);

  Sink& sink_;
  DecoderOptions options_;
  Counts counts_;
  Shared shared_;
  std::uint64_t numbers_ = 0;
  std::unordered_map<Pair, std::unique_ptr<TcpConnection>, PairHash> tcp_;
  TcpConnection* last_ = nullptr;
  Pair last_pair_;
  std::vector<std::unique_ptr<RoceConnection>> roce_;
  UnpairedConnections unpaired_;
  std::size_t footprint_ = 0;                                // of all connections, bytes
  std::unordered_map<Endpoint, Half, EndpointHash> halves_;  // by destination and queue pair
  CmRequests requests_;
};

}  // namespace rpcrdma::explain

#endif  // RPCRDMA_EXPLAIN_CONNECTIONS_H_
