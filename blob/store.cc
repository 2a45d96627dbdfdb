#include "blob/store.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "blob/file.h"
#include "blob/sha256.h"
#include "rpcrdma/xdr.h"

namespace blob {
namespace {

using rpcrdma::Bytes;
using rpcrdma::Expected;
using rpcrdma::MutableBytes;
using rpcrdma::Unexpected;

constexpr std::string_view kUploads = ".uploads";
constexpr std::size_t kRecordSizeMax = 512;           // bytes; a name, a size and a sum
constexpr std::int64_t kUploadAgeMax = 24 * 60 * 60;  // seconds

blob_status status_of_errno(int error) {
  return error == ENOSPC || error == EDQUOT || error == EFBIG ? blob_status::BLOB_NO_SPACE
                                                              : blob_status::BLOB_IO_ERROR;
}

Expected<blob_sum, blob_status> sum_of(File& file) {
  std::vector<std::byte> buffer(BLOB_DATA_MAX);
  Sha256Stream sum;
  for (std::uint64_t offset = 0;;) {
    const auto count = file.read_at(buffer, offset);
    if (!count) return Unexpected<blob_status>(blob_status::BLOB_IO_ERROR);
    sum.add(Bytes(buffer).first(*count));
    if (*count < buffer.size()) return sum.finish();
    offset += *count;
  }
}

}  // namespace

bool valid_name(std::string_view name) noexcept {
  return !name.empty() && name.size() <= BLOB_NAME_MAX && name != "." && name != ".." &&
         name != kUploads && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

blob_status Store::open() {
  const std::string uploads = directory_ + "/" + std::string(kUploads);
  if (::mkdir(uploads.c_str(), 0700) != 0 && errno != EEXIST) return status_of_errno(errno);
  forget_old_uploads();
  return blob_status::BLOB_OK;
}

// --- Uploads -----------------------------------------------------------------------------------

blob_status Store::put_begin(const blob_id& id, std::string_view name, std::uint64_t size) {
  if (!valid_name(name)) return blob_status::BLOB_BAD_NAME;
  if (const auto upload = find_upload(id)) {
    return upload->name == name && upload->size == size ? blob_status::BLOB_OK
                                                        : blob_status::BLOB_CONFLICT;
  }
  File data(upload_path(id, ".data"), O_WRONLY | O_CREAT, 0600);
  if (!data.is_open()) return status_of_errno(errno);
  return write_record(id, {std::string(name), size, {}, false});
}

blob_status Store::put_data(const blob_id& id, std::uint64_t offset, Bytes data) {
  const auto upload = find_upload(id);
  if (!upload) return upload.error();
  if (offset > upload->size || data.size() > upload->size - offset)
    return blob_status::BLOB_BAD_RANGE;
  if (upload->done) return blob_status::BLOB_OK;  // a repetition
  File file(upload_path(id, ".data"), O_WRONLY);
  if (!file.is_open()) return status_of_errno(errno);
  return file.write_at(data, offset) ? blob_status::BLOB_OK : status_of_errno(errno);
}

blob_status Store::put_commit(const blob_id& id, const blob_sum& sum) {
  auto upload = find_upload(id);
  if (!upload) return upload.error();
  if (upload->done)
    return upload->committed == sum ? blob_status::BLOB_OK : blob_status::BLOB_SUM_MISMATCH;
  const std::string path = upload_path(id, ".data");
  {
    File file(path, O_RDONLY);
    // Gone: a commit was cut off behind the renaming, and is made again.
    if (!file.is_open() && errno == ENOENT) return commit_again(id, *upload, sum);
    const auto status = file.is_open() ? file.status() : std::nullopt;
    if (!status) return status_of_errno(errno);
    if (upload->size != BLOB_SIZE_UNKNOWN &&
        static_cast<std::uint64_t>(status->st_size) != upload->size)
      return blob_status::BLOB_INCOMPLETE;
    const auto arrived = sum_of(file);
    if (!arrived) return arrived.error();
    if (*arrived != sum) {
      ::unlink(path.c_str());
      ::unlink(upload_path(id, ".record").c_str());
      return blob_status::BLOB_SUM_MISMATCH;
    }
  }
  if (::rename(path.c_str(), blob_path(upload->name).c_str()) != 0) return status_of_errno(errno);
  upload->done = true;
  upload->committed = sum;
  return write_record(id, *upload);
}

blob_status Store::commit_again(const blob_id& id, Upload& upload, const blob_sum& sum) const {
  File file(blob_path(upload.name), O_RDONLY);
  const auto arrived = file.is_open() ? sum_of(file) : Expected<blob_sum, blob_status>(blob_sum{});
  if (!arrived) return arrived.error();
  if (*arrived != sum) return blob_status::BLOB_INCOMPLETE;
  upload.done = true;
  upload.committed = sum;
  return write_record(id, upload);
}

std::string Store::upload_path(const blob_id& id, const char* suffix) const {
  return directory_ + "/" + std::string(kUploads) + "/" + to_hex(id) + suffix;
}

Expected<Store::Upload, blob_status> Store::find_upload(const blob_id& id) const {
  File file(upload_path(id, ".record"), O_RDONLY);
  if (!file.is_open()) return Unexpected<blob_status>(blob_status::BLOB_NO_SUCH_UPLOAD);
  std::array<std::byte, kRecordSizeMax> record;
  const auto size = file.read_at(record, 0);
  if (!size) return Unexpected<blob_status>(blob_status::BLOB_IO_ERROR);
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
  const std::string temporary = upload_path(id, ".new");
  File file(temporary, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (!file.is_open() || !file.write_at(Bytes(record).first(writer.position()), 0) ||
      ::rename(temporary.c_str(), upload_path(id, ".record").c_str()) != 0) {
    const blob_status status = status_of_errno(errno);
    ::unlink(temporary.c_str());
    return status;
  }
  return blob_status::BLOB_OK;
}

// Abandoned uploads and the memory of finished ones do not stay for ever.
void Store::forget_old_uploads() const {
  std::error_code error;
  const std::filesystem::path uploads = std::filesystem::path(directory_) / kUploads;
  for (const auto& entry : std::filesystem::directory_iterator(uploads, error)) {
    struct stat status {};
    if (::stat(entry.path().c_str(), &status) != 0) continue;
    if (std::time(nullptr) - status.st_mtim.tv_sec > kUploadAgeMax) ::unlink(entry.path().c_str());
  }
}

// --- Blobs -------------------------------------------------------------------------------------

std::string Store::blob_path(std::string_view name) const {
  return directory_ + "/" + std::string(name);
}

Expected<Store::Got, blob_status> Store::get(std::string_view name, std::uint64_t offset,
                                             MutableBytes into) {
  if (!valid_name(name)) return Unexpected<blob_status>(blob_status::BLOB_BAD_NAME);
  File file(blob_path(name), O_RDONLY);
  if (!file.is_open()) return Unexpected<blob_status>(blob_status::BLOB_NO_SUCH_BLOB);
  const auto status = file.status();
  if (!status || !S_ISREG(status->st_mode))
    return Unexpected<blob_status>(blob_status::BLOB_NO_SUCH_BLOB);
  const auto size = static_cast<std::uint64_t>(status->st_size);
  if (offset >= size) return Got{0, true};
  const auto count = file.read_at(into, offset);
  if (!count) return Unexpected<blob_status>(blob_status::BLOB_IO_ERROR);
  return Got{*count, offset + *count >= size};
}

Expected<Store::Entry, blob_status> Store::stat(std::string_view name) {
  if (!valid_name(name)) return Unexpected<blob_status>(blob_status::BLOB_BAD_NAME);
  struct stat status {};
  if (::stat(blob_path(name).c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return Unexpected<blob_status>(blob_status::BLOB_NO_SUCH_BLOB);
  }
  return Entry{std::string(name), static_cast<std::uint64_t>(status.st_size),
               static_cast<std::uint64_t>(status.st_mtim.tv_sec) * 1'000'000'000U +
                   static_cast<std::uint64_t>(status.st_mtim.tv_nsec)};
}

std::vector<Store::Entry> Store::list() {
  std::vector<Entry> entries;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(directory_, error)) {
    if (auto entry = stat(file.path().filename().string())) entries.push_back(std::move(*entry));
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

Expected<blob_sum, blob_status> Store::sum(std::string_view name) {
  if (!valid_name(name)) return Unexpected<blob_status>(blob_status::BLOB_BAD_NAME);
  File file(blob_path(name), O_RDONLY);
  if (!file.is_open()) return Unexpected<blob_status>(blob_status::BLOB_NO_SUCH_BLOB);
  return sum_of(file);
}

blob_status Store::remove(std::string_view name) {
  if (!valid_name(name)) return blob_status::BLOB_BAD_NAME;
  if (::unlink(blob_path(name).c_str()) == 0 || errno == ENOENT) return blob_status::BLOB_OK;
  return status_of_errno(errno);
}

}  // namespace blob
