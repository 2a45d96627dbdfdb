// What an RDMA back end does: the seam between the protocol and the thing that moves bytes. Derive
// from these classes to run clients and servers over an RDMA stack of your own, or over a test
// double:
//
//   auto server = rpcrdma::Server::listen(std::make_unique<OwnProvider>(...), "own:1");
//   auto client = rpcrdma::Client::connect(std::make_unique<OwnProvider>(...), "own:1");
//
// examples/own_provider.h is a whole one; docs/providers.md says how tests/conformance tries one.
//
// Values describe the work (rpcrdma/work.h); abstract classes stand only for things with an
// identity. Work is posted in batches (one virtual call per doorbell) and completions are polled in
// batches. Nothing here blocks except Provider::wait(), and nothing is called back: the owner of a
// provider calls progress() and then polls the queue pairs and listeners that it owns, until they
// have nothing more. What is polled may become available in progress(), or inside of any other
// call.
//
// Threads: a provider and all that it made belong to one thread at a time. Only Provider::wake()
// may be called from another, and from a signal handler.
//
// Ownership: memory named by posted work belongs to the provider until the matching completion was
// polled, also after an error and after disconnect(). Destroying a QueuePair ends all access to
// memory before the destructor returns. A provider outlives what it made: client and server see to
// it.
//
// Errors: what fails is told by an Error, a completion or the end of the connection, and becomes an
// rpcrdma::Error of the call or the connection that it is about. An exception that leaves one of
// these functions may end the program. An implementation may trust its caller in what is called a
// precondition. It may not trust its peer: whatever that sends, at most the one connection ends.
#ifndef RPCRDMA_PROVIDER_H_
#define RPCRDMA_PROVIDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "rpcrdma/export.h"
#include "rpcrdma/steering_tag.h"
#include "rpcrdma/types.h"
#include "rpcrdma/work.h"

namespace rpcrdma::rdma {

using work::Expose, work::Read, work::Receive, work::RegionId, work::Remote, work::RemoteAccess,
    work::Revoke, work::Send, work::Slice, work::Write;
using work::kSlicesMax;

// What a queue pair can do. What the set-up negotiates (the two numbers of Reads, and invalidation)
// may change until kConnected was polled; nothing else does.
struct Capabilities {
  // Receives, and as many other work requests, that may be posted and not yet polled. Receives do
  // not wait: this has room for those of a connection, which are ConnectionOptions::credits and
  // `backward_calls` together, and Rfc5666Options::exposed_replies_max more for a server of that
  // profile. Other work waits for completions; four for each call that may be under way are ample.
  std::uint32_t queue_depth_max;
  // RDMA Reads that we may have outstanding (negotiated ORD). The library stays within this number.
  // More are refused (kNoResources) or wait for their turn, as the provider likes. 0: none, so that
  // a server takes no bulk arguments out of line.
  std::uint32_t reads_in_flight_max;
  // Slices in one work request, at most kSlicesMax, which is what the library wants: with fewer the
  // connection may end by a long message that is refused.
  std::uint32_t sge_max;
  bool send_with_invalidate;        // a Send may name a steering tag for the peer to invalidate
  bool reports_invalidated_handle;  // a completed Receive tells which tag the peer invalidated
  // attach() or the first use of a region takes a system call and locks memory, so that it pays to
  // keep regions; and a region that is only attached is out of the peer's reach.
  bool registering_is_costly = false;
  // Receives come out of memory of the provider's that connections share, so that a quiet one costs
  // none: only post_receives() takes them, and each number is the right to receive one message.
  bool shares_receives = false;
  // RDMA Reads of the peer's that this side serves at a time (negotiated IRD). 0: a client makes
  // calls without Read chunks only.
  std::uint32_t reads_served_max = 0;
};

// Names without a link to errno, for decisions. What is made of them: kBadAddress and kUnsupported
// ask the user to change something, kRefused, kTimedOut and kClosed may pass.
enum class Errc : std::uint8_t {
  kNoResources,  // a table or a queue is full, or the system refuses memory or descriptors
  kBadAddress,   // cannot be parsed, or is not ours to listen on
  kRefused,      // the peer refused the connection
  kTimedOut,     // the peer did not finish the connection set-up in time
  kClosed,       // the connection is gone
  kProtocol,     // the peer broke the rules of the wire
  kUnsupported,  // also: work that names memory which is not there
  kProvider,     // see provider_code
};
RPCRDMA_EXPORT std::string_view to_string(Errc code) noexcept;

struct Error {
  Errc code;
  int provider_code;           // errno, 0 if none
  std::string_view operation;  // static text: what was attempted, or what the peer did wrong
};

// Buffers for messages, `stride` bytes from one to the next in one region; with shares_receives
// only their size counts.
struct ReceiveBuffers {
  RegionId region;
  std::uint32_t size;  // bytes of each
  std::uint64_t stride;
};

enum class Status : std::uint8_t {
  kOk,
  kFlushed,        // the connection ended before it was done
  kLocalError,     // our own request was wrong, for example a Receive too small for the message
  kRemoteAccess,   // the peer refused access to its memory
  kRetryExceeded,  // the peer does not answer
};
RPCRDMA_EXPORT std::string_view to_string(Status status) noexcept;

// The end of one request. A completion that is not kOk is of a connection that is about to end,
// unless it is that of an Expose (kLocalError: no memory, or no tag), after which all goes on.
struct Completion {
  std::uint64_t id = 0;  // Request::id; of post_receives(): the number
  Status status = Status::kOk;
  std::uint32_t size = 0;  // Receive: bytes of the message
  // Expose: the new tag. Receive: the tag of ours that the peer's Send invalidated, if any; that
  // tag is dead and its memory fenced before this completion is polled.
  std::optional<SteeringTag> tag{};
  std::uint64_t address = 0;  // Expose: the first byte's address, for the segment's offset
  // Receive with shares_receives: the message, not null, until its number is posted again or
  // released, or the queue pair is gone. Else null: it is where the Receive said.
  const std::byte* message = nullptr;
};

enum class LinkEvent : std::uint8_t { kConnected, kRefused, kDisconnected };

// What a connection has moved; for tests, benchmarks and `--json` results.
struct Counters {
  // A device does not tell the bytes on the wire, nor what the peer reads and writes: with verbs
  // the first two stay 0, and the others count our own Sends, Writes and Reads, and Receives.
  std::uint64_t bytes_sent = 0;        // on the wire, with framing
  std::uint64_t bytes_received = 0;    // on the wire, with framing
  std::uint64_t payload_sent = 0;      // of Sends, Writes and Read Responses
  std::uint64_t payload_received = 0;  // of Sends, Writes and Read Responses
  std::uint64_t bytes_copied = 0;      // moved by our code from one user buffer to another
  std::uint64_t sends = 0, writes = 0, reads = 0;
  std::uint64_t system_calls = 0;  // of our own, apart from what a device's library makes
  // What only devices have: calls that hand a batch of work over, and completions that were
  // asked for (a Receive always has one, and does not count).
  std::uint64_t doorbells = 0, completions = 0;
  std::uint64_t registrations = 0;  // of memory, with the device if there is one
};

// One connection and its protection domain: regions and steering tags are valid only here. A tag of
// another connection is as bad as one that never was.
class RPCRDMA_EXPORT QueuePair {
 public:
  // The peer sees the end of the connection. Regions may still be attached.
  virtual ~QueuePair() = default;
  // Valid as long as *this.
  virtual const Capabilities& capabilities() const noexcept = 0;
  // Registers memory for local use; the caller keeps it alive until detach() or the end of *this.
  // No remote rights. Regions may overlap. Works in every state of the connection; fails with
  // kNoResources, by which a call, or the connection that is being made, fails with that.
  virtual Expected<RegionId, Error> attach(MutableBytes memory) = 0;
  // The same for memory that is only ever sent from, written from or exposed for reading.
  virtual Expected<RegionId, Error> attach_read_only(Bytes memory) = 0;
  // Precondition: no posted work and no live steering tag refers to the region.
  virtual void detach(RegionId region) = 0;
  // What the peer sent in the connection set-up; empty before kConnected. InfiniBand and RoCE fill
  // it up with zeros. Valid as long as *this.
  virtual Bytes peer_private_data() const noexcept = 0;
  // "ADDR:PORT" of the peer. Valid as long as *this.
  virtual std::string_view peer_address() const noexcept = 0;
  // All of the batch or none, in its order. Requests and their spans are read before it returns;
  // Request::copied is written. Receives, Expose and Revoke may be posted before kConnected. The
  // accepting side does not send before it has received: MPA lets the initiator speak first.
  //
  // Fails with kNoResources when a queue is full: the caller tries again when it has polled a
  // completion, so there has to be one to come. With kClosed once the connection has ended or
  // disconnect() was called, and with kUnsupported when a slice lies outside of its region, or
  // would be written to in one that is read-only: then the caller ends the connection.
  //
  // What the kinds do: a Receive takes one message, in the order of posting; one that is longer
  // completes with kLocalError and ends the connection, as a message without a Receive does (or is
  // sent again, where the transport can). A Send is one message, which may be empty. Write and Read
  // move exactly their bytes; sizes of both sides are equal, and may be 0. What a Write, or a Read
  // at the peer, finds wrong (a dead tag, the other right, one byte outside of what was exposed)
  // touches no memory and ends the connection. Expose and Revoke: see there.
  virtual Expected<void, Error> post(std::span<work::Request> batch) = 0;
  // The same for Receives into buffers that are used again and again: the number of the buffer is
  // the id. What it does by itself is to post() them. With Capabilities::shares_receives a number
  // that is posted again gives back the memory of the message that came for it.
  virtual Expected<void, Error> post_receives(const ReceiveBuffers& buffers,
                                              std::span<const std::uint16_t> numbers);
  // With shares_receives: gives back the memory of the messages that came for these numbers, which
  // are not posted now. Also after the end of the connection.
  virtual void release_receives(std::span<const std::uint16_t> /*numbers*/) {}
  // Completions in the order in which the work of one kind was posted. Sends and Writes count as
  // one kind: the completion of a Send says that the Writes posted before it are complete too,
  // whether they were signaled or not. When a Receive completes, the Writes that the peer posted
  // before that Send are in memory. Each signaled request completes exactly once, an unsignaled one
  // only when it fails or is flushed, one that was copied never. Returns how many were written; 0:
  // there is none now.
  virtual std::size_t poll(std::span<Completion> out) = 0;
  // Each event is returned once: kConnected and then kDisconnected, or kRefused alone. kConnected
  // is there no later than the completion of the first Receive. After kRefused or kDisconnected
  // nothing else happens: every steering tag is dead and no memory is touched any more, but
  // completions (kFlushed) are still to be polled. So kDisconnected may come late, when memory is
  // safe, and must come in the end, also when the peer is silent.
  virtual std::optional<LinkEvent> poll_link() = 0;
  // Why the connection ended: valid after kRefused or kDisconnected.
  virtual Error cause() const noexcept = 0;
  // Where our RDMA Write went that the peer refused, and so ended the connection, when the provider
  // was told; valid after kDisconnected. Its completion may have said kOk: over TCP a Write is
  // complete when it is on its way. The size is 0.
  virtual std::optional<Remote> refused_write() const noexcept { return std::nullopt; }
  // Why the newest Expose that completed with kLocalError did so: memory could not be registered.
  virtual Error exposure_failure() const noexcept;
  // Ends the connection, now or a little later: all work posted so far completes, what was not done
  // as kFlushed (unsignaled work, too), and kDisconnected follows. Data of completed and copied
  // Sends still reaches the peer. Again, or after the end: nothing happens.
  virtual void disconnect() noexcept = 0;
  virtual Counters counters() const noexcept = 0;
};

// A connection request that waits to be accepted. Destroying it refuses the request; the initiator
// sees kRefused.
class RPCRDMA_EXPORT Incoming {
 public:
  virtual ~Incoming() = default;
  // What the initiator gave to connect(), and its address; both valid as long as *this.
  virtual Bytes private_data() const noexcept = 0;
  virtual std::string_view peer_address() const noexcept = 0;
  // Whether Capabilities::send_with_invalidate will hold on the connection: the answer to the
  // request tells the peer, by flag R of RFC 8797.
  virtual bool sends_with_invalidate() const noexcept { return true; }
};

// Takes connection requests for one address. Accepted connections outlive it; requests that were
// not polled are refused when it goes.
class RPCRDMA_EXPORT Listener {
 public:
  virtual ~Listener() = default;
  virtual std::unique_ptr<Incoming> poll_incoming() = 0;  // null when there is none
  // Takes over an established TCP connection whose peer becomes the initiator now (RFC 5666 §3); a
  // request follows. The descriptor is the provider's from now on, also when this fails.
  // kUnsupported where connections are not TCP.
  virtual Expected<void, Error> adopt(int descriptor);
  virtual bool can_adopt() const noexcept { return false; }  // connections are TCP
  // Why no further request can come: the device that it listens on was removed. It stays so, and a
  // Listener that says so should be destroyed, since a device may wait for that. nullopt: it
  // listens.
  virtual std::optional<Error> failure() const noexcept { return std::nullopt; }
  // "ADDR:PORT" with the real port, also when port 0 was asked for. Valid as long as *this.
  virtual std::string_view address() const noexcept = 0;
};

class RPCRDMA_EXPORT Provider {
 public:
  // Precondition: all that it made is gone.
  virtual ~Provider() = default;
  // For people: Client::provider_name(). Valid as long as *this.
  virtual std::string_view name() const noexcept = 0;
  // An address is "127.0.0.1:20049" or "[::1]:20049" where the library resolved a URL, and
  // otherwise whatever the user gave to Client::connect() or Server::listen() with this provider.
  // Both fail at once with kBadAddress for what is no address. Private data reaches the peer's
  // set-up; what the library says in it has 8 bytes (RFC 8797), or none.
  //
  // The queue pair of accept() and of connect() takes Receives at once; kConnected or kRefused
  // follows. connect() does not wait for the peer; the provider bounds the time that the set-up may
  // take (kRefused, with the cause kTimedOut). `request` is one of a listener of this provider;
  // when accept() fails, it is refused.
  virtual Expected<std::unique_ptr<QueuePair>, Error> accept(std::unique_ptr<Incoming> request,
                                                             Bytes private_data) = 0;
  virtual Expected<std::unique_ptr<QueuePair>, Error> connect(std::string_view address,
                                                              Bytes private_data) = 0;
  virtual Expected<std::unique_ptr<Listener>, Error> listen(std::string_view address) = 0;
  // Whether Capabilities::reports_invalidated_handle will hold on a connection to the address: the
  // set-up tells the peer, by flag R of RFC 8797.
  virtual bool reports_invalidated_handle(std::string_view address) const;
  // What a user can do about an error of this provider, as a sentence's second half; often empty.
  virtual std::string remedy(const Error& error) const;
  // The initiator's side of Listener::adopt().
  virtual Expected<std::unique_ptr<QueuePair>, Error> adopt(int descriptor, Bytes private_data);
  // Moves what can be moved without waiting: sockets, time-outs, or one simulated step. Polls of
  // queue pairs and listeners follow.
  virtual void progress() = 0;
  // Readable when progress() has something to do, the armed time has come or wake() was called.
  // -1: nothing to wait on (simulator); then the owner can only call wait(), or progress() again
  // and again.
  virtual int wait_fd() const noexcept = 0;
  // Never goes back.
  virtual Instant now() const noexcept = 0;
  // wait_fd() becomes readable, and wait() returns, at this time; nullopt: never. The newest call
  // counts; a time that has passed counts, too.
  virtual void arm_timer(std::optional<Instant> when) = 0;
  // Blocks until progress() has something to do or something new can be polled, the armed time has
  // come, or wake() was called, also before wait() was. Or (simulator) lets the time pass to the
  // next event. May return early.
  virtual void wait() = 0;
  // From now on wait() also ends, and wait_fd() is also readable, while this descriptor is
  // readable; until it is closed. False: this provider cannot do that.
  // Server::also_listen("tcp://…") asks for it, and is kUnsupported without.
  virtual bool wait_also_for(int /*descriptor*/) { return false; }
  // Ends the wait() that runs now, or the next one. From any thread, and from a signal handler.
  virtual void wake() noexcept = 0;
};

}  // namespace rpcrdma::rdma

#endif  // RPCRDMA_PROVIDER_H_
