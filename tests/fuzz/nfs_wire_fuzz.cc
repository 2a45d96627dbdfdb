// Sends malformed calls of NFS and MOUNT to a running `rpcrdma serve --nfs`, for a given time, and
// fails when the server stops answering or tells what it does not export. The script
// nfs_wire_fuzz.py sees what the server opens meanwhile; it starts both where a server that does
// what it is asked for can do no harm.
//
// The server exports /data, in which everything may be destroyed (a file `may-be-destroyed` in it
// says so), and /ro, read-only. One thread: what the calls are depends on the seed and the answers.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "fuzz/nfs_links.h"
#include "mount3.h"
#include "nfs3.h"

namespace rpcrdma::fuzz {
namespace {

using nfs3::nfs_fh3;
using std::chrono::seconds;
using std::chrono::steady_clock;

struct Settings {
  std::string rdma, tcp;  // "ADDR:PORT"
  std::vector<std::string> words;
  std::string secret;
  std::uint64_t seed = 1;
  long seconds = 60;
};

// The ground that is fuzzed: a tree of files, made anew so often that it stays small.
class Ground {
 public:
  explicit Ground(const std::string& tcp) : url_("tcp://" + tcp) {}

  // False: there is no server, or the export is none to destroy.
  bool begin();
  void renew(NfsCalls& calls, const std::vector<std::string>& words);
  void clear();

 private:
  static constexpr const char* kConsent = "may-be-destroyed";
  static nfs3::sattr3 with_mode(std::uint32_t mode) {
    nfs3::sattr3 attributes;
    attributes.mode.set_mode(mode);
    return attributes;
  }
  bool connect();
  nfs_fh3 mounted(const char* path);
  std::vector<std::string> names_of(const nfs_fh3& directory);
  void clear(const nfs_fh3& directory, int depth);
  nfs_fh3 make_directory(const nfs_fh3& in, const std::string& name);
  void make_ways_out(NfsCalls& calls, const nfs_fh3& in, const std::vector<std::string>& words);
  nfs_fh3 make_file(const nfs_fh3& in, const std::string& name, std::size_t size);

  const std::string url_;
  std::optional<Client> client_;
  std::optional<nfs3::NFS_V3_Client> nfs_;
  nfs_fh3 root_, read_only_;
};

bool Ground::connect() {
  if (client_ && client_->connected()) return true;
  nfs_.reset();
  client_.reset();
  ClientOptions options;
  AuthSys root;
  root.machine_name = "fuzz";
  options.auth = root;
  auto made = Client::connect(url_, options);
  if (!made) return false;
  client_.emplace(std::move(*made));
  nfs_.emplace(*client_);
  return true;
}

nfs_fh3 Ground::mounted(const char* path) {
  mount3::MOUNT_V3_Client mount(*client_);
  const auto results = mount.MOUNTPROC3_MNT(path);
  if (!results || results->mountinfo() == nullptr) return {};
  return {results->mountinfo()->fhandle};
}

bool Ground::begin() {
  if (!connect()) return false;
  root_ = mounted("/data");
  read_only_ = mounted("/ro");
  const auto consent = nfs_->NFSPROC3_LOOKUP({{root_, kConsent}});
  if (consent && consent->resok() != nullptr && !read_only_.data.empty()) return true;
  std::fprintf(stderr, "nfs_wire_fuzz: /data has no file '%s', or /ro is not exported\n", kConsent);
  return false;
}

std::vector<std::string> Ground::names_of(const nfs_fh3& directory) {
  std::vector<std::string> names;
  nfs3::READDIR3args args{directory, 0, {}, 32768};
  for (;;) {
    const auto results = nfs_->NFSPROC3_READDIR(args);
    if (!results || results->resok() == nullptr) return names;
    const auto& page = *results->resok();
    for (const auto& each : page.reply.entries) {
      if (each.name != "." && each.name != "..") names.push_back(each.name);
    }
    if (page.reply.eof || page.reply.entries.empty()) return names;
    args.cookie = page.reply.entries.back().cookie;
    args.cookieverf = page.cookieverf;
  }
}

void Ground::clear(const nfs_fh3& directory, int depth) {
  (void)nfs_->NFSPROC3_SETATTR({directory, with_mode(0755), {}});
  for (const std::string& name : names_of(directory)) {
    const auto removed = nfs_->NFSPROC3_REMOVE({{directory, name}});
    if (removed && removed->status() == nfs3::nfsstat3::NFS3_OK) continue;
    const auto found = nfs_->NFSPROC3_LOOKUP({{directory, name}});
    if (!found || found->resok() == nullptr) continue;
    if (depth < 200) clear(found->resok()->object, depth + 1);
    (void)nfs_->NFSPROC3_RMDIR({{directory, name}});
  }
}

// Calls of connections that have ended may still be with the server, and make something.
void Ground::clear() {
  if (!connect()) return;
  for (int attempt = 0; attempt < 10 && !names_of(root_).empty(); ++attempt) clear(root_, 0);
}

nfs_fh3 Ground::make_directory(const nfs_fh3& in, const std::string& name) {
  const auto made = nfs_->NFSPROC3_MKDIR({{in, name}, with_mode(0755)});
  if (!made || made->resok() == nullptr || made->resok()->obj.handle() == nullptr) return {};
  return *made->resok()->obj.handle();
}

nfs_fh3 Ground::make_file(const nfs_fh3& in, const std::string& name, std::size_t size) {
  nfs3::createhow3 how;
  how.set_obj_attributes(nfs3::createmode3::UNCHECKED, with_mode(0644));
  const auto made = nfs_->NFSPROC3_CREATE({{in, name}, how});
  if (!made || made->resok() == nullptr || made->resok()->obj.handle() == nullptr) return {};
  const nfs_fh3 file = *made->resok()->obj.handle();
  const Text data(size, std::byte{0x61});
  (void)nfs_->NFSPROC3_WRITE(
      {file, 0, static_cast<std::uint32_t>(size), nfs3::stable_how::UNSTABLE, data});
  return file;
}

// Symbolic links: ways out, if any were followed.
void Ground::make_ways_out(NfsCalls& calls, const nfs_fh3& in,
                           const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string name = "out" + std::to_string(i);
    const auto made = nfs_->NFSPROC3_SYMLINK({{in, name}, {{}, words[i]}});
    if (made && made->resok() != nullptr && made->resok()->obj.handle() != nullptr && i < 3) {
      calls.add_handle(made->resok()->obj.handle()->data, NfsCalls::Kind::kOther);
    }
  }
}

void Ground::renew(NfsCalls& calls, const std::vector<std::string>& words) {
  if (!connect()) return;
  clear();
  calls.forget_handles();
  using Kind = NfsCalls::Kind;
  const auto keep = [&](const nfs_fh3& handle, Kind kind) {
    if (!handle.data.empty()) calls.add_handle(handle.data, kind);
  };
  keep(root_, Kind::kDirectory);
  keep(read_only_, Kind::kDirectory);
  for (const std::string& name : names_of(read_only_)) {
    const auto found = nfs_->NFSPROC3_LOOKUP({{read_only_, name}});
    if (found && found->resok() != nullptr)
      keep(found->resok()->object, name == "below" ? Kind::kDirectory : Kind::kOther);
  }
  for (const char digit : {'0', '1', '2'}) {
    const nfs_fh3 directory = make_directory(root_, std::string("d") + digit);
    keep(directory, Kind::kDirectory);
    make_ways_out(calls, directory, words);
    for (const nfs_fh3& in : {root_, directory}) {
      keep(make_file(in, std::string("f") + digit, digit == '0' ? 70'000 : 100), Kind::kFile);
    }
    const nfs_fh3 below = make_directory(directory, "sub");
    keep(below, Kind::kDirectory);
    for (int i = 0; i < 30; ++i) make_file(below, "many" + std::to_string(i), 1);
  }
  make_ways_out(calls, root_, words);
  nfs3::mknoddata3 fifo;
  fifo.set_pipe_attributes(nfs3::ftype3::NF3FIFO, with_mode(0644));
  const auto made = nfs_->NFSPROC3_MKNOD({{root_, "fifo"}, fifo});
  if (made && made->resok() != nullptr && made->resok()->obj.handle() != nullptr) {
    keep(*made->resok()->obj.handle(), Kind::kOther);
  }
}

// NULL on a connection of its own, both ways, within 10 s each.
bool answers(const Settings& settings) {
  for (const std::string& url : {"tcp://" + settings.tcp, "rdma://" + settings.rdma}) {
    ClientOptions options;
    options.provider.name = "siwarp";
    options.provider.setup_timeout_client = seconds(10);
    options.call_timeout = seconds(10);
    auto client = Client::connect(url, options);
    const bool is_good = client && nfs3::NFS_V3_Client(*client).NFSPROC3_NULL().has_value();
    if (is_good) continue;
    std::fprintf(stderr, "nfs_wire_fuzz: FINDING: NULL is not answered at %s\n", url.c_str());
    return false;
  }
  return true;
}

int run(const Settings& settings) {
  constexpr std::uint64_t kCallsOfATree = 3000;
  NfsCalls calls(settings.seed, settings.words);
  Tally tally(settings.secret);
  Ground ground(settings.tcp);
  if (!answers(settings) || !ground.begin()) return 1;
  const auto tcp = tcp_link(settings.tcp), rdma = rdma_link(settings.rdma),
             raw = raw_link(settings.rdma);
  const auto begin = steady_clock::now();
  const auto end = begin + seconds(settings.seconds);
  auto next_line = begin + seconds(10);
  std::uint64_t renew_at = 0;
  bool is_alive = true;
  while (is_alive && !tally.has_findings() && steady_clock::now() < end) {
    if (tally.calls() >= renew_at) {
      ground.renew(calls, settings.words);
      renew_at = tally.calls() + kCallsOfATree;
    }
    const std::size_t way = calls.dice().below(20);
    (way < 9 ? tcp : way < 17 ? rdma : raw)->burst(calls, tally);
    if (steady_clock::now() < next_line) continue;
    is_alive = answers(settings);
    std::printf("%lld s: %llu calls\n",
                static_cast<long long>((steady_clock::now() - begin) / seconds(1)),
                static_cast<unsigned long long>(tally.calls()));
    std::fflush(stdout);
    next_line += seconds(10);
  }
  is_alive = is_alive && answers(settings);
  if (is_alive) ground.clear();
  std::printf("seed %llu\n", static_cast<unsigned long long>(settings.seed));
  tally.print();
  return is_alive && !tally.has_findings() ? 0 : 1;
}

// "nfs+tcp://ADDR:PORT/NAME", as the server prints it.
bool take_url(const std::string& text, Settings& settings) {
  for (const bool is_rdma : {true, false}) {
    const std::string prefix = is_rdma ? "nfs+rdma://" : "nfs+tcp://";
    if (!text.starts_with(prefix)) continue;
    const std::string address =
        text.substr(prefix.size(), text.find('/', prefix.size()) - prefix.size());
    (is_rdma ? settings.rdma : settings.tcp) = address;
    return true;
  }
  return false;
}

bool parse(int argc, char** argv, Settings& settings) {
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (take_url(option, settings)) continue;
    if (i + 1 == argc) return false;
    const char* const value = argv[++i];
    if (option == "--seconds") {
      settings.seconds = std::atol(value);
    } else if (option == "--seed") {
      settings.seed = std::strtoull(value, nullptr, 0);
    } else if (option == "--try") {
      settings.words.emplace_back(value);
    } else if (option == "--secret") {
      settings.secret = value;
    } else {
      return false;
    }
  }
  return !settings.rdma.empty() && !settings.tcp.empty();
}

}  // namespace
}  // namespace rpcrdma::fuzz

int main(int argc, char** argv) {
  rpcrdma::fuzz::Settings settings;
  if (rpcrdma::fuzz::parse(argc, argv, settings)) return rpcrdma::fuzz::run(settings);
  std::fprintf(
      stderr,
      "usage: %s nfs+rdma://ADDR:PORT nfs+tcp://ADDR:PORT [--seconds N] [--seed S]\n"
      "  --try PATH     a name or a path to try, such as one that is not exported; several times\n"
      "  --secret TEXT  what is in files that are not exported, and must be in no answer\n",
      argv[0]);
  return 2;
}
