// RPC-over-RDMA said by a RawPeer: whole messages and single RDMA operations as bytes, each as
// right or as wrong as the test wants it.
#ifndef RPCRDMA_TESTS_SUPPORT_RAW_RPC_H_
#define RPCRDMA_TESTS_SUPPORT_RAW_RPC_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <vector>

#include "iwarp/headers.h"
#include "rpcrdma/types.h"
#include "support/raw_peer.h"

namespace rpcrdma::test {

using Message = std::vector<std::byte>;

// Big-endian words of 32 bits; and the other way round, what is left over being dropped.
Message words(std::initializer_list<std::uint32_t> values);
std::vector<std::uint32_t> to_words(Bytes bytes);
Message join(std::initializer_list<Message> parts);
Message first(const Message& message, std::size_t size);

// A Transport header as far as its type; the chunk lists are the caller's.
Message raw_header(std::uint32_t xid, std::uint32_t type, std::uint32_t version = 1);
// Neither Read list, Write list nor Reply chunk.
inline const Message kNoLists(12);
// An RPC Call of the TestService with AUTH_NONE, as far as its arguments; an accepted reply as far
// as its results.
Message raw_call(std::uint32_t xid, std::uint32_t procedure);
Message raw_reply(std::uint32_t xid);
// The same behind its record mark, as it goes over TCP (RFC 5531 §11).
Message record(const Message& message);

// One established connection.
class RawTalk {
 public:
  struct Fpdu {
    iwarp::Header header;
    Message payload;
    Message bytes;  // all of it
  };

  RawTalk(std::unique_ptr<RawPeer> peer, bool crc) : peer_(std::move(peer)), crc_(crc) {}

  // Returns what the MPA set-up of this side says: the sizes and flag R of RFC 8797 (4096 bytes
  // both ways).
  static RawMpa mpa(bool crc);

  bool send(Bytes message);
  bool send_invalidating(std::uint32_t tag, Bytes message);
  bool write(std::uint32_t tag, std::uint64_t address, Bytes data);
  bool read_request(std::uint32_t sequence, const iwarp::ReadRequest& request);
  bool read_response(std::uint32_t tag, std::uint64_t address, Bytes data, bool last = true);
  // `bad`: the FPDU at fault, whose header goes along.
  bool terminate(iwarp::Fault fault, Bytes bad = {});
  bool send_ulpdu(Bytes ulpdu) { return peer_->send(raw_fpdu(ulpdu, crc_)); }
  // The bytes of the FPDU of a Send, which count as sent.
  Message send_fpdu(Bytes message) { return raw_fpdu(raw_send(sequence_++, message), crc_); }

  // The next thing that the other side says; nullopt at the end, or when time is up.
  std::optional<Fpdu> next();
  // The next Send; what is not one is passed over. nullopt as above.
  std::optional<Message> next_message();
  // Reads until the other side ends: the fault that its Terminate tells, kNone without one;
  // nullopt: it does not end.
  std::optional<iwarp::Fault> fault_at_end();

  RawPeer& peer() { return *peer_; }

 private:
  bool send_tagged(iwarp::Header header, Bytes data);

  std::unique_ptr<RawPeer> peer_;
  bool crc_;
  std::uint32_t sequence_ = 1;
};

}  // namespace rpcrdma::test

#endif  // RPCRDMA_TESTS_SUPPORT_RAW_RPC_H_
