#include "connection.h"

#include <fcntl.h>
#include <rpc/rpc_com.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <new>
#include <utility>

#include "border.h"
#include "bulk_tables.h"
#include "server.h"
#include "settings.h"

namespace rpcrdma::tirpc {

namespace {

// Descriptors that libtirpc does not see are kept out of the range of fd_set, where there is room
// for those of programs that use select().
constexpr int kOwnDescriptorMin = FD_SETSIZE;
// Those that it sees are left there as long as they leave as many to the program. They are never
// readable, so that select() has no need of them.
constexpr int kLowDescriptorsMax = FD_SETSIZE / 2;
// Larger replies are sent from memory of the call's own, bytes.
constexpr std::size_t kSmallReply = 2048;

// Gives a descriptor a number above those of fd_set, where the limit allows it.
void move_up(int& descriptor) {
  const int moved = ::fcntl(descriptor, F_DUPFD_CLOEXEC, kOwnDescriptorMin);
  if (moved >= 0) {
    ::close(std::exchange(descriptor, moved));
  } else if (descriptor >= kLowDescriptorsMax && may_report(Topic::kLowDescriptor)) {
    report(
        "connections over RDMA take descriptors below 1,024, which loops over svc_fdset need: the "
        "limit allows no others; raise it (ulimit -Hn)");
  }
}

void fail(CallContext& context) noexcept {
  (void)comes_to_its_end([&] { context.fail(AcceptStatus::kSystemErr); });
}

// Precondition: there is room. std::ranges::copy() takes a byte at a time with GCC 12: 700 us for
// 1 MiB.
void copy(Bytes from, MutableBytes to) noexcept {
  if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
}

// Memory that a call has until its reply is sent.
class ResultMemory final : public XdrWriter::Keeper {
 public:
  explicit ResultMemory(CallContext& context) noexcept : context_(context) {}
  MutableBytes make(std::size_t size) noexcept override {
    MutableBytes made;
    (void)comes_to_its_end(
        [&] { made = context_.result_memory(static_cast<std::uint32_t>(size)); });
    return made;
  }

 private:
  CallContext& context_;
};

// One for all connections, since a thread dispatches one call after the other, and an answer is
// complete when it has been written.
XdrWriter& reply_writer() {
  static XdrWriter& writer = *new XdrWriter(settings().reply_max);
  return writer;
}

}  // namespace

const TransportOperations Connection::kOperations = {
    .xp_recv = [](SVCXPRT* handle, rpc_msg* message) -> bool_t {
      return within_border<bool_t>(FALSE,
                                   [&] { return of(handle).receive(*message) ? TRUE : FALSE; });
    },
    .xp_stat = [](SVCXPRT* handle) { return of(handle).status(); },
    .xp_getargs = [](SVCXPRT* handle, xdrproc_t decode, void* arguments) -> bool_t {
      return within_border<bool_t>(
          FALSE, [&] { return of(handle).decode_arguments(decode, arguments) ? TRUE : FALSE; });
    },
    .xp_reply = [](SVCXPRT* handle, rpc_msg* message) -> bool_t {
      return within_border<bool_t>(FALSE,
                                   [&] { return of(handle).reply(*message) ? TRUE : FALSE; });
    },
    .xp_freeargs = [](SVCXPRT* handle, xdrproc_t decode, void* arguments) -> bool_t {
      return within_border<bool_t>(FALSE, [&] {
        XDR* const stream = of(handle).arguments_.handle();
        stream->x_op = XDR_FREE;
        return decode(stream, arguments);
      });
    },
    .xp_destroy =
        [](SVCXPRT* handle) {
          (void)comes_to_its_end([&] { of(handle).server_.destroy(of(handle)); });
        },
};

const TransportControl Connection::kControl = {
    .xp_control = [](SVCXPRT*, u_int, void*) -> bool_t { return FALSE; },
};

std::unique_ptr<Connection> Connection::make(RdmaServer& server, std::uint64_t number,
                                             std::string_view peer, const SocketAddress& local) {
  // A stream socket: programs ask for SO_TYPE.
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) {
    return nullptr;
  }
  move_up(ends[1]);
  if (ends[0] >= kLowDescriptorsMax && ends[0] < kOwnDescriptorMin) move_up(ends[0]);
  std::unique_ptr<Connection> made(new (std::nothrow) Connection(server, number));
  // The table of libtirpc has this size, which it took from the limit when it needed one first.
  if (!made || ends[0] >= _rpc_dtablesize()) {
    ::close(ends[0]);
    ::close(ends[1]);
    return nullptr;
  }
  made->other_end_ = ends[1];
  made->transport_.set_local(local);
  made->transport_.set_remote(SocketAddress(peer));
  made->transport_.begin(ends[0], kOperations, kControl);
  return made;
}

Connection::Connection(RdmaServer& server, std::uint64_t number)
    : server_(server), number_(number), transport_(this) {}

Connection::~Connection() {
  drop_current();
  for (CallContext* each : waiting_) fail(*each);
  if (other_end_ >= 0) ::close(other_end_);
}

void Connection::dispatch() {
  // Calls SVC_RECV until SVC_STAT says that no further call waits.
  svc_getreq_common(transport_.descriptor());
}

bool Connection::receive(rpc_msg& message) {
  if (waiting_.empty()) {
    // A program ends a connection by shutdown(), which makes it readable for good.
    char byte = 0;
    if (::recv(transport_.descriptor(), &byte, 1, MSG_PEEK) == 0) lose();
    return false;
  }
  // libtirpc answers the call that it took last, and has forgotten the one before. Over TCP its
  // client would wait in vain; here it would lose a credit for good.
  drop_current();
  current_ = waiting_.front();
  waiting_.pop_front();
  if (!arguments_.open(current_->arguments()) ||
      xdr_callmsg(arguments_.handle(), &message) == FALSE) {
    arguments_.close();
    std::exchange(current_, nullptr)->fail(AcceptStatus::kGarbageArgs);
    return false;
  }
  xid_ = message.rm_xid;
  is_busy_ = true;
  return true;
}

xprt_stat Connection::status() noexcept {
  is_busy_ = false;
  if (is_lost_) return XPRT_DIED;
  return waiting_.empty() ? XPRT_IDLE : XPRT_MOREREQS;
}

bool Connection::decode_arguments(xdrproc_t decode, void* arguments) {
  if (current_ == nullptr) return false;
  XDR* const stream = arguments_.handle();
  stream->x_op = XDR_DECODE;
  return SVCAUTH_UNWRAP(&transport_.auth(), stream, decode, static_cast<caddr_t>(arguments)) != 0;
}

bool Connection::reply(rpc_msg& message) {
  if (current_ == nullptr) return false;
  const bool is_written = within_border(false, [&] { return encode(message) && write(*current_); });
  arguments_.close();
  CallContext& context = *std::exchange(current_, nullptr);
  // Whatever happens from here on, the call is answered.
  is_written ? context.succeed() : context.fail(AcceptStatus::kSystemErr);
  return is_written;
}

bool Connection::encode(rpc_msg& message) {
  XdrWriter& writer = reply_writer();
  writer.restart();
  message.rm_xid = xid_;
  xdrproc_t routine = nullptr;
  caddr_t results = nullptr;
  if (message.rm_reply.rp_stat == MSG_ACCEPTED && message.acpted_rply.ar_stat == SUCCESS) {
    // Behind the header, by what protects the results.
    routine = std::exchange(message.acpted_rply.ar_results.proc, void_routine());
    results = std::exchange(message.acpted_rply.ar_results.where, nullptr);
  }
  if (xdr_replymsg(writer.handle(), &message) == FALSE) return false;
  if (routine == nullptr) return true;
  // A checksum, or a cipher, covers what RPCSEC_GSS sends: it stays in one piece.
  const bool is_plain = current_->credential().flavor != AuthFlavor::kRpcsecGss;
  const Procedure& procedure = current_->procedure();
  const auto* const binding =
      is_plain ? find_binding(procedure.program, procedure.version, procedure.number) : nullptr;
  ResultMemory memory(*current_);
  writer.bind(binding != nullptr ? binding->results : 0, is_plain ? &memory : nullptr);
  return SVCAUTH_WRAP(&transport_.auth(), writer.handle(), routine, results) != 0;
}

// Hands over what was written, in memory that lives until it was sent, and the items, which have
// such memory already.
bool Connection::write(CallContext& context) {
  const Bytes written = reply_writer().written();
  const bool is_small = written.size() <= kSmallReply;
  MutableBytes rest;
  if (!is_small) {
    rest = context.result_memory(static_cast<std::uint32_t>(written.size()));
    if (rest.size() != written.size()) return false;
    copy(written, rest);
  }
  MessageWriter& out = context.results();
  std::size_t done = 0;
  const auto add_until = [&](std::size_t end) {
    if (is_small) {
      out.xdr().opaque_fixed(written.subspan(done, end - done));
    } else if (end > done) {
      out.lend(rest.subspan(done, end - done));
    }
    done = end;
  };
  for (const XdrWriter::Item& each : reply_writer().items()) {
    add_until(each.at);
    each.is_eligible ? out.bulk_fixed(each.data) : out.lend(each.data);
  }
  add_until(written.size());
  return true;
}

void Connection::drop_current() noexcept {
  arguments_.close();
  if (current_ != nullptr) fail(*std::exchange(current_, nullptr));
}

}  // namespace rpcrdma::tirpc
