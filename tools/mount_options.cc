#include "tools/mount_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <utility>

#include "nfs/client/url.h"

namespace rpcrdma::tools {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kMemoryMin = 16U << 20U;
constexpr std::size_t kNodesMin = 256;

// Words that say what is so anyway, or that mount(8) and systemd keep for themselves.
constexpr std::array kIdle{
    "soft",           "softerr",  "nolock",   "local_lock=all", "cto",    "ac",
    "auto",           "noauto",   "nofail",   "_netdev",        "users",  "nouser",
    "user",           "async",    "defaults", "nfsvers=3",      "vers=3", "mountvers=3",
    "mountproto=tcp", "exec",     "relatime", "intr",           "nointr", "fg",
    "noacl",          "rdirplus", "nofsc",    "nosharecache",   "retry=0"};
constexpr std::array kPassedOn{"suid",   "nosuid",  "dev",        "nodev",
                               "noexec", "noatime", "nodiratime", "sync"};

struct Refused {
  const char* word;
  const char* why;
};
constexpr std::array kRefused{
    Refused{"hard",
            "a request that never ends makes its program unkillable: each has the time of "
            "timeo= (tenths of seconds)"},
    Refused{"lock", "locks are of this machine alone (nolock)"},
    Refused{"acl", "there are no access control lists"},
    Refused{"retrans", "a request has the time of timeo= in all, however often it is made again"},
    Refused{"retry",
            "a mount is tried once; x-systemd.automount tries it again when the directory is used"},
    Refused{"vers", "this is NFS version 3"},
    Refused{"nfsvers", "this is NFS version 3"},
    Refused{"minorversion", "this is NFS version 3"},
    Refused{"mountvers", "MOUNT is asked by its version 3"},
    Refused{"mountproto", "MOUNT is asked by TCP"},
    Refused{"local_lock", "all locks are of this machine alone (local_lock=all)"},
    Refused{"lookupcache", "acdirmax=0 has the server asked for each name"},
    Refused{"nordirplus", "a server that has no READDIRPLUS is asked by READDIR"},
    Refused{"sharecache", "each mount has caches of its own"},
    Refused{"fsc", "nothing is kept on disks here"},
    Refused{"resvport", "calls come from any port; the export needs `insecure`"},
    Refused{"bg", "a mount that waits for its server is for systemd: x-systemd.automount"},
};

template <class T>
std::optional<T> number_of(std::string_view text, T least, T most) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  if (!is_whole || value < least || value > most) return std::nullopt;
  return value;
}

std::optional<std::size_t> size_of(std::string_view text) {
  std::size_t unit = 1;
  if (text.ends_with('M') || text.ends_with('m')) unit = 1U << 20U;
  if (text.ends_with('G') || text.ends_with('g')) unit = 1U << 30U;
  if (unit > 1) text.remove_suffix(1);
  constexpr auto kMost = static_cast<std::size_t>(
      std::min<std::uint64_t>(std::uint64_t{1} << 40U, std::numeric_limits<std::size_t>::max()));
  const auto value = number_of<std::size_t>(text, 1, kMost / unit);
  if (!value || *value * unit < kMemoryMin) return std::nullopt;
  return *value * unit;
}

bool read_time_out(std::string_view name, std::string_view value, MountWords& words) {
  const auto read = number_of<std::uint32_t>(value, 0, 86'400);
  if (!read) return false;
  const seconds time(*read);
  if (name == "acregmin" || name == "actimeo") words.file_min = time;
  if (name == "acregmax" || name == "actimeo") words.file_max = time;
  if (name == "acdirmin" || name == "actimeo") words.directory_min = time;
  if (name == "acdirmax" || name == "actimeo") words.directory_max = time;
  return true;
}

// As in nfs(5): multiples of 1024, and less than 1024 is 4096.
std::optional<std::uint32_t> transfer_size_of(std::string_view text) {
  const auto value = number_of<std::uint32_t>(text, 1, std::numeric_limits<std::uint32_t>::max());
  constexpr std::uint32_t kUnit = 1024, kLeast = 4096, kMost = 1U << 20U;
  if (!value) return std::nullopt;
  return *value < kUnit ? kLeast : std::min(*value / kUnit * kUnit, kMost);
}

// Reads those that are about the server. Returns as read_pair() does; "": it is none of them.
const char* read_server_pair(std::string_view name, std::string_view value, MountWords& words) {
  constexpr std::uint16_t kPortMax = std::numeric_limits<std::uint16_t>::max();
  if (name == "mountport" || name == "port") {
    std::optional<std::uint16_t>& port = name == "port" ? words.port : words.mount_port;
    port = number_of<std::uint16_t>(value, 1, kPortMax);
    return port ? nullptr : "a port";
  }
  if (name == "proto") {
    if (value != "rdma" && value != "tcp") return "rdma or tcp, as the URL says it";
    words.is_rdma = value == "rdma";
    return nullptr;
  }
  if (name == "rsize" || name == "wsize") {
    std::optional<std::uint32_t>& size = name == "rsize" ? words.read_size : words.write_size;
    size = transfer_size_of(value);
    return size ? nullptr : "bytes, from 1024 to 1048576";
  }
  if (name == "uid" || name == "gid") {
    std::optional<std::uint32_t>& id = name == "uid" ? words.uid : words.gid;
    id = number_of<std::uint32_t>(value, 0, std::numeric_limits<std::uint32_t>::max() - 1);
    return id ? nullptr : "the number of a user or group, who owns everything as it is shown";
  }
  return "";
}

// Reads a word with a value. Returns what it takes if the value is none of these; null: it is read.
const char* read_pair(std::string_view name, std::string_view value, MountWords& words) {
  if (name == "acregmin" || name == "acregmax" || name == "acdirmin" || name == "acdirmax" ||
      name == "actimeo") {
    return read_time_out(name, value, words) ? nullptr : "a whole number of seconds, up to a day";
  }
  if (name == "timeo") {
    const auto tenths = number_of<std::uint32_t>(value, 1, 864'000);
    if (!tenths) return "tenths of seconds, up to a day";
    words.patience = milliseconds(std::uint64_t{*tenths} * 100);
    return nullptr;
  }
  if (name == "nconnect") {
    words.connections = number_of<std::uint32_t>(value, 1, 16);
    return words.connections ? nullptr : "a number from 1 to 16";
  }
  if (name == "sec") {
    constexpr std::array kKnown{"sys", "krb5", "krb5i", "krb5p"};
    if (std::ranges::find(kKnown, value) == kKnown.end()) return "sys, krb5, krb5i or krb5p";
    words.security = value;
    return nullptr;
  }
  if (name == "memory") {
    const auto size = size_of(value);
    if (!size) return "bytes, 16M at least, such as 128M or 1G";
    words.memory = *size;
    return nullptr;
  }
  if (name == "nodes") {
    const auto count = number_of<std::size_t>(value, kNodesMin, std::size_t{1} << 30U);
    if (!count) return "a number of files and directories, 256 at least";
    words.nodes = *count;
    return nullptr;
  }
  return read_server_pair(name, value, words);
}

Expected<void, std::string> wrong(std::string text) {
  return Unexpected<std::string>(std::move(text));
}

Expected<void, std::string> read_word(std::string_view word, MountWords& words) {
  if (word.empty() || word.starts_with("x-") || std::ranges::find(kIdle, word) != kIdle.end()) {
    return {};
  }
  if (std::ranges::find(kPassedOn, word) != kPassedOn.end()) {
    words.fuse.emplace_back(word);
  } else if (word == "ro" || word == "rw") {
    words.is_read_only = word == "ro";
  } else if (word == "rdma") {
    words.is_rdma = true;
  } else if (word == "allow_other") {
    words.is_for_all = true;
  } else if (word == "nocto") {
    words.asks_at_open = false;
  } else if (word == "noac") {
    return read_word("actimeo=0", words);
  } else {
    const std::string_view name = word.substr(0, word.find('='));
    for (const Refused& each : kRefused) {
      if (name == each.word) return wrong(fmt::format("-o {}: {}", word, each.why));
    }
    const std::size_t equals = word.find('=');
    const char* takes = "";
    if (equals != std::string_view::npos) {
      takes = read_pair(word.substr(0, equals), word.substr(equals + 1), words);
    }
    if (takes == nullptr) return {};
    if (*takes != '\0') {
      return wrong(fmt::format("-o {} takes {}", word.substr(0, equals + 1), takes));
    }
    return wrong(
        fmt::format("-o {}: there is no such option; `man rpcrdma-mount` lists them", word));
  }
  return {};
}

}  // namespace

Expected<std::string, std::string> with_words(const std::string& url, const MountWords& words) {
  const auto failed = [](std::string text) { return Unexpected<std::string>(std::move(text)); };
  auto parsed = nfs::parse_nfs_url(url);
  if (!parsed) return failed(parsed.error());
  if (words.is_rdma && *words.is_rdma != parsed->is_rdma) {
    return failed(fmt::format("-o proto={}: the URL says {}", *words.is_rdma ? "rdma" : "tcp",
                              parsed->is_rdma ? "nfs+rdma" : "nfs+tcp"));
  }
  if (!words.port) return url;
  const auto usual = parsed->is_rdma ? nfs::NfsUrl::kRdmaPort : nfs::NfsUrl::kTcpPort;
  for (nfs::NfsUrl::Server& each : parsed->servers) {
    if (each.port != usual && each.port != *words.port) {
      return failed(fmt::format("-o port={}: the URL says {}", *words.port, each.port));
    }
    each.port = *words.port;
  }
  return parsed->text();
}

Expected<void, std::string> read_mount_words(std::string_view text, MountWords& words) {
  while (!text.empty()) {
    const std::size_t end = text.find(',');
    if (auto read = read_word(text.substr(0, end), words); !read) return read;
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  if (words.file_min > words.file_max || words.directory_min > words.directory_max) {
    return wrong("-o acregmin and acdirmin are at most acregmax and acdirmax");
  }
  return {};
}

}  // namespace rpcrdma::tools
