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

#include "explain/conversation.h"
#include "explain/decoder.h"
#include "explain/roce.h"
#include "explain/roce_link.h"
#include "explain/tcp_link.h"

namespace rpcrdma::explain {

struct EndpointHash {
  std::size_t operator()(const Endpoint& endpoint) const noexcept;
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
  Conversation conversation;

 protected:
  Sink& sink_;

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
  bool has_data() const noexcept { return fact.sides[0].bytes + fact.sides[1].bytes != 0; }
  bool is_finished() const noexcept { return is_finished_; }

 private:
  void note_end(int side, const Segment& segment);

  TcpLink link_;
  bool has_fin_[2] = {false, false};
  bool is_finished_ = false;
};

class RoceConnection : public Connection {
 public:
  RoceConnection(std::uint64_t number, Sink& sink, Shared& shared);
  void finish(bool has_ended);

  RoceLink link;
  std::uint32_t source_port[2] = {0, 0};
};

class Decoder::Connections {
 public:
  Connections(Sink& sink, DecoderOptions options) : sink_(sink), options_(options) {
    shared_.keeps_bodies = options.keeps_bodies;
  }

  void add(const Packet& packet);
  void finish();
  const Counts& counts() const noexcept { return counts_; }

 private:
  using Pair = std::pair<Endpoint, Endpoint>;
  struct PairHash {
    std::size_t operator()(const Pair& pair) const noexcept;
  };
  struct Pending {  // a REQ of the connection manager
    CmMessage message;
    std::vector<std::byte> private_data;
    Endpoint from;
    Where where;
  };
  struct Half {
    RoceConnection* connection;
    int sender;
  };

  void add_tcp(const Segment& segment);
  TcpConnection& tcp_of(const Segment& segment);
  void add_roce(const Segment& segment);
  void add_cm(const Segment& segment, const CmMessage& message);
  void pair_cm(const Segment& segment, const CmMessage& reply, const Pending& request);
  Half half_of(const Segment& segment, const RocePacket& packet);
  RoceConnection& make_roce(const Where& where);
  void drop_silent();

  Sink& sink_;
  DecoderOptions options_;
  Counts counts_;
  Shared shared_;
  std::uint64_t numbers_ = 0;
  std::unordered_map<Pair, std::unique_ptr<TcpConnection>, PairHash> tcp_;
  TcpConnection* last_ = nullptr;
  Pair last_pair_;
  std::vector<std::unique_ptr<RoceConnection>> roce_;
  std::unordered_map<Endpoint, Half, EndpointHash> halves_;        // by destination and queue pair
  std::map<std::pair<Endpoint, std::uint32_t>, Pending> pending_;  // by sender and its id
};

}  // namespace rpcrdma::explain

#endif  // RPCRDMA_EXPLAIN_CONNECTIONS_H_
