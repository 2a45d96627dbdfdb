// Each procedure of NFS version 3 as one call, with the whole reply: the attributes and the weak
// cache consistency data of every file that it names, also when the server refuses the call. They
// are for clients that cache; Mounted has calls for those that do not.
//
// A Failure is for calls without an answer alone; a refusal is a reply, whose status says so.
#ifndef RPCRDMA_NFS_CLIENT_FILE_CALLS_H_
#define RPCRDMA_NFS_CLIENT_FILE_CALLS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "nfs/client/call_maker.h"
#include "nfs/client/failure.h"
#include "nfs/client/turns.h"
#include "nfs3.h"
#include "rpcrdma/coroutine.h"
#include "rpcrdma/generated/stub.h"
#include "rpcrdma/types.h"

namespace nfs {

// The end of a READ; the data is where the caller wanted it.
struct ReadReply {
  nfs3::nfsstat3 status = nfs3::nfsstat3::NFS3_OK;
  std::optional<nfs3::fattr3> attributes{};
  std::uint32_t count = 0;
  bool is_at_end = false;
};
struct LinkReply {
  nfs3::nfsstat3 status = nfs3::nfsstat3::NFS3_OK;
  std::optional<nfs3::fattr3> attributes{};
  std::string target{};
};

class FileCalls {
 public:
  template <class T>
  using Reply = rpcrdma::Task<Result<T>>;
  template <class T>
  using Args = rpcrdma::AsyncArgument<T>;

  // Both outlive this. With `turns`, a call is made again in a while if the server is too busy for
  // it (NFS3ERR_JUKEBOX), or the connection has as many calls as it may have, within the time of a
  // call.
  explicit FileCalls(CallMaker& call_maker, Turns* turns = nullptr) noexcept
      : call_maker_(call_maker), turns_(turns) {}

  // --- Names and attributes
  Reply<nfs3::LOOKUP3res> look_up(Args<nfs3::LOOKUP3args> args, CallAs as = {});
  Reply<nfs3::GETATTR3res> get_attributes(Args<nfs3::GETATTR3args> args, CallAs as = {});
  Reply<nfs3::SETATTR3res> set_attributes(Args<nfs3::SETATTR3args> args, CallAs as = {});
  Reply<nfs3::ACCESS3res> access(Args<nfs3::ACCESS3args> args, CallAs as = {});
  Reply<LinkReply> read_link(Args<nfs3::READLINK3args> args, CallAs as = {});
  // --- Data. The arguments lend what they refer to until the call has ended.
  Reply<nfs3::WRITE3res> write(Args<nfs3::WRITE3args> args, CallAs as = {});
  // Reads into the memory; a server may read less than that, also before the end.
  Reply<ReadReply> read(Args<nfs3::READ3args> args, rpcrdma::MutableBytes into, CallAs as = {});
  Reply<nfs3::COMMIT3res> commit(Args<nfs3::COMMIT3args> args, CallAs as = {});
  // --- Names that are made and removed. A repeated call may find its own work done: NFS3ERR_EXIST
  // of one that makes a name, NFS3ERR_NOENT of one that removes it (CallAs::was_repeated).
  Reply<nfs3::CREATE3res> create(Args<nfs3::CREATE3args> args, CallAs as = {});
  Reply<nfs3::MKDIR3res> make_directory(Args<nfs3::MKDIR3args> args, CallAs as = {});
  Reply<nfs3::SYMLINK3res> make_symbolic_link(Args<nfs3::SYMLINK3args> args, CallAs as = {});
  Reply<nfs3::MKNOD3res> make_node(Args<nfs3::MKNOD3args> args, CallAs as = {});
  Reply<nfs3::REMOVE3res> remove(Args<nfs3::REMOVE3args> args, CallAs as = {});
  Reply<nfs3::RMDIR3res> remove_directory(Args<nfs3::RMDIR3args> args, CallAs as = {});
  Reply<nfs3::RENAME3res> rename(Args<nfs3::RENAME3args> args, CallAs as = {});
  Reply<nfs3::LINK3res> link(Args<nfs3::LINK3args> args, CallAs as = {});
  // --- Directories, one page a call; the cookie and its verifier are the caller's.
  Reply<nfs3::READDIR3res> read_directory(Args<nfs3::READDIR3args> args, CallAs as = {});
  Reply<nfs3::READDIRPLUS3res> read_directory_plus(Args<nfs3::READDIRPLUS3args> args,
                                                   CallAs as = {});
  // --- Limits
  Reply<nfs3::FSSTAT3res> space(Args<nfs3::FSSTAT3args> args, CallAs as = {});
  Reply<nfs3::FSINFO3res> server_limits(Args<nfs3::FSINFO3args> args, CallAs as = {});
  Reply<nfs3::PATHCONF3res> name_limits(Args<nfs3::PATHCONF3args> args, CallAs as = {});

 private:
  template <class T, class Begin, class Take>
  Reply<T> call(CallAs as, Begin begin, Take take);

  CallMaker& call_maker_;
  Turns* const turns_;
};

// --- Attributes of replies ----------------------------------------------------------------------

// Returns an arm's member, whichever arm a reply has; null for a reply without that arm.
template <class Reply>
const nfs3::wcc_data* directory_change(const Reply& reply) {
  if (reply.resok() != nullptr) return &reply.resok()->dir_wcc;
  return reply.resfail() != nullptr ? &reply.resfail()->dir_wcc : nullptr;
}
template <class Reply>
const nfs3::wcc_data* file_change(const Reply& reply) {
  if (reply.resok() != nullptr) return &reply.resok()->file_wcc;
  return reply.resfail() != nullptr ? &reply.resfail()->file_wcc : nullptr;
}

}  // namespace nfs

#endif  // RPCRDMA_NFS_CLIENT_FILE_CALLS_H_
