// The words behind `-o` of `rpcrdma mount`: those of nfs(5) and mount(8) where they mean the same.
#ifndef RPCRDMA_TOOLS_MOUNT_OPTIONS_H_
#define RPCRDMA_TOOLS_MOUNT_OPTIONS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rpcrdma/expected.h"

namespace rpcrdma::tools {

struct MountWords {
  std::chrono::milliseconds file_min{3'000}, file_max{60'000};
  std::chrono::milliseconds directory_min{30'000}, directory_max{60'000};
  std::optional<std::chrono::milliseconds> patience{};  // timeo
  std::optional<std::uint16_t> mount_port{};
  std::optional<std::uint32_t> connections{};              // nconnect
  std::optional<std::uint16_t> port{};                     // of NFS
  std::optional<bool> is_rdma{};                           // proto
  std::optional<std::uint32_t> read_size{}, write_size{};  // bytes
  std::optional<std::uint32_t> uid{}, gid{};               // that own everything, as it is shown
  std::optional<std::string> security{};
  std::size_t memory = 128U << 20U;  // bytes
  std::size_t nodes = 100'000;       // files and directories in mind, at most
  bool is_read_only = false;
  bool is_for_all = false;          // allow_other
  bool asks_at_open = true;         // cto
  std::vector<std::string> fuse{};  // passed on, such as nosuid
};

// Puts the port and the protocol that the words name into a URL, or says how they contradict it.
Expected<std::string, std::string> with_words(const std::string& url, const MountWords& words);

// Reads "ro,timeo=50,…" into `words`. An error is a sentence that names the word.
Expected<void, std::string> read_mount_words(std::string_view text, MountWords& words);

}  // namespace rpcrdma::tools

#endif  // RPCRDMA_TOOLS_MOUNT_OPTIONS_H_
