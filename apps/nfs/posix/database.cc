#include "nfs/posix/database.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "files/file.h"

namespace nfs::posix {
namespace {

int errno_of(int result) {
  return result == SQLITE_FULL ? ENOSPC : EIO;
}

}  // namespace

Statement& Statement::bind(int place, std::int64_t value) {
  is_bound_ &= sqlite3_bind_int64(statement_.get(), place, value) == SQLITE_OK;
  return *this;
}

// A BLOB: names are bytes, of no encoding.
Statement& Statement::bind(int place, const std::string& value) {
  is_bound_ &= sqlite3_bind_blob(statement_.get(), place, value.data(),
                                 static_cast<int>(value.size()), SQLITE_TRANSIENT) == SQLITE_OK;
  return *this;
}

bool Statement::step() {
  const bool can_run = statement_ != nullptr && is_bound_;
  const int result = can_run ? sqlite3_step(statement_.get()) : SQLITE_ERROR;
  is_bound_ = true;
  if (result == SQLITE_ROW) return is_good_ = true;
  is_good_ = result == SQLITE_DONE;
  reset();
  if (!is_good_) errno = errno_of(result);
  return false;
}

bool Statement::finish() {
  (void)step();
  return is_good_;
}

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

std::string Statement::text(int column) const {
  const auto* const bytes = static_cast<const char*>(sqlite3_column_blob(statement_.get(), column));
  if (bytes == nullptr) return {};
  return {bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

rpcrdma::Expected<Database, std::string> Database::open(const std::string& path) {
  using rpcrdma::Unexpected;
  if (!path.empty()) {
    // SQLite would make it for everybody to read.
    const files::File file(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    if (!file.is_open()) return Unexpected<std::string>(std::strerror(errno));
  }
  sqlite3* opened = nullptr;
  constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  const int result =
      sqlite3_open_v2(path.empty() ? ":memory:" : path.c_str(), &opened, kFlags, nullptr);
  Database made(opened);
  if (result != SQLITE_OK) return Unexpected<std::string>(made.error());
  // A write survives the end of this process at once, and a loss of power after it has moved from
  // the log into the table. A handle that is lost in between becomes stale, which clients can
  // handle.
  if (made.run("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; "
               "PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE; COMMIT")) {
    return made;
  }
  const int code = sqlite3_errcode(opened);
  if (code == SQLITE_BUSY) return Unexpected<std::string>("another server has it open");
  if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT) {
    return Unexpected<std::string>(made.error() +
                                   "; remove it and a new one is made; clients have to mount anew "
                                   "then");
  }
  return Unexpected<std::string>(made.error());
}

bool Database::run(const char* text) {
  const int result = sqlite3_exec(database_.get(), text, nullptr, nullptr, nullptr);
  if (result != SQLITE_OK) errno = errno_of(result);
  return result == SQLITE_OK;
}

Statement& Database::prepared(const char* text) {
  const auto found = statements_.find(text);
  if (found != statements_.end()) return found->second;
  sqlite3_stmt* made = nullptr;
  (void)sqlite3_prepare_v3(database_.get(), text, -1, SQLITE_PREPARE_PERSISTENT, &made, nullptr);
  static Statement unusable(nullptr);
  return made != nullptr ? statements_.emplace(text, Statement(made)).first->second : unusable;
}

}  // namespace nfs::posix
