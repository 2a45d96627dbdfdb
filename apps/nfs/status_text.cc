#include "nfs/status_text.h"

#include <algorithm>
#include <array>

namespace nfs {

using nfs3::nfsstat3;

std::span<const StatusText> status_texts() noexcept {
  static constexpr std::array<StatusText, 29> kTexts{{
      {nfsstat3::NFS3_OK, "OK", "no error"},
      {nfsstat3::NFS3ERR_PERM, "PERM", "only the owner may do this"},
      {nfsstat3::NFS3ERR_NOENT, "NOENT", "no such file or directory"},
      {nfsstat3::NFS3ERR_IO, "IO", "the server's disk failed"},
      {nfsstat3::NFS3ERR_NXIO, "NXIO", "no such device"},
      {nfsstat3::NFS3ERR_ACCES, "ACCES", "permission denied"},
      {nfsstat3::NFS3ERR_EXIST, "EXIST", "it exists already"},
      {nfsstat3::NFS3ERR_XDEV, "XDEV", "it is in another file system"},
      {nfsstat3::NFS3ERR_NODEV, "NODEV", "no such device"},
      {nfsstat3::NFS3ERR_NOTDIR, "NOTDIR", "not a directory"},
      {nfsstat3::NFS3ERR_ISDIR, "ISDIR", "it is a directory"},
      {nfsstat3::NFS3ERR_INVAL, "INVAL", "the server cannot do this with it"},
      {nfsstat3::NFS3ERR_FBIG, "FBIG", "the file would be too large"},
      {nfsstat3::NFS3ERR_NOSPC, "NOSPC", "the server's disk is full"},
      {nfsstat3::NFS3ERR_ROFS, "ROFS", "the export is read-only"},
      {nfsstat3::NFS3ERR_MLINK, "MLINK", "it has too many links"},
      {nfsstat3::NFS3ERR_NAMETOOLONG, "NAMETOOLONG", "the name is too long"},
      {nfsstat3::NFS3ERR_NOTEMPTY, "NOTEMPTY", "the directory is not empty"},
      {nfsstat3::NFS3ERR_DQUOT, "DQUOT", "the disk quota is used up"},
      {nfsstat3::NFS3ERR_STALE, "STALE", "it was removed meanwhile, or is not exported any more"},
      {nfsstat3::NFS3ERR_REMOTE, "REMOTE", "it is on another server"},
      {nfsstat3::NFS3ERR_BADHANDLE, "BADHANDLE", "the server does not know the handle"},
      {nfsstat3::NFS3ERR_NOT_SYNC, "NOT_SYNC", "it was changed meanwhile"},
      {nfsstat3::NFS3ERR_BAD_COOKIE, "BAD_COOKIE", "the directory was changed meanwhile"},
      {nfsstat3::NFS3ERR_NOTSUPP, "NOTSUPP", "the server does not support this"},
      {nfsstat3::NFS3ERR_TOOSMALL, "TOOSMALL", "the answer does not fit"},
      {nfsstat3::NFS3ERR_SERVERFAULT, "SERVERFAULT", "the server failed"},
      {nfsstat3::NFS3ERR_BADTYPE, "BADTYPE", "the server does not have such files"},
      {nfsstat3::NFS3ERR_JUKEBOX, "JUKEBOX", "the server is busy; try again"},
  }};
  return kTexts;
}

std::string_view to_text(nfsstat3 status) noexcept {
  const auto texts = status_texts();
  const auto found = std::ranges::find(texts, status, &StatusText::status);
  return found != texts.end() ? found->text : "an error that RFC 1813 does not have";
}

}  // namespace nfs
