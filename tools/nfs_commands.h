// cat, cp, stat, mkdir, mv, df, and ls and rm, of files that an NFS server has.
#ifndef RPCRDMA_TOOLS_NFS_COMMANDS_H_
#define RPCRDMA_TOOLS_NFS_COMMANDS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nfs/client/mounted.h"
#include "nfs/client/url.h"
#include "tools/command.h"

namespace rpcrdma::tools {

struct NfsSettings {
  std::uint16_t mount_port = 0;
  std::uint32_t connections = 1;
  std::uint64_t entries_max = 1'000'000;  // nfs::MountOptions
  bool has_rdma = false;  // one of the command's URLs is nfs+rdma://, to which its options apply

  void note(const std::vector<std::string>& urls);
  void add_to(Command& command);
  void add_mount_to(Command& command);    // of what makes no connections for data
  void add_entries_to(Command& command);  // of what lists directories
};

void add_nfs_commands(Command& program);
void add_cp(Command& program);

// Options of `ls` for the directory of the URL in the client's settings.
struct ListOptions {
  bool is_long = false;
  bool is_human = false;      // sizes as "1.5 MiB"
  bool is_recursive = false;  // with what is in directories
};
void list_export(ClientSettings& client, const NfsSettings& settings, const ListOptions& options);
void remove_from_export(ClientSettings& client, const NfsSettings& settings, bool recursive,
                        bool force);

// --- What these commands share -----------------------------------------------------------------

// Ends the command if the text is no URL, or nothing answers there. Calls are those of this
// process's user and groups.
nfs::NfsUrl parsed_nfs_url(const std::string& text);
// Logs out at the end of a command that went well: its security contexts are of no more use.
struct LogOut {
  void operator()(nfs::Mounted* mounted) const;
};
using MountedForCommand = std::unique_ptr<nfs::Mounted, LogOut>;
MountedForCommand mount(ClientSettings& client, const NfsSettings& settings,
                        const std::string& url);
// Returns the credential of this process's user; the host's name is borrowed.
AuthSys own_credential(std::string_view host);
// Adds to the error of a call of another program, which the server does not have, that the server
// has NFS, and which URLs that takes.
Error with_nfs_hint(Error error, Client& client);
// The umask of this process.
std::uint32_t own_umask();
// Writes a file to the standard output, or ends the command.
void print_file(ClientSettings& client, const NfsSettings& settings, const std::string& url);
// Ends the command; "PATH: why". kNoConnection when there is no connection any more.
[[noreturn]] void fail(const nfs::Failure& why, const std::string& path, nfs::Mounted& server);

// Runs it, and takes the value out, or ends the command.
template <class T>
T take(nfs::Mounted& server, const std::string& path, Task<nfs::Result<T>> task) {
  auto result = server.wait_for(std::move(task));
  if (!result) fail(result.error(), path, server);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_NFS_COMMANDS_H_
