#include "explain/names.h"

#include <fmt/core.h>

#include <array>
#include <span>
#include <string_view>

#include "explain/interface_file.h"
#include "mount3_fields.h"
#include "nfs3_fields.h"
#include "rpcrdma/oncrpc.h"

namespace explaining {
namespace {

using rpcrdma::explain::CallFact;
using rpcrdma::explain::Outcome;

constexpr std::array<std::string_view, 22> kNfs3{
    "NULL",    "GETATTR",     "SETATTR", "LOOKUP", "ACCESS",   "READLINK", "READ",   "WRITE",
    "CREATE",  "MKDIR",       "SYMLINK", "MKNOD",  "REMOVE",   "RMDIR",    "RENAME", "LINK",
    "READDIR", "READDIRPLUS", "FSSTAT",  "FSINFO", "PATHCONF", "COMMIT"};
constexpr std::array<std::string_view, 2> kNfs4{"NULL", "COMPOUND"};
constexpr std::array<std::string_view, 6> kMount{"NULL", "MNT",     "DUMP",
                                                 "UMNT", "UMNTALL", "EXPORT"};
constexpr std::array<std::string_view, 13> kRpcbind{
    "NULL",        "SET",         "UNSET",       "GETADDR",  "DUMP",        "BCAST",  "GETTIME",
    "UADDR2TADDR", "TADDR2UADDR", "GETVERSADDR", "INDIRECT", "GETADDRLIST", "GETSTAT"};
constexpr std::array<std::string_view, 6> kPortMapper{"NULL",    "SET",  "UNSET",
                                                      "GETPORT", "DUMP", "CALLIT"};
constexpr std::array<std::string_view, 6> kNfsAcl{"NULL", "GETACL", "SETACL", "GETXATTRDIR"};

constexpr std::array<std::string_view, 10> kBlob{"NULL",   "PUT_BEGIN", "PUT_DATA", "PUT_COMMIT",
                                                 "GET",    "STAT",      "LIST",     "SUM",
                                                 "REMOVE", "STEP_UP"};

struct Known {
  std::uint32_t program, version;  // version 0: any
  std::string_view name;
  std::span<const std::string_view> procedures;
};
const Known kPrograms[] = {
    {100003, 3, "NFSv3", kNfs3},      {100003, 4, "NFSv4", kNfs4},
    {100005, 0, "MOUNT", kMount},     {100000, 2, "portmapper", kPortMapper},
    {100000, 0, "rpcbind", kRpcbind}, {100227, 3, "NFSACL", kNfsAcl},
    {537002057, 1, "blob", kBlob},    {100021, 4, "NLM", {}},
    {100417, 0, "CCP", {}},
};

const InterfaceFile* given_interface = nullptr;  // of NamesFrom

const Known* find(std::uint32_t program, std::uint32_t version) {
  for (const Known& each : kPrograms) {
    if (each.program == program && (each.version == 0 || each.version == version)) return &each;
  }
  return nullptr;
}

template <class Status>
std::string name_of(std::uint32_t value) {
  std::string name = rpcrdma::codec::text_of(static_cast<Status>(static_cast<std::int32_t>(value)));
  const bool is_number = name.empty() || name[0] == '-' || (name[0] >= '0' && name[0] <= '9');
  return is_number ? fmt::format("status {}", value) : name;
}

std::string rpc_status(const CallFact& call) {
  if (call.reply_stat == 1) {
    if (call.accept_stat == 0) return "RPC_MISMATCH";
    return fmt::format("AUTH_ERROR {}",
                       to_string(static_cast<rpcrdma::AuthStatus>(call.auth_stat)));
  }
  constexpr std::string_view kAccepted[] = {"SUCCESS",      "PROG_UNAVAIL", "PROG_MISMATCH",
                                            "PROC_UNAVAIL", "GARBAGE_ARGS", "SYSTEM_ERR"};
  if (call.accept_stat > 5) return fmt::format("accept_stat {}", call.accept_stat);
  return std::string(kAccepted[call.accept_stat]);
}

bool has_nfs_status(const CallFact& call) {
  return call.program == 100003 && call.version == 3 && call.procedure != 0;
}
bool has_mount_status(const CallFact& call) {
  return call.program == 100005 && call.version == 3 && call.procedure == 1;
}

// Bodies under integrity or privacy, and those of control messages, are not of the procedure's
// type.
bool is_wrapped(const CallFact& call) {
  return call.gss && (call.gss->control != 0 || call.gss->service > 1);
}

}  // namespace

NamesFrom::NamesFrom(const InterfaceFile* file) noexcept {
  given_interface = file;
}

NamesFrom::~NamesFrom() {
  given_interface = nullptr;
}

std::string arguments_text(const CallFact& call) {
  if (given_interface == nullptr || call.arguments.empty() || is_wrapped(call)) return {};
  return given_interface->text(call.program, call.version, call.procedure,
                               InterfaceFile::Part::kArguments, call.arguments);
}

std::string results_text(const CallFact& call) {
  if (given_interface == nullptr || call.results.empty() || is_wrapped(call)) return {};
  return given_interface->text(call.program, call.version, call.procedure,
                               InterfaceFile::Part::kResults, call.results);
}

std::string program_name(std::uint32_t program, std::uint32_t version) {
  if (given_interface != nullptr) {
    std::string name = given_interface->program_name(program);
    if (!name.empty()) return name;
  }
  const Known* known = find(program, version);
  return known == nullptr ? fmt::format("{}v{}", program, version) : std::string(known->name);
}

std::string procedure_name(std::uint32_t program, std::uint32_t version, std::uint32_t procedure) {
  if (given_interface != nullptr) {
    std::string name = given_interface->procedure_name(program, version, procedure);
    if (!name.empty()) return name;
  }
  const Known* known = find(program, version);
  if (known != nullptr && procedure < known->procedures.size() &&
      !known->procedures[procedure].empty()) {
    return std::string(known->procedures[procedure]);
  }
  return procedure == 0 ? "NULL" : fmt::format("procedure {}", procedure);
}

std::string call_name(const CallFact& call) {
  if (!call.has_rpc_call) return "unknown";
  std::string name = program_name(call.program, call.version) + " " +
                     procedure_name(call.program, call.version, call.procedure);
  if (!call.gss) return name;
  constexpr std::string_view kControls[] = {"", " GSS_INIT", " GSS_CONTINUE", " GSS_DESTROY"};
  constexpr std::string_view kServices[] = {"", " krb5", " krb5i", " krb5p"};
  if (call.gss->control > 0 && call.gss->control < 4)
    return name.append(kControls[call.gss->control]);
  return call.gss->service < 4 ? name.append(kServices[call.gss->service]) : name;
}

std::string status_text(const CallFact& call) {
  if (call.outcome != Outcome::kAnswered && call.outcome != Outcome::kReplyOnly) {
    return std::string(to_string(call.outcome));
  }
  if (!call.has_rpc_reply) return "answered";
  if (call.reply_stat != 0 || call.accept_stat != 0) return rpc_status(call);
  const bool is_control = call.gss && call.gss->control != 0;
  if (call.status && !is_control && call.has_rpc_call) {
    if (has_nfs_status(call)) return name_of<nfs3::nfsstat3>(*call.status);
    if (has_mount_status(call)) return name_of<mount3::mountstat3>(*call.status);
  }
  return "SUCCESS";
}

bool has_succeeded(const CallFact& call) {
  const bool is_answered =
      call.outcome == Outcome::kAnswered || call.outcome == Outcome::kReplyOnly;
  if (!is_answered || call.reply_stat != 0 || call.accept_stat != 0) return false;
  const bool has_status = call.has_rpc_call && (has_nfs_status(call) || has_mount_status(call));
  const bool is_control = call.gss && call.gss->control != 0;
  return !has_status || is_control || !call.status || *call.status == 0;
}

}  // namespace explaining
