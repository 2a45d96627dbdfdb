#include "nfs/handle_seal.h"

#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "files/file.h"

namespace nfs {
namespace {

constexpr std::byte kVersion{1};
constexpr std::size_t kHeaderSize = 1 + sizeof(ExportId);
constexpr std::size_t kSealSize = 16;
static_assert(kHeaderSize + HandleMaker::kInnerHandleMax + kSealSize <= nfs3::NFS3_FHSIZE);

template <auto Function>
struct Free {
  template <class T>
  void operator()(T* object) const noexcept {
    Function(object);
  }
};
using Mac = std::unique_ptr<EVP_MAC, Free<EVP_MAC_free>>;
using MacContext = std::unique_ptr<EVP_MAC_CTX, Free<EVP_MAC_CTX_free>>;

// One for each thread: making one anew takes longer than the seal.
EVP_MAC_CTX* context_of_thread() {
  static const Mac algorithm(EVP_MAC_fetch(nullptr, "SIPHASH", nullptr));
  thread_local const MacContext context(algorithm ? EVP_MAC_CTX_new(algorithm.get()) : nullptr);
  return context.get();
}

rpcrdma::Unexpected<std::string> wrong(const std::string& path, const std::string& what) {
  return rpcrdma::Unexpected<std::string>("the key of file handles in " + path + ": " + what);
}

// Gives the file a second name, unless something has that. The first one may go on to be there.
bool give_name(const std::string& file, const std::string& name) {
  if (::link(file.c_str(), name.c_str()) == 0 || errno == EEXIST) return true;
  // Some file systems have no second names.
  const bool has_links = errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS;
  return !has_links &&
         (::renameat2(AT_FDCWD, file.c_str(), AT_FDCWD, name.c_str(), RENAME_NOREPLACE) == 0 ||
          errno == EEXIST);
}

// Puts a file there, unless there is one. It has its name when all of it is on the disk, so that
// the end of this machine leaves all of it or none, and no other server reads a part. False: errno.
bool put(const std::string& path, std::span<const std::byte> content) {
  std::string temporary = path + ".XXXXXX";
  files::File file(::mkostemp(temporary.data(), O_CLOEXEC));  // for its owner alone
  if (!file.is_open()) return false;
  const bool is_put =
      file.write_at(content, 0) && ::fsync(file.descriptor()) == 0 && give_name(temporary, path);
  const int error = errno;
  ::unlink(temporary.c_str());
  errno = error;
  if (!is_put) return false;
  const std::size_t slash = path.rfind('/');
  const files::File directory(slash == std::string::npos ? "." : path.substr(0, slash + 1),
                              O_RDONLY | O_DIRECTORY);
  // Some file systems have no such call, and some directories may not be read.
  return !directory.is_open() || ::fsync(directory.descriptor()) == 0 || errno == EINVAL;
}

}  // namespace

// FNV-1a: what exports are is no secret, and their handles are sealed.
ExportId export_id(std::string_view name, std::span<const std::byte> root) {
  ExportId digest = 2166136261U;
  const auto take = [&](unsigned char byte) { digest = (digest ^ byte) * 16777619U; };
  for (const char each : name) take(static_cast<unsigned char>(each));
  take(0);
  for (const std::byte each : root) take(std::to_integer<unsigned char>(each));
  return digest;
}

HandleKey HandleKey::random() {
  std::array<unsigned char, kSize> bytes{};
  // Without random numbers nothing is safe any more.
  if (RAND_bytes(bytes.data(), kSize) != 1) std::abort();
  return HandleKey(bytes);
}

rpcrdma::Expected<std::optional<HandleKey>, std::string> HandleKey::read(const std::string& path) {
  const files::File file(path, O_RDONLY);
  if (!file.is_open() && errno == ENOENT) return std::optional<HandleKey>();
  if (!file.is_open()) return wrong(path, std::strerror(errno));
  const auto status = file.status();
  if (!status || !S_ISREG(status->st_mode)) return wrong(path, "this is no file");
  if ((status->st_mode & 077) != 0) {
    return wrong(path, "others may read it, so that they can make handles; chmod 600 it");
  }
  std::array<unsigned char, kSize> bytes{};
  const auto size = file.read_at(std::as_writable_bytes(std::span(bytes)), 0);
  if (!size || *size != kSize || status->st_size != static_cast<off_t>(kSize)) {
    return wrong(path,
                 "it has not 16 bytes; remove it and a new one is made, by which clients "
                 "have to mount anew");
  }
  return std::optional(HandleKey(bytes));
}

rpcrdma::Expected<HandleKey, std::string> HandleKey::load(const std::string& path) {
  auto found = read(path);
  if (found && !*found) {
    const HandleKey made = random();
    if (!put(path, std::as_bytes(std::span(made.bytes_)))) {
      return wrong(path, std::string("it cannot be made: ") + std::strerror(errno));
    }
    found = read(path);  // another server may have been faster
  }
  if (!found) return rpcrdma::Unexpected<std::string>(found.error());
  if (!*found) return wrong(path, "somebody has removed it just now");
  return **found;
}

HandleKey::Seal HandleKey::seal_of(std::span<const std::byte> bytes) const {
  Seal seal{};
  unsigned size = kSealSize;
  const std::array<OSSL_PARAM, 2> parameters{OSSL_PARAM_construct_uint(OSSL_MAC_PARAM_SIZE, &size),
                                             OSSL_PARAM_construct_end()};
  std::size_t made = 0;
  EVP_MAC_CTX* const context = context_of_thread();
  const bool done = context != nullptr &&
                    EVP_MAC_init(context, bytes_.data(), bytes_.size(), parameters.data()) == 1 &&
                    EVP_MAC_update(context, reinterpret_cast<const unsigned char*>(bytes.data()),
                                   bytes.size()) == 1 &&
                    EVP_MAC_final(context, reinterpret_cast<unsigned char*>(seal.data()), &made,
                                  seal.size()) == 1;
  if (!done || made != kSealSize) std::abort();  // handles that anybody could make are no way out
  return seal;
}

nfs3::nfs_fh3 HandleKey::seal(ExportId id, std::span<const std::byte> inner) const {
  nfs3::nfs_fh3 handle;
  if (inner.size() > HandleMaker::kInnerHandleMax) std::abort();  // the back end's mistake
  handle.data.resize(kHeaderSize + inner.size() + kSealSize);
  handle.data[0] = kVersion;
  for (std::size_t i = 0; i < sizeof(id); ++i) {
    handle.data[1 + i] = static_cast<std::byte>(id >> (8 * (sizeof(id) - 1 - i)));
  }
  std::ranges::copy(inner, handle.data.begin() + kHeaderSize);
  const std::span<const std::byte> sealed(handle.data.data(), kHeaderSize + inner.size());
  std::ranges::copy(seal_of(sealed), handle.data.end() - kSealSize);
  return handle;
}

std::optional<HandleKey::Opened> HandleKey::open(const nfs3::nfs_fh3& handle) const {
  const std::span<const std::byte> bytes(handle.data);
  if (bytes.size() < kHeaderSize + kSealSize || bytes[0] != kVersion) return std::nullopt;
  const Seal seal = seal_of(bytes.first(bytes.size() - kSealSize));
  if (CRYPTO_memcmp(seal.data(), bytes.last(kSealSize).data(), kSealSize) != 0) {
    return std::nullopt;
  }
  ExportId id = 0;
  for (std::size_t i = 0; i < sizeof(id); ++i) {
    id = id << 8U | std::to_integer<ExportId>(bytes[1 + i]);
  }
  return Opened{id, bytes.subspan(kHeaderSize, bytes.size() - kHeaderSize - kSealSize)};
}

}  // namespace nfs
