// Keeps in a table of SQLite where each file was seen last.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <functional>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include "nfs/posix/beneath.h"
#include "nfs/posix/database.h"
#include "nfs/posix/handles.h"
#include "nfs/posix/identity.h"
#include "nfs/posix/open_files.h"

namespace nfs::posix {
namespace {

constexpr std::int64_t kRoot = 1;        // its number in the table
constexpr std::size_t kDepthMax = 4096;  // directories moved on the machine can make a circle
constexpr long kOverlayMagic = 0x794c7630;

constexpr const char* kSchema = R"(
    CREATE TABLE IF NOT EXISTS this(version INTEGER, instance INTEGER);
    CREATE TABLE IF NOT EXISTS file(number INTEGER PRIMARY KEY AUTOINCREMENT, identity BLOB UNIQUE,
                                    directory INTEGER, name BLOB);
)";

// A file, whatever its name: the kernel's handle of it, which counts the files that have had one
// inode number; where there is none, the number and the time of birth.
struct Identity {
  std::string bytes;
  // Another file may have the same, once this one is gone.
  bool is_weak = false;
  bool operator==(const Identity& other) const { return bytes == other.bytes; }
};

struct Place {
  std::int64_t directory = 0;  // its number; 0: this is the export's directory
  std::string name;
  bool operator==(const Place&) const = default;
};

// The content of a handle: the table's own number, so that another table's handles are not taken
// for its own, and the file's.
struct Content {
  std::uint64_t instance = 0;
  std::int64_t number = 0;
};

InnerHandle handle_of(const Content& content) {
  return InnerHandle::of(std::as_bytes(std::span(&content, 1)));
}

class TableHandles final : public Handles {
 public:
  TableHandles(files::File root, Database database)
      : root_(std::move(root)), database_(std::move(database)) {
    struct statfs kind {};
    // A file that is written for the first time becomes another there, born then.
    has_births_ = ::fstatfs(root_.descriptor(), &kind) == 0 && kind.f_type != kOverlayMagic;
  }

  // The table is of this directory, or is emptied. False: the database says why.
  bool begin();
  const Database& database() const noexcept { return database_; }

  std::optional<InnerHandle> of(const files::File& file, const InnerHandle& directory,
                                const std::string& name) override;
  files::File open(const InnerHandle& handle) override;
  int rename(const std::function<int()>& rename, const std::optional<InnerHandle>& file,
             const InnerHandle& directory, const std::string& name) override;
  void removed(const InnerHandle& file) override;

 private:
  // nullopt: errno.
  std::optional<Identity> identity_of(const files::File& file) const;
  // 0: it is none of this table.
  std::int64_t number_of(const InnerHandle& handle) const noexcept;
  InnerHandle handle_of_number(std::int64_t number) const { return handle_of({instance_, number}); }

  // Called with mutex_ held; if the result is false or nothing, errno says why.
  files::File find(std::int64_t number);
  bool leads_to(const Place& place, const Identity& identity);
  std::int64_t insert(const Identity& identity, const Place& place);  // 0: errno
  bool move(std::int64_t number, const Place& place);
  bool erase(std::int64_t number);

  const files::File root_;
  bool has_births_ = false;
  std::uint64_t instance_ = 0;
  std::mutex mutex_;
  Database database_;  // guarded by mutex_
};

bool TableHandles::begin() {
  const auto identity = identity_of(root_);
  if (!identity || !database_.run(kSchema)) return false;
  Statement& instance = database_.prepared("SELECT instance FROM this WHERE version = 1");
  const bool has_begun = instance.step();
  if (has_begun) instance_ = std::bit_cast<std::uint64_t>(instance.integer(0));
  instance.reset();
  Statement& root = database_.prepared("SELECT identity FROM file WHERE number = ?");
  const bool is_its_own =
      has_begun && root.bind(1, kRoot).step() && root.text(0) == identity->bytes;
  root.reset();
  // When the machine loses its power, rows that are not on the disk yet are lost with their
  // numbers, which clients have: far fewer than are passed over here.
  if (is_its_own) {
    return database_.run(
        "PRAGMA synchronous = FULL; UPDATE sqlite_sequence SET seq = seq + 1000000; "
        "PRAGMA synchronous = NORMAL");
  }
  std::random_device source;
  instance_ = std::uint64_t{source()} << 32U | source();
  return database_.run("DELETE FROM this; DELETE FROM file; DELETE FROM sqlite_sequence") &&
         database_.prepared("INSERT INTO this VALUES(1, ?)")
             .bind(1, std::bit_cast<std::int64_t>(instance_))
             .finish() &&
         insert(*identity, {}) == kRoot;
}

std::optional<Identity> TableHandles::identity_of(const files::File& file) const {
  Identity identity;
  if (const auto handle = kernel_handle_of(file)) {
    identity.bytes.assign(reinterpret_cast<const char*>(handle->bytes.data()), handle->size);
    return identity;
  }
  struct statx status {};
  constexpr unsigned kWanted = STATX_INO | STATX_BTIME;
  if (::statx(file.descriptor(), "", AT_EMPTY_PATH, kWanted, &status) != 0) return std::nullopt;
  identity.is_weak = !has_births_ || (status.stx_mask & STATX_BTIME) == 0;
  // In a union of file systems (overlayfs), an inode number is unique only together with its
  // device.
  identity.bytes =
      fmt::format("{}:{} {}", status.stx_dev_major, status.stx_dev_minor, status.stx_ino);
  if (!identity.is_weak) {
    identity.bytes += fmt::format(" {}.{:09}", status.stx_btime.tv_sec, status.stx_btime.tv_nsec);
  }
  return identity;
}

std::int64_t TableHandles::number_of(const InnerHandle& handle) const noexcept {
  Content content;
  if (handle.size != sizeof(content)) return 0;
  std::memcpy(&content, handle.bytes.data(), sizeof(content));
  return content.instance == instance_ ? content.number : 0;
}

std::optional<InnerHandle> TableHandles::of(const files::File& file, const InnerHandle& directory,
                                            const std::string& name) {
  const AsServer as_server;
  if (directory.size == 0) return handle_of_number(kRoot);
  const auto identity = identity_of(file);
  if (!identity) return std::nullopt;
  const Place place{number_of(directory), name};
  const std::lock_guard lock(mutex_);
  Statement& row =
      database_.prepared("SELECT number, directory, name FROM file WHERE identity = ?");
  std::int64_t number = 0;
  if (row.bind(1, identity->bytes).step()) {
    number = row.integer(0);
    const Place last{row.integer(1), row.text(2)};
    row.reset();
    const bool is_where_it_was = last == place || number == kRoot || name == "..";
    if (is_where_it_was || leads_to(last, *identity)) return handle_of_number(number);
    // It was moved by somebody on this machine, or this is another file.
    if (!(identity->is_weak ? erase(number) : move(number, place))) return std::nullopt;
    if (identity->is_weak) number = 0;
  } else if (!row.is_good()) {
    return std::nullopt;
  }
  if (number == 0 && name == "..") {
    errno = ESTALE;
    return std::nullopt;
  }
  if (number == 0) number = insert(*identity, place);
  return number != 0 ? std::optional(handle_of_number(number)) : std::nullopt;
}

files::File TableHandles::open(const InnerHandle& handle) {
  const AsServer as_server;
  const std::lock_guard lock(mutex_);
  files::File found = find(number_of(handle));
  if (!found.is_open() && (errno == ENOENT || errno == ENOTDIR || errno == EXDEV)) errno = ESTALE;
  return found;
}

int TableHandles::rename(const std::function<int()>& rename, const std::optional<InnerHandle>& file,
                         const InnerHandle& directory, const std::string& name) {
  const std::lock_guard lock(mutex_);
  const int result = rename();
  if (result == 0 && file) {
    const AsServer as_server;
    (void)move(number_of(*file), {number_of(directory), name});
  }
  return result;
}

void TableHandles::removed(const InnerHandle& file) {
  const AsServer as_server;
  const std::lock_guard lock(mutex_);
  (void)erase(number_of(file));
}

// Opens the file from the export's directory down, a name at a time, by the table's entries.
files::File TableHandles::find(std::int64_t number) {
  std::vector<std::string> names;
  Identity wanted;
  for (std::int64_t at = number; at != kRoot;) {
    Statement& row =
        database_.prepared("SELECT identity, directory, name FROM file WHERE number = ?");
    if (names.size() == kDepthMax || !row.bind(1, at).step()) {
      errno = ESTALE;
      return {};
    }
    if (names.empty()) wanted.bytes = row.text(0);
    at = row.integer(1);
    names.push_back(row.text(2));
    row.reset();
  }
  files::File here = reopened(root_, O_PATH | O_DIRECTORY);
  for (auto name = names.rbegin(); name != names.rend() && here.is_open(); ++name) {
    here = open_beneath(here, *name);
  }
  if (!here.is_open() || number == kRoot || identity_of(here) == wanted) return here;
  errno = ESTALE;
  return {};
}

bool TableHandles::leads_to(const Place& place, const Identity& identity) {
  const files::File directory = find(place.directory);
  if (!directory.is_open()) return false;
  const files::File file = open_beneath(directory, place.name);
  return file.is_open() && identity_of(file) == identity;
}

std::int64_t TableHandles::insert(const Identity& identity, const Place& place) {
  Statement& insert =
      database_.prepared("INSERT INTO file(identity, directory, name) VALUES(?, ?, ?)");
  insert.bind(1, identity.bytes).bind(2, place.directory).bind(3, place.name);
  return insert.finish() ? database_.last_number() : 0;
}

bool TableHandles::move(std::int64_t number, const Place& place) {
  return database_.prepared("UPDATE file SET directory = ?, name = ? WHERE number = ?")
      .bind(1, place.directory)
      .bind(2, place.name)
      .bind(3, number)
      .finish();
}

bool TableHandles::erase(std::int64_t number) {
  return database_.prepared("DELETE FROM file WHERE number = ?").bind(1, number).finish();
}

}  // namespace

rpcrdma::Expected<std::unique_ptr<Handles>, std::string> table_handles(const files::File& root,
                                                                       const std::string& path) {
  const auto wrong = [&](const std::string& what) {
    return rpcrdma::Unexpected<std::string>("the table of file handles in " + path + ": " + what);
  };
  files::File own = reopened(root, O_PATH | O_DIRECTORY);
  if (!own.is_open()) return rpcrdma::Unexpected<std::string>(std::strerror(errno));
  auto database = Database::open(path);
  if (!database) return wrong(database.error());
  auto made = std::make_unique<TableHandles>(std::move(own), std::move(*database));
  if (!made->begin()) return wrong(made->database().error());
  return made;
}

}  // namespace nfs::posix
