// A directory of a CephFS as an export, by libcephfs's low-level calls.
//
// Every call may wait for other machines, some for ever, so that all run on threads, in three
// pools: one that waits for object stores holds up no other kind.
#ifndef RPCRDMA_NFS_CEPH_FILE_SYSTEM_H_
#define RPCRDMA_NFS_CEPH_FILE_SYSTEM_H_

#include <memory>
#include <string>

#include "nfs/plug_in.h"

namespace nfs::ceph {

// Options: conf, id, fs, gateway (session.h, gateway_name.h).
rpcrdma::Expected<std::unique_ptr<FileSystem>, std::string> open(const BackEndSettings& settings,
                                                                 const HandleMaker& handles);

}  // namespace nfs::ceph

#endif  // RPCRDMA_NFS_CEPH_FILE_SYSTEM_H_
