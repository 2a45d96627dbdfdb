#include "mount/fuse_requests.h"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace mounts {
namespace {

constexpr Clock::duration kLookEvery = std::chrono::milliseconds(100);
constexpr std::uint64_t kSigKillBit = 1U << 8U;
constexpr unsigned long kExiting = 0x4;  // PF_EXITING of the kernel
constexpr int kShareLeft = 8;            // of its time, for a request that was read late
constexpr int kFlagsField = 6;           // of /proc/TID/stat, behind the name in parentheses

// Returns whether SIGKILL is pending for the thread, or for its process.
bool has_sigkill(const std::string& folder) {
  std::ifstream status(folder + "/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("SigPnd:") && !line.starts_with("ShdPnd:")) continue;
    if ((std::strtoull(line.c_str() + 7, nullptr, 16) & kSigKillBit) != 0) return true;
  }
  return false;
}

bool is_exiting(const std::string& folder) {
  std::ifstream file(folder + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return false;
  std::size_t at = name_end + 1;
  for (int field = 0; field < kFlagsField; ++field) {
    at = line.find(' ', at + 1);
    if (at == std::string::npos) return false;
  }
  return (std::strtoul(line.c_str() + at + 1, nullptr, 10) & kExiting) != 0;
}

}  // namespace

bool is_dying(int thread) {
  if (thread <= 0) return false;
  const std::string folder = "/proc/" + std::to_string(thread);
  return has_sigkill(folder) || is_exiting(folder);
}

// --- Answers ------------------------------------------------------------------------------------

bool Request::fail(int error) {
  return !is_answered() && ::fuse_reply_err(take(), error) == 0;
}
bool Request::entry(const fuse_entry_param& entry) {
  return !is_answered() && ::fuse_reply_entry(take(), &entry) == 0;
}
bool Request::created(const fuse_entry_param& entry, const fuse_file_info& file) {
  return !is_answered() && ::fuse_reply_create(take(), &entry, &file) == 0;
}
bool Request::attributes(const struct stat& attributes, double left) {
  return !is_answered() && ::fuse_reply_attr(take(), &attributes, left) == 0;
}
bool Request::opened(const fuse_file_info& file) {
  return !is_answered() && ::fuse_reply_open(take(), &file) == 0;
}
bool Request::written(std::size_t count) {
  return !is_answered() && ::fuse_reply_write(take(), count) == 0;
}
bool Request::text(const std::string& text) {
  return !is_answered() && ::fuse_reply_readlink(take(), text.c_str()) == 0;
}
bool Request::space(const struct statvfs& space) {
  return !is_answered() && ::fuse_reply_statfs(take(), &space) == 0;
}
bool Request::data(std::span<const rpcrdma::Bytes> pieces) {
  if (is_answered()) return false;
  std::vector<iovec> places;
  for (const rpcrdma::Bytes each : pieces) {
    if (each.empty()) continue;
    places.push_back({const_cast<std::byte*>(each.data()), each.size()});
  }
  if (places.empty()) return ::fuse_reply_buf(take(), nullptr, 0) == 0;
  return ::fuse_reply_iov(take(), places.data(), static_cast<int>(places.size())) == 0;
}

// --- Requests -----------------------------------------------------------------------------------

rpcrdma::AuthSys Requests::credential_of(fuse_req_t handle) {
  const fuse_ctx* const context = ::fuse_req_ctx(handle);
  rpcrdma::AuthSys credential;
  credential.machine_name = "rpcrdma-mount";
  credential.uid = context->uid;
  credential.gid = context->gid;
  std::array<gid_t, 64> groups{};
  const int count = ::fuse_req_getgroups(handle, static_cast<int>(groups.size()), groups.data());
  const auto most = std::min(groups.size(), credential.gids.size());
  const auto used = std::min(static_cast<std::size_t>(std::max(0, count)), most);
  std::copy_n(groups.begin(), used, credential.gids.begin());
  credential.gid_count = static_cast<std::uint32_t>(used);
  return credential;
}

Request& Requests::add(fuse_req_t handle, Time begun) {
  // The list is in the order of the deadlines.
  const Time least = all_.empty() ? Time::min() : all_.back().deadline_;
  Request& request = all_.emplace_back(handle);
  request.at_ = std::prev(all_.end());
  ++total_;
  request.deadline_ = std::max({begun + patience_, Clock::now() + patience_ / kShareLeft, least});
  request.thread_ = ::fuse_req_ctx(handle)->pid;
  request.uid_ = ::fuse_req_ctx(handle)->uid;
  if (speaks_for_programs_) request.credential_ = credential_of(handle);
  ::fuse_req_interrupt_func(handle, &note_interrupt, &request);
  return request;
}

// It comes once, for whatever signal; a program that handles it goes on waiting.
void Requests::note_interrupt(fuse_req_t /*handle*/, void* request) {
  static_cast<Request*>(request)->is_interrupted_ = true;
}

// Its calls have the same deadline, and fail there each for a reason of its own: a call that waited
// for a connection has the error of that, which is EIO.
void Requests::fail(Request& request, int error) {
  const bool has_time = request.deadline_ > Clock::now();
  const bool is_for_want_of_time = !has_time && (error == EIO || error == ETIMEDOUT);
  if (is_for_want_of_time && !request.is_answered()) ++timed_out_;
  request.fail(is_for_want_of_time ? ETIMEDOUT : error);
}

void Requests::give_up(Request& request, int error) {
  request.fail(error);
  if (request.give_up_) std::exchange(request.give_up_, nullptr)();
}

void Requests::prolong(Request& request, Time deadline) {
  request.deadline_ = std::max(deadline, all_.back().deadline_);
  all_.splice(all_.end(), all_, request.at_);
}

void Requests::look(Time now, Time last_written) {
  for (auto at = all_.begin(); at != all_.end() && at->deadline_ <= now;) {
    Request& each = *at++;
    if (each.is_answered()) continue;
    if (each.give_up_ && last_written + patience_ > now) {
      prolong(each, last_written + patience_);
      continue;
    }
    ++timed_out_;
    give_up(each, ETIMEDOUT);
  }
  if (now < next_look_) return;
  next_look_ = now + kLookEvery;
  for (Request& each : all_) {
    if (!each.is_interrupted_ || each.is_answered() || !is_dying(each.thread_)) continue;
    ++interrupted_;
    give_up(each, EINTR);
  }
}

std::optional<Time> Requests::next_time() const {
  std::optional<Time> next;
  for (const Request& each : all_) {
    if (each.is_answered()) continue;
    if (!next) next = each.deadline_;
    if (each.is_interrupted_) return std::min(*next, next_look_);
  }
  return next;
}

}  // namespace mounts
