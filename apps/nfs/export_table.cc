#include "nfs/export_table.h"

#include <algorithm>
#include <utility>

namespace nfs {

rpcrdma::Expected<ServedExport*, std::string> ExportTable::add(Export made) {
  for (const ServedExport& other : exports_) {
    if (other.rules.name != made.name) continue;
    return rpcrdma::Unexpected<std::string>("'" + made.name +
                                            "' is exported already; give it another name");
  }
  return &exports_.emplace_back(ServedExport{std::move(made), 0, ExportHandles(key_), nullptr});
}

rpcrdma::Expected<void, std::string> ExportTable::complete(ServedExport& served,
                                                           std::unique_ptr<FileSystem> files) {
  const ExportId id = export_id(served.rules.name, files->root());
  if (const ServedExport* const other = find(id)) {
    return rpcrdma::Unexpected<std::string>("'" + served.rules.name + "' and '" +
                                            other->rules.name +
                                            "' have the same number by chance; give one another "
                                            "name");
  }
  served.id = id;
  served.handles.set_id(id);
  served.files = std::move(files);
  return {};
}

ServedExport* ExportTable::find(ExportId id) noexcept {
  const auto found = std::ranges::find_if(
      exports_, [id](const ServedExport& each) { return each.files != nullptr && each.id == id; });
  return found != exports_.end() ? &*found : nullptr;
}

ServedExport* ExportTable::find_by_path(std::string_view path, std::string_view& rest) noexcept {
  ServedExport* best = nullptr;
  for (ServedExport& each : exports_) {
    const std::string& name = each.rules.name;
    const bool is_root = name == "/";
    if (!path.starts_with(name)) continue;
    if (!is_root && path.size() > name.size() && path[name.size()] != '/') continue;
    if (best != nullptr && best->rules.name.size() >= name.size()) continue;
    best = &each;
    rest = path.substr(name.size());
  }
  while (rest.starts_with('/')) rest.remove_prefix(1);
  while (rest.ends_with('/')) rest.remove_suffix(1);
  return best;
}

}  // namespace nfs
