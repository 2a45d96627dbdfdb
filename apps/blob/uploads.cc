// Uploads of a Store: ID.record says what for, ID.data holds what has come; both in .uploads.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "blob/name.h"
#include "blob/sha256.h"
#include "blob/store.h"
#include "blob/store_files.h"
#include "rpcrdma/xdr.h"

namespace blob {

using files::File;

using rpcrdma::Bytes;
using rpcrdma::Expected;
using rpcrdma::Unexpected;

namespace {

constexpr std::size_t kRecordSizeMax = 512;  // bytes; a name, a size and a sum
constexpr const char* kData = ".data";
constexpr const char* kRecord = ".record";
constexpr const char* kNewRecord = ".new";

// Below the store's directory.
std::string upload_path(const std::string& id, const char* suffix) {
  return std::string(kUploadsName) + "/" + id + suffix;
}
std::string upload_path(const blob_id& id, const char* suffix) {
  return upload_path(to_hex(id), suffix);
}

void remove_files(int directory, const std::string& id) {
  for (const char* const suffix : {kData, kRecord, kNewRecord}) {
    ::unlinkat(directory, upload_path(id, suffix).c_str(), 0);
  }
}

bool reaches_too_far(std::uint64_t offset, std::size_t size, std::uint64_t announced) {
  constexpr std::uint64_t kFileSizeMax = std::numeric_limits<off_t>::max();
  const std::uint64_t limit = std::min(announced, kFileSizeMax);
  return offset > limit || size > limit - offset;
}

}  // namespace

Store::Use::Use(Store& store, const blob_id& id, bool Uses::*only)
    : store_(store), only_(only), place_(enter(to_hex(id))) {}

Store::Use::Place Store::Use::enter(const std::string& id) {
  std::unique_lock lock(store_.mutex_);
  store_.ended_.wait(lock, [&] {
    const auto found = store_.uses_.find(id);
    if (found == store_.uses_.end()) return true;
    const Uses& uses = found->second;
    return !uses.is_leaving && (only_ == nullptr || !(uses.*only_));
  });
  const Place place = store_.uses_.try_emplace(id).first;
  ++place->second.count;
  if (only_ != nullptr) place->second.*only_ = true;
  return place;
}

Store::Use::~Use() {
  bool wakes = only_ != nullptr;
  {
    std::unique_lock lock(store_.mutex_);
    Uses& uses = place_->second;
    if (only_ != nullptr) uses.*only_ = false;
    if (--uses.count == 0) {
      // Others need the room, and what is missing would not come again. Nobody else looks at the
      // files now: a call that found some of them gone would give another reason than the first.
      if (uses.ended) {
        wakes = uses.is_leaving = true;
        lock.unlock();
        remove_files(store_.directory_.descriptor(), place_->first);
        lock.lock();
      }
      store_.uses_.erase(place_);
    }
  }
  if (wakes) store_.ended_.notify_all();
}

std::optional<blob_status> Store::Use::ended() const {
  const std::lock_guard lock(store_.mutex_);
  return place_->second.ended;
}

blob_status Store::Use::end(blob_status status) {
  const std::lock_guard lock(store_.mutex_);
  std::optional<blob_status>& ended = place_->second.ended;
  if (!ended) ended = status;
  return *ended;
}

File Store::open_upload(const blob_id& id, const char* suffix, int flags) const {
  return File(::openat(directory_.descriptor(), upload_path(id, suffix).c_str(),
                       flags | O_NOFOLLOW | O_CLOEXEC, 0600));
}

// Makes the directory, too, which expire() takes away when it is empty, perhaps between the two
// steps. That happens less often than once in this many times.
File Store::make_data(const blob_id& id) const {
  constexpr int kAttempts = 16;
  File data;
  for (int i = 0; i < kAttempts && !data.is_open(); ++i) {
    ::mkdirat(directory_.descriptor(), std::string(kUploadsName).c_str(), 0700);
    data = open_upload(id, kData, O_WRONLY | O_CREAT);
    if (!data.is_open() && errno != ENOENT) break;
  }
  return data;
}

blob_status Store::put_begin(const blob_id& id, std::string_view name, std::uint64_t size) {
  if (options_.is_read_only) return blob_status::BLOB_READ_ONLY;
  if (!valid_name(name)) return blob_status::BLOB_BAD_NAME;
  if (!may_be_replaced(name)) return blob_status::BLOB_NOT_A_FILE;
  Use use(*this, id, &Uses::has_begin);
  if (const auto ended = use.ended()) return *ended;
  if (const auto upload = find_upload(id)) {
    return upload->name == name && upload->size == size ? blob_status::BLOB_OK
                                                        : blob_status::BLOB_CONFLICT;
  }
  const File data = make_data(id);
  if (!data.is_open()) return failed("starting the upload of", name);
  const blob_status status = write_record(id, {std::string(name), size, {}, false});
  return status == blob_status::BLOB_OK ? status : use.end(status);
}

blob_status Store::put_data(const blob_id& id, std::uint64_t offset, Bytes data) {
  if (options_.is_read_only) return blob_status::BLOB_READ_ONLY;
  Use use(*this, id, nullptr);
  if (const auto ended = use.ended()) return *ended;
  const auto upload = find_upload(id);
  if (!upload) return upload.error();
  if (reaches_too_far(offset, data.size(), upload->size)) return blob_status::BLOB_BAD_RANGE;
  if (upload->done) return blob_status::BLOB_OK;  // a repetition
  File file = open_upload(id, kData, O_WRONLY);
  if (!file.is_open() && errno == ENOENT) return blob_status::BLOB_NO_SUCH_UPLOAD;
  if (!file.is_open()) return failed("writing the upload of", upload->name);
  if (data.empty()) ::futimens(file.descriptor(), nullptr);
  if (file.write_at(data, offset)) return blob_status::BLOB_OK;
  const blob_status status = failed("writing the upload of", upload->name);
  // Others need the room at once; the names go with the last call of the upload.
  (void)::ftruncate(file.descriptor(), 0);
  return use.end(status);
}

blob_status Store::put_commit(const blob_id& id, const blob_sum& sum) {
  if (options_.is_read_only) return blob_status::BLOB_READ_ONLY;
  Use use(*this, id, &Uses::has_commit);
  if (const auto ended = use.ended()) return *ended;
  auto upload = find_upload(id);
  if (!upload) return upload.error();
  if (upload->done)
    return upload->committed == sum ? blob_status::BLOB_OK : blob_status::BLOB_SUM_MISMATCH;
  const File data = open_upload(id, kData, O_RDONLY);
  // Gone: a commit was cut off behind the renaming, and is made again.
  if (!data.is_open() && errno == ENOENT) return commit_again(id, *upload, sum);
  const blob_status status = check(data, *upload, sum);
  if (status == blob_status::BLOB_SUM_MISMATCH) return use.end(status);
  return status == blob_status::BLOB_OK ? publish(id, *upload, sum, use) : status;
}

std::string Store::name_of(const blob_id& id) const {
  const auto upload = find_upload(id);
  return upload ? upload->name : std::string();
}

// Checks that the data is complete, right, and on the disk.
blob_status Store::check(const File& data, const Upload& upload, const blob_sum& sum) const {
  const auto status = data.is_open() ? data.status() : std::nullopt;
  if (!status) return failed("reading the upload of", upload.name);
  if (upload.size != BLOB_SIZE_UNKNOWN &&
      static_cast<std::uint64_t>(status->st_size) != upload.size) {
    return blob_status::BLOB_INCOMPLETE;
  }
  const auto arrived = sum_of(data);
  if (!arrived) return failed("reading the upload of", upload.name);
  if (*arrived != sum) return blob_status::BLOB_SUM_MISMATCH;
  if (options_.sync && !options_.sync(data.descriptor())) {
    return failed("bringing to the disk", upload.name);
  }
  return blob_status::BLOB_OK;
}

blob_status Store::publish(const blob_id& id, Upload& upload, const blob_sum& sum, Use& use) const {
  const int directory = directory_.descriptor();
  if (!may_be_replaced(upload.name)) return use.end(blob_status::BLOB_NOT_A_FILE);
  if (::renameat(directory, upload_path(id, kData).c_str(), directory, upload.name.c_str()) != 0) {
    return failed("giving its name to", upload.name);
  }
  if (options_.sync && !options_.sync(directory)) {
    return failed("bringing to the disk the name", upload.name);
  }
  upload.done = true;
  upload.committed = sum;
  // Without it a repetition finds the data gone and sums the blob.
  (void)write_record(id, upload);
  return blob_status::BLOB_OK;
}

blob_status Store::commit_again(const blob_id& id, Upload& upload, const blob_sum& sum) const {
  File file = open_regular(upload.name);
  const auto arrived = file.is_open() ? sum_of(file) : std::optional<blob_sum>(blob_sum{});
  if (!arrived) return failed("reading", upload.name);
  if (*arrived != sum) return blob_status::BLOB_INCOMPLETE;
  if (options_.sync &&
      !(options_.sync(file.descriptor()) && options_.sync(directory_.descriptor()))) {
    return failed("bringing to the disk", upload.name);
  }
  upload.done = true;
  upload.committed = sum;
  (void)write_record(id, upload);
  return blob_status::BLOB_OK;
}

Expected<Store::Upload, blob_status> Store::find_upload(const blob_id& id) const {
  const File file = open_upload(id, kRecord, O_RDONLY);
  if (!file.is_open()) return Unexpected<blob_status>(blob_status::BLOB_NO_SUCH_UPLOAD);
  std::array<std::byte, kRecordSizeMax> record;
  const auto size = file.read_at(record, 0);
  if (!size) return Unexpected<blob_status>(failed("reading the record of", to_hex(id)));
  rpcrdma::xdr::Reader reader(Bytes(record).first(*size));
  Upload upload;
  upload.name = reader.string(BLOB_NAME_MAX, "name");
  upload.size = reader.u64("size");
  upload.done = reader.boolean("done");
  const Bytes sum = reader.opaque_fixed(sizeof(blob_sum), "sum");
  if (!reader.ok()) return Unexpected<blob_status>(blob_status::BLOB_NO_SUCH_UPLOAD);
  std::copy(sum.begin(), sum.end(), upload.committed.begin());
  return upload;
}

// Replaces the record as a whole, so that a crash leaves the old one or the new one.
blob_status Store::write_record(const blob_id& id, const Upload& upload) const {
  std::array<std::byte, kRecordSizeMax> record;
  rpcrdma::xdr::Writer writer(record);
  writer.string(upload.name);
  writer.u64(upload.size);
  writer.boolean(upload.done);
  writer.opaque_fixed(upload.committed);
  const int directory = directory_.descriptor();
  const std::string temporary = upload_path(id, kNewRecord);
  File file = open_upload(id, kNewRecord, O_WRONLY | O_CREAT | O_TRUNC);
  if (file.is_open() && file.write_at(Bytes(record).first(writer.position()), 0) &&
      ::renameat(directory, temporary.c_str(), directory, upload_path(id, kRecord).c_str()) == 0) {
    return blob_status::BLOB_OK;
  }
  const blob_status status = failed("writing the record of", upload.name);
  ::unlinkat(directory, temporary.c_str(), 0);
  return status;
}

// An upload lives as long as the youngest of its files is young: data is written while it comes,
// and the record when it has been committed.
bool Store::has_expired(const std::string& id) const {
  std::chrono::nanoseconds last{};
  for (const char* const suffix : {kData, kRecord, kNewRecord}) {
    struct stat status {};
    if (::fstatat(directory_.descriptor(), upload_path(id, suffix).c_str(), &status,
                  AT_SYMLINK_NOFOLLOW) != 0) {
      continue;
    }
    last = std::max(last, std::chrono::nanoseconds(std::chrono::seconds(status.st_mtim.tv_sec)) +
                              std::chrono::nanoseconds(status.st_mtim.tv_nsec));
  }
  return options_.now() - last >= options_.upload_idle_max;
}

// Looks at the times when nobody can use the upload any more: what came before is in them.
void Store::remove_if_expired(const std::string& id) {
  {
    const std::lock_guard lock(mutex_);
    const auto [place, is_unused] = uses_.try_emplace(id);
    if (!is_unused) return;
    place->second.is_leaving = true;
  }
  if (has_expired(id)) remove_files(directory_.descriptor(), id);
  {
    const std::lock_guard lock(mutex_);
    uses_.erase(id);
  }
  ended_.notify_all();
}

void Store::expire() {
  {
    const std::lock_guard lock(list_mutex_);
    if (!std::exchange(are_names_used_, false)) names_.forget();
  }
  if (options_.is_read_only) return;
  const int directory = directory_.descriptor();
  const std::string uploads(kUploadsName);
  std::set<std::string> ids;
  for (const std::string& name : names_in(directory, uploads.c_str())) {
    if (!name.starts_with('.')) ids.insert(name.substr(0, name.find('.')));
  }
  for (const std::string& id : ids) {
    if (has_expired(id)) remove_if_expired(id);
  }
  ::unlinkat(directory, uploads.c_str(), AT_REMOVEDIR);  // if it is empty
}

}  // namespace blob
