// SQLite, as far as the table of handles needs it. For one thread at a time.
#ifndef RPCRDMA_NFS_POSIX_DATABASE_H_
#define RPCRDMA_NFS_POSIX_DATABASE_H_

#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "rpcrdma/types.h"

namespace nfs::posix {

// A prepared statement. A function that fails sets errno: ENOSPC, else EIO.
class Statement {
 public:
  // Null `made`: it could not be prepared, and nothing that is done with it succeeds.
  explicit Statement(sqlite3_stmt* made) : statement_(made) {}

  // Binds a value to a place, counted from 1.
  Statement& bind(int place, std::int64_t value);
  Statement& bind(int place, const std::string& value);
  // Returns whether there is a row. Its columns can be read, from 0 on, until reset().
  bool step();
  // Returns whether the last step() succeeded, with a row or without.
  bool is_good() const noexcept { return is_good_; }
  // Runs a statement without rows to its end.
  bool finish();
  std::int64_t integer(int column) const;
  std::string text(int column) const;
  void reset() noexcept { sqlite3_reset(statement_.get()); }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const noexcept { sqlite3_finalize(statement); }
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  bool is_good_ = true;
  bool is_bound_ = true;  // each value since the last step()
};

class Database {
 public:
  // Opens a database for this process alone, readable by its user. Empty `path`: in memory. The
  // error text says what is wrong, and what to do.
  static rpcrdma::Expected<Database, std::string> open(const std::string& path);

  // Runs several statements without values or rows.
  bool run(const char* text);
  // Returns the statement of a string literal, which is prepared once.
  Statement& prepared(const char* text);
  std::int64_t last_number() const { return sqlite3_last_insert_rowid(database_.get()); }
  // Describes the last error.
  std::string error() const { return sqlite3_errmsg(database_.get()); }

 private:
  struct Close {
    void operator()(sqlite3* database) const noexcept { sqlite3_close(database); }
  };
  explicit Database(sqlite3* opened) : database_(opened) {}

  std::unique_ptr<sqlite3, Close> database_;
  std::map<const char*, Statement> statements_;  // behind it, which they belong to
};

}  // namespace nfs::posix

#endif  // RPCRDMA_NFS_POSIX_DATABASE_H_
