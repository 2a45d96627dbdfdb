#include "nfs/served_for_test.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>

namespace nfs {
namespace {

std::string made_folder(const std::filesystem::path& in) {
  std::string name = (in / "nfs-served-XXXXXX").string();
  const char* const made = ::mkdtemp(name.data());
  EXPECT_NE(made, nullptr) << name;
  return made != nullptr ? made : "";
}

// Where a CephFS is mounted on which the tests are to run, and its configuration: what `make ceph`
// sets.
std::string ceph_mounted() {
  const char* const at = std::getenv("RPCRDMA_TEST_CEPH_MOUNTED");
  return at != nullptr ? at : "";
}
std::string ceph_configuration() {
  const char* const file = std::getenv("RPCRDMA_TEST_CEPH_CONF");
  return file != nullptr ? file : "";
}
std::filesystem::path place_of_folders() {
  return ceph_mounted().empty() ? std::filesystem::temp_directory_path()
                                : std::filesystem::path(ceph_mounted());
}

Export exported(const std::string& text) {
  auto made = parse_export(text);
  EXPECT_TRUE(made) << made.error();
  return *made;
}

constexpr unsigned kAttempts = 1000;

// Below the ports that the kernel gives to connections: one of another test would have the
// server's while it is restarted.
std::string quiet_address(const std::string& scheme, unsigned attempt) {
  const unsigned port = 12'000 + (static_cast<unsigned>(::getpid()) * 8 + attempt) % 20'000;
  return scheme + "://127.0.0.1:" + std::to_string(port);
}

}  // namespace

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  std::ostringstream text;
  if (file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  return std::move(text).str();
}

void remove_tree(const std::string& top) {
  namespace fs = std::filesystem;
  for (const auto& each : fs::recursive_directory_iterator(top)) {
    if (!each.is_symlink() && each.is_directory()) {
      fs::permissions(each, fs::perms::owner_all, fs::perm_options::add);
    }
  }
  fs::remove_all(top);
}

Served::Served(ExporterOptions options)
    : folder_(made_folder(place_of_folders())),
      state_(made_folder(std::filesystem::temp_directory_path())),
      options_(std::move(options)) {
  EXPECT_EQ(::chmod(folder_.c_str(), 0755), 0);
  options_.key_path = state_ + "/key";
  begin();
}

Served::Served(const Served& twin, Key key)
    : folder_(twin.folder_),
      state_(made_folder(std::filesystem::temp_directory_path())),
      is_twin_(true) {
  options_.key_path = (key == Key::kSame ? twin.state_ : state_) + "/key";
  begin();
}

Served::~Served() {
  end();
  remove_tree(state_);
  if (is_twin_) return;
  for (const std::string& each : {folder_, folder_ + ".before"}) {
    if (std::filesystem::exists(each)) remove_tree(each);
  }
}

void Served::begin() {
  ExporterOptions options = options_;
  for (const char* const each :
       {":no_root_squash,name=/data", ":root_squash,name=/squash", ":ro,no_root_squash,name=/ro",
        ":rw,name=/elsewhere,client=192.0.2.1"}) {
    options.exports.push_back(exported(is_elsewhere()
                                           ? "ceph:" + folder_.substr(ceph_mounted().size()) +
                                                 each + ",id=nfs,conf=" + ceph_configuration()
                                           : folder_ + each));
  }
  auto opened = Exporter::open(std::move(options));
  ASSERT_TRUE(opened) << opened.error();
  exporter_ = std::move(*opened);
  rpcrdma::ServerOptions settings;
  settings.provider.name = "siwarp";
  Exporter::make_room_in(settings);
  // A test that restarts the server answers nothing meanwhile.
  settings.drain_timeout = std::chrono::milliseconds(500);
  const bool is_first = rdma_.empty();
  unsigned attempt = 0;
  auto server =
      rpcrdma::Server::listen(is_first ? quiet_address("rdma", attempt) : rdma_, settings);
  while (is_first && !server && ++attempt < kAttempts) {
    server = rpcrdma::Server::listen(quiet_address("rdma", attempt), settings);
  }
  ASSERT_TRUE(server) << server.error().message();
  server_.emplace(std::move(*server));
  rdma_ = "rdma://" + std::string(server_->address());
  auto tcp = server_->add_listener(is_first ? quiet_address("tcp", ++attempt) : tcp_);
  while (is_first && !tcp && ++attempt < kAttempts) {
    tcp = server_->add_listener(quiet_address("tcp", attempt));
  }
  ASSERT_TRUE(tcp) << tcp.error().message();
  tcp_ = "tcp://" + *tcp;
  ASSERT_TRUE(exporter_->add_to(*server_));
  thread_ = std::thread([this] { server_->run(); });
}

void Served::end() {
  if (!server_) return;
  server_->stop();
  thread_.join();
  EXPECT_TRUE(exporter_->stop());
  calls_served_ += server_->counters().calls;
  server_.reset();
  exporter_.reset();
}

bool Served::is_elsewhere() {
  return !ceph_mounted().empty();
}

void Served::restart() {
  end();
  begin();
}

void Served::replace_folder() {
  end();
  std::filesystem::rename(folder_, folder_ + ".before");
  std::filesystem::create_directory(folder_);
  begin();
}

void Served::write_file(std::string_view name, std::string_view content) const {
  std::ofstream file(path(name), std::ios::binary);
  file << content;
  file.close();
  EXPECT_TRUE(file.good()) << name;
}

std::string Served::read_file(std::string_view name) const {
  return content_of(path(name));
}

std::unique_ptr<rpcrdma::Client> Served::connect(const std::string& scheme, std::uint32_t uid,
                                                 std::uint32_t gid,
                                                 std::vector<std::uint32_t> groups) const {
  rpcrdma::ClientOptions options;
  options.provider.name = "siwarp";
  rpcrdma::AuthSys credential;
  credential.machine_name = "test";
  credential.uid = uid;
  credential.gid = gid;
  credential.gid_count = static_cast<std::uint32_t>(groups.size());
  std::ranges::copy(groups, credential.gids.begin());
  options.auth = credential;
  auto client = rpcrdma::Client::connect(scheme == "tcp" ? tcp_ : rdma_, options);
  EXPECT_TRUE(client) << client.error().message();
  return std::make_unique<rpcrdma::Client>(std::move(*client));
}

nfs3::nfs_fh3 mounted(rpcrdma::Client& client, const std::string& name) {
  mount3::MOUNT_V3_Client mount(client);
  const auto results = mount.MOUNTPROC3_MNT(name);
  EXPECT_TRUE(results) << results.error().message();
  if (!results || results->mountinfo() == nullptr) return {};
  return {results->mountinfo()->fhandle};
}

}  // namespace nfs
