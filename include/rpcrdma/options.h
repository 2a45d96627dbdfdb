// All settings of clients and servers, with defaults and units.
#ifndef RPCRDMA_OPTIONS_H_
#define RPCRDMA_OPTIONS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "rpcrdma/characteristics.h"
#include "rpcrdma/counters.h"
#include "rpcrdma/error.h"
#include "rpcrdma/gss.h"
#include "rpcrdma/oncrpc.h"
#include "rpcrdma/profile.h"
#include "rpcrdma/statistics.h"
#include "rpcrdma/terms.h"

namespace rpcrdma {

class ClientAuth;
class Tap;

inline constexpr std::uint16_t kDefaultPort = 20049;  // NFS/RDMA, registered with IANA

// How the provider "verbs" exposes memory to a peer; siwarp ignores it.
enum class Registration : std::uint8_t {
  kAuto,     // memory windows where the device has them, else a registration for each call
  kWindows,  // type 2 memory windows; a registration for each call where the device has none
  kPerCall,
  // Registrations are kept for later calls with the same memory. This is weaker than the others: a
  // server can continue to use handles of calls that have ended, and memory used by a call must
  // stay mapped as long as the connection lives.
  kCache,
};

struct ProviderOptions {
  // "verbs": RDMA devices, through rdma-core. "siwarp": software iWARP over TCP. "auto": verbs if a
  // usable RDMA device leads to the address (Client) or has it (Server; a wildcard address is on
  // each device), else siwarp. "auto" also selects siwarp for a capture, a shared port, or a TCP
  // connection to adopt.
  std::string name = "auto";
  Registration registration = Registration::kAuto;
  bool crc = true;  // siwarp: MPA CRC; used when either side requests it
  // RDMA Reads that this side serves at a time (IRD), and that it wants to have in flight (ORD); at
  // most 255 each, and no more than the device and the peer have. 0 Reads in flight: a server
  // refuses Calls with Read chunks; 0 served: a client makes none. nullopt: 16.
  std::optional<std::uint16_t> reads_served_max{}, reads_in_flight_max{};
  // siwarp: pcapng of all its connections' traffic; empty: none. Providers of a process that name
  // the same file share it; a child of fork() writes nothing into its parent's.
  std::string capture_file;
  std::uint64_t capture_bytes_max = 64U << 20U;  // the file stops growing here
  // siwarp: the numbers of its sockets begin here, where the limit of descriptors allows it. A
  // program that uses select() keeps those below FD_SETSIZE for itself. 0: the system chooses.
  int descriptors_from = 0;
  // For the whole set-up of one connection: each address of a list, and each connection that is
  // made to try version two or a profile, has it anew.
  std::chrono::milliseconds setup_timeout_client{10'000};
  std::chrono::milliseconds setup_timeout_server{5'000};  // drops a silent peer after this
};

// The versions of RPC-over-RDMA to use: 1 (RFC 8166), and 2 (draft-cel-nfsv4-rpcrdma-version-two),
// see docs/version-two.md. Profile::kRfc5666 is always version 1; tcp:// and unix:// have none.
enum class ProtocolVersion : std::uint8_t {
  kOne,
  kTwo,  // never falls back: connecting fails (kVersion) if the server has only version 1
  // Client: connecting includes a NULL call that offers version 2. A server of version 1 refuses it
  // on the same connection; one that does not answer within five seconds is connected to again.
  // Server: each call is answered in its own version.
  kAny,
};

// Settings of Profile::kRfc5666 only.
struct Rfc5666Options {
  // Client: offers no memory for results, so that the server answers by Read chunks whatever does
  // not fit a message. A call then reserves its maximum reply size from ClientOptions::memory_max,
  // since the server may expose the reply in one piece. false: Write chunks and Reply chunks, as in
  // RFC 8166.
  bool results_by_read = false;
  // Client: opaque data longer than this at the end of a Call is aligned, bytes.
  std::uint32_t padding_threshold = 512;
  // Server: requests clients to align data to this many bytes, and aligns its Receives; 0: neither.
  std::uint32_t alignment = 1024;
  PaddingBase padding_base = PaddingBase::kBuffer;
  // Server: the maximum number of replies by Read chunks that await RDMA_DONE; further ones wait.
  std::uint32_t exposed_replies_max = 16;
  // Server: the flavor required of credentials of the Connection Configuration Protocol (RFC 5666
  // §11: that of the data). For programs, Service::check_credential() decides.
  std::optional<AuthFlavor> flavor_required;
  // Server: an RDMA_DONE that takes longer ends the connection, which frees the reply's memory.
  std::chrono::milliseconds done_timeout{30'000};
};

struct ConnectionOptions {
  // The largest inline message both ways, bytes, 1024 … 65536: what each side sends is bounded by
  // the Receives of the other, which a peer without RFC 8797 has of 1,024 bytes, and Linux of
  // 4,096.
  std::uint32_t inline_size = 8192;
  // Bulk arguments of up to so many bytes stay inline where the server's Receives hold the largest
  // of them, which saves the round trip of an RDMA Read. A server makes its Receives longer by
  // that where they take memory only as messages come (siwarp, Incoming::receives_are_elastic()),
  // for clients that send as much: on so many connections as an eighth of its memory_max would
  // hold the Receives of, and a host never has more of them than are left for others. 0 … 131072;
  // 0: none, so that inline_size bounds all messages; nullopt: 65536, or none where inline_size is
  // not its default. Profile::kRfc8166 only.
  std::optional<std::uint32_t> inline_arguments_max;
  // Version two: the largest Receives that the peer may ask for while the connection lives, bytes,
  // at most 65536. They begin at inline_size, or longer (inline_arguments_max); smaller values here
  // change nothing.
  std::uint32_t receive_size_max = 0;
  std::uint32_t credits = 64;  // client: requested; server: granted to each connection
  // Bulk items below this size stay inline if they fit into the message, bytes; arguments may be
  // longer (inline_arguments_max). The default is for all that fit: to copy a few KiB costs less
  // than what a chunk adds, for writes a round trip.
  std::uint32_t reduce_size_min = 8192;
  // false: bulk items never travel separately; a message that is too long becomes a Long Call or
  // Reply.
  bool reduce = true;
  Profile profile = Profile::kRfc8166;
  Rfc5666Options rfc5666;
};

// Reconnection, over every transport. When the connection is lost, outstanding calls are made again
// over the next one, with the same XID and newly registered memory, until their time is over.
//
// A server may have executed a call whose reply was lost, and executes it again unless it remembers
// its replies, which another server of a list does not (see Client::connect()). Enable this only if
// the calls may be repeated or the server remembers replies, or without `repeats_calls`.
//
// A host's name is looked up again when an attempt at its addresses has failed, on a thread of its
// own: a server may have moved.
struct ReconnectOptions {
  bool enabled = false;
  // false: calls that are under way end with kConnectionLost when the connection is lost, and none
  // can be prepared before the next one is up. The library then makes no call twice, and a program
  // that has other servers can go to one of them at once.
  bool repeats_calls = true;
  // Client::begin_connect() also tries the first connection again; calls made before it is up wait
  // for it. Client::connect() reports its failure all the same.
  bool retries_first = false;
  // The delay between attempts: the first, then twice the previous one up to the limit, each
  // shortened at random by up to half. Only the very first may be less than 1 ms.
  std::chrono::milliseconds first_delay{10};
  std::chrono::milliseconds delay_max{5'000};
  // If this many connections in a row are lost while the same call was the only outstanding one,
  // that call is considered the cause: it fails, and others continue.
  std::uint32_t losses_max = 3;
};

// How calls say who makes them:
// - AUTH_NONE, if nothing is set;
// - AUTH_SYS, already for the first call of a Profile::kRfc5666 connection; the machine name is
//   copied when the client is created;
// - RPCSEC_GSS (rpcrdma/gss.h);
// - an authenticator of another flavor (rpcrdma/auth.h; null: AUTH_NONE), which serves one client
//   and outlives it;
// - a function that makes one for each client, which owns it; if it makes none, each call fails.
using Authentication = std::variant<std::monostate, AuthSys, gss::ClientSecurity, ClientAuth*,
                                    std::function<std::unique_ptr<ClientAuth>()>>;

// Limits of tcp:// and unix:// connections, in place of credits and chunks. A client uses only the
// limits on records, which are replies there.
struct TcpOptions {
  // Calls in service, until their replies have been sent. Further Calls stay in the socket, so that
  // the peer must wait. 1 … 4096.
  std::uint32_t calls_max = 64;
  // Bytes of replies that the peer has not taken; above this no further Call is read.
  std::size_t unsent_max = 4U << 20U;
  // The longest Call with its bulk arguments, bytes; not more than 16 MiB, nor than memory_max has
  // room for. A longer one is read to its end and thrown away, and answered with GARBAGE_ARGS.
  std::uint32_t record_size_max = (1U << 20U) + (64U << 10U);
  std::uint32_t fragments_max = 4096;  // per record (RFC 5531 §11), empty ones too; as above
  // The maximum number of these connections, which then count apart from those of
  // ServerOptions::connections_max. A further one replaces a connection that has made no call but
  // NULL, or leaves its replies where they are; of these the one whose last Call came longest ago.
  // Where there is none, it replaces, once a second, one of the host that has most, idle or left in
  // a record, if its own host has fewer; else it is refused. 0: all connections count together.
  std::size_t connections_max = 0;
  // A connection is closed in order when for this long no Call was in service, none was partly
  // received, and no reply was in transit. 0: never. Stalled transfers are subject to peer_timeout.
  std::chrono::milliseconds idle_timeout{0};
};

struct ClientOptions {
  ProviderOptions provider;
  ConnectionOptions connection;
  ProtocolVersion version = ProtocolVersion::kOne;
  TcpOptions tcp;
  std::uint32_t calls_max = 128;  // outstanding calls; more are refused (kTooManyCalls)
  // Calls from the server (RFC 8167) served at a time, see Backward::serve(); 0: none.
  std::uint32_t backward_calls = 0;
  // Version two: the most that the server may make of them (XCHAR_BRS); kNone if backward_calls is
  // 0. Calls and replies that do not fit a message move by chunks with kGeneral, unless the device
  // makes no RDMA Reads for this side; and fail otherwise, as in version 1.
  BackwardSupport backward_support = BackwardSupport::kGeneral;
  // Version two: at most 8 characteristics of the application's own, see
  // VersionTwo::set_characteristic().
  std::vector<CharacteristicType> characteristics;
  std::chrono::nanoseconds call_timeout = std::chrono::seconds(60);
  // Over RDMA a call that times out ends its connection if nothing at all has come since the call
  // was sent; over TCP, whatever this says, only if the server has not taken all of the call.
  // false: only when such calls hold every credit, for programs whose time-outs are shorter than
  // their slowest calls. A late answer to a call with chunks ends it in either case: it uses memory
  // that the program has again (docs/adr/0017-silent-connections.md).
  bool ends_silent_connections = true;
  Authentication auth;  // who the calls come from; by default nobody says
  ReconnectOptions reconnect;
  // Message and Reply chunk buffers of the library, bytes. Over TCP one reply more, when calls have
  // all of it.
  std::size_t memory_max = 256U << 20U;
  // Gets the counters of all connections that the client has had, for statistics, when the Client
  // goes. Must neither throw nor use the client.
  std::function<void(const TransferCounters& counters)> on_end;
};

// Says whether the Receives of ServerOptions::receives_max form one queue of an RDMA device, from
// which all connections receive. They then take receives_max times inline_size (at least 4096,
// unless ServerOptions::version is kOne) bytes, however many connections there are, and a
// connection holds one only while one of its Calls is answered. All may be in use for as long as
// those Calls take, even by clients within their grants. A message that finds none is resent (RoCE,
// InfiniBand) or ends its connection (iWARP). A client that sends more than it was granted is cut
// off. Not available with backward_calls or Profile::kRfc5666, for which a server exposes memory.
enum class SharedReceives : std::uint8_t {
  // If the device has a shared queue, still isolates connections and loses no Receives of
  // connections that end: not on iWARP, nor on the kernel's rxe.
  kAuto,
  kAlways,  // if the device has one; a peer may then reach another connection's memory
  kNever,
};

// Options of a server's client for backward calls, see Backward::client_of().
struct BackwardOptions {
  // Calls whose connection is lost wait, within their time, for the connection that
  // Backward::resume() names (RFC 8167: the same client must announce itself again). false: they
  // fail with kConnectionLost.
  bool outlives_connection = false;
  std::chrono::nanoseconds call_timeout = std::chrono::seconds(60);
};

// A Server's report about one of its connections; see ServerOptions::on_connection.
struct ConnectionEvent {
  enum class Kind : std::uint8_t {
    kOpened,   // a peer was accepted; its setup is not complete yet
    kReady,    // RDMA: the setup is complete, with these terms
    kRefused,  // error: why
    kEnded,    // error: why, unless one of the two sides closed it in order
  };
  Kind kind;
  // "ADDR:PORT"; for unix://, "local (user UID, process PID)"; "a client of ADDR:PORT", the
  // listener's, when there was no descriptor to learn more
  std::string_view peer;
  // As CallContext::connection_number(): tells connections of one server apart. kRefused: 0.
  std::uint64_t number = 0;
  const Error* error = nullptr;  // null: none
  // kEnded with an error: the peer reset the connection while no call was under way, as clients do
  // that leave in a hurry. Nothing was lost with it.
  bool was_reset_at_rest = false;
  std::size_t connections = 0;             // the current number
  const ConnectionTerms* terms = nullptr;  // kReady; null: another kind
  TransferCounters counters{};             // kEnded: those of the connection
};

struct ServerOptions {
  ProviderOptions provider;
  ConnectionOptions connection;
  ProtocolVersion version = ProtocolVersion::kAny;
  TcpOptions tcp;
  // The largest bulk argument and the largest Long Call accepted from a peer, bytes; not more than
  // 16 MiB, nor than memory_max has room for.
  std::uint32_t bulk_size_max = 1U << 20U;
  std::uint32_t long_call_size_max = 1U << 20U;
  // A further connection is refused, unless its host has fewer than another: once a second it takes
  // the place of an idle one of the host that has most, among those of the first shard.
  std::size_t connections_max = 1024;
  // An RDMA connection is closed when for this long no message came and no Call was under way: over
  // InfiniBand and RoCE nothing else tells of a peer that is gone. 0: never; TcpOptions has the
  // same for the others. Clients that reconnect make another one for their next Call.
  std::chrono::milliseconds idle_timeout{0};
  // Bounds the Receives posted over all connections; each connection gets a share. With more
  // connections than it has room for, each is granted fewer credits than
  // ConnectionOptions::credits, but at least one, and more again when others have gone. A client
  // that does not read the grant of a reply (because the reply came too late for its call) may then
  // send more than there are Receives, and loses its connection. Not included: the Receives of
  // `backward_calls`, four for each client of version 2, and, with Profile::kRfc5666, those for
  // RDMA_DONE (exposed_replies_max) and a second credit for clients that otherwise have one. 0: no
  // bound.
  std::uint32_t receives_max = 0;
  SharedReceives shared_receives = SharedReceives::kAuto;
  // Version two: at most 8 characteristics of the application's own. Each connection begins with
  // their initial values on both sides, and CharacteristicType::grants follows its client.
  std::vector<CharacteristicType> characteristics;
  // Outstanding calls to each client (RFC 8167), see Backward::client_of(); 0: none.
  std::uint32_t backward_calls = 0;
  // Several servers of one user may listen on one port (SO_REUSEPORT), each on its own thread; the
  // system distributes new connections among them. All of them must set it, including the first.
  bool share_port = false;
  // Threads among which the connections are dealt in turn, 1 to 256: the server's own, and for each
  // further one a thread that the library starts with the first progress() and ends with the
  // server. Services, ServerAuth and on_connection are called on all of them: services and
  // authenticators at the same time, on_connection one at a time. A connection stays on its thread,
  // which is then what "the server's thread" means for a CallContext, or for a client of
  // Backward::client_of(). Each shard has its part of memory_max, receives_max and
  // TcpOptions::connections_max, but at least memory for a few calls of the largest size, and room
  // for 8 TCP connections; replies that are remembered are shared by all. A provider of the
  // application's must have Provider::make_shard().
  std::uint32_t shards = 1;
  std::size_t memory_max = 512U << 20U;  // bulk and message buffers of the library, bytes
  // How Write chunks are returned: false, without unused parts, as in RFC 8166; true, every segment
  // with its length rewritten, as in RFC 5666 and Linux. Clients accept both.
  bool return_full_write_lists = false;
  // Replies of non-idempotent procedures (ProcedureTraits::is_idempotent) are remembered, up to
  // this number and this many bytes in total. A call that a client repeats is then executed at most
  // once while the server lives, unless more of these calls than this came in between. A call that
  // its service has failed (CallContext::fail()) counts as not executed. 0: none.
  std::size_t reply_cache_entries = 4096;
  std::size_t reply_cache_bytes = 16U << 20U;
  // A peer that leaves all our RDMA Reads, Writes and Sends unfinished for this long is dropped, so
  // that no peer can hold the memory of calls forever. Over TCP, this applies to a peer that
  // neither completes a record nor takes any of its replies. Results that go by chunks, and all
  // replies over TCP, have a time besides, in which the peer takes those that are under way: this,
  // and their bytes at pull_rate_min. TCP itself, also below software iWARP, gives up a peer that
  // acknowledges nothing, or takes nothing, for a minute.
  std::chrono::milliseconds peer_timeout{30'000};
  // How long the data of one Call may take to arrive, once there is memory for it: this, and its
  // bytes at pull_rate_min, bytes per second. Then its connection ends. A peer that sends a little
  // now and then would otherwise keep the memory from all others for as long as it likes. Over TCP,
  // this applies to each record. pull_rate_min 0: only peer_timeout applies.
  std::chrono::milliseconds pull_timeout{10'000};
  std::uint32_t pull_rate_min = 256U << 10U;
  std::chrono::milliseconds drain_timeout{10'000};  // time for calls in service after stop()
  // Reports each connection, for logs and statistics. It runs on the server's thread, inside
  // progress(), and must neither throw nor use the server. Its argument lives until it returns. It
  // does not report peers that never complete the setup below RPC (a port scan), nor connections
  // that remain when the server is destroyed.
  std::function<void(const ConnectionEvent& event)> on_connection;
  // Counts procedures and the times of calls for Server::statistics(). Each call then reads the
  // clock once.
  bool measures_calls = false;
  // Shows what its connections send and receive, see rpcrdma/tap.h. It outlives the server; null:
  // nobody will ever look.
  Tap* tap = nullptr;
  // Reports each call that a service was to execute, when it is answered; and measures calls. Runs
  // on the thread of the call's shard, on several at the same time, and must neither throw nor use
  // the server. Its argument lives until it returns.
  std::function<void(const CallReport& report)> on_call;
};

}  // namespace rpcrdma

#endif  // RPCRDMA_OPTIONS_H_
