#include "nfs/service.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <type_traits>
#include <vector>

#include "files/host_number.h"
#include "nfs/results.h"

namespace nfs {

using nfs3::nfsstat3;

// Clients learn from FSINFO how much a WRITE may have at this server, so that all_traits() stays
// empty: Server::add() does not hold the limits of the .x file against bulk_size_max.
const rpcrdma::ProcedureTraits* NfsService::traits(std::uint32_t procedure) const noexcept {
  return rpcrdma::find_traits(nfs3::NFS_V3_Binding::kProcedures, procedure);
}

rpcrdma::AuthStatus NfsService::check_credential(
    std::uint32_t /*procedure*/, const rpcrdma::Credential& credential) const noexcept {
  if (credential.flavor == rpcrdma::AuthFlavor::kNone) return rpcrdma::AuthStatus::kOk;
  // CallContext::caller() has the service that protects the call; the export's rules check it
  // later.
  if (credential.flavor == rpcrdma::AuthFlavor::kRpcsecGss) return rpcrdma::AuthStatus::kOk;
  if (credential.flavor != rpcrdma::AuthFlavor::kSys) return rpcrdma::AuthStatus::kTooWeak;
  return rpcrdma::parse_auth_sys(credential.body) ? rpcrdma::AuthStatus::kOk
                                                  : rpcrdma::AuthStatus::kBadCredential;
}

nfsstat3 NfsService::find_target(const rpcrdma::CallContext& context, ExportId id,
                                 Target& target) const {
  const nfsstat3 status = exports_.read([&](const ExportList& exports) {
    const ExportList::Entry* const entry = exports.find(id);
    // The key made the handle, so the export existed once.
    if (entry == nullptr) return nfsstat3::NFS3ERR_STALE;
    const ExportRules* const rules = entry->rules.rules_for(context.peer_address());
    if (rules == nullptr) return nfsstat3::NFS3ERR_ACCES;
    auto caller = rules->caller(context.caller(), context.credential());
    if (!caller) return nfsstat3::NFS3ERR_ACCES;
    target = {entry->served, rules->is_read_only, std::move(*caller)};
    return nfsstat3::NFS3_OK;
  });
  if (!report_) return status;
  if (status == nfsstat3::NFS3ERR_ACCES) report_denial(context, id);
  const rpcrdma::Caller& who = context.caller();
  if (status == nfsstat3::NFS3_OK && !who.principal.empty() && who.user == nullptr) {
    report_nobody(context, target);
  }
  return status;
}

void NfsService::report_denial(const rpcrdma::CallContext& context, ExportId id) const {
  const std::string name = exports_.read([&](const ExportList& exports) {
    const ExportList::Entry* const entry = exports.find(id);
    return entry != nullptr ? entry->rules.name : std::string();
  });
  report_(Event::kCallDenied,
          fmt::format("{} may not use {}: its rules have no such client, or take other protection",
                      context.peer_address(), name));
}

void NfsService::report_nobody(const rpcrdma::CallContext& context, const Target& target) const {
  const std::string_view principal = context.caller().principal;
  if (!nobodies_.add(principal)) return;
  report_(
      Event::kMappedToNobody,
      fmt::format("{} calls as {}, which is no user of this machine and is mapped to nobody "
                  "(uid {}) in {}",
                  context.peer_address(), principal, target.caller.uid, target.served->made.name));
}

void NfsService::report_failure(const rpcrdma::CallContext& context, const ServedExport& served,
                                nfsstat3 status) const {
  const bool is_full = status == nfsstat3::NFS3ERR_NOSPC || status == nfsstat3::NFS3ERR_DQUOT;
  if (!is_full && status != nfsstat3::NFS3ERR_IO) return;
  const char* const why = status == nfsstat3::NFS3ERR_NOSPC   ? "there is no space left"
                          : status == nfsstat3::NFS3ERR_DQUOT ? "the quota of its user is used up"
                                                              : "its storage reports an error";
  report_(is_full ? Event::kFull : Event::kStorageFailed,
          fmt::format("{}: {} (procedure {} of {})", served.made.name, why,
                      context.procedure().number, context.peer_address()));
}

nfsstat3 NfsService::open(const rpcrdma::CallContext& context, nfs3::nfs_fh3& handle,
                          Target& target) const {
  const auto opened = exports_.key().open(handle);
  if (!opened) return nfsstat3::NFS3ERR_BADHANDLE;
  if (target.served == nullptr) {
    const nfsstat3 status = find_target(context, opened->id, target);
    if (status != nfsstat3::NFS3_OK) return status;
  } else if (opened->id != target.served->id) {
    return nfsstat3::NFS3ERR_XDEV;
  }
  // The inner handle lies in the bytes of the handle, behind where it moves to.
  std::ranges::copy(opened->inner, handle.data.begin());
  handle.data.resize(opened->inner.size());
  return nfsstat3::NFS3_OK;
}

template <class Procedure>
nfsstat3 NfsService::admit(const rpcrdma::CallContext& context, typename Procedure::Args& args,
                           Target& target) const {
  const auto open_one = [&](nfs3::nfs_fh3& handle) {
    const nfsstat3 status = open(context, handle, target);
    if (status != nfsstat3::NFS3_OK) return status;
    const bool is_refused = Procedure::kTraits.changes_files && target.is_read_only;
    return is_refused ? nfsstat3::NFS3ERR_ROFS : nfsstat3::NFS3_OK;
  };
  const nfsstat3 status = Procedure::check_files(args, [&](auto& file) {
    if constexpr (std::is_same_v<decltype(file), nfs3::nfs_fh3&>) {
      return open_one(file);
    } else {
      const nfsstat3 opened = open_one(file.dir);
      return opened == nfsstat3::NFS3_OK ? Procedure::check_name(file.name) : opened;
    }
  });
  return status == nfsstat3::NFS3_OK ? Procedure::check(args) : status;
}

template <std::uint32_t kNumber>
void NfsService::serve(rpcrdma::Answer<typename Procedure<kNumber>::Results> answer,
                       typename Procedure<kNumber>::Args args) {
  using P = Procedure<kNumber>;
  using Results = typename P::Results;
  Target target;
  const auto refuse = [this, &answer](nfsstat3 status) {
    statuses_.note(kNumber, status);
    answer.succeed(failed<Results>(status));
  };
  if (const nfsstat3 status = admit<P>(answer.context(), args, target);
      status != nfsstat3::NFS3_OK) {
    return refuse(status);
  }
  if constexpr (requires { P::restrict_to_reading(args); }) {
    if (target.is_read_only) P::restrict_to_reading(args);
  }
  rpcrdma::MutableBytes into;
  bool has_room = true;
  if constexpr (requires { P::memory_size(args); }) {
    const std::uint32_t size = P::memory_size(args);
    const rpcrdma::MutableBytes memory = answer.result_memory(std::max(size, 1U));
    has_room = !memory.empty();
    if (has_room) into = memory.first(size);
  }
  if constexpr (requires { P::limit_room(args); }) has_room = answer.reserve(P::limit_room(args));
  if (!has_room) return refuse(nfsstat3::NFS3ERR_JUKEBOX);
  const std::uint64_t host = files::number_of_host(answer.context().peer_address());
  target.served->files->start(Request<P>{
      std::move(target.caller), std::move(args), into,
      [this, served = target.served, answer = std::move(answer)](Results results) mutable {
        P::complete(results);
        if (results.status() != nfsstat3::NFS3_OK) {
          statuses_.note(kNumber, results.status());
          if (report_) report_failure(answer.context(), *served, results.status());
        }
        answer.succeed(results);
      },
      host});
}

template <std::uint32_t... kIndices>
void NfsService::dispatch(rpcrdma::CallContext& context,
                          std::integer_sequence<std::uint32_t, kIndices...>) {
  using Serve = void (*)(NfsService&, rpcrdma::CallContext&);
  static constexpr std::array<Serve, sizeof...(kIndices)> kServe{
      &rpcrdma::codec::serve<&NfsService::serve<kIndices + 1>>...};
  const std::uint32_t index = context.procedure().number - 1;
  if (index >= kServe.size()) return context.fail(rpcrdma::AcceptStatus::kProcUnavail);
  kServe[index](*this, context);
}

// An answer that an exception drops is SYSTEM_ERR.
void NfsService::call(rpcrdma::CallContext& context) {
  try {
    dispatch(context, std::make_integer_sequence<std::uint32_t, kLastProcedure>());
  } catch (...) {
  }
}

}  // namespace nfs
