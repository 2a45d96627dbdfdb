#include "tools/bench/cases.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "tools/bench/contender.h"

namespace rpcrdma::tools::bench {
namespace {

struct Size {
  std::uint32_t bytes;
  std::string_view text;
};
constexpr std::uint32_t kPayloadSizeMax = 16U << 20U;
constexpr int kDepthMax = 1024;
constexpr std::uint64_t kPlacesMax = 1U << 30U;  // bytes
constexpr std::array kSizes{Size{4096, "4k"}, Size{65536, "64k"}, Size{1048576, "1m"}};

void add_rpcrdma(Group& group, const std::string& name, Kind kind) {
  for (const bool crc : {false, true}) {
    group.cases.push_back({name, Who::kRpcrdma, kind, group.raw.size, group.raw.depth, crc});
  }
}

void add_tirpc(Group& group, const std::string& name, Kind kind) {
  if (!have_tirpc() || group.raw.depth != 1) return;
  group.cases.push_back({"tirpc_" + name, Who::kTirpc, kind, group.raw.size, 1, false});
}

Group null_group(int depth) {
  const std::string name = "null_qd" + std::to_string(depth);
  Group group{{"raw_" + name, Who::kRaw, Kind::kNull, 0, depth, false}, {}};
  add_rpcrdma(group, name, Kind::kNull);
  add_tirpc(group, name, Kind::kNull);
  return group;
}

Group payload_group(const Size& size, int depth) {
  const std::string name = std::string(size.text) + "_qd" + std::to_string(depth);
  Group group{{"raw_" + name, Who::kRaw, Kind::kRead, size.bytes, depth, false}, {}};
  add_rpcrdma(group, "read_" + name, Kind::kRead);
  add_rpcrdma(group, "write_" + name, Kind::kWrite);
  add_tirpc(group, "read_" + name, Kind::kRead);
  add_tirpc(group, "write_" + name, Kind::kWrite);
  return group;
}

// "4k", "512", "16m"; nullopt: it is none, or more than 16 MiB.
std::optional<Size> size_of(std::string_view text) {
  std::uint32_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error != std::errc() || bytes == 0) return std::nullopt;
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const std::uint32_t scale = unit.empty() ? 1U : unit == "k" ? 1U << 10U : 1U << 20U;
  if ((scale == 1U << 20U && unit != "m") || bytes > kPayloadSizeMax / scale) return std::nullopt;
  return Size{bytes * scale, text};
}

// The group of a case that is not among the usual ones: "null_qd64", "read_512_qd8". nullopt: that
// is no case.
std::optional<Group> group_of(std::string_view name) {
  const std::size_t at = name.rfind("_qd");
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view digits = name.substr(at + 3);
  int depth = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), depth);
  if (error != std::errc() || end != digits.data() + digits.size() || depth < 1 ||
      depth > kDepthMax) {
    return std::nullopt;
  }
  const std::string_view what = name.substr(0, at);
  if (what == "null") return null_group(depth);
  const std::size_t bar = what.find('_');
  if (bar == std::string_view::npos) return std::nullopt;
  const std::string_view kind = what.substr(0, bar);
  const auto size = size_of(what.substr(bar + 1));
  if (!size || (kind != "read" && kind != "write")) return std::nullopt;
  // Each call under way has a place for its data.
  if (std::uint64_t{size->bytes} * static_cast<std::uint64_t>(depth) > kPlacesMax) {
    return std::nullopt;
  }
  return payload_group(*size, depth);
}

}  // namespace

std::vector<Group> all_groups() {
  std::vector<Group> groups;
  groups.push_back(null_group(1));
  groups.push_back(null_group(32));
  for (const Size& size : kSizes) {
    groups.push_back(payload_group(size, 1));
    groups.push_back(payload_group(size, 8));
  }
  return groups;
}

std::vector<Group> select(const std::vector<std::string>& names, const std::string& crc,
                          std::vector<std::string>& unknown) {
  std::vector<Group> groups = all_groups();
  const auto has = [](const Group& group, std::string_view name) {
    return group.raw.name == name ||
           std::ranges::any_of(group.cases, [&](const Case& each) { return each.name == name; });
  };
  const auto is_known = [&](std::string_view name) {
    return std::ranges::any_of(groups, [&](const Group& group) { return has(group, name); });
  };
  for (const std::string& name : names) {
    if (is_known(name)) continue;
    if (auto made = group_of(name); made && has(*made, name)) {
      groups.push_back(std::move(*made));
    } else {
      unknown.push_back(name);
    }
  }
  const auto wanted = [&](const Case& each) {
    return names.empty() || std::ranges::find(names, each.name) != names.end();
  };
  for (Group& group : groups) {
    std::erase_if(group.cases, [&](const Case& each) {
      const bool other_crc =
          each.who == Who::kRpcrdma && crc != "both" && each.crc != (crc == "on");
      return !wanted(each) || other_crc;
    });
  }
  std::erase_if(groups,
                [&](const Group& group) { return group.cases.empty() && !wanted(group.raw); });
  return groups;
}

}  // namespace rpcrdma::tools::bench
