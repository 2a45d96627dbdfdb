// The reasons why a call of a client of NFS had no result.
#ifndef RPCRDMA_NFS_CLIENT_FAILURE_H_
#define RPCRDMA_NFS_CLIENT_FAILURE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nfs/status_text.h"
#include "nfs3.h"
#include "rpcrdma/error.h"
#include "rpcrdma/expected.h"

namespace nfs {

// The rule by which MOUNT gave no handle of an export.
enum class MountRefusal : std::uint8_t {
  kNone,      // MOUNT refused nothing
  kNoExport,  // no export has the name
  kClient,    // the rules of the export do not allow this client, or its port
  kSecurity,  // the export takes calls with another protection
  kServer,    // the server failed
  kNotAsked,  // MOUNT could not be called: `error` says why
};

// The reason why something could not be done with a file.
struct Failure {
  nfs3::nfsstat3 status = nfs3::nfsstat3::NFS3ERR_SERVERFAULT;  // what the server answered
  std::optional<rpcrdma::Error> error{};                        // there was no answer
  bool is_outcome_unknown = false;  // it was lost; the server may have done it
  std::string local{};              // of this machine's files: what, and errno's text
  std::string path{};               // of what
  MountRefusal refusal = MountRefusal::kNone;
  // kClient: the clients that the server lists for the export; empty: everybody.
  std::vector<std::string> clients{};

  static Failure here(std::string what) { return {.local = std::move(what)}; }
  // The server was too busy, and does the same later.
  bool is_busy() const noexcept {
    return !error && local.empty() && status == nfs3::nfsstat3::NFS3ERR_JUKEBOX;
  }
  // "PATH: what happened".
  std::string message() const;
};

template <class T>
using Result = rpcrdma::Expected<T, Failure>;

}  // namespace nfs

#endif  // RPCRDMA_NFS_CLIENT_FAILURE_H_
