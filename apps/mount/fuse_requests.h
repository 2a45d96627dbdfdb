// The requests of the kernel that are not answered yet.
//
// A program whose request was read and not answered cannot be killed. So each request has a
// deadline, at which it fails with ETIMEDOUT, and one whose program is dying fails with EINTR.
#ifndef RPCRDMA_MOUNT_FUSE_REQUESTS_H_
#define RPCRDMA_MOUNT_FUSE_REQUESTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "mount/fuse_library.h"
#include "mount/tree.h"
#include "rpcrdma/oncrpc.h"

namespace mounts {

// Returns whether the thread is dying, by /proc: SIGKILL is pending, or it is on its way out. A
// thread that is not there, or not to be seen, is not.
bool is_dying(int thread);

class Requests;

// Answers once; what comes behind that goes nowhere. Each answer returns whether the kernel took
// it.
class Request {
 public:
  explicit Request(fuse_req_t handle) : handle_(handle) {}
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  bool is_answered() const noexcept { return handle_ == nullptr; }
  int thread() const noexcept { return thread_; }
  Who who() const { return {uid_, credential_ ? &*credential_ : nullptr, deadline_, thread_}; }

  // It waits for a buffer, in a line that goes on as long as the server takes bytes: so long it has
  // time. `give_up` runs if it is answered meanwhile.
  void wait_for_room(std::function<void()> give_up) { give_up_ = std::move(give_up); }
  void end_waiting() { give_up_ = nullptr; }

  bool fail(int error);  // 0 answers with success and no data
  bool entry(const fuse_entry_param& entry);
  bool created(const fuse_entry_param& entry, const fuse_file_info& file);
  bool attributes(const struct stat& attributes, double left);
  bool opened(const fuse_file_info& file);
  bool written(std::size_t count);
  bool data(std::span<const rpcrdma::Bytes> pieces);
  bool text(const std::string& text);
  bool space(const struct statvfs& space);

 private:
  friend class Requests;
  fuse_req_t take() noexcept { return std::exchange(handle_, nullptr); }

  fuse_req_t handle_;
  Time deadline_{};
  int thread_ = 0;
  std::uint32_t uid_ = 0;
  bool is_interrupted_ = false;
  std::function<void()> give_up_;  // empty: it waits for no buffer
  std::optional<rpcrdma::AuthSys> credential_;
  std::list<Request>::iterator at_{};
};

class Requests {
 public:
  // `patience`: the time of a request. With `speaks_for_programs`, calls are made in their users'
  // names; else in that of the connections.
  Requests(Clock::duration patience, bool speaks_for_programs)
      : patience_(patience), speaks_for_programs_(speaks_for_programs) {}

  // `begun`: since when the request may have waited to be read.
  Request& add(fuse_req_t handle, Time begun);
  void end(Request& request) { all_.erase(request.at_); }
  // Answers with errno's value, for an operation that has failed. EIO behind the end of its time is
  // a time-out.
  void fail(Request& request, int error);

  // Ends requests that have waited too long, or whose programs are dying. `last_written`: when the
  // server took bytes the last time.
  void look(Time now, Time last_written);
  // The kernel cannot say which are interrupted: look() goes by the programs alone.
  void note_all_interrupted() {
    for (Request& each : all_) each.is_interrupted_ = true;
  }
  std::optional<Time> next_time() const;
  std::size_t count() const noexcept { return all_.size(); }
  std::uint64_t total() const noexcept { return total_; }
  std::uint64_t timed_out() const noexcept { return timed_out_; }
  std::uint64_t interrupted() const noexcept { return interrupted_; }

 private:
  static void give_up(Request& request, int error);
  void prolong(Request& request, Time deadline);
  static void note_interrupt(fuse_req_t handle, void* request);
  static rpcrdma::AuthSys credential_of(fuse_req_t handle);

  const Clock::duration patience_;
  const bool speaks_for_programs_;
  std::list<Request> all_;  // by their deadlines
  Time next_look_{};        // at those that were interrupted
  std::uint64_t total_ = 0, timed_out_ = 0, interrupted_ = 0;
};

}  // namespace mounts

#endif  // RPCRDMA_MOUNT_FUSE_REQUESTS_H_
