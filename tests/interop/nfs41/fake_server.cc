#include "interop/nfs41/fake_server.h"

#include <utility>

#include "nfs41_fields.h"
#include "rpcrdma/backward.h"

namespace rpcrdma::interop {
namespace {

using nfs41::nfs_opnum4;
using nfs41::nfsstat4;

Server listen() {
  ServerOptions options;
  options.provider.name = "siwarp";
  options.backward_calls = 2;
  return std::move(Server::listen("rdma://127.0.0.1:0", options).value());
}

nfs41::nfs_fh4 handle_of(const std::string& name) {
  const auto bytes = std::as_bytes(std::span(name));
  return {bytes.begin(), bytes.end()};
}

nfs41::stateid4 stateid_of(std::byte kind, std::uint32_t seqid) {
  nfs41::stateid4 stateid{.seqid = seqid, .other = {}};
  stateid.other[0] = kind;
  return stateid;
}

}  // namespace

FakeServer::FakeServer(Fault fault) : fault_(fault), server_(listen()) {
  if (!server_.add(kProgram, kVersion, *this)) std::abort();
  thread_ = std::thread([this] { server_.run(); });
}

FakeServer::~FakeServer() {
  server_.stop();
  thread_.join();
}

void FakeServer::NFSPROC4_COMPOUND(Answer<nfs41::COMPOUND4res> answer, nfs41::COMPOUND4args args) {
  nfs41::COMPOUND4res results{.status = nfsstat4::NFS4_OK, .tag = args.tag, .resarray = {}};
  for (const nfs41::nfs_argop4& operation : args.argarray) {
    results.status = execute(operation, answer.context(), results.resarray.emplace_back());
    if (results.status != nfsstat4::NFS4_OK) break;
  }
  answer.succeed(results);
}

nfsstat4 FakeServer::execute(const nfs41::nfs_argop4& operation, const CallContext& context,
                             nfs41::nfs_resop4& result) {
  const nfsstat4 found = fault_ == Fault::kNotFound ? nfsstat4::NFS4ERR_NOENT : nfsstat4::NFS4_OK;
  switch (operation.argop()) {
    case nfs_opnum4::OP_EXCHANGE_ID:
      exchange_id(result.set_opexchange_id());
      return result.opexchange_id()->eir_status();
    case nfs_opnum4::OP_CREATE_SESSION:
      create_session(*operation.opcreate_session(), context, result.set_opcreate_session());
      return result.opcreate_session()->csr_status();
    case nfs_opnum4::OP_SEQUENCE:
      sequence(*operation.opsequence(), result.set_opsequence());
      return result.opsequence()->sr_status();
    case nfs_opnum4::OP_RECLAIM_COMPLETE:
      return result.set_opreclaim_complete({}).status;
    case nfs_opnum4::OP_PUTROOTFH:
      return result.set_opputrootfh({}).status;
    case nfs_opnum4::OP_LOOKUP:
      return result.set_oplookup({.status = found}).status;
    case nfs_opnum4::OP_PUTFH:
      return result.set_opputfh({}).status;
    case nfs_opnum4::OP_GETFH:
      result.set_opgetfh().set_resok4({.object = handle_of(current_)});
      return nfsstat4::NFS4_OK;
    case nfs_opnum4::OP_OPEN:
      open(*operation.opopen(), result.set_opopen());
      return result.opopen()->status();
    case nfs_opnum4::OP_CLOSE:
      result.set_opclose().set_open_stateid(operation.opclose()->open_stateid);
      return nfsstat4::NFS4_OK;
    case nfs_opnum4::OP_DELEGRETURN:
      return result.set_opdelegreturn({return_delegation(operation.opdelegreturn()->deleg_stateid)})
          .status;
    case nfs_opnum4::OP_DESTROY_SESSION: {
      const bool existed = sessions_.erase(operation.opdestroy_session()->dsa_sessionid) == 1;
      return result
          .set_opdestroy_session({existed ? nfsstat4::NFS4_OK : nfsstat4::NFS4ERR_BADSESSION})
          .status;
    }
    case nfs_opnum4::OP_DESTROY_CLIENTID:
      return result.set_opdestroy_clientid({}).status;
  }
  return nfsstat4::NFS4ERR_OP_ILLEGAL;
}

void FakeServer::exchange_id(nfs41::EXCHANGE_ID4res& result) {
  if (fault_ == Fault::kBusyAtFirst && !std::exchange(was_busy_, true)) {
    return result.set_void(nfsstat4::NFS4ERR_DELAY);
  }
  auto& done = result.set_eir_resok4();
  done.eir_clientid = ++clients_;
  done.eir_sequenceid = 1;
}

// The client's word that it takes callbacks: from here on it may be called (RFC 8167 section 5.1).
void FakeServer::create_session(const nfs41::CREATE_SESSION4args& args, const CallContext& context,
                                nfs41::CREATE_SESSION4res& result) {
  auto& done = result.set_csr_resok4();
  done.csr_sessionid[0] = static_cast<std::byte>(args.csa_clientid);
  done.csr_sequence = args.csa_sequence;
  sessions_[done.csr_sessionid] = {};
  if ((args.csa_flags & nfs41::CREATE_SESSION4_FLAG_CONN_BACK_CHAN) == 0 ||
      fault_ == Fault::kNoBackChannel) {
    return;
  }
  auto made = Backward::client_of(context);
  if (!made) return;
  back_.emplace(std::move(*made));
  back_session_ = done.csr_sessionid;
  done.csr_flags = nfs41::CREATE_SESSION4_FLAG_CONN_BACK_CHAN;
}

void FakeServer::sequence(const nfs41::SEQUENCE4args& args, nfs41::SEQUENCE4res& result) {
  const auto found = sessions_.find(args.sa_sessionid);
  if (found == sessions_.end()) return result.set_void(nfsstat4::NFS4ERR_BADSESSION);
  if (args.sa_sequenceid != found->second.next) {
    return result.set_void(nfsstat4::NFS4ERR_SEQ_MISORDERED);
  }
  ++found->second.next;
  auto& done = result.set_sr_resok4();
  done.sr_sessionid = args.sa_sessionid;
  done.sr_sequenceid = args.sa_sequenceid;
}

void FakeServer::open(const nfs41::OPEN4args& args, nfs41::OPEN4res& result) {
  current_ = *args.claim.file();
  File& file = files_[current_];
  const bool writes = (args.share_access & nfs41::OPEN4_SHARE_ACCESS_WRITE) != 0;
  if (writes && file.delegation && fault_ != Fault::kNoConflict) {
    if (fault_ != Fault::kNoRecall && !std::exchange(file.recalled, true)) recall(current_, file);
    return result.set_void(nfsstat4::NFS4ERR_DELAY);
  }
  auto& done = result.set_resok4();
  done.stateid = stateid_of(std::byte{1}, ++file.opens);
  done.delegation.set_void(nfs41::open_delegation_type4::OPEN_DELEGATE_NONE);
  // At the second OPEN, as a server may.
  if (!writes && file.opens == 2 && fault_ != Fault::kNoDelegation) {
    file.delegation = stateid_of(std::byte{2}, static_cast<std::uint32_t>(files_.size()));
    done.delegation.set_read().stateid = *file.delegation;
  }
}

nfsstat4 FakeServer::return_delegation(const nfs41::stateid4& stateid) {
  for (auto& [name, file] : files_) {
    if (file.delegation != stateid) continue;
    file.delegation.reset();
    return nfsstat4::NFS4_OK;
  }
  return nfsstat4::NFS4ERR_BAD_STATEID;
}

void FakeServer::recall(const std::string& name, File& file) {
  nfs41::CB_COMPOUND4args args;
  args.minorversion = 1;
  if (fault_ != Fault::kRecallInNoSession) {
    auto& first = args.argarray.emplace_back().set_opcbsequence();
    first.csa_sessionid = back_session_;
    first.csa_sequenceid = fault_ == Fault::kOldSequence ? 0 : back_sequence_++;
  }
  auto& second = args.argarray.emplace_back().set_opcbrecall();
  second.stateid = *file.delegation;
  second.fh = handle_of(fault_ == Fault::kRecallOfAnother ? "another" : name);
  // The client's own test looks at its answer.
  const auto started = nfs41::NFS_CB_Client(*back_).CB_COMPOUND_start(
      args, [](Expected<nfs41::CB_COMPOUND4res, Error>) {});
  if (!started) file.recalled = false;
}

}  // namespace rpcrdma::interop
