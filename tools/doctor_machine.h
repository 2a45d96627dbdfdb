// Facts of this machine for `rpcrdma doctor`, as /sys, /proc, /dev and /lib show them.
#ifndef RPCRDMA_TOOLS_DOCTOR_MACHINE_H_
#define RPCRDMA_TOOLS_DOCTOR_MACHINE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace rpcrdma::tools::doctor {

struct RdmaPort {
  std::string number;  // "1"
  std::string state;   // "ACTIVE", "DOWN" …
  std::string physical_state;
  std::string link_layer;           // "Ethernet" or "InfiniBand"
  std::vector<std::string> gids{};  // those that are not zero

  bool is_active() const { return state == "ACTIVE"; }
};

struct RdmaDevice {
  std::string name;
  bool is_iwarp = false;
  std::vector<std::string> netdevs{};  // network interfaces of the device
  std::vector<RdmaPort> ports{};

  bool is_active() const;
  bool has_netdev(const std::string& netdev) const;
  bool is_infiniband() const;
  const char* transport() const;
};

// A line of /proc/modules.
struct Module {
  std::string name;
  std::vector<std::string> users{};  // modules that need it
};

// Values of counters by "DEVICE/PORT NAME".
struct LossCounters {
  std::map<std::string, std::uint64_t> lost{};    // packets lost, or sent again
  std::map<std::string, std::uint64_t> marked{};  // marks of congestion
};

class Machine {
 public:
  // Reads below the folder that RPCRDMA_DOCTOR_ROOT names, in which tests plant faults.
  Machine();

  // Returns the place of an absolute path.
  std::string place(const std::string& path) const { return root_ + path; }
  bool is_real() const { return root_.empty(); }
  bool has(const std::string& path) const;
  // Returns a file's content without the end of its last line; empty: it cannot be read.
  std::string text(const std::string& path) const;
  // Returns the names in a directory, sorted.
  std::vector<std::string> names(const std::string& path) const;
  // Returns the number behind "KEY:" in a file such as /proc/meminfo; 0: there is none.
  std::uint64_t number(const std::string& path, const std::string& key) const;

  std::vector<RdmaDevice> devices() const;
  std::vector<Module> modules() const;
  // Returns whether the kernel has the module, loaded or built in.
  bool has_module(const std::string& name) const;
  // Returns whether the kernel shows its modules here, which a sandbox may not.
  bool shows_modules() const { return has("/proc/modules"); }
  // Returns the names of modules in the folders where another stack of drivers puts its own.
  std::vector<std::string> foreign_modules() const;
  // Returns network interfaces whose hardware can do RDMA but has no RDMA device yet, by the module
  // that they lack.
  std::map<std::string, std::string> netdevs_without_rdma(
      const std::vector<RdmaDevice>& devices) const;
  // Returns the counters of a device, or of all if the name is empty.
  LossCounters losses(const std::vector<RdmaDevice>& devices, const std::string& name) const;
  // Returns whether locked memory has no limit for this process, whatever getrlimit() says.
  bool may_lock_any_memory() const;

 private:
  RdmaDevice device(const std::string& name) const;
  RdmaPort port(const std::string& folder, const std::string& number, RdmaDevice& device) const;
  void find_netdev_by_gid(RdmaDevice& device) const;
  std::string kernel_folder() const;

  std::string root_;
};

}  // namespace rpcrdma::tools::doctor

#endif  // RPCRDMA_TOOLS_DOCTOR_MACHINE_H_
