#include "tools/serve_security.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "blob/service.h"
#include "tools/bench/service.h"
#include "tools/command.h"
#include "tools/plug_in.h"
#include "tools/serve_nfs.h"

namespace rpcrdma::tools {

std::unique_ptr<gss::Mechanism> kerberos_for(const ServeOptions& options,
                                             bool exports_want_kerberos) {
  if (takes_sys_alone(options.nfs.security) && !exports_want_kerberos) {
    if (!options.keytab.empty()) {
      fail(kUsage, "--keytab is for Kerberos: say which of it, as in --sec krb5:krb5i:krb5p");
    }
    return nullptr;
  }
  if (!options.keytab.empty() && ::access(options.keytab.c_str(), R_OK) != 0) {
    fail(kUsage, fmt::format("--keytab {}: {}; make it with kadmin's ktadd, for nfs/HOST",
                             options.keytab, std::strerror(errno)));
  }
  gss::Kerberos settings;
  settings.keytab = options.keytab;
  auto kerberos = gss::make_kerberos(settings);
  if (!kerberos) {
    const std::string why = kerberos.error().message();
    fail(kUsage, is_absent(why) ? why + " (the package is rpcrdma-krb5)" : why);
  }
  return std::move(*kerberos);
}

void secure(const ServeOptions& options, gss::Mechanism& kerberos, StderrLog& log, Server& server) {
  // They may come later, so that this ends nothing.
  if (const auto keys = kerberos.accept(); !keys) {
    log.write(LogKind::kKeysMissing,
              fmt::format("no client can use Kerberos here yet: {}", keys.error().text));
  }
  gss::ServerSecurity security;
  security.kerberos.keytab = options.keytab;
  security.mechanism = &kerberos;
  security.report = [&log](std::string_view why) {
    log.write(LogKind::kContextRefused, fmt::format("a client gets no context: {}", why));
  };
  if (auto secured = server.secure(security); !secured) fail(secured.error());
  std::vector<Protection> allowed = options.nfs.security;
  if (takes_sys_alone(allowed)) return;
  if (std::ranges::count(allowed, Protection::kSys) > 0) allowed.push_back(Protection::kNone);
  for (const auto& [program, version] : {std::pair{blob::BLOB_PROGRAM, blob::BLOB_V1},
                                         std::pair{bench::kProgram, bench::kVersion}}) {
    if (auto required = server.require(program, version, allowed); !required) {
      fail(required.error());
    }
  }
}

}  // namespace rpcrdma::tools
