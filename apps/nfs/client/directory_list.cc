#include "nfs/client/directory_list.h"

#include <string>
#include <utility>

namespace nfs {
namespace {

constexpr std::size_t kNameOfOne = 1024;  // bytes of a name that counts once

rpcrdma::Unexpected<Failure> never_ends(const std::string& why) {
  return rpcrdma::Unexpected<Failure>(Failure::here(why));
}

}  // namespace

DirectoryList::DirectoryList(nfs3::nfs_fh3 directory, std::uint64_t entries_max)
    : entries_max_(entries_max),
      next_{std::move(directory), 0, {}, 16U << 10U, 60U << 10U},
      asked_{next_.cookie} {}

Result<bool> DirectoryList::take(nfs3::READDIRPLUS3res& results) {
  auto* const page = results.resok();
  if (page == nullptr) {
    return rpcrdma::Unexpected<Failure>(Failure{.status = results.status()});
  }
  for (nfs3::entryplus3& each : page->reply.entries) {
    next_.cookie = each.cookie;
    if (each.name == "." || each.name == "..") {
      if (++dots_ > 2) {
        return never_ends("the server lists without end: it has \"" + each.name +
                          "\" again and again");
      }
      continue;
    }
    count_ += 1 + each.name.size() / kNameOfOne;
    if (count_ > entries_max_) {
      return never_ends("the server lists more than " + std::to_string(entries_max_) +
                        " names, perhaps without end; allow more with --entries-max");
    }
    Listed& listed = names_.emplace_back(Listed{std::move(each.name), each.fileid, {}});
    if (each.name_handle.handle() != nullptr && each.name_attributes.attributes() != nullptr) {
      listed.node = {*each.name_handle.handle(), *each.name_attributes.attributes()};
    }
  }
  if (page->reply.eof) return true;
  // A page without names that is not the last one would be asked for again and again.
  if (page->reply.entries.empty() || !asked_.insert(next_.cookie).second) {
    return never_ends("the server lists without end: it comes back to where it was");
  }
  next_.cookieverf = page->cookieverf;
  return false;
}

}  // namespace nfs
