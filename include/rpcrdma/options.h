// Every setting of clients and servers, with its default and unit.
#ifndef RPCRDMA_OPTIONS_H_
#define RPCRDMA_OPTIONS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "rpcrdma/counters.h"
#include "rpcrdma/error.h"
#include "rpcrdma/oncrpc.h"

namespace rpcrdma {

class ClientAuth;

inline constexpr std::uint16_t kDefaultPort = 20049;  // NFS/RDMA, registered with IANA

// How the provider "verbs" exposes memory to a peer; siwarp needs none of these.
enum class Registration : std::uint8_t {
  kAuto,     // memory windows where the device has them, else a registration for each call
  kWindows,  // type 2 memory windows; a registration for each call where the device has none
  kPerCall,
  // Registrations are kept for later calls with the same memory. Weaker than the others: a server
  // can go on using handles of calls that are over, and memory that a call had must stay mapped as
  // long as the connection lives.
  kCache,
};

struct ProviderOptions {
  // "verbs": RDMA devices, by rdma-core. "siwarp": software iWARP over TCP. "auto": verbs if an
  // RDMA device that can be used leads to the address (Client) or has it (Server; a wildcard
  // address is on each device), else siwarp; also siwarp for a capture, a shared port, or a TCP
  // connection to adopt.
  std::string name = "auto";
  Registration registration = Registration::kAuto;
  bool crc = true;           // siwarp: MPA CRC; it is used when either side asks for it
  std::string capture_file;  // siwarp: pcapng of all that its connections carry; empty: none
  std::uint64_t capture_bytes_max = 64U << 20U;            // the file stops growing here
  std::chrono::milliseconds setup_timeout_client{10'000};  // for the whole connection set-up
  std::chrono::milliseconds setup_timeout_server{5'000};   // a silent peer is dropped after it
};

// Which text of RPC-over-RDMA version 1 a connection follows. Nothing on the wire tells: both ends
// are set to the same.
enum class Profile : std::uint8_t {
  kRfc8166,
  // RFC 5666 as it was: a server may answer by Read chunks, which the client fetches and confirms
  // with RDMA_DONE (§3.8); the client aligns data inside of messages (RDMA_MSGP, §3.9); message
  // sizes are agreed on by the Connection Configuration Protocol (§6), not by RFC 8797.
  kRfc5666,
};
// From where the padding of RDMA_MSGP counts; RFC 5666 §3.9 can be read both ways.
enum class PaddingBase : std::uint8_t {
  kBuffer,  // the start of the Send: aligned where the receiver has its buffer aligned
  kStream,  // the start of the RPC message
};

// What only Profile::kRfc5666 has.
struct Rfc5666Options {
  // Client: offers no memory for results, so that the server answers what does not fit a message by
  // Read chunks. A call then takes as much of ClientOptions::memory_max as its largest reply,
  // since the server may expose that in one piece. false: Write chunks and Reply chunks, as RFC
  // 8166 has them.
  bool results_by_read = false;
  // Client: opaque data of more than so many bytes at the end of a Call is aligned, bytes.
  std::uint32_t padding_threshold = 512;
  // Server: asks clients to align data to so many bytes, and aligns its Receives; 0: neither.
  std::uint32_t alignment = 1024;
  PaddingBase padding_base = PaddingBase::kBuffer;
  // Server: replies by Read chunks that a client may leave without RDMA_DONE; more wait.
  std::uint32_t exposed_replies_max = 16;
  // Server: the flavor that credentials of the Connection Configuration Protocol must have (RFC
  // 5666 §11: that of the data). Service::check_credential() says it for programs.
  std::optional<AuthFlavor> flavor_required;
  // Server: an RDMA_DONE that takes longer ends the connection, which frees the reply's memory.
  std::chrono::milliseconds done_timeout{30'000};
};

struct ConnectionOptions {
  std::uint32_t inline_size = 4096;  // largest inline message both ways, bytes, 1024 … 65536
  std::uint32_t credits = 64;        // client: asked for; server: granted to each connection
  // Bulk items below this size stay inline when the message has room for them, bytes.
  std::uint32_t reduce_size_min = 1024;
  // false: bulk items never travel by themselves; what is too long goes as a Long Call or Reply.
  bool reduce = true;
  Profile profile = Profile::kRfc8166;
  Rfc5666Options rfc5666;
};

// What a client does when its connection is lost. Calls under way are then made again over the next
// connection, with the same XID and their memory registered afresh, until their time is over.
//
// A server may have executed a call whose reply was lost, and executes it again unless it remembers
// its replies: switch this on for programs whose calls may be repeated, or that have such a server.
struct ReconnectOptions {
  bool enabled = false;
  // Between attempts: the first, then twice the one before up to the limit, each shortened at
  // random by up to half.
  std::chrono::milliseconds first_delay{10};
  std::chrono::milliseconds delay_max{5'000};
  // A call that was the only one under way each time that so many connections in a row were lost is
  // taken to be the cause: it fails, and others go on.
  std::uint32_t losses_max = 3;
};

// Limits of connections by tcp:// and unix://; they take the place of credits and chunks. For a
// client only those of records mean something, and records are replies.
struct TcpOptions {
  // Calls in service, until their replies have gone; a further one stays in the socket, so that the
  // peer has to wait. 1 … 4096.
  std::uint32_t calls_max = 64;
  // Bytes of replies that the peer has not taken; above this no further Call is read.
  std::size_t unsent_max = 4U << 20U;
  // The longest Call, bytes, with its bulk arguments; not more than 16 MiB, nor than memory_max has
  // room for. A connection on which a longer one comes ends.
  std::uint32_t record_size_max = (1U << 20U) + (64U << 10U);
  std::uint32_t fragments_max = 4096;  // of one record (RFC 5531 §11), empty ones too; as above
  // Such connections at a time, within ServerOptions::connections_max. For one more that one makes
  // room whose last Call came longest ago, except for those with a Call that is being answered; 0:
  // no bound of their own.
  std::size_t connections_max = 0;
  // A connection is closed, in order, when for so long no Call was in service, none was half here,
  // and no reply was on its way. 0: never. What does not move is subject to peer_timeout.
  std::chrono::milliseconds idle_timeout{0};
};

struct ClientOptions {
  ProviderOptions provider;
  ConnectionOptions connection;
  TcpOptions tcp;
  std::uint32_t calls_max = 128;  // under way at a time; more are refused (kTooManyCalls)
  // Calls from the server (RFC 8167) that are served at a time, see Client::serve(); 0: none.
  std::uint32_t backward_calls = 0;
  std::chrono::nanoseconds call_timeout = std::chrono::seconds(60);
  // As Client::use_credential(), and already for the call with which a connection of
  // Profile::kRfc5666 begins. The machine name is copied when the client is made.
  std::optional<AuthSys> credential;
  // What calls are sealed with instead, see rpcrdma/auth.h; null: AUTH_NONE or AUTH_SYS. It serves
  // one client, which it outlives.
  ClientAuth* auth = nullptr;
  ReconnectOptions reconnect;
  std::size_t memory_max = 256U << 20U;  // message and Reply chunk buffers of the library, bytes
};

// Whether ServerOptions::receives_max are one queue of an RDMA device, out of which all connections
// receive. Then they take receives_max times inline_size bytes, however many connections there are,
// and each has one only while a Call of its is answered. All may be in use for as long as those
// Calls take, also by clients that keep to their grants; a message that finds none is sent again
// (RoCE, InfiniBand) or costs its connection (iWARP). A client that sends more than it was granted
// is cut off. Not with backward_calls nor Profile::kRfc5666, for which a server exposes memory.
enum class SharedReceives : std::uint8_t {
  // Where the device has such a queue, keeps connections apart all the same and loses no Receive of
  // those that end: not on iWARP, nor on the kernel's rxe.
  kAuto,
  kAlways,  // where the device has one; a peer may then reach what another connection was given
  kNever,
};

// A client of a server's client, see Client::backward().
struct BackwardOptions {
  // Calls whose connection is lost wait, within their time, for the connection that
  // Client::resume() names (RFC 8167: the same client must announce itself again); false: they fail
  // with kConnectionLost.
  bool outlives_connection = false;
  std::chrono::nanoseconds call_timeout = std::chrono::seconds(60);
};

// What a Server says about one of its connections; see ServerOptions::on_connection.
struct ConnectionEvent {
  enum class Kind : std::uint8_t {
    kOpened,   // a peer was accepted; its set-up is not complete yet
    kRefused,  // error: why
    kEnded,    // error: why, unless one of the two sides closed it in order
  };
  Kind kind;
  std::string_view peer;         // "ADDR:PORT", or "local (user UID, process PID)" by unix://
  const Error* error = nullptr;  // null: none
  std::size_t connections = 0;   // there are now
  TransferCounters counters{};   // kEnded: of the connection
};

struct ServerOptions {
  ProviderOptions provider;
  ConnectionOptions connection;
  TcpOptions tcp;
  // The largest bulk argument and the largest Long Call taken from a peer, bytes; not more than 16
  // MiB, nor than memory_max has room for.
  std::uint32_t bulk_size_max = 1U << 20U;
  std::uint32_t long_call_size_max = 1U << 20U;
  std::size_t connections_max = 1024;
  // Receives posted over all connections, a share for each: with more connections than this has
  // room for, each is granted fewer credits than ConnectionOptions::credits, at least one, and more
  // again when others have gone. A client that does not read the grant of a reply (because it came
  // too late for its call) may then send more than there are Receives, and loses its connection.
  // Those of `backward_calls` come besides, and with Profile::kRfc5666 those for RDMA_DONE
  // (exposed_replies_max) and a second credit for clients that otherwise have one. 0: no such
  // bound.
  std::uint32_t receives_max = 0;
  SharedReceives shared_receives = SharedReceives::kAuto;
  // Calls to each client (RFC 8167) under way at a time, see Client::backward(); 0: none.
  std::uint32_t backward_calls = 0;
  // Several servers of one user may listen on one port (SO_REUSEPORT), each on its own thread; new
  // connections are spread over them by the system. All of them set it, the first one too.
  bool share_port = false;
  std::size_t memory_max = 512U << 20U;  // bulk and message buffers of the library, bytes
  // How Write chunks come back: false, as RFC 8166 has it, without what was not used; true, as RFC
  // 5666 and Linux have it, every segment with its length rewritten. Clients take both.
  bool return_full_write_lists = false;
  // Replies of procedures that are not idempotent (ProcedureTraits::is_idempotent) are remembered:
  // at most so many, and so many bytes in all. A call that a client makes again is then executed at
  // most once while the server lives, unless more such calls than these came in between. 0: none.
  std::size_t reply_cache_entries = 4096;
  std::size_t reply_cache_bytes = 16U << 20U;
  // A peer that leaves every RDMA Read, Write and Send of ours unfinished for so long is dropped,
  // so that no peer can keep the memory of calls for ever; over TCP one that neither completes a
  // record nor takes anything of its replies.
  std::chrono::milliseconds peer_timeout{30'000};
  std::chrono::milliseconds drain_timeout{10'000};  // stop() gives calls in service so long
  // Hears of each connection, for logs and figures; on the server's thread, inside of progress(),
  // where it must neither throw nor use the server. What it is given lives until it returns. Peers
  // that never complete the set-up below RPC (a port scan) are not told, nor are connections that
  // are left when the server is destroyed.
  std::function<void(const ConnectionEvent& event)> on_connection;
};

}  // namespace rpcrdma

#endif  // RPCRDMA_OPTIONS_H_
