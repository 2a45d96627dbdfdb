#include "tools/bench/cases.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "tools/bench/contender.h"

namespace rpcrdma::tools::bench {
namespace {

struct Size {
  std::uint32_t bytes;
  std::string_view text;
};
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
  const auto wanted = [&](const Case& each) {
    return names.empty() || std::ranges::find(names, each.name) != names.end();
  };
  for (const std::string& name : names) {
    const bool known = std::ranges::any_of(groups, [&](const Group& group) {
      return group.raw.name == name ||
             std::ranges::any_of(group.cases, [&](const Case& each) { return each.name == name; });
    });
    if (!known) unknown.push_back(name);
  }
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
