#include "nfs/client/copier.h"

#include "nfs/client/downloader.h"
#include "nfs/client/relayer.h"
#include "nfs/client/uploader.h"

namespace nfs {

bool is_safe_name(std::string_view name) noexcept {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

CopyResult Copier::upload(const std::vector<std::string>& sources, const std::string& target) {
  Uploader run(server_, options_);
  return run.run(run.all(sources, target));
}

CopyResult Copier::relay(Mounted& from, const std::vector<std::string>& sources,
                         const std::string& target) {
  Relayer run(server_, options_, from);
  return run.run(run.all(sources, target));
}

CopyResult Copier::download(const std::vector<std::string>& sources, const std::string& target) {
  Downloader run(server_, options_);
  return run.run(run.all(sources, target));
}

}  // namespace nfs
