#include "mount/fuse_session.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

namespace mounts {
namespace {

constexpr int kRequestsAtATime = 16;
constexpr Clock::duration kSpin = std::chrono::microseconds(50);
constexpr Clock::duration kLookForStop = std::chrono::milliseconds(50);
constexpr Clock::duration kBesides = std::chrono::seconds(2);
constexpr std::size_t kNamesAtATime = 256;  // to forget
constexpr Clock::duration kPauseForgetting = std::chrono::milliseconds(1);
constexpr std::size_t kShareOutside = 16;  // of the buffers' memory, for bytes that wait for them
constexpr unsigned kBackground = 64;       // requests that the kernel makes ahead of programs

// The last line that libfuse had to say.
std::string& said() {
  static std::string line;
  return line;
}

void note_line(fuse_log_level /*level*/, const char* format, va_list arguments) {
  std::array<char, 512> line{};
  (void)std::vsnprintf(line.data(), line.size(), format, arguments);
  said() = line.data();
  while (!said().empty() && said().back() == '\n') said().pop_back();
}

// The options of a mount; libfuse splits them at commas.
std::string option_text(const SessionOptions& options) {
  std::string text = "fsname=";
  for (const char each : options.source) {
    if (each == ',' || each == '\\') text += '\\';
    text += each;
  }
  text += ",subtype=rpcrdma,max_read=" + std::to_string(kTransferMax);
  if (options.is_read_only) text += ",ro";
  if (options.is_for_all) text += ",allow_other";
  for (const std::string& each : options.fuse) text += "," + each;
  return text;
}

}  // namespace

// --- Mounting -----------------------------------------------------------------------------------

Session::Session(nfs::Mounted& server, const SessionOptions& options)
    : options_(options),
      server_(server),
      requests_(options.patience, options.is_for_all),
      tree_(server, turns_, options.tree),
      received_(tree_.buffers(), tree_.buffers().all().size() / kShareOutside),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  tree_.buffers().on_return([this] { files_.buffer_returned(); });
  files_.on_void([this](NodeId node) { report_void(node); });
}

rpcrdma::Expected<std::unique_ptr<Session>, std::string> Session::mount(
    nfs::Mounted& server, const std::string& directory, const SessionOptions& options) {
  const auto failed_with = [](std::string text) {
    return rpcrdma::Unexpected<std::string>(std::move(text));
  };
  std::unique_ptr<Session> made(new Session(server, options));
  const auto begun = server.wait_for(made->tree_.begin());
  if (!begun) {
    return failed_with(options.source +
                       ": the export's directory cannot be read: " + std::strerror(begun.error()));
  }
  ::fuse_set_log_func(&note_line);
  std::string text = option_text(options);
  std::string name = "rpcrdma", flag = "-o";
  std::array<char*, 4> words{name.data(), flag.data(), text.data(), nullptr};
  fuse_args arguments = FUSE_ARGS_INIT(3, words.data());
  said().clear();
  made->session_ =
      ::fuse_session_new(&arguments, &fuse_operations(), sizeof(fuse_lowlevel_ops), made.get());
  ::fuse_opt_free_args(&arguments);
  if (made->session_ == nullptr) return failed_with("libfuse refuses the options: " + said());
  if (options.is_about_to_mount) options.is_about_to_mount();
  if (::fuse_session_mount(made->session_, directory.c_str()) != 0) {
    return failed_with(directory + ": " + (said().empty() ? std::strerror(errno) : said()));
  }
  made->is_mounted_ = true;
  const int descriptor = ::fuse_session_fd(made->session_);
  (void)::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK);
  made->raise_read_ahead(directory);
  return made;
}

// Root may have the kernel read more ahead than a request of the session is allowed to say. The
// device's number is in the list of mounts: to ask the directory itself would be to wait for us.
void Session::raise_read_ahead(const std::string& directory) const {
  std::array<char, PATH_MAX> whole{};
  const std::string path =
      ::realpath(directory.c_str(), whole.data()) != nullptr ? whole.data() : directory;
  std::ifstream mounts("/proc/self/mountinfo");
  std::string device;
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string id, parent, number, root, at;
    words >> id >> parent >> number >> root >> at;
    if (at == path) device = number;
  }
  if (device.empty()) return;
  std::ofstream size("/sys/class/bdi/" + device + "/read_ahead_kb");
  size << 4096 << std::flush;
}

Session::~Session() {
  if (session_ == nullptr) return;
  if (is_mounted_) ::fuse_session_unmount(session_);
  received_.give_back();
  ::fuse_session_destroy(session_);
}

void Session::set_up(fuse_conn_info& connection) const {
  const auto want = [&](unsigned bits) { connection.want |= connection.capable & bits; };
  want(FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO | FUSE_CAP_ATOMIC_O_TRUNC |
       FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO |
       FUSE_CAP_AUTO_INVAL_DATA | FUSE_CAP_CACHE_SYMLINKS);
  // Splicing costs more than it saves, and a server need not clear set-user-ID bits.
  connection.want &= ~static_cast<unsigned>(
      FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE |
      FUSE_CAP_HANDLE_KILLPRIV | FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_POSIX_ACL |
      FUSE_CAP_EXPORT_SUPPORT | FUSE_CAP_NO_OPEN_SUPPORT | FUSE_CAP_NO_OPENDIR_SUPPORT);
  connection.max_write = static_cast<unsigned>(kTransferMax);
  connection.max_read = static_cast<unsigned>(kTransferMax);
  connection.max_readahead = static_cast<unsigned>(kTransferMax);
  connection.max_background = kBackground;
  connection.congestion_threshold = kBackground * 3 / 4;
  connection.time_gran = 1;
}

// Attributes alone: dropping pages could wait for requests that this thread has to answer.
void Session::report_void(NodeId node) {
  (void)::fuse_lowlevel_notify_inval_inode(session_, static_cast<fuse_ino_t>(node), -1, 0);
}

struct stat Session::shown(const nfs3::fattr3& attributes) const noexcept {
  struct stat made = stat_of(attributes);
  made.st_uid = options_.uid.value_or(made.st_uid);
  made.st_gid = options_.gid.value_or(made.st_gid);
  return made;
}

fuse_entry_param Session::entry_for_kernel(const Entry& entry) const {
  fuse_entry_param made{};
  made.entry_timeout = in_seconds(entry.left);
  if (!entry.node) return made;
  made.ino = static_cast<fuse_ino_t>(entry.node->id);
  made.generation = 1;  // the number has the generation in it
  made.attr = shown(entry.attributes);
  made.attr_timeout = in_seconds(entry.attributes_left);
  return made;
}

// --- The loop -----------------------------------------------------------------------------------

bool Session::receive_one() {
  if (has_ended_) return false;
  const auto memory = received_.memory();
  if (memory.empty()) {
    // Most programs whose requests were not read can be killed. The kernel may have said so of
    // others, but that is not read either.
    files_.make_room();
    unread_.note_none(Clock::now());
    requests_.note_all_interrupted();
    return false;
  }
  const ssize_t size = ::read(::fuse_session_fd(session_), memory.data(), memory.size());
  if (size <= 0) {
    has_ended_ = size == 0 || errno == ENODEV;
    unread_.note_all_read();
    return size < 0 && (errno == ENOENT || errno == EINTR);
  }
  fuse_buf buffer{};
  buffer.size = static_cast<std::size_t>(size);
  buffer.mem = memory.data();
  ::fuse_session_process_buf(session_, &buffer);
  if (::fuse_session_exited(session_) != 0) has_ended_ = true;
  return true;
}

void Session::forget_names() {
  const Time now = Clock::now();
  if (has_ended_ || is_draining_ || now < next_forgetting_ || !forgetter_.takes_more()) return;
  auto names = tree_.nodes().take_forgettable(kNamesAtATime);
  if (names.empty()) return;
  // The kernel may keep all that programs use; it is not asked for them all the time.
  const std::size_t before = std::exchange(nodes_before_, tree_.nodes().size());
  if (before <= nodes_before_) next_forgetting_ = now + kPauseForgetting;
  tree_.statistics().names_forgotten += names.size();
  forgetter_.give(session_, std::move(names));
}

bool Session::go_on() {
  bool is_busy = false;
  for (int i = 0; i < kRequestsAtATime && receive_one(); ++i) is_busy = true;
  server_.connections().progress();
  const auto next = turns_.next_time();
  if (next && *next <= Clock::now()) is_busy = true;
  turns_.resume_ready();
  // Replies that are here come first: this process may have been stopped for longer than a request
  // has time, and they came meanwhile.
  requests_.look(Clock::now(), files_.writes().last_taken());
  forget_names();
  return is_busy;
}

Snapshot Session::snapshot() const {
  const std::lock_guard lock(snapshot_mutex_);
  Snapshot taken = snapshot_;
  taken.up = Clock::now() - mounted_;
  return taken;
}

void Session::take_snapshot(Time now) {
  const std::lock_guard lock(snapshot_mutex_);
  const BufferPool& buffers = tree_.buffers();
  const std::size_t size = buffers.all().size() / buffers.count();
  snapshot_ = {.statistics = tree_.statistics(),
               .up = now - mounted_,
               .requests = requests_.total(),
               .timed_out = requests_.timed_out(),
               .interrupted = requests_.interrupted(),
               .waiting = requests_.count(),
               .connections = server_.connections().count(),
               .connections_up = server_.connections().up_count(),
               .open_files = files_.open_count(),
               .dirty_files = files_.writes().dirty_count(),
               .memory_in_use = (buffers.count() - buffers.free_count()) * size,
               .memory_limit = buffers.count() * size,
               .nodes = tree_.nodes().size(),
               .nodes_most = tree_.nodes().most(),
               .nodes_limit = options_.tree.nodes_max};
}

bool Session::wait(int stop) {
  std::optional<Time> until = requests_.next_time();
  for (const auto each : {turns_.next_time(), server_.connections().next_time()}) {
    if (each) until = std::min(until.value_or(*each), *each);
  }
  std::array<pollfd, 3> entries{pollfd{::fuse_session_fd(session_), POLLIN, 0},
                                pollfd{server_.connections().wait_fd(), POLLIN, 0},
                                pollfd{stop, POLLIN, 0}};
  if (has_ended_ || !received_.has_memory()) entries[0].fd = -1;
  std::int64_t left = -1;
  if (until) {
    left = std::chrono::ceil<std::chrono::milliseconds>(*until - Clock::now()).count();
    left = std::clamp<std::int64_t>(left, 0, 60'000);
  }
  // Nothing wakes the loop when the forgetter is done.
  constexpr std::int64_t kForForgetter_ms = 20;
  if (is_draining_) left = left < 0 ? kForForgetter_ms : std::min(left, kForForgetter_ms);
  (void)::poll(entries.data(), entries.size(), static_cast<int>(left));
  return stop >= 0 && entries[2].revents != 0;
}

bool Session::run(int stop) {
  const bool may_spin = std::thread::hardware_concurrency() > 1;
  Time last_work = Clock::now(), last_look = last_work;
  while (!has_ended_) {
    const bool is_busy = go_on();
    if (has_ended_) break;  // nothing would end the wait
    const Time now = Clock::now();
    if (is_busy) last_work = now;
    const bool goes_on = is_busy || (may_spin && now - last_work < kSpin);
    // A session that always has work looks for the end, too.
    if (goes_on && now - last_look < kLookForStop) continue;
    last_look = now;
    take_snapshot(now);
    pollfd stopping{stop, POLLIN, 0};
    if (goes_on ? ::poll(&stopping, 1, 0) > 0 : wait(stop)) break;
  }
  const bool has_drained = drain();
  if (is_mounted_) ::fuse_session_unmount(session_);
  is_mounted_ = false;
  if (!has_kept_all_ && options_.report_loss) options_.report_loss();
  // Calls that nobody waits for any more would end with the connections, in objects that are gone.
  if (!has_drained) std::_Exit(has_kept_all_ ? 0 : 1);
  return has_kept_all_;
}

Task<void> Session::end_all() {
  has_kept_all_ = co_await files_.end_all();
}

// The kernel may still have requests while this goes on.
bool Session::drain() {
  is_draining_ = true;
  // Calls that began just now end by themselves within their time, and bytes have theirs as long as
  // the server takes some.
  const Time begun = Clock::now();
  const auto deadline = [&] {
    return std::max(begun, files_.writes().last_taken()) + options_.patience + kBesides;
  };
  // A member: if it is not done in time, the calls that it awaits outlast this function.
  Task<void>& ending = ending_.emplace(end_all());
  ending.start();
  // The forgetter waits for directories that programs lock until their requests are answered.
  while ((!ending.done() || turns_.active() > 0 || !forgetter_.is_idle()) &&
         Clock::now() < deadline()) {
    if (!go_on()) wait(-1);
  }
  if (!ending.done()) has_kept_all_ = false;
  return ending.done() && turns_.active() == 0 && forgetter_.is_idle();
}

}  // namespace mounts
