// `rpcrdma doctor`: a walk from this machine to an export, in steps that end at the first failure.
#ifndef RPCRDMA_TOOLS_DOCTOR_H_
#define RPCRDMA_TOOLS_DOCTOR_H_

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nfs/client/mounted.h"
#include "nfs/client/url.h"
#include "rpcrdma/client.h"
#include "tools/command.h"
#include "tools/doctor_machine.h"
#include "tools/nfs_commands.h"

namespace rpcrdma::tools::doctor {

struct Settings {
  ClientSettings client;
  NfsSettings nfs;
  bool is_server = false;
  std::string settings_file = "/etc/rpcrdma/serve.toml";
};

enum class State : std::uint8_t { kOk, kWarning, kFailed, kSkipped };

// The result of a step.
struct Finding {
  State state = State::kOk;
  std::string text;      // what was seen
  std::string remedy{};  // what to do; empty: nothing

  static Finding ok(std::string text) { return {State::kOk, std::move(text)}; }
  static Finding skipped(std::string text) { return {State::kSkipped, std::move(text)}; }
  static Finding warning(std::string text, std::string remedy) {
    return {State::kWarning, std::move(text), std::move(remedy)};
  }
  static Finding failed(std::string text, std::string remedy) {
    return {State::kFailed, std::move(text), std::move(remedy)};
  }
};

// A numeric address of the server.
struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  std::string text;  // without the port

  bool is_ipv6() const noexcept { return storage.ss_family == AF_INET6; }
};

// The state of a walk. Each step leaves its results to those behind it.
struct Walk {
  explicit Walk(Settings& all) : settings(all) {}

  // Returns whether the walk concerns RDMA devices, and not only software or TCP.
  bool uses_devices() const;
  // Returns whether --provider verbs rules everything else out.
  bool needs_devices() const { return settings.client.common.provider.name == "verbs"; }
  bool is_tcp() const { return url && !url->is_rdma; }
  // Returns HOST:PORT as the URL has it.
  std::string peer() const;

  Settings& settings;
  Machine machine{};
  std::vector<RdmaDevice> devices{};
  std::optional<nfs::NfsUrl> url{};  // of an rdma:// or tcp:// URL, too
  bool is_nfs = false;
  ClientOptions options{};
  std::chrono::milliseconds patience{5'000};  // of each step with the network

  std::vector<Address> addresses{};     // of the server
  std::string own_address{}, netdev{};  // by which it is reached
  std::string device_on_route{};        // empty: none
  std::optional<Error> refusal{};       // the set-up was refused at the server's end
  std::optional<Client> client{};
  bool has_mount_beside = false;  // NFS and MOUNT answer at one port, as those of `rpcrdma serve`
  std::unique_ptr<nfs::Mounted> mounted{};
  LossCounters losses{};                       // as the walk began
  std::vector<std::string> mount_obstacles{};  // that keep the kernel from mounting
  std::string mount_path{};                    // the directory of the URL
  std::string mount_line{}, fstab_line{};
  std::vector<std::string> serve_settings{};  // lines of `serve --check`
};

// The steps, in the order of the walk. doctor.cc has the table of their names.
Finding check_build(Walk& walk);
Finding check_devices(Walk& walk);
Finding check_link(Walk& walk);
Finding check_gids(Walk& walk);
Finding check_mtu(Walk& walk);
Finding check_memlock(Walk& walk);
Finding check_descriptors(Walk& walk);
Finding check_huge_pages(Walk& walk);
Finding check_modules(Walk& walk);
Finding check_drivers(Walk& walk);
Finding check_name(Walk& walk);
Finding check_route(Walk& walk);
Finding check_port(Walk& walk);
Finding check_connect(Walk& walk);
Finding check_setup(Walk& walk);
Finding check_program(Walk& walk);
Finding check_mount(Walk& walk);
Finding check_read(Walk& walk);
Finding check_counters(Walk& walk);
Finding check_settings(Walk& walk);
Finding check_listening(Walk& walk);
Finding check_rpcbind(Walk& walk);
Finding check_firewall(Walk& walk);

// --- What steps share ---------------------------------------------------------------------------

// Calls procedure 0 of a program.
Expected<void, Error> call_null(Client& client, std::uint32_t program, std::uint32_t version);
// Returns a device by its name; null: there is none.
const RdmaDevice* device_by_name(const Walk& walk, const std::string& name);
// Returns the counters of lost packets that rose since the walk began, and by how much.
std::string losses_meanwhile(const Walk& walk);
// Fills in the lines by which a Linux machine mounts the export.
void find_mount_lines(Walk& walk);

}  // namespace rpcrdma::tools::doctor

namespace rpcrdma::tools {

void add_doctor(Command& program);

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_DOCTOR_H_
