// The names under which files are written until they are whole.
#ifndef RPCRDMA_NFS_CLIENT_TEMPORARY_NAME_H_
#define RPCRDMA_NFS_CLIENT_TEMPORARY_NAME_H_

#include <string>

namespace nfs {

// Returns ".NAME.rpcrdma-XXXXXXXXXXXX", which begins with a dot, differs each time and has at most
// 255 bytes: of a long NAME it has only the beginning, which ends with a whole character of UTF-8.
std::string temporary_name(const std::string& name);

}  // namespace nfs

#endif  // RPCRDMA_NFS_CLIENT_TEMPORARY_NAME_H_
