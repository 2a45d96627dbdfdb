// Names of programs, procedures and statuses, for people.
#ifndef RPCRDMA_APPS_EXPLAIN_NAMES_H_
#define RPCRDMA_APPS_EXPLAIN_NAMES_H_

#include <cstdint>
#include <string>

#include "explain/facts.h"

namespace explaining {

class InterfaceFile;

// Takes names from a .x file first, and shows arguments and results by it, as long as this lives.
// Null: nothing.
class NamesFrom {
 public:
  explicit NamesFrom(const InterfaceFile* file) noexcept;
  ~NamesFrom();
  NamesFrom(const NamesFrom&) = delete;
  NamesFrom& operator=(const NamesFrom&) = delete;
};

// Text of arguments and results by the .x file; empty: there is none, or it has no such procedure.
std::string arguments_text(const rpcrdma::explain::CallFact& call);
std::string results_text(const rpcrdma::explain::CallFact& call);

// "NFSv3", or its number where no name is known.
std::string program_name(std::uint32_t program, std::uint32_t version);
// "READ", or its number.
std::string procedure_name(std::uint32_t program, std::uint32_t version, std::uint32_t procedure);
// The program and the procedure of a call; what RPCSEC_GSS does, if that is all.
std::string call_name(const rpcrdma::explain::CallFact& call);
// How the call ended: "NFS3_OK", "PROG_UNAVAIL", "ERR_CHUNK", "unanswered".
std::string status_text(const rpcrdma::explain::CallFact& call);
// Returns whether the call ended well, as far as the status says.
bool has_succeeded(const rpcrdma::explain::CallFact& call);

}  // namespace explaining

#endif  // RPCRDMA_APPS_EXPLAIN_NAMES_H_
