#include "client.h"

#include <fmt/core.h>
#include <signal.h>
#include <sys/select.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "bulk_tables.h"
#include "errors.h"
#include "places.h"
#include "rpcrdma/client.h"
#include "settings.h"
#include "socket_address.h"
#include "xdr_streams.h"

namespace rpcrdma::tirpc {

namespace {

constexpr timeval kTimeout{25, 0};       // of a call, as rpcgen's stubs have it
constexpr timeval kRetryTimeout{15, 0};  // of libtirpc's clients of UDP
constexpr int kRefreshesMax = 2;         // of the credential, for one call
// Parts up to this size are written into the message's own room, bytes; longer ones are sent from
// where they are.
constexpr std::size_t kCopiedMax = 4096;
// A Reply without results: its header, a verifier of any size, and the checksums of RPCSEC_GSS.
constexpr std::uint32_t kReplyHeaderMax = 2048;

constexpr std::time_t kSecondsMax = 100'000'000;  // of a time-out

bool is_time(const timeval& time) noexcept {
  return time.tv_sec >= 0 && time.tv_sec <= kSecondsMax && time.tv_usec >= 0 &&
         time.tv_usec <= 1'000'000;
}

std::chrono::microseconds duration_of(const timeval& time) noexcept {
  return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
}

class RdmaClient {
 public:
  RdmaClient(Client client, rpcprog_t program, rpcvers_t version);
  // Returns the handle that owns this object; null: there is no memory.
  static CLIENT* hand_over(std::unique_ptr<RdmaClient> client);

 private:
  static RdmaClient& of(CLIENT* handle) noexcept {
    return *static_cast<RdmaClient*>(handle->cl_private);
  }
  static clnt_stat call_operation(CLIENT* handle, rpcproc_t procedure, xdrproc_t encode,
                                  void* arguments, xdrproc_t decode, void* results, timeval limit);
  static void destroy_operation(CLIENT* handle);

  void call(AUTH& auth, rpcproc_t procedure, xdrproc_t encode, void* arguments, xdrproc_t decode,
            void* results, const timeval& limit);
  bool encode_call(AUTH& auth, rpcproc_t procedure, xdrproc_t encode, void* arguments);
  // Returns the longest results of the call that is made, as part of the reply. Without a bound in
  // a table, or with one beyond it, this is the setting's.
  std::uint32_t results_max() const noexcept;
  std::uint64_t bound_of_table() const noexcept;  // 0: it has none
  // Sends what is encoded and waits for the reply. Returns false after writing error_.
  bool exchange(rpcproc_t procedure, std::chrono::microseconds limit);
  void write(MessageWriter& out) const;
  void note(rpcproc_t procedure, const Error& error) const;
  // Forgets the call that an exception has ended, and fails it.
  void drop_call() noexcept;
  // Decodes the reply in reader_. Returns whether the call shall be made again, with a credential
  // that was refreshed.
  bool decode_reply(AUTH& auth, xdrproc_t decode, void* results, bool may_refresh);
  bool control(u_int request, void* value);
  template <class Value>
  static bool get(void* to, const Value& value) {
    std::memcpy(to, &value, sizeof(value));
    return true;
  }
  template <class Value>
  static bool set(Value& value, const void* from) {
    std::memcpy(&value, from, sizeof(value));
    return true;
  }
  void fail(clnt_stat status, int number = 0) noexcept {
    error_ = {};
    error_.re_status = status;
    error_.re_errno = number;
  }
  // Lets this thread use client_.
  void own_client();
  // This process descends from the one that made the client, which has the same connection and
  // still runs. Processes between the two may have ended: daemons, say, let a child start programs.
  bool is_of_other_process() const noexcept {
    return ::getpid() != process_ && (::kill(process_, 0) == 0 || errno == EPERM);
  }

  // RPCSEC_GSS makes calls of its own while a credential is refreshed.
  std::recursive_mutex mutex_;
  std::thread::id owner_;
  XdrWriter writer_;
  ResultPlace place_;
  const rpcrdma_tirpc_procedure* binding_ = nullptr;  // of the call that is made
  std::uint32_t reply_max_ = 0;                       // the same
  bool server_places_ = false;                        // the server has placed a result
  Client client_;
  std::optional<Reply> reply_;  // goes before its client
  XdrReader reader_;
  SocketAddress peer_;
  rpcprog_t program_;
  rpcvers_t version_;
  std::uint32_t next_xid_;
  std::optional<timeval> fixed_limit_;
  timeval last_limit_ = kTimeout;
  timeval retry_limit_ = kRetryTimeout;
  rpc_err error_{};
  const pid_t process_ = ::getpid();  // that has made it
};

RdmaClient::RdmaClient(Client client, rpcprog_t program, rpcvers_t version)
    : owner_(std::this_thread::get_id()),
      writer_(settings().call_max),
      client_(std::move(client)),
      peer_(client_.connection().peer_address),
      program_(program),
      version_(version),
      next_xid_(std::random_device{}()) {}

void RdmaClient::own_client() {
  if (owner_ == std::this_thread::get_id()) return;
  client_ = Client(std::move(client_));
  owner_ = std::this_thread::get_id();
}

// --- A call ------------------------------------------------------------------------------------

clnt_stat RdmaClient::call_operation(CLIENT* handle, rpcproc_t procedure, xdrproc_t encode,
                                     void* arguments, xdrproc_t decode, void* results,
                                     timeval limit) {
  RdmaClient& self = of(handle);
  const std::lock_guard lock(self.mutex_);
  const bool is_whole = comes_to_its_end([&] {
    self.own_client();
    self.call(*handle->cl_auth, procedure, encode, arguments, decode, results, limit);
  });
  if (!is_whole) self.drop_call();
  return self.error_.re_status;
}

void RdmaClient::drop_call() noexcept {
  reader_.close();
  reply_.reset();
  fail(RPC_CANTRECV, ENOMEM);  // it may have been sent
}

void RdmaClient::call(AUTH& auth, rpcproc_t procedure, xdrproc_t encode, void* arguments,
                      xdrproc_t decode, void* results, const timeval& limit) {
  const timeval& given = fixed_limit_ ? *fixed_limit_ : limit;
  if (given.tv_sec == 0 && given.tv_usec == 0) {
    if (may_report(Topic::kOneWayCall)) {
      report(fmt::format(
          "a call of program {} with a time-out of zero, which expects no reply, was not sent: "
          "over RDMA each call needs one; make it over TCP, or wait for the reply",
          program_));
    }
    fail(RPC_CANTSEND, EOPNOTSUPP);
    return;
  }
  if (is_time(limit)) last_limit_ = limit;
  const bool has_results = decode != nullptr && decode != void_routine();
  for (int refreshes = 0;; ++refreshes) {
    if (!encode_call(auth, procedure, encode, arguments)) {
      fail(RPC_CANTENCODEARGS);
      break;
    }
    reply_max_ = (has_results ? results_max() : 0) + kReplyHeaderMax;
    if (!exchange(procedure, duration_of(fixed_limit_.value_or(last_limit_)))) break;
    if (!decode_reply(auth, decode, results, refreshes < kRefreshesMax)) break;
  }
}

std::uint64_t RdmaClient::bound_of_table() const noexcept {
  if (binding_ == nullptr || binding_->results_size_max == 0) return 0;
  // The first of the data has a place. Where the server has no table, it is in the reply as well.
  const int placed = binding_->results != 0 && server_places_ ? 1 : 0;
  const auto in_reply = static_cast<std::uint64_t>(std::popcount(binding_->results) - placed);
  const std::uint64_t data_max = xdr::padded(std::size_t{binding_->result_size_max});
  return binding_->results_size_max + in_reply * data_max;
}

std::uint32_t RdmaClient::results_max() const noexcept {
  const std::uint32_t most = settings().reply_max;
  const std::uint64_t bound = bound_of_table();
  if (bound == 0) return most;
  return static_cast<std::uint32_t>(
      std::max<std::uint64_t>(binding_->results_size_max, std::min<std::uint64_t>(bound, most)));
}

bool RdmaClient::encode_call(AUTH& auth, rpcproc_t procedure, xdrproc_t encode, void* arguments) {
  writer_.restart();
  XDR* const stream = writer_.handle();
  // RFC 5531 §9.
  const std::array<long, 6> header = {next_xid_,
                                      CALL,
                                      RPC_MSG_VERSION,
                                      static_cast<long>(program_),
                                      static_cast<long>(version_),
                                      static_cast<long>(procedure)};
  --next_xid_;  // as libtirpc counts
  const auto put = [stream](long word) { return XDR_PUTLONG(stream, &word) == TRUE; };
  if (!std::ranges::all_of(header, put) || AUTH_MARSHALL(&auth, stream) == 0) return false;
  // A checksum, or a cipher, covers what RPCSEC_GSS sends: it stays in one piece.
  const auto flavor = xdr::load_word(writer_.written().data() + header.size() * xdr::kWordSize);
  binding_ = flavor == RPCSEC_GSS ? nullptr : find_binding(program_, version_, procedure);
  writer_.bind(binding_ != nullptr ? binding_->arguments : 0, nullptr);
  return AUTH_WRAP(&auth, stream, encode, static_cast<caddr_t>(arguments)) != 0;
}

bool RdmaClient::exchange(rpcproc_t procedure, std::chrono::microseconds limit) {
  const std::size_t copied_max = kCopiedMax * (writer_.items().size() + 1);
  auto call = client_.prepare_message(
      static_cast<std::uint32_t>(std::min(writer_.written().size(), copied_max)));
  if (!call) {
    error_ = unsent_error(call.error());
    return false;
  }
  write(call->arguments());
  if (binding_ != nullptr && binding_->results != 0) {
    const MutableBytes place =
        place_.make(std::min(binding_->result_size_max, settings().reply_max));
    if (place.empty()) {
      fail(RPC_CANTSEND, ENOBUFS);
      return false;
    }
    call->place_result(place);
  }
  call->expect_results(reply_max_);
  call->time_out_after(limit);
  auto reply = client_.call(std::move(*call));
  if (reply) {
    reply_.emplace(std::move(*reply));
    return true;
  }
  note(procedure, reply.error());
  error_ = call_error(reply.error());
  return false;
}

void RdmaClient::write(MessageWriter& out) const {
  Bytes message = writer_.written();
  std::size_t done = 0;
  const auto add = [&out](Bytes part) {
    if (part.size() <= kCopiedMax) {
      out.xdr().opaque_fixed(part);
    } else {
      out.lend(part);
    }
  };
  for (const XdrWriter::Item& each : writer_.items()) {
    add(message.subspan(done, each.at - done));
    out.bulk_fixed(each.data);
    done = each.at;
  }
  add(message.subspan(done));
}

// A server that cannot use the chunks of a call does not say which. Those of the reply can be too
// short, if there are any; those of the arguments too long.
void RdmaClient::note(rpcproc_t procedure, const Error& error) const {
  if (error.code != Errc::kChunk) return;
  std::size_t size = writer_.written().size();
  for (const XdrWriter::Item& each : writer_.items()) size += each.data.size();
  const auto& terms = client_.connection().terms;
  constexpr std::size_t kTransportHeader = 28;  // RFC 8166 §4.2, without chunks
  const bool has_long_arguments =
      !writer_.items().empty() || (terms && size + kTransportHeader > terms->inline_sent);
  if (reply_max_ <= kReplyHeaderMax && has_long_arguments) {
    if (!may_report(Topic::kArgumentsRefused)) return;
    return report(fmt::format(
        "{}: the server has refused procedure {} of program {}, whose call has {} bytes "
        "in chunks: it takes no such arguments. Make them shorter, or raise the "
        "server's bound (RPCRDMA_TIRPC_CALL_MAX, if it is of this library)",
        error.peer, procedure, program_, size));
  }
  if (!may_report(Topic::kReplyTooLong)) return;
  const std::uint64_t bound = bound_of_table();
  const bool is_of_table = bound != 0 && reply_max_ >= bound;
  report(fmt::format(
      "{}: the reply to procedure {} of program {} is longer than the {} bytes that were offered "
      "for it{}. The server may have executed the call. {}",
      error.peer, procedure, program_, reply_max_,
      has_long_arguments ? ", or the server takes no arguments that are as long" : "",
      is_of_table ? "The bound is that of the program's table: make it again from the .x file "
                    "(rpcrdma-gen --tirpc-table)"
                  : "Set RPCRDMA_TIRPC_REPLY_MAX to more"));
}

bool RdmaClient::decode_reply(AUTH& auth, xdrproc_t decode, void* results, bool may_refresh) {
  rpc_msg message{};
  message.acpted_rply.ar_verf = _null_auth;
  message.acpted_rply.ar_results.proc = void_routine();
  MessageReader& in_message = reply_->results();
  reply_->ignore_rest();  // the decoders below say whether it could be read
  const auto is_placed = [](const MessageReader::Placed& each) { return !each.data.empty(); };
  if (std::ranges::any_of(in_message.placed(), is_placed)) server_places_ = true;
  XDR* const stream = reader_.handle();
  bool is_refused = false;  // for its credential: it was not executed
  fail(RPC_SUCCESS);
  if (!reader_.open(in_message) || xdr_replymsg(stream, &message) == FALSE) {
    fail(RPC_CANTDECODERES);
  } else {
    _seterr_reply(&message, &error_);
    is_refused = error_.re_status == RPC_AUTHERROR;
    if (error_.re_status == RPC_SUCCESS) {
      if (AUTH_VALIDATE(&auth, &message.acpted_rply.ar_verf) == 0) {
        fail(RPC_AUTHERROR);
        error_.re_why = AUTH_INVALIDRESP;
      } else if (reader_.bind(binding_ != nullptr ? binding_->results : 0, &place_);
                 decode != nullptr &&
                 AUTH_UNWRAP(&auth, stream, decode, static_cast<caddr_t>(results)) == 0) {
        fail(RPC_CANTDECODERES);
      }
    }
  }
  if (message.rm_reply.rp_stat == MSG_ACCEPTED && message.acpted_rply.ar_verf.oa_base != nullptr) {
    stream->x_op = XDR_FREE;
    (void)xdr_opaque_auth(stream, &message.acpted_rply.ar_verf);
  }
  reader_.close();
  reply_.reset();
  if (!is_refused || !may_refresh) return false;
  const rpc_err refusal = error_;
  if (AUTH_REFRESH(&auth, &message) != 0) return true;
  error_ = refusal;
  return false;
}

// --- Control -----------------------------------------------------------------------------------

bool RdmaClient::control(u_int request, void* value) {
  if (request == CLSET_FD_CLOSE || request == CLSET_FD_NCLOSE) return true;  // it is always ours
  if (value == nullptr) return false;
  const netbuf address = peer_.view();
  timeval limit{};
  switch (request) {
    case CLSET_TIMEOUT:
      if (set(limit, value); !is_time(limit)) return false;
      fixed_limit_ = limit;
      return true;
    case CLGET_TIMEOUT:
      return get(value, fixed_limit_.value_or(last_limit_));
    // Programs set that of UDP before they know what they run over. Nothing is sent twice.
    case CLSET_RETRY_TIMEOUT:
      if (set(limit, value); !is_time(limit)) return false;
      retry_limit_ = limit;
      return true;
    case CLGET_RETRY_TIMEOUT:
      return get(value, retry_limit_);
    case CLGET_SERVER_ADDR:
      std::memcpy(value, address.buf, address.len);
      return true;
    case CLGET_SVC_ADDR:
      return get(value, address);
    case CLGET_FD:
      return get(value, client_.wait_fd());
    // That of the last call; the next one has the number below it.
    case CLGET_XID:
      return get(value, next_xid_ + 1);
    case CLSET_XID:
      return set(next_xid_, value);
    case CLGET_VERS:
      return get(value, static_cast<std::uint32_t>(version_));
    case CLGET_PROG:
      return get(value, static_cast<std::uint32_t>(program_));
    case CLSET_VERS: {
      std::uint32_t number = 0;
      set(number, value);
      version_ = number;
      return true;
    }
    case CLSET_PROG: {
      std::uint32_t number = 0;
      set(number, value);
      program_ = number;
      return true;
    }
    default:
      return false;
  }
}

// --- The handle --------------------------------------------------------------------------------

void RdmaClient::destroy_operation(CLIENT* handle) {
  RdmaClient* const self = &of(handle);
  // Its end would be that of the other process's connection too, and a thread that the child does
  // not have may hold the lock.
  if (!self->is_of_other_process()) {
    {
      const std::lock_guard lock(self->mutex_);
      (void)comes_to_its_end([&] { self->own_client(); });
    }
    delete self;
  }
  std::free(handle->cl_netid);
  std::free(handle->cl_tp);
  std::free(handle);
}

CLIENT* RdmaClient::hand_over(std::unique_ptr<RdmaClient> client) {
  static CLIENT::clnt_ops operations = {
      .cl_call = call_operation,
      .cl_abort = [](CLIENT*) {},
      .cl_geterr =
          [](CLIENT* handle, rpc_err* error) {
            const std::lock_guard lock(of(handle).mutex_);
            *error = of(handle).error_;
          },
      .cl_freeres = [](CLIENT* handle, xdrproc_t decode, void* results) -> bool_t {
        return within_border<bool_t>(FALSE, [&] {
          const std::lock_guard lock(of(handle).mutex_);
          XDR* const stream = of(handle).reader_.handle();
          stream->x_op = XDR_FREE;
          return decode(stream, results);
        });
      },
      .cl_destroy = destroy_operation,
      .cl_control = [](CLIENT* handle, u_int request, void* value) -> bool_t {
        return within_border<bool_t>(FALSE, [&] {
          const std::lock_guard lock(of(handle).mutex_);
          of(handle).own_client();
          return of(handle).control(request, value) ? TRUE : FALSE;
        });
      },
  };
  // By malloc(): clnt_tp_create_timed() and programs put texts of strdup() into it.
  auto* const handle = static_cast<CLIENT*>(std::calloc(1, sizeof(CLIENT)));
  if (handle == nullptr) return nullptr;
  const bool is_six = client->peer_.view().len == sizeof(sockaddr_in6);
  handle->cl_ops = &operations;
  handle->cl_auth = authnone_create();
  handle->cl_netid = ::strdup(is_six ? "rdma6" : "rdma");
  handle->cl_tp = ::strdup("-");
  handle->cl_private = client.release();
  return handle;
}

}  // namespace

std::chrono::milliseconds limit_of(const timeval* timeout,
                                   std::chrono::milliseconds otherwise) noexcept {
  if (timeout == nullptr || timeout->tv_sec < 0) return otherwise;
  const auto seconds = std::min(timeout->tv_sec, kSecondsMax);
  const auto rest = std::clamp<suseconds_t>(timeout->tv_usec, 0, 1'000'000);
  const std::chrono::microseconds limit =
      std::chrono::seconds(seconds) + std::chrono::microseconds(rest);
  // A time-out of none at all is one that has passed as soon as it can be looked at.
  return std::max(std::chrono::ceil<std::chrono::milliseconds>(limit),
                  std::chrono::milliseconds(1));
}

CLIENT* make_client(const std::string& server, rpcprog_t program, rpcvers_t version,
                    std::chrono::milliseconds timeout) {
  const auto url = url_of_program(server, program, version, timeout);
  if (!url) {
    set_create_error(url.error().code);
    return nullptr;
  }
  ClientOptions options;
  options.provider = settings().provider;
  options.provider.setup_timeout_client = timeout;
  options.provider.descriptors_from = FD_SETSIZE;
  options.memory_max = settings().memory_max;
  // As over TCP, time-outs end no connection while calls can still be sent.
  options.ends_silent_connections = false;
  auto client = Client::connect(*url, options);
  if (!client) {
    set_create_error(client.error().code);
    return nullptr;
  }
  CLIENT* const handle =
      RdmaClient::hand_over(std::make_unique<RdmaClient>(std::move(*client), program, version));
  if (handle == nullptr) set_create_error(Errc::kNoResources);
  return handle;
}

}  // namespace rpcrdma::tirpc
