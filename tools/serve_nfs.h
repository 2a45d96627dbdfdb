// The NFS part of `rpcrdma serve`.
#ifndef RPCRDMA_TOOLS_SERVE_NFS_H_
#define RPCRDMA_TOOLS_SERVE_NFS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nfs/exporter.h"
#include "tools/log.h"
#include "tools/nfs_options.h"

namespace rpcrdma::tools {

inline constexpr std::uint16_t kNfsTcpPort = 2049;

// Opens the directories; ends the command if something is wrong with them.
std::unique_ptr<nfs::Exporter> open_exports(std::vector<nfs::Export> exports,
                                            const NfsOptions& options, StderrLog& log);

// Reads the rules; ends the command if something is wrong with them.
std::vector<nfs::Export> exports_of(const NfsOptions& options, StderrLog& log);
// Returns the file with the key of handles, without making its directory; empty: as below.
std::string planned_key_path(const NfsOptions& options);
// Returns the file with the key of handles; empty: there is no place for one, which is logged.
std::string key_path(const NfsOptions& options, StderrLog& log);

// Returns whether an export accepts calls with Kerberos.
bool wants_kerberos(const std::vector<nfs::Export>& exports);
bool wants_kerberos(const nfs::Exporter& exporter);
bool takes_sys_alone(const std::vector<Protection>& allowed);

// Returns the URLs of the exports, as clients name them: "nfs+rdma://ADDR:PORT/EXPORT" and, with
// `plain` (ADDR:PORT), "nfs+tcp://…"; each with a space in front.
std::string nfs_urls(const nfs::Exporter& exporter, std::string_view address,
                     std::string_view plain);
// Returns the commands that mount the exports on a Linux machine; a line for each export.
std::string mount_commands(const nfs::Exporter& exporter, std::string_view address,
                           std::string_view plain);

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_SERVE_NFS_H_
