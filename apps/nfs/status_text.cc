#include "nfs/status_text.h"

#include <algorithm>
#include <array>

namespace nfs {

using nfs3::nfsstat3;

std::string_view to_text(nfsstat3 status) noexcept {
  struct Text {
    nfsstat3 status;
    std::string_view text;
  };
  static constexpr std::array<Text, 29> kTexts{{
      {nfsstat3::NFS3_OK, "no error"},
      {nfsstat3::NFS3ERR_PERM, "only the owner may do this"},
      {nfsstat3::NFS3ERR_NOENT, "no such file or directory"},
      {nfsstat3::NFS3ERR_IO, "the server's disk failed"},
      {nfsstat3::NFS3ERR_NXIO, "no such device"},
      {nfsstat3::NFS3ERR_ACCES, "permission denied"},
      {nfsstat3::NFS3ERR_EXIST, "it exists already"},
      {nfsstat3::NFS3ERR_XDEV, "it is in another file system"},
      {nfsstat3::NFS3ERR_NODEV, "no such device"},
      {nfsstat3::NFS3ERR_NOTDIR, "not a directory"},
      {nfsstat3::NFS3ERR_ISDIR, "it is a directory"},
      {nfsstat3::NFS3ERR_INVAL, "the server cannot do this with it"},
      {nfsstat3::NFS3ERR_FBIG, "the file would be too large"},
      {nfsstat3::NFS3ERR_NOSPC, "the server's disk is full"},
      {nfsstat3::NFS3ERR_ROFS, "the export is read-only"},
      {nfsstat3::NFS3ERR_MLINK, "it has too many links"},
      {nfsstat3::NFS3ERR_NAMETOOLONG, "the name is too long"},
      {nfsstat3::NFS3ERR_NOTEMPTY, "the directory is not empty"},
      {nfsstat3::NFS3ERR_DQUOT, "the disk quota is used up"},
      {nfsstat3::NFS3ERR_STALE, "it was removed meanwhile, or is not exported any more"},
      {nfsstat3::NFS3ERR_REMOTE, "it is on another server"},
      {nfsstat3::NFS3ERR_BADHANDLE, "the server does not know the handle"},
      {nfsstat3::NFS3ERR_NOT_SYNC, "it was changed meanwhile"},
      {nfsstat3::NFS3ERR_BAD_COOKIE, "the directory was changed meanwhile"},
      {nfsstat3::NFS3ERR_NOTSUPP, "the server does not support this"},
      {nfsstat3::NFS3ERR_TOOSMALL, "the answer does not fit"},
      {nfsstat3::NFS3ERR_SERVERFAULT, "the server failed"},
      {nfsstat3::NFS3ERR_BADTYPE, "the server does not have such files"},
      {nfsstat3::NFS3ERR_JUKEBOX, "the server is busy; try again"},
  }};
  const auto found = std::ranges::find(kTexts, status, &Text::status);
  return found != kTexts.end() ? found->text : "an error that RFC 1813 does not have";
}

}  // namespace nfs
