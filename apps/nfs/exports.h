// Describes exports: their directories, clients and rules. exports_file.h reads files of them.
#ifndef RPCRDMA_NFS_EXPORTS_H_
#define RPCRDMA_NFS_EXPORTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nfs/address_range.h"
#include "nfs/file_system.h"
#include "rpcrdma/oncrpc.h"

namespace nfs {

struct ExportRules {
  enum class Squash : std::uint8_t {
    kRoot,  // uid 0 and gid 0 become nobody
    kAll,   // everybody does
    kNone,
  };

  bool is_read_only = false;
  Squash squash = Squash::kRoot;
  std::uint32_t anonymous_uid = 65534;
  std::uint32_t anonymous_gid = 65534;
  bool wants_privileged_port = false;  // "secure": clients are root on their machines
  // "sec=": the protections that are accepted, in the order in which clients get them. Empty: the
  // server's own for all exports (ExporterOptions::security).
  std::vector<rpcrdma::Protection> security{};

  // Returns the identity under which a call runs; nullopt: the call is not protected as the export
  // requires. A principal that is no user of this machine becomes nobody. AUTH_NONE counts as
  // nobody where AUTH_SYS is accepted.
  std::optional<Caller> caller(const rpcrdma::Caller& who,
                               const rpcrdma::Credential& credential) const;
};

struct ExportClient {
  std::vector<AddressRange> addresses;  // none: its name does not resolve
  std::string text;                     // as it was given, for those who ask what is exported
  ExportRules rules;

  bool is_everybody() const noexcept;
};

struct Export {
  std::string directory;              // on this machine, or "ceph:/PATH" (plug_in.h)
  std::string name;                   // by which clients mount it, beginning with '/'
  std::vector<ExportClient> clients;  // the first that fits counts
  // Options that are the back end's: of ceph conf, id, fs and gateway, with their values.
  std::vector<std::pair<std::string, std::string>> settings{};
  // "sync": a change is on the disk when it is answered, also where the server has it otherwise
  // (ExporterOptions::is_async).
  bool is_sync = false;

  // The rules for this peer; null: it may not use the export.
  const ExportRules* rules_for(std::string_view peer) const;
};

// "sys:krb5:krb5i:krb5p", or some of them.
Parsed<std::vector<rpcrdma::Protection>> parse_security(std::string_view text);
// "krb5i" of kKrb5i; empty: it has no name here.
std::string_view name_of(rpcrdma::Protection protection) noexcept;

// DIR or DIR:OPTIONS with commas between: ro, rw, root_squash, no_root_squash, all_squash,
// anonuid=N, anongid=N, secure, insecure, sync, sec=FLAVOR[:FLAVOR...], client=ADDRESSES (several
// times; default: *), and those of exports(5) that mean nothing here, each of which adds a sentence
// to `warnings`. A colon in the directory's name that is followed by what is no option belongs to
// the name; "/srv::rw" is the directory "/srv:". A client's name has to resolve. "ceph:/PATH" is a
// directory of a CephFS, with the further options conf=FILE, id=USER, fs=NAME and gateway=NAME;
// "./ceph:…" is one of this machine.
Parsed<Export> parse_export(std::string_view text, std::vector<std::string>& warnings,
                            const HostLookup& look_up = addresses_of_host);
// Tells of no warnings.
Parsed<Export> parse_export(std::string_view text);

}  // namespace nfs

#endif  // RPCRDMA_NFS_EXPORTS_H_
