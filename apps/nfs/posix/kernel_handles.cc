#include <fcntl.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "nfs/posix/handles.h"
#include "nfs/posix/identity.h"

namespace nfs::posix {
namespace {

constexpr std::size_t kKernelSizeMax =
    HandleMaker::kInnerHandleMax - 1;  // behind a byte for the type

// struct file_handle with its room behind it.
struct Room {
  alignas(file_handle) std::array<std::byte, sizeof(file_handle) + kKernelSizeMax> bytes{};
  file_handle* get() noexcept { return reinterpret_cast<file_handle*>(bytes.data()); }
  std::byte* content() noexcept { return bytes.data() + sizeof(file_handle); }
};

class KernelHandles final : public Handles {
 public:
  explicit KernelHandles(files::File mount) : mount_(std::move(mount)) {}

  std::optional<InnerHandle> of(const files::File& file, const InnerHandle& /*directory*/,
                                const std::string& /*name*/) override {
    return kernel_handle_of(file);
  }

  bool is_quick() const noexcept override { return true; }
  files::File open(const InnerHandle& handle) override {
    if (handle.size < 1) {
      errno = ESTALE;
      return {};
    }
    Room room;
    room.get()->handle_bytes = handle.size - 1U;
    room.get()->handle_type = std::to_integer<int>(handle.bytes[0]);
    std::memcpy(room.content(), handle.bytes.data() + 1, room.get()->handle_bytes);
    const AsServer as_server;
    files::File opened(::open_by_handle_at(mount_.descriptor(), room.get(), O_PATH | O_CLOEXEC));
    if (!opened.is_open() && errno == EINVAL) errno = ESTALE;  // of another kind of file system
    return opened;
  }

 private:
  const files::File mount_;
};

}  // namespace

std::optional<InnerHandle> kernel_handle_of(const files::File& file) {
  Room room;
  room.get()->handle_bytes = kKernelSizeMax;
  int mount = 0;
  if (::name_to_handle_at(file.descriptor(), "", room.get(), &mount, AT_EMPTY_PATH) != 0) {
    return std::nullopt;
  }
  const int type = room.get()->handle_type;
  if (type < 0 || type > 255) {
    errno = EOVERFLOW;
    return std::nullopt;
  }
  InnerHandle made;
  made.bytes[0] = static_cast<std::byte>(type);
  std::memcpy(made.bytes.data() + 1, room.content(), room.get()->handle_bytes);
  made.size = static_cast<std::uint8_t>(1 + room.get()->handle_bytes);
  return made;
}

std::unique_ptr<Handles> kernel_handles(const files::File& root) {
  files::File mount(::openat(root.descriptor(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!mount.is_open()) return nullptr;
  auto made = std::make_unique<KernelHandles>(std::move(mount));
  const auto handle = made->of(root, {}, {});
  if (!handle || !made->open(*handle).is_open()) return nullptr;
  return made;
}

}  // namespace nfs::posix
