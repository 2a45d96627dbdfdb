#include "nfs/ceph/open_files.h"

#include <fcntl.h>

#include <memory>

#include "nfs/ceph/identity.h"

namespace nfs::ceph {

OpenFiles::~OpenFiles() {
  for (const auto& [key, entry] : by_key_) {
    ceph_ll_close(mount_, entry->file);
    delete entry;
  }
}

OpenFiles::Use OpenFiles::open(const Handle& handle, Inode* inode, bool for_writing, int& error) {
  const Key key{handle, for_writing};
  {
    const std::lock_guard lock(mutex_);
    const auto found = by_key_.find(key);
    if (found != by_key_.end()) return use(*found->second);
  }
  Fh* file = nullptr;  // whatever stood there would be taken for open when this fails
  error = ceph_ll_open(mount_, inode, for_writing ? O_RDWR : O_RDONLY, &file, superuser());
  if (error < 0) return {};
  std::vector<Fh*> closing;
  Use made = insert(key, file, closing);
  close_all(closing);
  return made;
}

void OpenFiles::adopt(const Handle& handle, Fh* file) {
  std::vector<Fh*> closing;
  { const Use made = insert({handle, true}, file, closing); }
  close_all(closing);
}

OpenFiles::Use OpenFiles::insert(const Key& key, Fh* file, std::vector<Fh*>& closing) {
  const std::lock_guard lock(mutex_);
  const auto [at, is_new] = by_key_.try_emplace(key, nullptr);
  if (is_new) {
    auto entry = std::make_unique<Entry>();
    entry->key = key;
    entry->file = file;
    entry->uses = 1;
    at->second = entry.release();
    return {*this, *at->second};
  }
  closing.push_back(file);  // another call was faster
  return use(*at->second);
}

OpenFiles::Use OpenFiles::use(Entry& entry) {
  if (entry.uses++ == 0) idle_.erase(entry.place);
  return {*this, entry};
}

void OpenFiles::release(Entry& entry) noexcept {
  std::vector<Fh*> closing;
  {
    const std::lock_guard lock(mutex_);
    if (--entry.uses > 0) return;
    if (entry.is_forgotten) {
      closing.push_back(entry.file);
      delete &entry;
    } else {
      entry.last = Clock::now();
      idle_.push_front(&entry);
      entry.place = idle_.begin();
      if (idle_.size() > idle_max_) take_out(*idle_.back(), closing);
    }
  }
  close_all(closing);
}

void OpenFiles::take_out(Entry& entry, std::vector<Fh*>& closing) {
  by_key_.erase(entry.key);
  if (entry.uses > 0) {
    entry.is_forgotten = true;
    return;
  }
  idle_.erase(entry.place);
  closing.push_back(entry.file);
  delete &entry;
}

void OpenFiles::forget(const Handle& handle) {
  std::vector<Fh*> closing;
  {
    const std::lock_guard lock(mutex_);
    for (const bool for_writing : {false, true}) {
      const auto found = by_key_.find({handle, for_writing});
      if (found != by_key_.end()) take_out(*found->second, closing);
    }
  }
  close_all(closing);
}

void OpenFiles::close_idle() {
  std::vector<Fh*> closing;
  {
    const std::lock_guard lock(mutex_);
    const Clock::time_point before = Clock::now() - kIdle;
    while (!idle_.empty() && idle_.back()->last < before) take_out(*idle_.back(), closing);
  }
  close_all(closing);
}

void OpenFiles::close_all(const std::vector<Fh*>& closing) noexcept {
  for (Fh* const file : closing) ceph_ll_close(mount_, file);
}

std::size_t OpenFiles::size() const {
  const std::lock_guard lock(mutex_);
  return by_key_.size();
}

}  // namespace nfs::ceph
