// The lines by which a Linux machine mounts an export: a command, and a line of /etc/fstab.
#ifndef RPCRDMA_TOOLS_MOUNT_LINE_H_
#define RPCRDMA_TOOLS_MOUNT_LINE_H_

#include <string>

namespace rpcrdma::tools {

struct MountLine {
  std::string host;          // an IPv6 address has brackets
  std::string path;          // the export's name, and perhaps more
  std::string port;          // of NFS
  std::string mount_port{};  // of MOUNT by TCP; empty: the server's rpcbind knows it
  std::string security{};    // empty: sys
  bool is_rdma = true;
  bool has_locks = false;  // at the server

  // Returns "mount -t nfs -o … HOST:PATH /mnt", for a shell.
  std::string command() const;
  // Returns "HOST:PATH /mnt nfs … 0 0", in which blanks are as fstab(5) has them.
  std::string fstab() const;

 private:
  std::string options() const;
};

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_MOUNT_LINE_H_
