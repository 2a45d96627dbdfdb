// On whose behalf a thread works with files.
//
// As root, a thread takes the caller's user, groups and the rights that come with them; the kernel
// then checks as it does for the caller's own programs, access control lists and quotas included.
// Only threads of the pool do that. RDMA devices refuse a thread whose credentials have changed
// since they were opened, also when they were changed back (EPERM; the kernel compares pointers),
// so that one that serves connections never takes another identity.
//
// Without root the server's own rights are all that there is, and permits() says beforehand what
// the caller may do with them, by the mode bits.
#ifndef RPCRDMA_NFS_POSIX_IDENTITY_H_
#define RPCRDMA_NFS_POSIX_IDENTITY_H_

#include <sys/stat.h>

#include <cstdint>

#include "nfs/back_end/rights.h"
#include "nfs/file_system.h"

namespace nfs::posix {

// Returns whether this process can take other identities.
bool can_take_identities() noexcept;

// Gives the calling thread the caller's identity, until the next call. False: the kernel refused,
// and the thread is the server again.
bool take_identity(const Caller& caller) noexcept;
void take_own_identity() noexcept;
// Returns whether the thread has the identity of a caller, as workers keep that of their last job.
bool has_identity_of_a_caller() noexcept;

// Returns on whose behalf the kernel takes system calls for the caller: the caller, or without root
// the user and the groups that run the server.
const Caller& kernel_sees(const Caller& caller);

// Returns whether the server by itself could open the file for reading and writing once more.
bool can_reopen(const struct stat& status) noexcept;

// Gives the thread the server's own identity for the scope.
class AsServer {
 public:
  AsServer() noexcept;
  ~AsServer();
  AsServer(const AsServer&) = delete;
  AsServer& operator=(const AsServer&) = delete;

 private:
  std::uint32_t uid_, gid_;
};

// Called once by each thread that makes files: their modes are the caller's, whatever the server's
// umask.
void leave_modes_to_callers() noexcept;

}  // namespace nfs::posix

#endif  // RPCRDMA_NFS_POSIX_IDENTITY_H_
