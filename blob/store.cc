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

Status status_of_errno(int error) {
  return error == ENOSPC || error == EDQUOT || error == EFBIG ? Status::kNoSpace : Status::kIoError;
}

Expected<Sha256, Status> sum_of(File& file) {
  std::vector<std::byte> buffer(kDataSizeMax);
  Sha256Stream sum;
  for (std::uint64_t offset = 0;;) {
    const auto count = file.read_at(buffer, offset);
    if (!count) return Unexpected<Status>(Status::kIoError);
    sum.add(Bytes(buffer).first(*count));
    if (*count < buffer.size()) return sum.finish();
    offset += *count;
  }
}

}  // namespace

bool valid_name(std::string_view name) noexcept {
  return !name.empty() && name.size() <= kNameSizeMax && name != "." && name != ".." &&
         name != kUploads && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

Status Store::open() {
  const std::string uploads = directory_ + "/" + std::string(kUploads);
  if (::mkdir(uploads.c_str(), 0700) != 0 && errno != EEXIST) return status_of_errno(errno);
  forget_old_uploads();
  return Status::kOk;
}

// --- Uploads -----------------------------------------------------------------------------------

Status Store::put_begin(const UploadId& id, std::string_view name, std::uint64_t size) {
  if (!valid_name(name)) return Status::kBadName;
  if (const auto upload = find_upload(id)) {
    return upload->name == name && upload->size == size ? Status::kOk : Status::kConflict;
  }
  File data(upload_path(id, ".data"), O_WRONLY | O_CREAT, 0600);
  if (!data.is_open()) return status_of_errno(errno);
  return write_record(id, {std::string(name), size, {}, false});
}

Status Store::put_data(const UploadId& id, std::uint64_t offset, Bytes data) {
  const auto upload = find_upload(id);
  if (!upload) return upload.error();
  if (offset > upload->size || data.size() > upload->size - offset) return Status::kBadRange;
  if (upload->done) return Status::kOk;  // a repetition
  File file(upload_path(id, ".data"), O_WRONLY);
  if (!file.is_open()) return status_of_errno(errno);
  return file.write_at(data, offset) ? Status::kOk : status_of_errno(errno);
}

Status Store::put_commit(const UploadId& id, const Sha256& sum) {
  auto upload = find_upload(id);
  if (!upload) return upload.error();
  if (upload->done) return upload->committed == sum ? Status::kOk : Status::kSumMismatch;
  const std::string path = upload_path(id, ".data");
  {
    File file(path, O_RDONLY);
    // Gone: a commit was cut off behind the renaming, and is made again.
    if (!file.is_open() && errno == ENOENT) return commit_again(id, *upload, sum);
    const auto status = file.is_open() ? file.status() : std::nullopt;
    if (!status) return status_of_errno(errno);
    if (static_cast<std::uint64_t>(status->st_size) != upload->size) return Status::kIncomplete;
    const auto arrived = sum_of(file);
    if (!arrived) return arrived.error();
    if (*arrived != sum) {
      ::unlink(path.c_str());
      ::unlink(upload_path(id, ".record").c_str());
      return Status::kSumMismatch;
    }
  }
  if (::rename(path.c_str(), blob_path(upload->name).c_str()) != 0) return status_of_errno(errno);
  upload->done = true;
  upload->committed = sum;
  return write_record(id, *upload);
}

Status Store::commit_again(const UploadId& id, Upload& upload, const Sha256& sum) const {
  File file(blob_path(upload.name), O_RDONLY);
  const auto arrived = file.is_open() ? sum_of(file) : Expected<Sha256, Status>(Sha256{});
  if (!arrived) return arrived.error();
  if (*arrived != sum) return Status::kIncomplete;
  upload.done = true;
  upload.committed = sum;
  return write_record(id, upload);
}

std::string Store::upload_path(const UploadId& id, const char* suffix) const {
  return directory_ + "/" + std::string(kUploads) + "/" + to_hex(id) + suffix;
}

Expected<Store::Upload, Status> Store::find_upload(const UploadId& id) const {
  File file(upload_path(id, ".record"), O_RDONLY);
  if (!file.is_open()) return Unexpected<Status>(Status::kNoSuchUpload);
  std::array<std::byte, kRecordSizeMax> record;
  const auto size = file.read_at(record, 0);
  if (!size) return Unexpected<Status>(Status::kIoError);
  rpcrdma::xdr::Reader reader(Bytes(record).first(*size));
  Upload upload;
  upload.name = reader.string(kNameSizeMax, "name");
  upload.size = reader.u64("size");
  upload.done = reader.boolean("done");
  const Bytes sum = reader.opaque_fixed(sizeof(Sha256), "sum");
  if (!reader.ok()) return Unexpected<Status>(Status::kNoSuchUpload);
  std::copy(sum.begin(), sum.end(), upload.committed.begin());
  return upload;
}

// Replaces the record as a whole, so that a crash leaves the old one or the new one.
Status Store::write_record(const UploadId& id, const Upload& upload) const {
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
    const Status status = status_of_errno(errno);
    ::unlink(temporary.c_str());
    return status;
  }
  return Status::kOk;
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

Expected<Store::Got, Status> Store::get(std::string_view name, std::uint64_t offset,
                                        MutableBytes into) {
  if (!valid_name(name)) return Unexpected<Status>(Status::kBadName);
  File file(blob_path(name), O_RDONLY);
  if (!file.is_open()) return Unexpected<Status>(Status::kNoSuchBlob);
  const auto status = file.status();
  if (!status || !S_ISREG(status->st_mode)) return Unexpected<Status>(Status::kNoSuchBlob);
  const auto size = static_cast<std::uint64_t>(status->st_size);
  if (offset >= size) return Got{0, true};
  const auto count = file.read_at(into, offset);
  if (!count) return Unexpected<Status>(Status::kIoError);
  return Got{*count, offset + *count >= size};
}

Expected<Store::Entry, Status> Store::stat(std::string_view name) {
  if (!valid_name(name)) return Unexpected<Status>(Status::kBadName);
  struct stat status {};
  if (::stat(blob_path(name).c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return Unexpected<Status>(Status::kNoSuchBlob);
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

Expected<Sha256, Status> Store::sum(std::string_view name) {
  if (!valid_name(name)) return Unexpected<Status>(Status::kBadName);
  File file(blob_path(name), O_RDONLY);
  if (!file.is_open()) return Unexpected<Status>(Status::kNoSuchBlob);
  return sum_of(file);
}

Status Store::remove(std::string_view name) {
  if (!valid_name(name)) return Status::kBadName;
  if (::unlink(blob_path(name).c_str()) == 0 || errno == ENOENT) return Status::kOk;
  return status_of_errno(errno);
}

}  // namespace blob
