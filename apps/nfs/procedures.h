// The procedures of RFC 1813 as the server knows them: one Procedure<number> each.
//
// A procedure of idl/nfs3.x is complete with its row here and a function run() in each back end
// (posix/calls.h, ceph/call.h); without a row, the service does not compile. The row has the types
// of the procedure, the files that its arguments name, and the checks that the service makes before
// a back end sees them.
#ifndef RPCRDMA_NFS_PROCEDURES_H_
#define RPCRDMA_NFS_PROCEDURES_H_

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "nfs3.h"

namespace nfs {

// Largest READ and WRITE, bytes; also what the server's bulk_size_max is to be.
inline constexpr std::uint32_t kServerTransferMax = 1U << 20U;
// Largest READDIR and READDIRPLUS, bytes.
inline constexpr std::uint32_t kServerListingMax = 64U << 10U;

// A back end may give each kind of work threads of its own, so that one that hangs delays no other.
enum class Work : std::uint8_t {
  kLook,   // reads attributes, rights or a name, and changes nothing; may be repeated
  kOther,  // changes names or attributes, lists a directory, or asks for the free space
  kData,   // moves the content of a file, or waits for its disk
};

struct Traits {
  Work work = Work::kOther;
  bool changes_files = false;   // refused in an export that is read-only
  bool needs_identity = true;   // runs as the caller; if not, all callers get the same results
  bool is_often_ready = false;  // often answered from memory, without waiting
};

// A name must be one component: neither "." nor "..", which LOOKUP alone takes.
nfs3::nfsstat3 check_name(std::string_view name);
// Refuses values that a system call would take for "now" or "unchanged", before anything is made.
nfs3::nfsstat3 check_attributes(const nfs3::sattr3& attributes);
// Refuses a size of 2^63 or more, too.
nfs3::nfsstat3 check_attributes_of_file(const nfs3::sattr3& attributes);

// The base of all rows. `kFiles` are the members of the arguments that name files, in the order in
// which they are checked: nfs_fh3, or diropargs3 for a name in a directory. A procedure replaces
// what differs, and may have three functions more:
//   static std::uint32_t memory_size(const Args&)  bytes of the item in its results
//   static std::uint32_t limit_room(Args&)         limits the results, and returns their size,
//   bytes static void restrict_to_reading(Args&)         applies to an export that is read-only
template <class ArgsType, class ResultsType, Traits kTraitsOf, auto... kFiles>
struct Row {
  using Args = ArgsType;
  using Results = ResultsType;
  static constexpr Traits kTraits = kTraitsOf;

  // Calls `check` for each file until it returns an error, which becomes the result.
  template <class Check>
  static nfs3::nfsstat3 check_files(Args& args, const Check& check) {
    nfs3::nfsstat3 status = nfs3::nfsstat3::NFS3_OK;
    (void)(... && ((status = check(args.*kFiles)) == nfs3::nfsstat3::NFS3_OK));
    return status;
  }
  static nfs3::nfsstat3 check_name(std::string_view name) { return nfs::check_name(name); }
  // Checks the rest of the arguments.
  static nfs3::nfsstat3 check(const Args& /*args*/) { return nfs3::nfsstat3::NFS3_OK; }
  // Adds what the service knows to the results of a back end.
  static void complete(Results& /*results*/) {}
};

template <std::uint32_t kNumber>
struct Procedure;

inline constexpr Traits kLooking{.work = Work::kLook};
inline constexpr Traits kLookingAtOnce{.work = Work::kLook, .is_often_ready = true};
inline constexpr Traits kLookingForAnyone{.work = Work::kLook, .needs_identity = false};
inline constexpr Traits kChanging{.changes_files = true};
inline constexpr Traits kWriting{.work = Work::kData, .changes_files = true};

template <>
struct Procedure<nfs3::NFSPROC3_GETATTR>
    : Row<nfs3::GETATTR3args, nfs3::GETATTR3res,
          Traits{.work = Work::kLook, .needs_identity = false, .is_often_ready = true},
          &nfs3::GETATTR3args::object> {};

template <>
struct Procedure<nfs3::NFSPROC3_SETATTR>
    : Row<nfs3::SETATTR3args, nfs3::SETATTR3res, kChanging, &nfs3::SETATTR3args::object> {
  static nfs3::nfsstat3 check(const Args& args) {
    return check_attributes_of_file(args.new_attributes);
  }
};

template <>
struct Procedure<nfs3::NFSPROC3_LOOKUP>
    : Row<nfs3::LOOKUP3args, nfs3::LOOKUP3res, kLookingAtOnce, &nfs3::LOOKUP3args::what> {
  static nfs3::nfsstat3 check_name(std::string_view name) {
    return name == "." || name == ".." ? nfs3::nfsstat3::NFS3_OK : nfs::check_name(name);
  }
};

template <>
struct Procedure<nfs3::NFSPROC3_ACCESS>
    : Row<nfs3::ACCESS3args, nfs3::ACCESS3res, kLookingAtOnce, &nfs3::ACCESS3args::object> {
  static void restrict_to_reading(Args& args) {
    args.access &= ~(nfs3::ACCESS3_MODIFY | nfs3::ACCESS3_EXTEND | nfs3::ACCESS3_DELETE);
  }
};

template <>
struct Procedure<nfs3::NFSPROC3_READLINK> : Row<nfs3::READLINK3args, nfs3::READLINK3res,
                                                kLookingForAnyone, &nfs3::READLINK3args::symlink> {
  static std::uint32_t memory_size(const Args& /*args*/) { return nfs3::NFS3_PATH_MAX; }
};

template <>
struct Procedure<nfs3::NFSPROC3_READ>
    : Row<nfs3::READ3args, nfs3::READ3res, Traits{.work = Work::kData, .is_often_ready = true},
          &nfs3::READ3args::file> {
  static std::uint32_t memory_size(const Args& args) {
    return std::min(args.count, kServerTransferMax);
  }
};

template <>
struct Procedure<nfs3::NFSPROC3_WRITE>
    : Row<nfs3::WRITE3args, nfs3::WRITE3res, kWriting, &nfs3::WRITE3args::file> {};

template <>
struct Procedure<nfs3::NFSPROC3_CREATE>
    : Row<nfs3::CREATE3args, nfs3::CREATE3res, kChanging, &nfs3::CREATE3args::where> {
  static nfs3::nfsstat3 check(const Args& args);
};

template <>
struct Procedure<nfs3::NFSPROC3_MKDIR>
    : Row<nfs3::MKDIR3args, nfs3::MKDIR3res, kChanging, &nfs3::MKDIR3args::where> {
  static nfs3::nfsstat3 check(const Args& args) { return check_attributes(args.attributes); }
};

template <>
struct Procedure<nfs3::NFSPROC3_SYMLINK>
    : Row<nfs3::SYMLINK3args, nfs3::SYMLINK3res, kChanging, &nfs3::SYMLINK3args::where> {
  static nfs3::nfsstat3 check(const Args& args);
};

template <>
struct Procedure<nfs3::NFSPROC3_MKNOD>
    : Row<nfs3::MKNOD3args, nfs3::MKNOD3res, kChanging, &nfs3::MKNOD3args::where> {
  static nfs3::nfsstat3 check(const Args& args);
};

template <>
struct Procedure<nfs3::NFSPROC3_REMOVE>
    : Row<nfs3::REMOVE3args, nfs3::REMOVE3res, kChanging, &nfs3::REMOVE3args::object> {};

template <>
struct Procedure<nfs3::NFSPROC3_RMDIR>
    : Row<nfs3::RMDIR3args, nfs3::RMDIR3res, kChanging, &nfs3::RMDIR3args::object> {
  // rmdir(2) reports for ".." that the parent is not empty.
  static nfs3::nfsstat3 check_name(std::string_view name) {
    return name == ".." ? nfs3::nfsstat3::NFS3ERR_EXIST : nfs::check_name(name);
  }
};

template <>
struct Procedure<nfs3::NFSPROC3_RENAME> : Row<nfs3::RENAME3args, nfs3::RENAME3res, kChanging,
                                              &nfs3::RENAME3args::from, &nfs3::RENAME3args::to> {};

template <>
struct Procedure<nfs3::NFSPROC3_LINK> : Row<nfs3::LINK3args, nfs3::LINK3res, kChanging,
                                            &nfs3::LINK3args::file, &nfs3::LINK3args::link> {};

template <>
struct Procedure<nfs3::NFSPROC3_READDIR>
    : Row<nfs3::READDIR3args, nfs3::READDIR3res, Traits{}, &nfs3::READDIR3args::dir> {
  static std::uint32_t limit_room(Args& args) {
    return args.count = std::min(args.count, kServerListingMax);
  }
};

template <>
struct Procedure<nfs3::NFSPROC3_READDIRPLUS>
    : Row<nfs3::READDIRPLUS3args, nfs3::READDIRPLUS3res, Traits{}, &nfs3::READDIRPLUS3args::dir> {
  static std::uint32_t limit_room(Args& args) {
    return args.maxcount = std::min(args.maxcount, kServerListingMax);
  }
};

template <>
struct Procedure<nfs3::NFSPROC3_FSSTAT>
    : Row<nfs3::FSSTAT3args, nfs3::FSSTAT3res, Traits{.needs_identity = false},
          &nfs3::FSSTAT3args::fsroot> {};

template <>
struct Procedure<nfs3::NFSPROC3_FSINFO>
    : Row<nfs3::FSINFO3args, nfs3::FSINFO3res, kLookingForAnyone, &nfs3::FSINFO3args::fsroot> {
  static void complete(Results& results);
};

template <>
struct Procedure<nfs3::NFSPROC3_PATHCONF> : Row<nfs3::PATHCONF3args, nfs3::PATHCONF3res,
                                                kLookingForAnyone, &nfs3::PATHCONF3args::object> {};

template <>
struct Procedure<nfs3::NFSPROC3_COMMIT>
    : Row<nfs3::COMMIT3args, nfs3::COMMIT3res, kWriting, &nfs3::COMMIT3args::file> {};

// Procedures are numbered from 1 to this; the server itself answers 0.
inline constexpr std::uint32_t kLastProcedure = nfs3::NFS_V3_Binding::kProcedures.back().number;

}  // namespace nfs

#endif  // RPCRDMA_NFS_PROCEDURES_H_
