// Files of exports, in the manner of exports(5):
//
//   # directory     clients (options)
//   /srv/data       192.0.2.0/24(rw,all_squash,anonuid=1000) *(ro)
//   "/srv/a b"      -rw,no_root_squash db.example.org 198.51.100.0/255.255.255.0(ro)
//   /srv/scratch    *(rw,name=/scratch)
#ifndef RPCRDMA_NFS_EXPORTS_FILE_H_
#define RPCRDMA_NFS_EXPORTS_FILE_H_

#include <string>
#include <string_view>
#include <vector>

#include "nfs/exports.h"

namespace nfs {

// The result of reading a file of exports.
struct ExportsFile {
  std::vector<Export> exports;
  // Names lines that mean something else than they seem to; a sentence each, "line 3: …".
  std::vector<std::string> warnings;
};

// A line is a directory and its clients, each with options in brackets behind it; '-' begins those
// of the clients that follow. Blanks of a name stand in quotes or as "\040", a backslash at the end
// goes on in the next line, and '#' begins a comment. Options are those of parse_export(), but
// client=, and name=/NAME. Where nothing is said an export is read-only. A client whose name does
// not resolve is nobody, of which a warning tells.
Parsed<ExportsFile> parse_exports(std::string_view text,
                                  const HostLookup& look_up = addresses_of_host);

}  // namespace nfs

#endif  // RPCRDMA_NFS_EXPORTS_FILE_H_
