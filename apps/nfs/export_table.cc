#include "nfs/export_table.h"

#include <algorithm>
#include <utility>

namespace nfs {

// --- ExportList --------------------------------------------------------------------------------

std::string problem_with_names(const std::vector<Export>& exports) {
  std::vector<std::string_view> names;
  for (const Export& each : exports) names.push_back(each.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  return twice == names.end()
             ? std::string()
             : "'" + std::string(*twice) + "' is exported already; give it another name";
}

rpcrdma::Expected<ExportList, std::string> ExportList::make(std::vector<Entry> entries) {
  ExportList list;
  list.entries_ = std::move(entries);
  for (const Entry& each : list.entries_) list.by_id_.emplace_back(each.served->id, &each);
  std::ranges::sort(list.by_id_, {}, &std::pair<ExportId, const Entry*>::first);
  const auto same =
      std::ranges::adjacent_find(list.by_id_, {}, &std::pair<ExportId, const Entry*>::first);
  if (same != list.by_id_.end()) {
    return rpcrdma::Unexpected<std::string>("'" + same[0].second->rules.name + "' and '" +
                                            same[1].second->rules.name +
                                            "' have the same number by chance; give one another "
                                            "name");
  }
  return list;
}

const ExportList::Entry* ExportList::find(ExportId id) const noexcept {
  const auto found =
      std::ranges::lower_bound(by_id_, id, {}, &std::pair<ExportId, const Entry*>::first);
  return found != by_id_.end() && found->first == id ? found->second : nullptr;
}

const ExportList::Entry* ExportList::find_by_path(std::string_view path,
                                                  std::string_view& rest) const noexcept {
  const Entry* best = nullptr;
  for (const Entry& each : entries_) {
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

// --- ExportTable -------------------------------------------------------------------------------

ExportTable::ExportTable(const HandleKey& key) : key_(key) {}

ServedExport& ExportTable::add(Export made) {
  const std::lock_guard lock(mutex_);
  return opened_.emplace_back(ServedExport{std::move(made), 0, ExportHandles(key_), nullptr});
}

void ExportTable::complete(ServedExport& served, std::unique_ptr<FileSystem> files) {
  const ExportId id = export_id(served.made.name, files->root());
  const std::lock_guard lock(mutex_);
  served.id = id;
  served.handles.set_id(id);
  served.files = std::move(files);
}

void ExportTable::forget_last() {
  const std::lock_guard lock(mutex_);
  opened_.pop_back();
}

void ExportTable::publish(ExportList list) {
  const std::lock_guard lock(mutex_);
  std::swap(list_, list);  // the old one goes when the lock is free again
}

std::vector<ServedExport*> ExportTable::opened() {
  const std::shared_lock lock(mutex_);
  std::vector<ServedExport*> all;
  for (ServedExport& each : opened_) {
    if (each.files != nullptr) all.push_back(&each);
  }
  return all;
}

}  // namespace nfs
