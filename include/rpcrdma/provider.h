// The interface of an RDMA back end: the seam between the protocol and the code that moves bytes.
// Derive from these classes to run clients and servers over your own RDMA stack, or over a test
// double:
//
//   auto server = rpcrdma::Server::listen(std::make_unique<OwnProvider>(...), "own:1");
//   auto client = rpcrdma::Client::connect({std::make_unique<OwnProvider>(...), "own:1"});
//
// examples/own_provider.h is a complete provider; docs/providers.md explains how tests/conformance
// tests one.
//
// Values describe the work (rpcrdma/work.h); abstract classes are only for things with an identity.
// Work is posted in batches (one virtual call per doorbell) and completions are polled in batches.
// Nothing here blocks except Provider::wait(), and there are no callbacks: the owner of a provider
// calls progress() and then polls the queue pairs and listeners that it owns until they are empty.
// New results may become available in progress(), or inside any other call.
//
// Threads: a provider and all objects created from it belong to one thread at a time. Only
// Provider::wake() may be called from another thread, and from a signal handler.
//
// Ownership: memory named by posted work belongs to the provider until the matching completion was
// polled, even after an error and after disconnect(). Destroying a QueuePair ends all access to
// memory before the destructor returns. A provider outlives the objects created from it: client and
// server ensure this.
//
// Errors: a failure is reported by an Error, a completion or the end of the connection, and becomes
// an rpcrdma::Error of the call or connection concerned. An exception that leaves one of these
// functions may end the program. An implementation may rely on stated preconditions. It must not
// trust its peer: whatever the peer sends, at most that one connection ends.
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

using work::Completion, work::Counters, work::Expose, work::Read, work::Receive, work::RegionId,
    work::Remote, work::RemoteAccess, work::Revoke, work::Send, work::Slice, work::Status,
    work::Write;
using work::kSlicesMax;

// The capabilities of a queue pair. The values that the setup negotiates (the two numbers of Reads,
// invalidation and the CRC) may change until kConnected was polled; no others do.
struct Capabilities {
  // The number of Receives that may be posted and not yet polled, and the same number of other work
  // requests. Receives never wait for room, so this must hold those of a connection:
  // ConnectionOptions::credits plus `backward_calls`, plus Rfc5666Options::exposed_replies_max for
  // a server of that profile, plus four for version two. Other work waits for completions; four per
  // outstanding call are ample.
  std::uint32_t queue_depth_max;
  // RDMA Reads that we may have outstanding (negotiated ORD). The library stays within this number;
  // the provider may refuse more (kNoResources) or queue them. 0: none, so a server accepts no bulk
  // arguments out of line.
  std::uint32_t reads_in_flight_max;
  // Slices in one work request, at most kSlicesMax, which the library prefers: with fewer, refusal
  // of a long message may end the connection.
  std::uint32_t sge_max;
  bool send_with_invalidate;        // a Send may name a steering tag for the peer to invalidate
  bool reports_invalidated_handle;  // a completed Receive says which tag the peer invalidated
  // attach() or the first use of a region takes a system call and locks memory, so keeping regions
  // pays off; and a region that is only attached is out of the peer's reach.
  bool registering_is_costly = false;
  // Receives come from the provider's memory, which connections share, so a quiet connection costs
  // none: only post_receives() accepts them, and each number is the right to receive one message.
  bool shares_receives = false;
  // The peer's RDMA Reads that this side serves at a time (negotiated IRD). 0: a client makes only
  // calls without Read chunks.
  std::uint32_t reads_served_max = 0;
  // Messages carry MPA's CRC32C, as the setup negotiated. nullopt: there is none to negotiate.
  std::optional<bool> crc{};
};

// Error codes independent of errno, for decisions. kBadAddress and kUnsupported ask the user to
// change something; kRefused, kTimedOut and kClosed may pass.
enum class Errc : std::uint8_t {
  kNoResources,  // a table or a queue is full, or the system refuses memory or descriptors
  kBadAddress,   // cannot be parsed, or is not ours to listen on
  kRefused,      // the peer refused the connection
  kTimedOut,     // the peer did not finish the connection setup in time
  kClosed,       // the connection is gone
  kProtocol,     // the peer broke the wire protocol
  kUnsupported,  // also: work that names memory which does not exist
  kProvider,     // see provider_code
};
RPCRDMA_EXPORT std::string_view to_string(Errc code) noexcept;

struct Error {
  Errc code;
  int provider_code;           // errno, 0 if none
  std::string_view operation;  // static text: what was attempted, or what the peer did wrong
};

// Buffers for messages, `stride` bytes apart in one region; with shares_receives only their size
// matters.
struct ReceiveBuffers {
  RegionId region;
  std::uint32_t size;  // bytes of each
  std::uint64_t stride;
};

RPCRDMA_EXPORT std::string_view to_string(Status status) noexcept;

enum class LinkEvent : std::uint8_t { kConnected, kRefused, kDisconnected };

// Is notified when a queue pair has to be polled.
class RPCRDMA_EXPORT NewsListener {
 public:
  virtual void handle_news() noexcept = 0;

 protected:
  ~NewsListener() = default;
};

// One connection and its protection domain: regions and steering tags are valid only here. A tag of
// another connection is as invalid as one that never existed.
class RPCRDMA_EXPORT QueuePair {
 public:
  // The peer sees the end of the connection. Regions may still be attached.
  virtual ~QueuePair() = default;
  // Valid as long as *this.
  virtual const Capabilities& capabilities() const noexcept = 0;
  // Registers memory for local use; the caller keeps it alive until detach() or the destruction of
  // *this. No remote rights. Regions may overlap. Works in every state of the connection. Fails
  // with kNoResources; the call, or the connection being made, then fails with it.
  virtual Expected<RegionId, Error> attach(MutableBytes memory) = 0;
  // Does the same for memory that is only sent from, written from or exposed for reading.
  virtual Expected<RegionId, Error> attach_read_only(Bytes memory) = 0;
  // Precondition: no posted work and no live steering tag refers to the region.
  virtual void detach(RegionId region) = 0;
  // Returns the private data that the peer sent in the connection setup; empty before kConnected.
  // InfiniBand and RoCE pad it with zeros. Valid as long as *this.
  virtual Bytes peer_private_data() const noexcept = 0;
  // Returns "ADDR:PORT" of the peer. Valid as long as *this.
  virtual std::string_view peer_address() const noexcept = 0;
  // Posts the whole batch or none, in order. Requests and their spans are read before it returns;
  // Request::copied is written. Receives, Expose and Revoke may be posted before kConnected. The
  // accepting side does not send before it has received, since MPA lets the initiator speak first.
  //
  // Fails with kNoResources if a queue is full: the caller retries after it has polled a
  // completion, so one must be pending. Fails with kClosed once the connection has ended or
  // disconnect() was called, and with kUnsupported if a slice lies outside its region, or would be
  // written to in a read-only one; then the caller ends the connection.
  //
  // The kinds of work: a Receive takes one message, in the order of posting. A longer message
  // completes it with kLocalError and ends the connection; so does a message without a Receive (or
  // it is resent, where the transport can). A Send is one message, which may be empty. Write and
  // Read move exactly their bytes; the sizes of both sides are equal, and may be 0. If a Write, or
  // a Read at the peer, is invalid (a dead tag, the wrong right, one byte outside the exposed
  // memory), it ends the connection and touches no memory but what is exposed: a long one that
  // begins there and goes beyond it may have moved its beginning, since its size is known at its
  // end only. Expose and Revoke: see there.
  virtual Expected<void, Error> post(std::span<work::Request> batch) = 0;
  // Posts Receives into reused buffers: the number of the buffer is the id. The default
  // implementation calls post(). With Capabilities::shares_receives, posting a number again returns
  // the memory of the message that arrived for it.
  virtual Expected<void, Error> post_receives(const ReceiveBuffers& buffers,
                                              std::span<const std::uint16_t> numbers);
  // With shares_receives: returns the memory of the messages that arrived for these numbers,
  // without posting them again. Also allowed after the end of the connection.
  virtual void release_receives(std::span<const std::uint16_t> /*numbers*/) {}
  // Completions of one kind of work in the order of posting. Sends and Writes count as one kind:
  // the completion of a Send implies that the Writes posted before it are complete too, signaled or
  // not. When a Receive completes, the Writes that the peer posted before that Send are in memory.
  // Each signaled request completes exactly once; an unsignaled one only if it fails or is flushed;
  // a copied one never. Returns the number of completions written; 0: there is none now.
  virtual std::size_t poll(std::span<Completion> out) = 0;
  // Each event is returned once: kConnected and then kDisconnected, or kRefused alone. kConnected
  // is available no later than the completion of the first Receive. After kRefused or kDisconnected
  // nothing else happens: every steering tag is dead and memory is no longer touched, but
  // completions (kFlushed) are still to be polled. So kDisconnected may come late, when memory is
  // safe, but must come eventually, even if the peer is silent.
  virtual std::optional<LinkEvent> poll_link() = 0;
  // From now on notifies the listener, which must outlive *this, when poll() or poll_link() has
  // something again, and when post() may succeed after kNoResources; once or many times, on the
  // provider's thread, from a function of this queue pair or from Provider::progress() or wait().
  // The listener must not destroy anything. Does not report completions that are already available.
  // The owner of many queue pairs then polls only those that reported news, each until it is empty.
  // Returns false, the default, if this provider does not notify; the owner then polls the queue
  // pair in each round.
  virtual bool set_ready_listener(NewsListener& /*listener*/) noexcept { return false; }
  // Returns why the connection ended; valid after kRefused or kDisconnected.
  virtual Error cause() const noexcept = 0;
  // The target of our RDMA Write that the peer refused, which ended the connection, if the provider
  // knows it; valid after kDisconnected. Its completion may have been kOk: over TCP a Write is
  // complete when it is in transit. The size is 0.
  virtual std::optional<Remote> refused_write() const noexcept { return std::nullopt; }
  // Returns whether the peer refused an RDMA Write of ours without a word on which one (RFC 5040
  // §4.8: a Terminate need not bring a header); valid after kDisconnected.
  virtual bool refused_unnamed_write() const noexcept { return false; }
  // Returns why the latest Expose that completed with kLocalError failed: memory could not be
  // registered.
  virtual Error exposure_failure() const noexcept;
  // Ends the connection, now or a little later: all work posted so far completes, unfinished work
  // as kFlushed (including unsignaled work), and kDisconnected follows. Data of completed and
  // copied Sends still reaches the peer. No effect if repeated, or after the end.
  virtual void disconnect() noexcept = 0;
  virtual Counters counters() const noexcept = 0;
};

// A connection request that waits to be accepted. Destroying it refuses the request; the initiator
// sees kRefused.
class RPCRDMA_EXPORT Incoming {
 public:
  virtual ~Incoming() = default;
  // Returns the private data that the initiator passed to connect(), and its address; both are
  // valid as long as *this.
  virtual Bytes private_data() const noexcept = 0;
  virtual std::string_view peer_address() const noexcept = 0;
  // Returns whether Capabilities::send_with_invalidate will hold on the connection: the answer to
  // the request announces it to the peer by flag R of RFC 8797.
  virtual bool sends_with_invalidate() const noexcept { return true; }
  // Returns whether a Receive of the connection takes memory only for a message that has come, and
  // as much as that needs: then long Receives cost no more than short ones, and a server may post
  // longer ones (ConnectionOptions::inline_arguments_max).
  virtual bool receives_are_elastic() const noexcept { return false; }
  // Detaches the request from its provider, so that one made by Provider::make_shard() can accept
  // it, or a thread of that one refuse it. Called once, on the provider's thread. Returns false,
  // the default, if the request stays with its provider.
  virtual bool detach() { return false; }
};

// Accepts connection requests for one address. Accepted connections outlive it; requests that were
// not polled are refused when it is destroyed.
class RPCRDMA_EXPORT Listener {
 public:
  virtual ~Listener() = default;
  virtual std::unique_ptr<Incoming> poll_incoming() = 0;  // null when there is none
  // Takes over an established TCP connection whose peer now becomes the initiator (RFC 5666 §3); a
  // request follows. The provider owns the descriptor from now on, even if this fails. kUnsupported
  // if connections are not TCP.
  virtual Expected<void, Error> adopt(int descriptor);
  virtual bool can_adopt() const noexcept { return false; }  // connections are TCP
  // Returns why no further request can arrive: the device that it listens on was removed. This is
  // permanent, and the Listener should then be destroyed, since a device may wait for that.
  // nullopt: it listens.
  virtual std::optional<Error> failure() const noexcept { return std::nullopt; }
  // Requests are not presented, since the system has no descriptor for one (kNoResources), or since
  // another process has shut the listening socket down (kProvider). Reported once a second at most
  // as long as that lasts; the provider tries again.
  virtual std::optional<Error> poll_refusal() { return std::nullopt; }
  // "ADDR:PORT" with the real port, even if port 0 was requested. Valid as long as *this.
  virtual std::string_view address() const noexcept = 0;
};

class RPCRDMA_EXPORT Provider {
 public:
  // Precondition: all objects created from it are destroyed.
  virtual ~Provider() = default;
  // Returns the name for display: ConnectionInfo::provider_name. Valid as long as *this.
  virtual std::string_view name() const noexcept = 0;
  // An address is "127.0.0.1:20049" or "[::1]:20049" if the library resolved a URL, and otherwise
  // whatever the user passed to Client::connect() or Server::listen() with this provider. Both
  // functions fail at once with kBadAddress for an invalid address. Private data reaches the peer's
  // setup; the library's has 8 bytes (RFC 8797), or none.
  //
  // The queue pair of accept() and connect() accepts Receives at once; kConnected or kRefused
  // follows. connect() does not wait for the peer; the provider bounds the time of the setup
  // (kRefused, with the cause kTimedOut). `request` is from a listener of this provider; if
  // accept() fails, it is refused.
  virtual Expected<std::unique_ptr<QueuePair>, Error> accept(std::unique_ptr<Incoming> request,
                                                             Bytes private_data) = 0;
  virtual Expected<std::unique_ptr<QueuePair>, Error> connect(std::string_view address,
                                                              Bytes private_data) = 0;
  virtual Expected<std::unique_ptr<Listener>, Error> listen(std::string_view address) = 0;
  // Returns whether Capabilities::reports_invalidated_handle will hold on a connection to the
  // address: the setup announces it to the peer by flag R of RFC 8797.
  virtual bool reports_invalidated_handle(std::string_view address) const;
  // Returns what a user can do about an error of this provider, as the second half of a sentence;
  // often empty.
  virtual std::string remedy(const Error& error) const;
  // The initiator's side of Listener::adopt().
  virtual Expected<std::unique_ptr<QueuePair>, Error> adopt(int descriptor, Bytes private_data);
  // Does all work that needs no waiting: sockets, time-outs, or one simulated step. The caller then
  // polls queue pairs and listeners.
  virtual void progress() = 0;
  // Readable when progress() has something to do, the armed time has come or wake() was called. -1:
  // nothing to wait on (simulator); then the owner can only call wait(), or progress() repeatedly.
  virtual int wait_fd() const noexcept = 0;
  // Never decreases.
  virtual Instant now() const noexcept = 0;
  // wait_fd() becomes readable, and wait() returns, at this time; nullopt: never. The latest call
  // counts, also for a time that has passed.
  virtual void arm_timer(std::optional<Instant> when) = 0;
  // Blocks until progress() has something to do or something new can be polled, the armed time has
  // come, or wake() was called, even before wait(). The simulator instead advances the time to the
  // next event. May return early.
  virtual void wait() = 0;
  // Looks for a moment whether wait() would return, as far as that pays, and never sleeps. False,
  // the default: nothing has come, or it does not pay. Once it has returned true, nobody signals
  // wait_fd() for what progress() leaves to do: an owner that then polls calls wait_fd() first.
  virtual bool linger() { return false; }
  // Makes wait() return, and wait_fd() readable, also while this descriptor is readable, until the
  // descriptor is closed. False: this provider cannot do that. Server::add_listener("tcp://…")
  // needs it, and otherwise fails with kUnsupported.
  virtual bool wait_also_for(int /*descriptor*/) { return false; }
  // A second provider with the same options, to be used by another thread, whose accept() also
  // takes requests that were detached from this one: for ServerOptions::shards. This one outlives
  // it. Null, the default: there is no such thing.
  virtual Expected<std::unique_ptr<Provider>, Error> make_shard();
  // Ends the current wait(), or the next one. Callable from any thread and from a signal handler.
  virtual void wake() noexcept = 0;
};

}  // namespace rpcrdma::rdma

#endif  // RPCRDMA_PROVIDER_H_
