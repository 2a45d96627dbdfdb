// The session with the kernel: mounts an export at a directory, and serves requests until it is
// unmounted.
//
// One thread does all. It reads requests from the kernel, starts their operations, and lets the
// connections go on; a request that no operation has ended in time fails.
#ifndef RPCRDMA_MOUNT_FUSE_SESSION_H_
#define RPCRDMA_MOUNT_FUSE_SESSION_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "files/file.h"
#include "mount/attribute_operations.h"
#include "mount/directory_operations.h"
#include "mount/file_operations.h"
#include "mount/fuse_forgetter.h"
#include "mount/fuse_library.h"
#include "mount/fuse_requests.h"
#include "mount/name_operations.h"
#include "mount/receive_room.h"
#include "mount/request_slots.h"
#include "mount/tree.h"
#include "mount/unread.h"
#include "nfs/client/mounted.h"
#include "nfs/client/turns.h"
#include "rpcrdma/expected.h"

namespace mounts {

struct SessionOptions {
  TreeOptions tree{};
  std::chrono::milliseconds patience{60'000};  // of a request
  std::optional<std::uint32_t> uid{}, gid{};   // owners of all files, as programs see them
  bool is_read_only = false;
  bool is_for_all = false;          // other users may use it, in their own names
  std::vector<std::string> fuse{};  // further options of libfuse, such as "nosuid"
  std::string source;               // as mount(8) shows it
  // Reports that the server has not kept all that was written, before run() ends.
  std::function<void()> report_loss{};
  // The next step mounts: from now on a process that ends leaves a mount behind.
  std::function<void()> is_about_to_mount{};
};

// A mount at one moment.
struct Snapshot {
  Statistics statistics{};
  Clock::duration up{};
  std::uint64_t requests = 0, timed_out = 0, interrupted = 0;
  std::size_t waiting = 0;  // requests that are not answered
  std::size_t connections = 0, connections_up = 0;
  std::size_t open_files = 0, dirty_files = 0;
  std::size_t memory_in_use = 0, memory_limit = 0;  // bytes
  std::size_t nodes = 0, nodes_most = 0, nodes_limit = 0;
};

class Session {
 public:
  // Mounts at the directory. An error is a sentence.
  static rpcrdma::Expected<std::unique_ptr<Session>, std::string> mount(
      nfs::Mounted& server, const std::string& directory, const SessionOptions& options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Serves requests until the file system is unmounted, or `stop`, a descriptor, becomes readable:
  // then what programs have written goes to the server, and it is unmounted, in use or not.
  // Returns whether the server has kept all that was written. If calls to a server that does not
  // answer are left, run() ends the process, with 0 or 1.
  bool run(int stop);
  // Goes on with everything once, and waits for nothing, as run() does in each of its turns.
  // Returns whether there was work.
  bool go_on();

  // Returns how things were a moment ago. From any thread.
  Snapshot snapshot() const;
  Statistics& statistics() noexcept { return tree_.statistics(); }
  const Requests& requests() const noexcept { return requests_; }

  // --- For the table of operations ---------------------------------------------------------------
  Tree& tree() noexcept { return tree_; }
  NameOperations& names() noexcept { return names_; }
  FileOperations& files() noexcept { return files_; }
  AttributeOperations& attributes() noexcept { return attributes_; }
  DirectoryOperations& directories() noexcept { return directories_; }
  static Session& of(fuse_req_t handle) {
    return *static_cast<Session*>(::fuse_req_userdata(handle));
  }
  // Runs `body(request)`, a coroutine that answers it or returns errno's value.
  template <class Body>
  void serve(fuse_req_t handle, Body body) {
    tree_.turns().begin(run_one(requests_.add(handle, begun()), std::move(body)));
  }
  // The same for a body that waits for nothing. It takes no slot: requests that have one may wait
  // for the buffer that this one has.
  template <class Body>
  void serve_at_once(fuse_req_t handle, Body body) {
    tree_.turns().begin(run_without_slot(requests_.add(handle, begun()), std::move(body)));
  }
  // The session ends once the server has what was written so far.
  bool is_draining() const noexcept { return is_draining_; }
  // The bytes of a write lie where the last request was received.
  ReceiveRoom& received() noexcept { return received_; }
  // Reports to the kernel that its attributes of a node are void.
  void report_void(NodeId node);
  fuse_entry_param entry_for_kernel(const Entry& entry) const;
  // Returns attributes as programs see them.
  struct stat shown(const nfs3::fattr3& attributes) const noexcept;
  void set_up(fuse_conn_info& connection) const;

 private:
  Session(nfs::Mounted& server, const SessionOptions& options);

  template <class Body>
  Task<void> run_one(Request& request, Body body) {
    const std::uint32_t uid = request.who().uid;
    co_await slots_.take(uid);
    if (!request.is_answered()) {
      const int error = co_await body(request);
      if (error != 0) requests_.fail(request, error);
    }
    slots_.give_back(uid);
    requests_.end(request);
  }
  template <class Body>
  Task<void> run_without_slot(Request& request, Body body) {
    const int error = co_await body(request);
    if (error != 0) requests_.fail(request, error);
    requests_.end(request);
  }
  Time begun() const { return unread_.begun(Clock::now(), files_.writes().last_taken()); }
  void take_snapshot(Time now);
  // Has the kernel forget names if there are too many nodes.
  void forget_names();
  // Returns whether there was a request.
  bool receive_one();
  // Waits for work. Returns whether `stop` has become readable.
  bool wait(int stop);
  Task<void> end_all();
  // Ends what programs have begun. Returns whether nothing is left of it.
  bool drain();
  void raise_read_ahead(const std::string& directory) const;

  const SessionOptions options_;
  nfs::Mounted& server_;
  nfs::Turns turns_;
  RequestSlots slots_{turns_, 100};
  Requests requests_;
  Tree tree_;
  NameOperations names_{tree_};
  FileOperations files_{tree_, names_};
  AttributeOperations attributes_{tree_, files_.writes()};
  DirectoryOperations directories_{tree_};
  ReceiveRoom received_;
  Unread unread_;
  Forgetter forgetter_;
  Time next_forgetting_{};
  std::size_t nodes_before_ = 0;  // the last forgetting
  files::File epoll_;
  const Time mounted_ = Clock::now();
  mutable std::mutex snapshot_mutex_;
  Snapshot snapshot_;
  fuse_session* session_ = nullptr;
  bool is_mounted_ = false;
  bool has_ended_ = false;
  bool is_draining_ = false;
  std::optional<Task<void>> ending_;  // of all that programs have begun
  bool has_kept_all_ = true;
};

// The operations that libfuse calls (fuse_operations.cc).
const fuse_lowlevel_ops& fuse_operations() noexcept;
// Returns a time as libfuse takes it.
inline double in_seconds(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}
// Returns attributes as programs see them.
struct stat stat_of(const nfs3::fattr3& attributes) noexcept;

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_FUSE_SESSION_H_
