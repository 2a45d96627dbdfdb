#include "interop/nfs41/client.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "nfs41_fields.h"
#include "rpcrdma/backward.h"

namespace rpcrdma::interop {
namespace {

using nfs41::nfs_argop4;
using nfs41::nfs_opnum4;
using nfs41::nfsstat4;
using std::chrono::milliseconds;

constexpr std::chrono::seconds kCallTimeout{20};
// How long a server may be in its grace period, or ask for a delay.
constexpr std::chrono::seconds kPatience{40};
constexpr milliseconds kBetweenAttempts{100};
// Results go inline, as the callbacks do: neither needs chunks.
constexpr std::uint32_t kResultsMax = 3000;
// With the RPC and transport headers, a request or reply of either direction stays within 4096
// bytes, which is all that Linux sends and receives inline.
constexpr std::uint32_t kMessageMax = 3500;
constexpr std::uint32_t kMinorVersion = 1;

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

nfs_argop4 put_root() {
  nfs_argop4 operation;
  operation.set_void(nfs_opnum4::OP_PUTROOTFH);
  return operation;
}
nfs_argop4 get_handle() {
  nfs_argop4 operation;
  operation.set_void(nfs_opnum4::OP_GETFH);
  return operation;
}
nfs_argop4 put_handle(const nfs41::nfs_fh4& handle) {
  nfs_argop4 operation;
  operation.set_opputfh({.object = handle});
  return operation;
}
nfs_argop4 look_up(const std::string& name) {
  nfs_argop4 operation;
  operation.set_oplookup({.objname = name});
  return operation;
}

std::vector<std::string> names_of(const std::string& path) {
  std::vector<std::string> names(1);
  for (const char c : path) {
    if (c != '/') {
      names.back() += c;
    } else if (!names.back().empty()) {
      names.emplace_back();
    }
  }
  if (names.back().empty()) names.pop_back();
  return names;
}

// `requests` at a time, of two operations or more each.
nfs41::channel_attrs4 channel(std::uint32_t operations, std::uint32_t requests) {
  return {.ca_headerpadsize = 0,
          .ca_maxrequestsize = kMessageMax,
          .ca_maxresponsesize = kMessageMax,
          .ca_maxresponsesize_cached = kMessageMax,
          .ca_maxoperations = operations,
          .ca_maxrequests = requests,
          .ca_rdma_ird = {}};
}

Client connect(const std::string& name, const std::string& url, const ClientOptions& options) {
  auto client = Client::connect(url, options);
  if (!client) throw Failed(name + ": connecting: " + client.error().message());
  client->identity().use({.machine_name = "back-channel-probe", .uid = 0, .gid = 0});
  return std::move(*client);
}

ClientOptions with_callbacks(ClientOptions options, BackChannel back_channel) {
  options.backward_calls = back_channel == BackChannel::kNone ? 0 : 4;
  options.call_timeout = kCallTimeout;
  return options;
}

}  // namespace

NfsClient::NfsClient(Loop& loop, std::string name, const std::string& url, ClientOptions options,
                     BackChannel back_channel)
    : loop_(loop),
      name_(std::move(name)),
      back_channel_(back_channel),
      client_(connect(name_, url, with_callbacks(std::move(options), back_channel))),
      calls_(client_) {
  if (back_channel_ != BackChannel::kNone) {
    const auto served =
        rpcrdma::Backward::serve(client_, Callbacks::kProgram, Callbacks::kVersion, callbacks_);
    if (!served) fail("serving callbacks", served.error().message());
  }
  loop_.add(client_);
}

void NfsClient::fail(const std::string& step, const std::string& why) const {
  throw Failed(name_ + ": " + step + ": " + why);
}

void NfsClient::fail(const std::string& step, const nfs41::COMPOUND4res& results) const {
  const std::string status = to_string(results.status);
  // The last operation that was executed is the one that failed.
  if (results.resarray.empty()) fail(step, status + " from COMPOUND");
  fail(step, status + " from " + to_string(results.resarray.back().resop()));
}

// --- COMPOUND

nfs_argop4 NfsClient::sequence() const {
  nfs_argop4 operation;
  operation.set_opsequence({.sa_sessionid = session_,
                            .sa_sequenceid = sequence_,
                            .sa_slotid = 0,
                            .sa_highest_slotid = 0,
                            .sa_cachethis = false});
  return operation;
}

void NfsClient::note_sequence(const std::string& step, const nfs41::COMPOUND4res& results) {
  const auto* first = results.resarray.empty() ? nullptr : results.resarray.front().opsequence();
  if (first == nullptr) fail(step, results);
  // The slot moves on only with a SEQUENCE that was executed (RFC 8881 section 2.10.6.1).
  const auto* done = first->sr_resok4();
  if (done == nullptr) return;
  if (done->sr_sequenceid != sequence_) fail(step, "SEQUENCE answers for another request");
  ++sequence_;
  constexpr std::uint32_t kBroken =
      nfs41::SEQ4_STATUS_CB_PATH_DOWN_SESSION | nfs41::SEQ4_STATUS_BACKCHANNEL_FAULT;
  if (back_channel_ != BackChannel::kNone && (done->sr_status_flags & kBroken) != 0) {
    fail(step, "the server says that the back channel is broken: sr_status_flags " +
                   std::to_string(done->sr_status_flags));
  }
}

nfs41::COMPOUND4res NfsClient::compound_once(const std::string& step,
                                             const Operations& operations) {
  nfs41::COMPOUND4args args{.tag = "", .minorversion = kMinorVersion, .argarray = {}};
  if (in_session_) args.argarray.push_back(sequence());
  args.argarray.insert(args.argarray.end(), operations.begin(), operations.end());
  std::optional<Expected<nfs41::COMPOUND4res, Error>> results;
  const auto started = calls_.NFSPROC4_COMPOUND_start(
      args, [&](Expected<nfs41::COMPOUND4res, Error> got) { results = std::move(got); },
      {.results_size_max = kResultsMax});
  if (!started) fail(step, started.error().message());
  loop_.run_until([&] { return results.has_value(); });  // or until the call's time is over
  if (!*results) fail(step, results->error().message());
  if (in_session_) note_sequence(step, **results);
  return std::move(**results);
}

nfs41::COMPOUND4res NfsClient::compound(const std::string& step, const Operations& operations) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    auto results = compound_once(step, operations);
    if (results.status != nfsstat4::NFS4ERR_GRACE || std::chrono::steady_clock::now() > end) {
      return results;
    }
    loop_.pause(kBetweenAttempts);
  }
}

nfs41::COMPOUND4res NfsClient::succeed(const std::string& step, const Operations& operations) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    auto results = compound(step, operations);
    if (results.status == nfsstat4::NFS4_OK) {
      const std::size_t count = operations.size() + (in_session_ ? 1 : 0);
      if (results.resarray.size() != count) fail(step, "results are missing");
      return results;
    }
    if (results.status != nfsstat4::NFS4ERR_DELAY || std::chrono::steady_clock::now() > end) {
      fail(step, results);
    }
    loop_.pause(kBetweenAttempts);
  }
}

// --- The session

void NfsClient::exchange_id() {
  nfs41::EXCHANGE_ID4args args;
  // A verifier of this start, and an owner that no other run has: nothing has to be reclaimed.
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  std::memcpy(args.eia_clientowner.co_verifier.data(), &now, sizeof now);
  args.eia_clientowner.co_ownerid = bytes_of("back_channel_probe " + name_ + std::to_string(now));
  args.eia_flags = nfs41::EXCHGID4_FLAG_USE_NON_PNFS;
  nfs_argop4 operation;
  operation.set_opexchange_id(args);
  const auto results = succeed("EXCHANGE_ID", {operation});
  const auto* result = results.resarray.back().opexchange_id();
  const auto* done = result != nullptr ? result->eir_resok4() : nullptr;
  if (done == nullptr) fail("EXCHANGE_ID", "the results are of another operation");
  id_ = done->eir_clientid;
  create_sequence_ = done->eir_sequenceid;
}

void NfsClient::create_session() {
  const bool has_back_channel = back_channel_ != BackChannel::kNone;
  nfs41::CREATE_SESSION4args args;
  args.csa_clientid = id_;
  args.csa_sequence = create_sequence_;
  args.csa_flags = has_back_channel ? nfs41::CREATE_SESSION4_FLAG_CONN_BACK_CHAN : 0U;
  args.csa_fore_chan_attrs = channel(nfs41::NFS4_OPERATIONS_MAX, 1);
  args.csa_back_chan_attrs = channel(2, 1);
  args.csa_cb_program = Callbacks::kProgram;
  args.csa_sec_parms.emplace_back().set_cbsp_sys_cred(
      {.stamp = 0, .machinename = "back-channel-probe", .uid = 0, .gid = 0, .gids = {}});
  nfs_argop4 operation;
  operation.set_opcreate_session(args);
  const auto results = succeed("CREATE_SESSION", {operation});
  const auto* result = results.resarray.back().opcreate_session();
  const auto* done = result != nullptr ? result->csr_resok4() : nullptr;
  if (done == nullptr) fail("CREATE_SESSION", "the results are of another operation");
  if (has_back_channel && (done->csr_flags & nfs41::CREATE_SESSION4_FLAG_CONN_BACK_CHAN) == 0) {
    fail("CREATE_SESSION", "the server does not use the connection as back channel");
  }
  session_ = done->csr_sessionid;
  in_session_ = true;
  callbacks_.begin(session_);
}

void NfsClient::begin_session() {
  exchange_id();
  create_session();
  nfs_argop4 operation;
  operation.set_opreclaim_complete({.rca_one_fs = false});
  succeed("RECLAIM_COMPLETE", {operation});
}

void NfsClient::end_session() {
  // Alone in their requests, which is where RFC 8881 allows them without SEQUENCE.
  in_session_ = false;
  nfs_argop4 operation;
  operation.set_opdestroy_session({.dsa_sessionid = session_});
  succeed("DESTROY_SESSION", {operation});
  operation.set_opdestroy_clientid({.dca_clientid = id_});
  succeed("DESTROY_CLIENTID", {operation});
}

// --- Files

std::variant<NfsClient::Opened, nfsstat4> NfsClient::open(const std::string& path,
                                                          std::uint32_t access) {
  const auto names = names_of(path);
  if (names.empty()) fail("OPEN", "'" + path + "' names no file");
  Operations operations{put_root()};
  for (std::size_t i = 0; i + 1 < names.size(); ++i) operations.push_back(look_up(names[i]));
  nfs41::OPEN4args args;
  args.share_access = access;
  args.share_deny = nfs41::OPEN4_SHARE_DENY_NONE;
  args.owner = {.clientid = id_, .owner = bytes_of(name_)};
  args.claim.set_file(names.back());
  operations.emplace_back().set_opopen(args);
  operations.push_back(get_handle());

  const std::string step = "OPEN of " + path;
  auto results = compound(step, operations);
  if (results.status == nfsstat4::NFS4ERR_DELAY) return results.status;
  if (results.status != nfsstat4::NFS4_OK) fail(step, results);
  if (results.resarray.size() < 2) fail(step, "results are missing");
  const auto* opened = results.resarray[results.resarray.size() - 2].opopen();
  const auto* handle = results.resarray.back().opgetfh();
  if (opened == nullptr || opened->resok4() == nullptr || handle == nullptr ||
      handle->resok4() == nullptr) {
    fail(step, "the results are of other operations");
  }
  return Opened{handle->resok4()->object, opened->resok4()->stateid, opened->resok4()->delegation};
}

void NfsClient::close(const Opened& opened) {
  nfs_argop4 operation;
  operation.set_opclose({.seqid = 0, .open_stateid = opened.stateid});
  succeed("CLOSE", {put_handle(opened.handle), operation});
}

void NfsClient::return_delegation(const Delegation& delegation) {
  nfs_argop4 operation;
  operation.set_opdelegreturn({.deleg_stateid = delegation.stateid});
  succeed("DELEGRETURN", {put_handle(delegation.handle), operation});
}

}  // namespace rpcrdma::interop
