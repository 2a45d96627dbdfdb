#include "tools/mount_line.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

namespace rpcrdma::tools {
namespace {

bool is_plain(char letter) {
  constexpr std::string_view kOthers = "/._-:@%+=,[]";
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') || kOthers.find(letter) != std::string_view::npos;
}

std::string quoted(const std::string& word) {
  if (std::ranges::all_of(word, is_plain)) return word;
  std::string text = "'";
  for (const char each : word) text += each == '\'' ? std::string("'\\''") : std::string(1, each);
  return text + "'";
}

std::string in_fstab(const std::string& word) {
  std::string text;
  for (const char each : word) {
    const bool is_special = each == ' ' || each == '\t' || each == '\n' || each == '\\';
    text += is_special ? fmt::format("\\{:03o}", static_cast<unsigned char>(each))
                       : std::string(1, each);
  }
  return text;
}

}  // namespace

std::string MountLine::options() const {
  std::string text = fmt::format("vers=3,{},port={}", is_rdma ? "rdma" : "proto=tcp", port);
  if (!mount_port.empty()) text += fmt::format(",mountport={},mountproto=tcp", mount_port);
  if (!has_locks) text += ",nolock";
  if (!security.empty()) text += ",sec=" + security;
  return text;
}

std::string MountLine::command() const {
  return fmt::format("mount -t nfs -o {} {} /mnt", options(), quoted(host + ":" + path));
}

std::string MountLine::fstab() const {
  return fmt::format("{} /mnt nfs {},_netdev 0 0", in_fstab(host + ":" + path), options());
}

}  // namespace rpcrdma::tools
