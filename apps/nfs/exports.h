// What is exported, to whom, and with which rules. In the manner of exports(5):
//
//   # directory        clients (options)
//   /srv/data          192.0.2.0/24(rw,all_squash,anonuid=1000) *(ro)
//   /srv/scratch       *(rw,no_root_squash,name=/scratch)
#ifndef RPCRDMA_NFS_EXPORTS_H_
#define RPCRDMA_NFS_EXPORTS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nfs/file_system.h"
#include "rpcrdma/error.h"
#include "rpcrdma/oncrpc.h"

namespace nfs {

// Addresses: all, one, or those that begin with the same bits.
class AddressRange {
 public:
  // "*", "ADDRESS" or "ADDRESS/BITS"; nullopt: it is none of them. Names are not looked up.
  static std::optional<AddressRange> parse(std::string_view text);
  // `peer` is CallContext::peer_address(): "ADDR:PORT", or the path of a Unix socket, which is in
  // "*" alone.
  bool contains(std::string_view peer) const;
  bool contains_all() const noexcept { return bits_ == 0 && is_any_; }

 private:
  std::array<std::uint8_t, 16> address_{};  // IPv4 as ::ffff:a.b.c.d
  unsigned bits_ = 0;                       // that count
  bool is_any_ = false;                     // also what is no address
};

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
  // "sec=": how calls have to be protected, in the order in which clients are told. Empty: as the
  // server has it for all (ExporterOptions::security).
  std::vector<rpcrdma::Protection> security{};

  // On whose behalf a call is made; nullopt: it is not protected as it has to be. A principal that
  // is no user of this machine is nobody. AUTH_NONE counts as nobody where AUTH_SYS is taken.
  std::optional<Caller> caller(const rpcrdma::Caller& who,
                               const rpcrdma::Credential& credential) const;
};

struct ExportClient {
  AddressRange addresses;
  std::string text;  // as it was given, for those who ask what is exported
  ExportRules rules;
};

struct Export {
  std::string directory;              // on this machine, or "ceph:/PATH" (plug_in.h)
  std::string name;                   // by which clients mount it, beginning with '/'
  std::vector<ExportClient> clients;  // the first that fits counts
  // Options that are the back end's: of ceph conf, id, fs and gateway, with their values.
  std::vector<std::pair<std::string, std::string>> settings{};

  // The rules for this peer; null: it may not use the export.
  const ExportRules* rules_for(std::string_view peer) const;
};

template <class T>
using Parsed = rpcrdma::Expected<T, std::string>;  // or what is wrong, for a person

// "sys:krb5:krb5i:krb5p", or some of them.
Parsed<std::vector<rpcrdma::Protection>> parse_security(std::string_view text);
// "krb5i" of kKrb5i; empty: it has no name here.
std::string_view name_of(rpcrdma::Protection protection) noexcept;

// DIR or DIR:OPTIONS with commas between: ro, rw, root_squash, no_root_squash, all_squash,
// anonuid=N, anongid=N, secure, insecure, sec=FLAVOR[:FLAVOR...], client=ADDRESSES (several times;
// default: *). A colon in the directory's name that is followed by what is no option belongs to the
// name. "ceph:/PATH" is a directory of a CephFS, with the further options conf=FILE, id=USER,
// fs=NAME and gateway=NAME;
// "./ceph:" is one of this machine.
Parsed<Export> parse_export(std::string_view text);
// The result of reading a file of exports.
struct ExportsFile {
  std::vector<Export> exports;
  // Names lines that mean something else than they seem to; a sentence each, "line 3: …".
  std::vector<std::string> warnings;
};
// Reads a file of lines as above. Further option: name=/NAME.
Parsed<ExportsFile> parse_exports(std::string_view text);

}  // namespace nfs

#endif  // RPCRDMA_NFS_EXPORTS_H_
