// Reads the settings of `rpcrdma serve` again while it runs: exports, and the level of the log.
#ifndef RPCRDMA_TOOLS_SERVE_RELOAD_H_
#define RPCRDMA_TOOLS_SERVE_RELOAD_H_

#include <string>
#include <vector>

#include "nfs/exporter.h"
#include "tools/log.h"
#include "tools/serve_options.h"

namespace rpcrdma::tools {

class ServeReload {
 public:
  // `options` are those with which the server began. `exporter` is null if it exports nothing. All
  // outlive this object.
  ServeReload(const ServeOptions& options, StderrLog& log, nfs::Exporter* exporter);

  // Reads them again. A mistake is logged, and changes nothing. Blocks for the storage of exports
  // that are new.
  void run();

 private:
  // Returns what is wrong with the settings; empty: nothing. Exits do the same.
  std::string take(ServeOptions& again);
  std::string take_exports(const ServeOptions& again);
  // Logs the settings that have changed, and need a restart.
  void note_others(const ServeOptions& again);

  const ServeOptions& options_;
  StderrLog& log_;
  nfs::Exporter* const exporter_;
  const bool has_kerberos_;
};

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_SERVE_RELOAD_H_
